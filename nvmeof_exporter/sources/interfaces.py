"""Which network interface a path uses, and what is behind it.

In this order: the interface given at connect time; the one that has the address
given at connect time; the one that has the address that the host chose; the one
that a link-local target address names; the one that the kernel would send
through now. The last three are answers of the moment, so what is found is
remembered: the interface matters most when the path is lost.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from nvmeof_exporter.hardware import PathPort
from nvmeof_exporter.sources.interface_table import InterfaceTable, packed_address
from nvmeof_exporter.sources.path_routes import PathRoutes
from nvmeof_exporter.sources.rdma_ports import PortName, RdmaPorts
from nvmeof_exporter.sources.routes import look_up
from nvmeof_exporter.sources.stack import directory, nic, read_stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from nvmeof_exporter.model import Controller, PathId
    from nvmeof_exporter.sources.path_routes import LookUp, PathKey
    from nvmeof_exporter.sources.reader import Reader

__all__ = ["PathPorts"]

_TRANSPORTS = frozenset({"tcp", "rdma"})

#: Paths that are remembered, the newest: a node has hundreds at most.
_MOST_PATHS = 4096


class PathPorts:
    """The interface of each path for the poll loop, and all that is behind it for others.

    ``netdev_of`` looks only into memory and may be called from any thread.
    ``refresh`` reads files and asks for routes, from one thread at a time; what it
    returns never changes afterwards. ``refresh_rdma`` reads the files of RDMA devices for
    it, from another thread if need be: one that hangs costs no path its interface.

    Args:
        reader: opens the files; belongs to who calls ``refresh`` and ``refresh_rdma``.
        sysfs: the root of the tree, e.g. ``/sys``.
        table: returns the interfaces of this machine as rtnetlink last told. None for
            a tree that is not this machine's: then only ``host_iface``, the zone of
            the target's address, and files say what is used.
        routes: asks for a route: target, source (``""``: any), index of the interface (0: any).
        clock: seconds, monotonic.

    """

    def __init__(
        self,
        reader: Reader,
        sysfs: str,
        table: Callable[[], InterfaceTable] | None = None,
        *,
        routes: LookUp = look_up,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._sysfs = sysfs
        self._live = table is not None
        self._table = table or InterfaceTable
        self._routes = PathRoutes(routes, self._tell, clock)
        self._rdma = RdmaPorts(reader, sysfs)
        #: Interfaces that followed from the paths' own texts, not from routes: index and name.
        self._named: dict[PathKey, tuple[int, str]] = {}
        self._lock = threading.Lock()
        #: What was told last.
        self._ports: dict[PathKey, PathPort] = {}

    def netdev_of(self, controller: Controller) -> str:
        """Name the interface that a path uses, or last used; ``""`` when it is not known."""
        path = controller.path
        if path.transport not in _TRANSPORTS:
            return path.host_iface
        key = (controller.nqn, path)
        table = self._table()
        named = self._named_by(controller, table)
        if named and table.sends(named):
            found = (table.index(named), named)
            if self._named.get(key) != found:
                self._remember(key, found)
            return named
        if not named and (known := self._named.get(key)) is not None:
            index, name = known
            return table.name(index) or name
        return self._routes.netdev(key, table) or named

    def refresh_rdma(self) -> None:
        """Look at the RDMA devices; ``refresh`` finds paths' ports by the last look."""
        self._rdma.refresh()

    def refresh(self, controllers: Iterable[Controller]) -> Mapping[tuple[str, PathId], PathPort]:
        """Look at what each path runs over now; keys are (NQN, path).

        What has gone with a lost link (an address, an RDMA device's GIDs, the
        interface itself) is told as it last was. Paths over no network interface
        (PCIe, Fibre Channel, loop) have no entry. Raises nothing: a file that
        cannot be read and a route that is not told cost what they would say.
        """
        table = self._table()
        present: dict[str, PathPort | None] = {}
        found = {}
        for controller in controllers:
            if controller.path.transport not in _TRANSPORTS:
                continue
            if self._live:
                self._find_route(controller, table)
            key = (controller.nqn, controller.path)
            netdev = self.netdev_of(controller)
            if netdev not in present:
                present[netdev] = self._present(netdev)
            port = self._completed(netdev, present[netdev], self._ports.get(key, PathPort()))
            found[key] = self._with_subnet(port, controller, table)
        others = {key: port for key, port in self._ports.items() if key not in found}
        self._ports = dict([*others.items(), *found.items()][-_MOST_PATHS:])
        return found

    def _named_by(self, controller: Controller, table: InterfaceTable) -> str:
        """Name the interface that follows from the path's own texts; ``""`` for none."""
        path = controller.path
        if path.host_iface:
            return table.canonical(path.host_iface)
        for address in (path.host_traddr, controller.src_addr):
            if address and (owner := table.owner(address)):
                return owner
        _, zone = packed_address(path.traddr)
        return table.scope(zone)

    def _remember(self, key: PathKey, found: tuple[int, str]) -> None:
        with self._lock:  # two threads may find the same path; nothing else happens in here
            self._named[key] = found
            while len(self._named) > _MOST_PATHS:
                del self._named[next(iter(self._named))]

    def _find_route(self, controller: Controller, table: InterfaceTable) -> None:
        """Ask for the way to a path's target where nothing else tells its interface."""
        key = (controller.nqn, controller.path)
        named = self._named_by(controller, table)
        holder = bool(named) and not table.sends(named)
        if holder or (not named and key not in self._named):
            vrf = table.index(named) if table.is_vrf(named) else 0
            self._routes.find(controller, table, vrf)

    def _present(self, netdev: str) -> PathPort | None:
        """Follow an interface down to its hardware; None when there is no such interface."""
        path = directory(self._sysfs, netdev)
        if not path or not self._reader.names(path):
            return None
        stack = read_stack(self._reader, self._sysfs, netdev)
        nics = dict.fromkeys(nic(self._sysfs, member) for member in stack.members)
        device, port = self._rdma.port(stack) or ("", "")
        # One card that is not known may be another one: then it is not known how many there are.
        return PathPort(netdev, stack.members, () if "" in nics else tuple(nics), device, port)

    def _completed(self, netdev: str, found: PathPort | None, before: PathPort) -> PathPort:
        """Add to what is found of an interface what is known from before, if it was the same."""
        if before.netdev != netdev:
            return found or PathPort(netdev)
        if found is None:
            return before
        found = replace(found, subnet=before.subnet)
        last = PortName(before.rdma_device, before.rdma_port)
        if not found.rdma_device and self._rdma.exists(last):
            return replace(found, rdma_device=last.device, rdma_port=last.port)
        return found

    def _with_subnet(
        self, port: PathPort, controller: Controller, table: InterfaceTable
    ) -> PathPort:
        path = controller.path
        route = self._routes.source((controller.nqn, path))
        source = path.host_traddr or controller.src_addr or route
        subnet = table.subnet(port.netdev, source, path.traddr)
        return replace(port, subnet=subnet) if subnet else port

    def _tell(self, reason: str) -> None:
        self._reader.failed("rtnetlink: route lookup", reason)
