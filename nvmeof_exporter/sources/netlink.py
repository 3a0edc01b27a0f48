"""Carrier of network interfaces, told by rtnetlink the moment it changes, and their addresses."""

from __future__ import annotations

import contextlib
import errno
import math
import socket
import time
from typing import TYPE_CHECKING

from nvmeof_exporter.model import Event, EventKind
from nvmeof_exporter.sources import rtnetlink
from nvmeof_exporter.sources.events import (
    SourceBehind,
    SourceFailed,
    SourceUnavailable,
    enlarge_receive_buffer,
)
from nvmeof_exporter.sources.interface_table import InterfaceTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvmeof_exporter.sources.rtnetlink import AddressMessage, LinkMessage

__all__ = ["Links"]

_GROUPS = rtnetlink.RTMGRP_LINK | rtnetlink.RTMGRP_IPV4_IFADDR | rtnetlink.RTMGRP_IPV6_IFADDR

_DATAGRAMS_PER_READ = 256
_DATAGRAMS_DISCARDED = 4096  # more than the receive buffer holds

#: A list that could not be had is asked for again after this time: asking may take a second.
_RETRY_SECONDS = 10.0


class _OverrunError(Exception):
    """The kernel dropped messages: the receive buffer was full, or one was cut short."""


class Links:
    """Carrier changes in this network namespace, as an EventSource named ``netlink``.

    It also knows which interface has which address; those make no events. What is up
    at the start makes none either. An interface that is administratively down, or gone,
    has no carrier. Raises SourceUnavailable without rtnetlink.

    ``read`` and ``close`` belong to one thread; ``table`` and ``changes`` may be looked at
    from any. ``changes`` counts whatever became different: interfaces that came, went, were
    renamed, joined a bond, changed their carrier or addresses.
    """

    name = "netlink"

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._links: dict[int, LinkMessage] = {}
        self._addresses: dict[AddressMessage, None] = {}
        self._table = InterfaceTable()
        self._told = 0
        self._events: list[Event] = []
        self._behind = False
        self._next_try = -math.inf
        self.changes = 0
        self._open()

    def _open(self) -> None:
        try:
            self._socket = rtnetlink.open_socket(socket.SOCK_NONBLOCK, _GROUPS)
        except OSError as error:
            raise SourceUnavailable(f"rtnetlink: {error}") from error
        enlarge_receive_buffer(self._socket)
        try:
            self._resynchronize()
        except OSError as error:
            self._socket.close()
            raise SourceUnavailable(f"rtnetlink: cannot list interfaces: {error}") from error
        self._publish()

    def fileno(self) -> int:
        """The descriptor for the loop."""
        return self._socket.fileno()

    def table(self) -> InterfaceTable:
        """Return the interfaces as last told; empty when nothing is known: behind, or closed."""
        return self._table

    def read(self) -> list[Event]:
        """Return the changes that arrived; raise SourceFailed when the socket is dead.

        After an overrun: LOST_EVENTS, then what the present state differs in. Older
        kernels list interfaces under their RTNL lock: then, and only then, this may wait.
        Where it takes too long, SourceBehind is raised until a later reading has the list.
        """
        try:
            if not self._behind:
                self._read_datagrams()
        except BlockingIOError:
            pass
        except _OverrunError:
            self._behind = True
            self._events.append(self._event(EventKind.LOST_EVENTS))
        except (OSError, ValueError) as error:
            raise SourceFailed(f"rtnetlink: {error}") from error
        if self._behind:
            self._recover()
        self._publish()
        events, self._events = self._events, []
        return events

    def close(self) -> None:
        """Close the socket. What was told holds no longer: nothing would correct it."""
        self._socket.close()
        self._table = InterfaceTable()

    def reopen(self) -> None:
        """Listen again; what is different by now is told as after an overrun."""
        self.close()
        self._behind = False
        self._next_try = -math.inf
        self._told += 1  # the table was emptied
        self._open()

    def _read_datagrams(self) -> None:
        for _ in range(_DATAGRAMS_PER_READ):
            for message in self._receive():
                self._events += self._learn(message)

    def _publish(self) -> None:
        """Hand over a new table when something differs from the last one, then say so."""
        if self._told:
            self._table = InterfaceTable.build(self._links.values(), self._addresses)
            self.changes += self._told
            self._told = 0

    def _receive(self) -> list[LinkMessage]:
        """Take one datagram; raises BlockingIOError when there is none."""
        try:
            data, _, flags, sender = self._socket.recvmsg(rtnetlink.DATAGRAM_BYTES)
        except OSError as error:
            if error.errno == errno.ENOBUFS:
                raise _OverrunError from error
            raise
        if flags & socket.MSG_TRUNC:
            raise _OverrunError
        if sender[0] != 0:  # not from the kernel
            return []
        for message in rtnetlink.parse_addresses(data):
            self._learn_address(message)
        return list(rtnetlink.parse_links(data))

    def _recover(self) -> None:
        """Begin anew from a list, once what is still queued is gone: all of it is older.

        Raises SourceBehind where the list cannot be had for now: nothing is known meanwhile.
        """
        try:
            self._discard_queued()
            if self._clock() < self._next_try:
                raise SourceBehind("rtnetlink: interfaces are listed again later")
            self._events += self._resynchronize()
        except (TimeoutError, InterruptedError) as error:
            self._next_try = self._clock() + _RETRY_SECONDS
            self._table = InterfaceTable()
            self.changes += 1
            raise SourceBehind(f"rtnetlink: cannot list interfaces: {error}") from error
        except OSError as error:
            raise SourceFailed(f"rtnetlink: cannot list interfaces: {error}") from error
        self._behind = False
        self._next_try = -math.inf
        self._told += 1  # the table may have been emptied

    def _discard_queued(self) -> None:
        """Empty the queue, where after an overrun the newest messages are those missing."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(_DATAGRAMS_DISCARDED):
                with contextlib.suppress(_OverrunError):
                    self._receive()

    def _resynchronize(self) -> list[Event]:
        """List every interface and return the changes.

        What is announced meanwhile is read later and changes nothing, or brings news.
        """
        listed = rtnetlink.list_links()
        addresses = dict.fromkeys(rtnetlink.list_addresses())
        present = {link.ifindex for link in listed}
        gone = [link for index, link in self._links.items() if index not in present]
        changes = [link._replace(carrier=False, present=False) for link in gone] + listed
        self._told += addresses != self._addresses
        self._addresses = addresses
        return [event for message in changes for event in self._learn(message)]

    def _learn_address(self, message: AddressMessage) -> None:
        own = message._replace(present=True)
        if message.present == (own in self._addresses):
            return
        self._told += 1
        if message.present:
            self._addresses[own] = None
        else:
            del self._addresses[own]

    def _learn(self, message: LinkMessage) -> list[Event]:
        """Remember one message; return its event when it changes the carrier."""
        # Last in order: a name that went from one interface to another is the newer one's.
        before = self._links.pop(message.ifindex, None)
        if message.present:
            self._links[message.ifindex] = message
        self._told += message != before
        had = before is not None and before.carrier
        if had == message.carrier:
            return []
        kind = EventKind.CARRIER_GAINED if message.carrier else EventKind.CARRIER_LOST
        return [self._event(kind, message.name)]

    def _event(self, kind: EventKind, device: str = "") -> Event:
        return Event(self._clock(), self.name, kind, device)
