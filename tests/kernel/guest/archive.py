"""The NVMe, block, network and RDMA part of /sys as a small, reproducible archive."""

from __future__ import annotations

import errno
import io
import os
import stat
import tarfile
from pathlib import Path

__all__ = ["archive"]

#: Never read: secrets, and files whose reading sends a command to a possibly dead device.
_NEVER = frozenset({"nuse", "dhchap_secret", "dhchap_ctrl_secret", "tls_key", "tls_configured_key"})

#: Of no use to an exporter, and bulky.
_SKIPPED = frozenset(
    {
        "bdi",
        "integrity",
        "mq",
        "msi_irqs",
        "power",
        "queue",
        "queues",
        "statistics",
        "trace",
    }
)
_NUMBERED = frozenset({"gids", "ndevs", "types", "pkeys"})  # one entry for each of 1024
_KEPT_NUMBERS = frozenset({"0", "1", "2", "3"})
_PCI_FILES = ("class", "device", "numa_node", "uevent", "vendor")

_CLASSES = ("nvme", "nvme-subsystem", "infiniband", "net")
_PARAMETERS = "/sys/module/nvme*/parameters"


def archive(target: Path) -> None:
    """Write a ``tar.xz`` with directories, symbolic links, texts, and ``errors.txt``.

    ``errors.txt`` has a line per file that answered a read with an error:
    its name and the path.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(target, "w:xz", preset=9) as tar:
        tree = _Tree(tar)
        for name in _CLASSES:
            tree.devices(Path("/sys/class") / name)
        tree.devices(Path("/sys/block"), "nvme*")
        for directory in sorted(Path("/").glob(_PARAMETERS[1:])):
            tree.add(directory)
        for file in ("/proc/diskstats", "/proc/version"):
            tree.add(Path(file))
        tree.add_text("errors.txt", "".join(f"{line}\n" for line in sorted(tree.errors)).encode())


class _Tree:
    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._seen: set[Path] = set()
        self.errors: list[str] = []

    def devices(self, group: Path, pattern: str = "*") -> None:
        """Add the links of ``group`` and the device directories that they lead to."""
        if not group.is_dir():
            return
        self._add_entry(group, tarfile.DIRTYPE)
        for link in sorted(group.glob(pattern)):
            self.add(link)
            device = link.resolve()
            self.add(device)
            self._pci_device(device)

    def add(self, path: Path) -> None:
        """Add ``path``: a link as a link, a directory with everything below it."""
        if path in self._seen or _is_skipped(path):
            return
        self._seen.add(path)
        if path.is_symlink():
            self._add_entry(path, tarfile.SYMTYPE, os.readlink(path))
        elif path.is_dir():
            self._add_entry(path, tarfile.DIRTYPE)
            for child in sorted(path.iterdir()):
                self.add(child)
        elif path.stat().st_mode & stat.S_IRUSR:
            self._add_file(path)

    def add_text(self, name: str, content: bytes) -> None:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        self._tar.addfile(entry, io.BytesIO(content))

    def _pci_device(self, device: Path) -> None:
        for parent in device.parents:
            if (parent / "vendor").is_file():
                for name in _PCI_FILES:
                    self.add(parent / name)
                return

    def _add_entry(self, path: Path, kind: bytes, link: str = "") -> None:
        entry = tarfile.TarInfo(str(path).lstrip("/"))
        entry.type, entry.linkname, entry.mode = kind, link, 0o755
        self._tar.addfile(entry)

    def _add_file(self, path: Path) -> None:
        try:
            content = path.read_bytes()
        except OSError as error:
            name = errno.errorcode.get(error.errno or 0, str(error.errno))
            self.errors.append(f"{name} {path}")
            return
        self.add_text(str(path).lstrip("/"), content)


def _is_skipped(path: Path) -> bool:
    name = path.name
    if name in _NEVER or name in _SKIPPED or name.startswith("hwmon"):
        return True
    return path.parent.name in _NUMBERED and name not in _KEPT_NUMBERS
