"""The initial RAM disk: busybox and the few modules that reach the host's files over 9p."""

from __future__ import annotations

import gzip
import lzma
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kernel.lab.kernels import Kernel

__all__ = ["build"]

_MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
_DIRECTORIES = ("bin", "dev", "host", "modules", "output", "proc", "root", "sys", "upper")

# The host's root is the lower layer of the guest's, and stays untouched. The one place
# that is written on the host is the run's output directory, at the same path as there.
_INIT = """\
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for module in {modules}; do insmod /modules/$module || echo "insmod $module failed"; done
options=trans=virtio,version=9p2000.L,msize=524288
mount -t 9p -o $options,ro,cache=loose host /host || echo "no host files over 9p"
mount -t 9p -o $options output /output || echo "no output directory over 9p"
. /output/boot.env
mount -t tmpfs -o mode=755 tmpfs /upper; mkdir /upper/data /upper/work
mount -t overlay -o lowerdir=/host,upperdir=/upper/data,workdir=/upper/work overlay /root
mount --move /output "/root$LAB_OUTPUT"
for place in proc sys dev; do mount --move /$place /root/$place; done
exec switch_root /root /bin/sh "$LAB_CHECKOUT/tests/kernel/guest/init.sh" "$LAB_OUTPUT/boot.env"
"""


def build(kernel: Kernel, busybox: Path, target: Path) -> None:
    """Write a compressed ``newc`` archive for ``kernel`` to ``target``.

    ``busybox`` must be statically linked. Raises OSError, or LookupError where
    the kernel has a needed module neither built in nor as a file.
    """
    archive = _Archive()
    for directory in _DIRECTORIES:
        archive.add(directory, stat.S_IFDIR | 0o755)
    archive.add("bin/busybox", stat.S_IFREG | 0o755, busybox.read_bytes())
    order = _load_order(kernel)
    for path in order:
        archive.add(f"modules/{_plain_name(path)}", stat.S_IFREG | 0o644, _contents(path))
    init = _INIT.format(modules=" ".join(_plain_name(path) for path in order))
    archive.add("init", stat.S_IFREG | 0o755, init.encode())
    target.write_bytes(gzip.compress(archive.finished(), 1))


def _load_order(kernel: Kernel) -> list[Path]:
    """The files of the wanted modules, every one after those that it depends on."""
    needs: dict[str, list[str]] = {}
    for line in (kernel.modules / "modules.dep").read_text().splitlines():
        module, _, dependencies = line.partition(":")
        needs[module] = dependencies.split()
    by_name = {_module_name(path): path for path in needs}
    built_in = (kernel.modules / "modules.builtin").read_text().split()
    present = {_module_name(path) for path in built_in}
    order: list[str] = []
    for name in _MODULES:
        if name in present:
            continue
        if name not in by_name:
            raise LookupError(f"{kernel.modules}: no module {name}")
        # modules.dep lists the direct dependency first and the deepest one last.
        order += [*reversed(needs[by_name[name]]), by_name[name]]
    return [kernel.modules / path for path in dict.fromkeys(order)]


def _plain_name(path: Path) -> str:
    return path.name.removesuffix(".xz")


def _module_name(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0].replace("-", "_")


def _contents(path: Path) -> bytes:
    packed = path.read_bytes()
    return lzma.decompress(packed) if path.suffix == ".xz" else packed


class _Archive:
    """A cpio archive in the ``newc`` format (Documentation/driver-api/early-userspace)."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._count = 0

    def add(self, name: str, mode: int, data: bytes = b"") -> None:
        self._count += 1
        encoded = name.encode() + b"\0"
        links, device = 1, 0
        fields = (
            self._count,
            mode,
            0,  # owner
            0,  # group
            links,
            0,  # time of change
            len(data),
            device,
            device,
            device,
            device,
            len(encoded),
            0,  # check sum
        )
        header = b"070701" + b"".join(b"%08X" % value for value in fields)
        self._parts += [_aligned(header + encoded), _aligned(data)]

    def finished(self) -> bytes:
        self.add("TRAILER!!!", 0)
        return b"".join(self._parts)


def _aligned(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
