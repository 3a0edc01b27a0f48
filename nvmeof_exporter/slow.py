"""The slow sources of this exporter: which there are, what each is asked for, and how often.

What the paths run over comes first; it says which RDMA devices and interfaces are
read. Each of those is a task of its own for the worker.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from nvmeof_exporter.sources.ethtool import PauseSource
from nvmeof_exporter.sources.events import EventSource, SourceFailed
from nvmeof_exporter.sources.interfaces import PathPorts
from nvmeof_exporter.sources.links import LinkSource
from nvmeof_exporter.sources.lldp import LldpFailed, LldpUnavailable, switches
from nvmeof_exporter.sources.netlink import Links
from nvmeof_exporter.sources.rdma import RdmaSource
from nvmeof_exporter.sources.reader import Reader
from nvmeof_exporter.surroundings import Surroundings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from nvmeof_exporter.config import Config
    from nvmeof_exporter.exposition.published import CollectorStatus
    from nvmeof_exporter.hardware import Link, PathPort, RdmaPort
    from nvmeof_exporter.model import Controller, PathId
    from nvmeof_exporter.sources.interface_table import InterfaceTable
    from nvmeof_exporter.worker import Group, Worker

__all__ = ["SlowSources", "Sources", "open_sources"]

#: lldpd hears of a switch every 30 s.
_LLDP_INTERVAL_SECONDS = 30.0

#: How long lldpcli may take (seconds): by default it is ended before it is given up.
_LLDP_SECONDS = 1.5


class PathSource(Protocol):
    """Knows what paths run over; see ``sources.interfaces.PathPorts``."""

    def netdev_of(self, controller: Controller) -> str:
        """Name the interface of a path without waiting."""

    def refresh_rdma(self) -> None:
        """Look at the RDMA devices for ``refresh``; may take as long as it likes."""

    def refresh(self, controllers: Iterable[Controller]) -> Mapping[tuple[str, PathId], PathPort]:
        """Look at what each path runs over now; may take as long as it likes."""


class PortSource(Protocol):
    """Reads RDMA devices; see ``sources.rdma.RdmaSource``."""

    def devices(self) -> list[str]:
        """List the devices that may be read."""

    def read(self, device: str) -> tuple[RdmaPort, ...]:
        """Read one device; may take as long as it likes."""


class InterfaceSource(Protocol):
    """Hears of interfaces at once; see ``sources.netlink.Links``."""

    changes: int

    def table(self) -> InterfaceTable:
        """Return the interfaces of this moment."""


class HeardLinks(EventSource, InterfaceSource, Protocol):
    """Both at once: events for the poll loop, and the interfaces behind them."""


class NetdevSource(Protocol):
    """Reads interfaces; see ``sources.links.LinkSource``."""

    def netdevs(self) -> list[str]:
        """List the interfaces."""

    def read(self, netdev: str) -> Link | None:
        """Read one interface, None when it is not there; may take as long as it likes."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What is asked; None for what is not.

    ``every`` asks for all RDMA devices and interfaces, not only for those that carry a path.
    ``switches`` raises LldpUnavailable where nobody knows of any; ``switches_wanted``: that
    is then a failure. ``readers`` are those whose errors are a collector's, by its name.
    """

    paths: PathSource
    rdma: PortSource | None = None
    links: NetdevSource | None = None
    switches: Callable[[], dict[str, str]] | None = None
    switches_wanted: bool = False
    every: bool = False
    interfaces: InterfaceSource | None = None
    readers: Mapping[str, Reader] = field(default_factory=dict)


def open_sources(
    config: Config,
    interfaces: InterfaceSource | None,
    tell: Callable[[str, str], None],
    descriptors: int,
) -> Sources:
    """Make the sources that a configuration asks for.

    Files are read in any tree. The kernel and lldpd are asked about this machine only: a
    tree is this machine's where it is ``/sys``, or rtnetlink was asked for beside it.

    Args:
        config: which.
        interfaces: rtnetlink, where it is heard.
        tell: called once per file that cannot be read, and reason.
        descriptors: how many may be kept open.

    """
    sysfs = config.path_sysfs
    # Only counters are read from kept descriptors.
    readers = {
        "ports": Reader(tell, 0),
        "rdma": Reader(tell, descriptors),
        "links": Reader(tell, 0),
    }
    include, exclude = config.collector_rdma_device_include, config.collector_rdma_device_exclude
    asked = config.this_machine or isinstance(interfaces, Links)
    pauses = PauseSource(readers["links"]).read if asked else None
    lldp = partial(switches, seconds=_LLDP_SECONDS) if config.collects("lldp") else None
    return Sources(
        PathPorts(readers["ports"], sysfs, interfaces.table if interfaces is not None else None),
        RdmaSource(readers["rdma"], sysfs, include, exclude) if config.collects("rdma") else None,
        LinkSource(readers["links"], sysfs, pauses) if config.collects("links") else None,
        switches=lldp,
        switches_wanted=bool(config.collector_lldp),
        every=config.collector_links == "all",
        interfaces=interfaces,
        readers=readers,
    )


class SlowSources:
    """Keeps the worker busy with the sources, and tells what they brought.

    Args:
        worker: runs the tasks, from the first ``wake`` on.
        sources: what is asked.
        controllers: returns those of the newest snapshot, without waiting.

    """

    def __init__(
        self,
        worker: Worker,
        sources: Sources,
        controllers: Callable[[], Iterable[Controller]],
    ) -> None:
        self._worker = worker
        self._sources = sources
        self._controllers = controllers
        self._changes = sources.interfaces.changes if sources.interfaces is not None else 0
        self._netdevs: tuple[str, ...] = ()
        #: Interfaces of paths that rtnetlink has told of: one of them that is no more has no
        #: carrier, one that it never told of may be in another network namespace.
        self._told: frozenset[str] = frozenset()
        self._ports: Group[Mapping[tuple[str, PathId], PathPort] | None] = worker.group("ports")
        self._rdma: Group[tuple[RdmaPort, ...]] = worker.group("rdma", hurried=False)
        self._links: Group[Link | None] = worker.group("links")
        self._switches: Group[dict[str, str] | None] = worker.group(
            "lldp", interval=_LLDP_INTERVAL_SECONDS, hurried=False
        )
        # In this order, if the first answers promptly: paths then have their RDMA ports at once.
        self._ports.assign({"rdma": sources.paths.refresh_rdma, "paths": self._find_ports})
        if sources.switches is not None:
            self._switches.assign({"neighbors": partial(self._find_switches, sources.switches)})

    def wake(self) -> None:
        """Look anew at what paths run over, and begin with it; waits for nothing."""
        self._worker.start()
        self._worker.wake()

    def heed(self) -> None:
        """Do so if interfaces have changed since the last time."""
        interfaces = self._sources.interfaces
        if interfaces is not None and interfaces.changes != self._changes:
            self._changes = interfaces.changes
            self.wake()

    def surroundings(self) -> Surroundings:
        """Return what is known; waits for nothing and touches no file."""
        rdma = self._rdma.values()
        links = self._links.values()
        return Surroundings(
            netdev_of=self._sources.paths.netdev_of,
            ports=self._ports.values().get("paths") or {},
            rdma_ports=tuple(port for device in sorted(rdma) for port in rdma[device]),
            netdevs=self._netdevs,
            links={name: link for name, link in links.items() if link is not None},
            switches=self._switches.values().get("neighbors") or {},
            carriers=self._carriers(),
            statuses=self._statuses(),
        )

    def _carriers(self) -> dict[str, bool]:
        interfaces = self._sources.interfaces
        carriers = interfaces.table().carriers() if interfaces is not None else {}
        if carriers:  # else rtnetlink is heard no more, and nothing is known
            carriers = {**dict.fromkeys(self._told, False), **carriers}
        return carriers

    def _statuses(self) -> dict[str, CollectorStatus]:
        sources = self._sources
        groups: list[Group[Any]] = [self._ports]
        if sources.rdma is not None:
            groups.append(self._rdma)
        if sources.links is not None:
            groups.append(self._links)
        if self._switches_told():
            groups.append(self._switches)
        statuses = {group.name: group.status() for group in groups}
        for name, status in statuses.items():
            if name in sources.readers:
                status.errors += sources.readers[name].errors
        return statuses

    def _switches_told(self) -> bool:
        """Whether lldpd is asked for, or is there."""
        if self._sources.switches is None or self._sources.switches_wanted:
            return self._sources.switches is not None
        there = self._switches.values().get("neighbors") is not None
        return there or not self._switches.status().success

    def _find_ports(self) -> Mapping[tuple[str, PathId], PathPort]:
        ports = self._sources.paths.refresh(self._controllers())
        self._choose_devices(ports.values())
        self._choose_netdevs(ports.values())
        return ports

    def _choose_devices(self, ports: Iterable[PathPort]) -> None:
        rdma = self._sources.rdma
        if rdma is not None:
            used = {port.rdma_device for port in ports}
            devices = [d for d in rdma.devices() if self._sources.every or d in used]
            self._rdma.assign({device: partial(rdma.read, device) for device in devices})

    def _choose_netdevs(self, ports: Iterable[PathPort]) -> None:
        used = {name for port in ports for name in (port.netdev, *port.members) if name}
        interfaces = self._sources.interfaces
        if interfaces is not None:
            present = interfaces.table().carriers().keys()
            self._told = (self._told | present) & used
        links = self._sources.links
        if links is not None:
            chosen = used.union(links.netdevs()) if self._sources.every else used
            self._netdevs = tuple(sorted(chosen))
            self._links.assign({netdev: partial(links.read, netdev) for netdev in self._netdevs})

    def _find_switches(self, ask: Callable[[], dict[str, str]]) -> dict[str, str] | None:
        """Ask lldpd; None where there is none and none is wanted."""
        try:
            return ask()
        except LldpUnavailable as reason:
            if self._sources.switches_wanted:
                raise SourceFailed(str(reason)) from reason
            return None
        except LldpFailed as reason:
            raise SourceFailed(str(reason)) from reason
