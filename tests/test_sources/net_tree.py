"""Network interfaces and RDMA devices of a ``/sys`` tree in a temporary directory."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from nvmeof_exporter.sources.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


class KernelReader(Reader):
    """Answers EINVAL for empty files, as the kernel does for GIDs that are not set."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = 0

    def open(self, path: str) -> int:
        self.opened += 1
        return super().open(path)

    def read(self, descriptor: int, size: int, offset: int) -> bytes:
        content = super().read(descriptor, size, offset)
        if not content:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return content


class NetTree:
    """Shapes as the kernel makes them: directories below ``devices``, links in ``class``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sysfs = str(root)
        for name in ("class/net", "class/infiniband", "devices/virtual/net"):
            (root / name).mkdir(parents=True)

    def pci(self, address: str) -> Path:
        path = self.root / "devices" / f"pci{address[:7]}" / address
        path.mkdir(parents=True, exist_ok=True)
        return path

    def netdev(
        self, name: str, pci: str = "", *, lower: Sequence[str] = (), dev_port: int = 0
    ) -> Path:
        """Make an interface: on a PCI device, or a virtual one over ``lower`` ones."""
        card = self.pci(pci) if pci else self.root / "devices/virtual"
        path = card / "net" / name
        path.mkdir(parents=True)
        (path / "dev_port").write_text(f"{dev_port}\n")
        (path / "dev_id").write_text("0x0\n")
        if pci:
            link(path / "device", card)
        for other in lower:
            link(path / f"lower_{other}", self.root / "class/net" / other)
        link(self.root / "class/net" / name, path)
        return path

    def rdma(
        self, name: str, pci: str = "", *, ports: int = 1, places: int = 4, parent: str = ""
    ) -> Path:
        """Make an RDMA device with ``places`` unset GIDs at each port."""
        card = self.pci(pci) if pci else self.root / "devices/virtual"
        path = card / "infiniband" / name
        path.mkdir(parents=True)
        for port in range(1, ports + 1):
            table = path / f"ports/{port}/gid_attrs/ndevs"
            table.mkdir(parents=True)
            for place in range(places):
                (table / str(place)).touch()
        if pci:
            link(path / "device", card)
        if parent:
            (path / "parent").write_text(f"{parent}\n")
        link(self.root / "class/infiniband" / name, path)
        return path

    def gids(self, device: str, netdevs: Mapping[int, str], port: int = 1) -> None:
        """Set GIDs of a port: the interface by place, ``""`` for one that is not set."""
        table = self.root / f"class/infiniband/{device}/ports/{port}/gid_attrs/ndevs"
        for place, netdev in netdevs.items():
            (table / str(place)).write_text(f"{netdev}\n" if netdev else "")


def link(path: Path, target: Path) -> None:
    """Make a relative link, so that the tree may be moved."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.relpath(os.path.realpath(target), os.path.realpath(path.parent)))
