"""The make-believe rtnetlink: what the exporter would hear of interfaces, the moment it changes."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from nvmeof_exporter.sources.events import SourceUnavailable
from nvmeof_exporter.sources.interface_table import InterfaceTable
from nvmeof_exporter.sources.rtnetlink import AddressMessage, LinkMessage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nvmeof_exporter.demo.simulation import Node
    from nvmeof_exporter.model import Event

__all__ = ["LinkPipe"]

_PREFIX = 24

#: Any number of them wakes the reader once.
_WAKE = b"\0"
_WAKES_PER_READ = 4096

#: Beyond it, the oldest are lost that nobody read.
_MOST_EVENTS = 1 << 16


class LinkPipe:
    """An EventSource named ``netlink``, with the node's interfaces in a table, as Links has it.

    ``write`` is for the thread in which the node lives, the others as with Links.
    """

    name = "netlink"

    def __init__(self, node: Node) -> None:
        self._node = node
        self._reading, self._writing = socket.socketpair()
        for end in (self._reading, self._writing):
            end.settimeout(0.0)
        self._lock = threading.Lock()
        self._events: deque[Event] = deque(maxlen=_MOST_EVENTS)
        self._table = _table(node)
        self.changes = 0

    def fileno(self) -> int:
        """The descriptor for the loop."""
        return self._reading.fileno()

    def table(self) -> InterfaceTable:
        """Return the interfaces as last told."""
        return self._table

    def write(self, events: Iterable[Event], offset: float) -> None:
        """Announce those of the events that rtnetlink announces.

        Args:
            events: in order of time.
            offset: what to add to their times, in seconds, for those of the reader's clock.

        """
        own = [event for event in events if event.source == self.name]
        if not own:
            return
        self._table = _table(self._node)
        self.changes += 1
        self._events.extend(replace(event, time=event.time + offset) for event in own)
        with self._lock, contextlib.suppress(OSError):  # full: it wakes the reader all the same
            self._writing.send(_WAKE)

    def read(self) -> list[Event]:
        """Return the changes that arrived."""
        with contextlib.suppress(BlockingIOError):
            self._reading.recv(_WAKES_PER_READ)
        return [self._events.popleft() for _ in range(len(self._events))]

    def close(self) -> None:
        """Close both ends; what is written after it is lost."""
        with self._lock:
            self._reading.close()
            self._writing.close()

    def reopen(self) -> None:
        """Never needed: it cannot fail."""
        raise SourceUnavailable("the node is no more")


def _table(node: Node) -> InterfaceTable:
    netdevs = list(enumerate(node.netdevs.values(), 2))  # 1 is the loopback
    return InterfaceTable.build(
        [LinkMessage(index, n.name, carrier=n.carrier, present=True) for index, n in netdevs],
        [
            AddressMessage(index, ipaddress.ip_address(n.address).packed, _PREFIX, present=True)
            for index, n in netdevs
        ],
    )
