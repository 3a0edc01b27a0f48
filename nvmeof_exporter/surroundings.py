"""What is known at one moment of the ports, links and switches that paths run over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nvmeof_exporter.hardware import PathPort

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nvmeof_exporter.exposition.published import CollectorStatus
    from nvmeof_exporter.hardware import Link, RdmaPort
    from nvmeof_exporter.model import Controller, PathId

__all__ = ["Surroundings", "given_interface"]

_UNKNOWN = PathPort()

#: States of an RDMA port that say something, and whether data flows in them.
_ACTIVE = frozenset({"active", "active_defer"})
_SILENT = frozenset({"", "unknown"})


def given_interface(controller: Controller) -> str:
    """Name the interface that was given at connect time, for who knows of no other."""
    return controller.path.host_iface


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Facts from slow sources, as far as they are not too old, and the carriers of now.

    ``ports`` is by (NQN, path), ``switches`` and ``links`` by interface. ``netdevs`` are the
    interfaces to tell of. ``carriers`` are those of rtnetlink, where it is heard.
    """

    netdev_of: Callable[[Controller], str] = given_interface
    ports: Mapping[tuple[str, PathId], PathPort] = field(default_factory=dict)
    rdma_ports: tuple[RdmaPort, ...] = ()
    netdevs: tuple[str, ...] = ()
    links: Mapping[str, Link] = field(default_factory=dict)
    switches: Mapping[str, str] = field(default_factory=dict)
    carriers: Mapping[str, bool] = field(default_factory=dict)
    statuses: Mapping[str, CollectorStatus] = field(default_factory=dict)

    def port(self, controller: Controller) -> PathPort:
        """Return what a path runs over; an empty one where nothing is known."""
        return self.ports.get((controller.nqn, controller.path), _UNKNOWN)

    def netdev(self, controller: Controller) -> str:
        """Name the interface that a path uses, or last used; ``""`` when it is not known."""
        return self.netdev_of(controller) or self.port(controller).netdev

    def link_up(self, netdev: str) -> bool | None:
        """Whether an interface is up with a carrier; None when that is not known.

        rtnetlink is heard at once, files are read every few seconds.
        """
        if netdev in self.carriers:
            return self.carriers[netdev]
        link = self.links.get(netdev)
        return None if link is None else link.up

    def path_link_up(self, controller: Controller) -> bool | None:
        """Whether what a path runs over is up; None when that is not known."""
        netdev = self.netdev(controller)
        up = self.link_up(netdev) if netdev else None
        return self._rdma_port_up(self.port(controller)) if up is None else up

    def _rdma_port_up(self, wanted: PathPort) -> bool | None:
        for port in self.rdma_ports:
            if wanted.rdma_device and (port.device, port.port) == (
                wanted.rdma_device,
                wanted.rdma_port,
            ):
                return None if port.state in _SILENT else port.state in _ACTIVE
        return None
