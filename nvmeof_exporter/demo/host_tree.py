"""The part of the tree that is not NVMe's: modules, cards, interfaces, RDMA devices.

A card's interface and RDMA device lie below its PCI function, virtual ones below
``devices/virtual``; ``class/`` has links to both, as the kernel does it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmeof_exporter.demo import host_files
from nvmeof_exporter.demo.files import Directory, link, make
from nvmeof_exporter.demo.rdma_files import rdma_files, rdma_moving

if TYPE_CHECKING:
    from pathlib import Path

    from nvmeof_exporter.demo.devices import Netdev
    from nvmeof_exporter.demo.simulation import Node

__all__ = ["HostTree"]

_PCI_BUS = "bus/pci"
_PCI_DRIVER = f"{_PCI_BUS}/drivers/mlx5_core"


class HostTree:
    """The files of a node's modules and interfaces; ``sync`` brings them up to date.

    Args:
        node: what they show.
        sysfs: where ``/sys`` is.
        workshop: a directory on the same file system, where directories are made.

    """

    def __init__(self, node: Node, sysfs: Path, workshop: Path) -> None:
        self._node = node
        self._sysfs = sysfs
        self._workshop = workshop
        self._shown: dict[Netdev, _Shown] = {}
        parameters = sysfs / "module/nvme_core/parameters"
        for name, content in host_files.module_files(node).items():
            make(parameters / name, content)
        for name in ("class/net", _PCI_DRIVER):
            (sysfs / name).mkdir(parents=True)

    def sync(self) -> None:
        """Show the interfaces as they are now."""
        for netdev in self._node.netdevs.values():
            if netdev not in self._shown:
                self._shown[netdev] = self._make(netdev)
        for netdev, shown in self._shown.items():
            shown.write(self._node, netdev)

    def _make(self, netdev: Netdev) -> _Shown:
        number = len(self._shown) + 2  # 1 is the loopback
        parent = self._make_function(netdev.pci) if netdev.pci else "devices/virtual"
        files = host_files.netdev_files(netdev, number)
        interface = self._member(parent, "net", netdev.name, files)
        if not netdev.rdma:
            return _Shown(interface)
        files = rdma_files(self._node, netdev)
        return _Shown(interface, self._member(parent, "infiniband", netdev.rdma, files))

    def _make_function(self, function: str) -> str:
        """Make a PCI function, below a bridge of its own bus; return its place."""
        domain, bus, _ = function.split(":")
        above = f"{domain}:{int(bus, 16) - 1:02x}"
        place = f"devices/pci{above}/{above}:01.0/{function}"
        links = {
            "driver": f"{_up(place)}{_PCI_DRIVER}",
            "subsystem": f"{_up(place)}{_PCI_BUS}",
        }
        files = host_files.pci_files(function)
        Directory(self._sysfs / place, self._workshop, files, links)
        link(self._sysfs / _PCI_BUS / "devices" / function, f"../../../{place}")
        return place

    def _member(self, parent: str, kind: str, name: str, files: dict[str, bytes]) -> Directory:
        """Make a device of class ``kind``."""
        place = f"{parent}/{kind}/{name}"
        links = {"subsystem": f"{_up(place)}class/{kind}"}
        if not parent.startswith("devices/virtual"):
            links["device"] = f"../../../{parent.rpartition('/')[2]}"
        directory = Directory(self._sysfs / place, self._workshop, files, links)
        link(self._sysfs / "class" / kind / name, f"../../{place}")
        return directory


class _Shown:
    """An interface as last shown on disk, with the RDMA device on it, if any."""

    __slots__ = ("_interface", "_moving", "_rdma")

    def __init__(self, interface: Directory, rdma: Directory | None = None) -> None:
        self._interface = interface
        self._rdma = rdma
        self._moving: tuple[int, ...] = ()

    def write(self, node: Node, netdev: Netdev) -> None:
        """Write what moved, should anything have; most interfaces rest most of the time."""
        moving = (
            netdev.carrier_changes,
            netdev.retries_exceeded,
            netdev.plain.requests,
            netdev.roce.requests,
        )
        if moving == self._moving:
            return
        self._moving = moving
        self._interface.write(host_files.netdev_moving(netdev))
        if self._rdma is not None:
            self._rdma.write(rdma_moving(node, netdev))


def _up(place: str) -> str:
    """Return the way from a place up to ``/sys``."""
    return "../" * (place.count("/") + 1)
