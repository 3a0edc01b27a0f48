"""Which RDMA port is behind a network interface.

An RDMA device says so in three ways, none of which every driver has:

- its GID table names the interface, also a bond or VLAN over it (RoCE);
- both have one PCI device, and the interface tells its port (all but software);
- a file ``parent`` names the interface (soft RoCE).

The PCI device is believed first: a GID table also names the interfaces of other
network namespaces, which may be called the same.

InfiniBand's GIDs have no interface: IPoIB is found by its PCI device. The
interface's port is ``dev_port``, counted from 0; drivers before Linux 3.15, and
IPoIB before 4.20, put it in ``dev_id``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from nvmeof_exporter.sources.decode import text
from nvmeof_exporter.sources.gid_netdevs import GidNetdevs
from nvmeof_exporter.sources.once import read_once
from nvmeof_exporter.sources.stack import directory

if TYPE_CHECKING:
    from nvmeof_exporter.sources.reader import Reader
    from nvmeof_exporter.sources.stack import Stack

__all__ = ["PortName", "RdmaPorts"]


class PortName(NamedTuple):
    """An RDMA port: its device and its number, e.g. ``mlx5_0`` and ``1``."""

    device: str
    port: str


@dataclass(slots=True)
class _Device:
    """``software`` runs over an interface, which ``parent`` names where it is told."""

    ports: tuple[str, ...]
    software: bool
    parent: str


@dataclass(slots=True)
class _Scan:
    """What one look at ``class/infiniband`` shows."""

    devices: dict[str, _Device] = field(default_factory=dict)
    by_gid: dict[str, list[PortName]] = field(default_factory=dict)


class RdmaPorts:
    """Finds the port behind an interface, as of the last ``refresh``.

    ``refresh`` is for one thread at a time, the others for any.
    """

    def __init__(self, reader: Reader, sysfs: str) -> None:
        self._reader = reader
        self._sysfs = sysfs
        #: By path and inode of the table: a device that is made anew has another one.
        self._tables: dict[tuple[str, int], GidNetdevs] = {}
        self._scan = _Scan()

    def refresh(self) -> None:
        """Look at every RDMA device again; one that is dangling or has no ports has no part."""
        scan = _Scan()
        tables: dict[tuple[str, int], GidNetdevs] = {}
        for name in sorted(self._reader.names(f"{self._sysfs}/class/infiniband")):
            path = f"{self._sysfs}/class/infiniband/{name}"
            ports = sorted(filter(str.isdecimal, self._reader.names(f"{path}/ports")), key=int)
            if not ports:
                continue
            scan.devices[name] = self._device(path, tuple(ports))
            for port in ports:
                for netdev in self._named(f"{path}/ports/{port}/gid_attrs/ndevs", tables):
                    scan.by_gid.setdefault(netdev, []).append(PortName(name, port))
        self._tables = tables
        self._scan = scan

    def exists(self, name: PortName) -> bool:
        """Whether the port was there at the last look."""
        device = self._scan.devices.get(name.device)
        return device is not None and name.port in device.ports

    def port(self, stack: Stack) -> PortName | None:
        """Find the port behind the top of a stack, else behind the next layer, and so on.

        None where there is none, and where a layer has several: the slaves of a
        bond that the cards do not know of.
        """
        scan = self._scan  # of one moment, also if another thread looks again meanwhile
        for layer in stack.layers:
            found = {name for netdev in layer for name in self._behind(netdev, scan)}
            if found:
                return found.pop() if len(found) == 1 else None
        return None

    def _device(self, path: str, ports: tuple[str, ...]) -> _Device:
        parent = read_once(self._reader, f"{path}/parent", text) or ""
        return _Device(ports, bool(parent) or not os.path.lexists(f"{path}/device"), parent)

    def _named(self, path: str, tables: dict[tuple[str, int], GidNetdevs]) -> tuple[str, ...]:
        """Read a port's GID table, by what is known of it already; keeps it in ``tables``."""
        try:
            key = (path, os.stat(path).st_ino)
        except OSError:
            return ()
        table = tables[key] = self._tables.get(key) or GidNetdevs(self._reader, path)
        return table.read()

    def _behind(self, netdev: str, scan: _Scan) -> list[PortName]:
        """List the ports of one interface: hardware before software that runs over it."""
        devices = scan.devices
        by_gid = scan.by_gid.get(netdev, [])
        by_device = self._by_device(netdev, scan)
        both = [name for name in by_gid if name in by_device]
        by_parent = [PortName(n, d.ports[0]) for n, d in devices.items() if d.parent == netdev]
        candidates = both or by_device or by_gid or by_parent
        return [name for name in candidates if not devices[name.device].software] or candidates

    def _by_device(self, netdev: str, scan: _Scan) -> list[PortName]:
        """List the ports of the RDMA devices on the interface's PCI device that are its own."""
        path = directory(self._sysfs, netdev)
        found = []
        for name in self._reader.names(f"{path}/device/infiniband") if path else ():
            device = scan.devices.get(name)
            if device is not None:
                port = device.ports[0] if len(device.ports) == 1 else self._number(path)
                if port in device.ports:
                    found.append(PortName(name, port))
        return found

    def _number(self, path: str) -> str:
        """Return the port number that an interface tells of itself, counted from 1."""
        indices = (read_once(self._reader, f"{path}/{n}", _index) for n in ("dev_port", "dev_id"))
        return str(next(filter(None, indices), 0) + 1)


def _index(raw: bytes) -> int:
    """Decode ``dev_port`` (decimal) or ``dev_id`` (``0x1``)."""
    return int(text(raw), 0)
