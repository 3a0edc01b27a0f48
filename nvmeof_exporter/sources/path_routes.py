"""The kernel's routes to the targets of paths, believed only when they can be true.

A route is what the kernel would do now, for a new connection. Once a link is lost,
that is another way, often the default gateway's: not what the lost path used. So
routes are asked for only while a path is live and its known interface has a carrier.
The way of a path that was never seen live is not known.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from nvmeof_exporter.model import Controller, PathId
    from nvmeof_exporter.sources.interface_table import InterfaceTable
    from nvmeof_exporter.sources.routes import Route

    PathKey: TypeAlias = tuple[str, PathId]
    LookUp: TypeAlias = Callable[[str, str, int], Route | None]

__all__ = ["PathRoutes"]

#: A path whose route was withdrawn while its link stayed up is live until its keep-alive
#: (5 s by default) or at the latest an I/O (30 s) times out: only a live path that has another
#: route for longer has moved.
_SECONDS_TO_BELIEVE = 30.0

#: Paths that are remembered, the newest.
_MOST_PATHS = 4096


@dataclass(frozen=True, slots=True)
class _Found:
    """An answer for one path, when it was live: an interface and its name at that time.

    ``rival`` is the index of another interface that routes have led to since ``since``.
    """

    ifindex: int
    name: str
    source: str
    rival: int = 0
    since: float = 0.0

    def netdev(self, table: InterfaceTable) -> str:
        """Name the interface as it is called now; as it was called, once it has gone."""
        return table.name(self.ifindex) or self.name


class PathRoutes:
    """Remembers per path the interface that a route leads to; ``netdev`` may be called anywhere.

    Args:
        look_up: asks for a route; see ``nvmeof_exporter.sources.routes``.
        failed: is told why rtnetlink did not answer (an errno name).
        clock: seconds, monotonic.

    """

    def __init__(
        self, look_up: LookUp, failed: Callable[[str], None], clock: Callable[[], float]
    ) -> None:
        self._look_up = look_up
        self._failed = failed
        self._clock = clock
        self._found: dict[PathKey, _Found] = {}

    def netdev(self, key: PathKey, table: InterfaceTable) -> str:
        """Name the interface that a route led to; ``""`` when none is known."""
        found = self._found.get(key)
        return found.netdev(table) if found is not None else ""

    def source(self, key: PathKey) -> str:
        """Return the host's address that goes with the route; ``""`` when none is known."""
        found = self._found.get(key)
        return found.source if found is not None else ""

    def find(self, controller: Controller, table: InterfaceTable, vrf: int = 0) -> None:
        """Ask for the way to a path's target if the answer can be true; one thread at a time.

        Args:
            controller: the path.
            table: the interfaces of this moment.
            vrf: index of the VRF that the path was made in, 0 for none.

        """
        key = (controller.nqn, controller.path)
        known = self._found.get(key)
        if controller.state != "live":
            return
        if known is not None and table.carrier(known.netdev(table)) is False:
            return
        answer = self._asked(controller, table, vrf)
        if answer is not None:
            self._found[key] = self._weighed(known, answer)
            while len(self._found) > _MOST_PATHS:
                del self._found[next(iter(self._found))]

    def _weighed(self, known: _Found | None, answer: _Found) -> _Found:
        """Choose between what is known of a path and a new answer."""
        if known is None or known.ifindex == answer.ifindex:
            return answer
        now = self._clock()
        if known.rival != answer.ifindex:
            return replace(known, rival=answer.ifindex, since=now)
        return answer if now - known.since >= _SECONDS_TO_BELIEVE else known

    def _asked(self, controller: Controller, table: InterfaceTable, vrf: int) -> _Found | None:
        path = controller.path
        # An address that is on no interface would be refused as a source.
        sources = (path.host_traddr, controller.src_addr)
        source = next((text for text in sources if text and table.owner(text)), "")
        try:
            route = self._look_up(path.traddr, source, vrf)
        except OSError as error:
            self._failed(errno.errorcode.get(error.errno or 0, type(error).__name__))
            return None
        netdev = table.name(route.ifindex) if route is not None else ""
        if route is None or not netdev:
            return None
        if path.transport == "rdma" and not table.sends(netdev):
            # A target on this host: the route leads to the loopback device, which no RDMA
            # device has. The kernel takes the one that has the target's address
            # (``copy_src_l2_addr`` in drivers/infiniband/core/addr.c).
            netdev = table.owner(path.traddr) or netdev
        return _Found(table.index(netdev), netdev, route.source)
