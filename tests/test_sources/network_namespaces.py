"""Network namespaces of a test's own, with interfaces as the test wants them."""

from __future__ import annotations

import ctypes
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.test_sources.privileges import CAP_NET_ADMIN, CAP_SYS_ADMIN, has_capabilities

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TypeVar

    T = TypeVar("T")

#: include/uapi/linux/sched.h
_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000

needs_privileges = pytest.mark.skipif(
    not has_capabilities(CAP_NET_ADMIN, CAP_SYS_ADMIN),
    reason="makes interfaces in a network namespace of its own (CAP_SYS_ADMIN, CAP_NET_ADMIN)",
)


class Namespace:
    """A network and mount namespace that ends with the thread living in it."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, initializer=self._enter)

    @staticmethod
    def _enter() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(_CLONE_NEWNS | _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)

    def call(self, function: Callable[..., T], *arguments: object) -> T:
        return self._thread.submit(function, *arguments).result()

    def ip(self, *lines: str) -> None:
        batch = "\n".join(lines)
        self.call(lambda: subprocess.run(["ip", "-batch", "-"], input=batch, text=True, check=True))

    def ip_or_skip(self, line: str) -> None:
        """Make an interface of a kind that not every kernel has."""
        done = self.call(
            lambda: subprocess.run(
                ["ip", "-batch", "-"], input=line, text=True, capture_output=True, check=False
            )
        )
        if "Unknown device type" in done.stderr:
            pytest.skip(f"this kernel has no such interface: {line}")
        assert done.returncode == 0, done.stderr

    def mount_sysfs(self, directory: Path) -> str:
        """Show the namespace's own ``/sys`` there, to its thread only."""
        directory.mkdir()
        command = ["mount", "-t", "sysfs", "sysfs", str(directory)]
        self.call(lambda: subprocess.run(command, check=True))
        return str(directory)

    def close(self) -> None:
        self._thread.shutdown()
