"""Whether a drill runs on this node: a lock that ends with the drill, however it ends.

The drill holds a lock on a file in the exporter's state directory, and removes the file at
its end. A drill that was killed leaves the file, but no lock: nobody is fooled. The
exporter looks at it every few seconds and tells ``nvmeof_drill_running``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time

from nvmeof_exporter.drill.files import write_all

__all__ = ["AlreadyRunning", "RunningMark", "is_running"]

_NAME = "drill.lock"

#: Whoever looks holds the lock for a moment: try again for so long (seconds).
_PATIENCE = 1.0
_RETRY = 0.02


class AlreadyRunning(Exception):  # noqa: N818 - a condition, no mistake of ours
    """Another drill runs on this node; the text says so."""


class RunningMark:
    """Says that a drill runs until it is closed.

    Args:
        directory: the exporter's state directory, which must be there.

    Raises:
        AlreadyRunning: another one does.
        OSError: the directory cannot be written.

    """

    def __init__(self, directory: str) -> None:
        self._path = f"{directory}/{_NAME}"
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self._path, flags, 0o644)
        try:
            self._lock()
            os.ftruncate(self._descriptor, 0)
            write_all(self._descriptor, f"{os.getpid()}\n".encode(), 0)  # for people
        except BaseException:
            os.close(self._descriptor)
            raise

    def close(self) -> None:
        """Say that it runs no more."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        os.close(self._descriptor)

    def _lock(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not _try(self._descriptor, fcntl.LOCK_EX):
            if time.monotonic() >= deadline:
                raise AlreadyRunning(f"another drill runs on this node: it holds {self._path}")
            time.sleep(_RETRY)


def is_running(directory: str) -> bool | None:
    """Tell whether a drill runs; None where the state directory does not let one know."""
    if not directory:
        return None
    try:
        descriptor = os.open(f"{directory}/{_NAME}", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        return not _try(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
