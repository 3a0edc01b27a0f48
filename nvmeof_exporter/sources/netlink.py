"""rtnetlink: carrier of network interfaces, told the moment it changes.

A plain socket and the three facts of a link message that matter here, taken by
hand: importing any part of pyroute2 costs 24 MB and 0.2 s, and decoding a whole
link message a thousand times what these facts take, in the loop that must not wait.

Layouts: ``nlmsghdr`` in include/uapi/linux/netlink.h, ``ifinfomsg`` and the
attributes in include/uapi/linux/{rtnetlink,if_link}.h.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import time
from typing import TYPE_CHECKING, NamedTuple

from nvmeof_exporter.model import Event, EventKind
from nvmeof_exporter.sources.events import (
    SourceFailed,
    SourceUnavailable,
    enlarge_receive_buffer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["LinkMessage", "Links", "parse"]

_NETLINK_ROUTE = 0
_RTMGRP_LINK = 1
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_RTM_NEWLINK, _RTM_DELLINK, _RTM_GETLINK = 16, 17, 18
_NLM_F_REQUEST_DUMP = 0x301
_IFLA_IFNAME, _IFLA_EXT_MASK = 3, 29
_RTEXT_FILTER_SKIP_STATS = 1 << 3

#: Both: ``dev_get_flags`` in net/core/dev.c sets LOWER_UP only while the interface is
#: administratively up and has a carrier. ``operstate`` follows later, from a work queue.
_IFF_UP, _IFF_LOWER_UP = 1 << 0, 1 << 16

_HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, kind, flags, sequence, port
_LINK = struct.Struct("=BxHiII")  # ifinfomsg: family, device type, index, flags, change mask
_ATTRIBUTE = struct.Struct("=HH")  # rtattr: length, kind
_WORD = struct.Struct("=I")

_DATAGRAM_BYTES = 1 << 16
_DATAGRAMS_PER_READ = 256
_DATAGRAMS_DISCARDED = 4096  # more than the receive buffer holds
_DUMP_SECONDS = 1.0


class LinkMessage(NamedTuple):
    """One interface as the kernel announced it; ``present`` is False when it has gone."""

    ifindex: int
    name: str
    carrier: bool
    present: bool


class _OverrunError(Exception):
    """The kernel dropped messages: the receive buffer was full, or one was cut short."""


class Links:
    """Carrier changes in this network namespace, as an EventSource named ``netlink``.

    What is up at the start makes no event. An interface that is administratively
    down, or gone, has no carrier. Raises SourceUnavailable without rtnetlink.
    """

    name = "netlink"

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._links: dict[int, LinkMessage] = {}
        self._indices: dict[str, int] = {}
        try:
            self._socket = _open(socket.SOCK_NONBLOCK, _RTMGRP_LINK)
        except OSError as error:
            raise SourceUnavailable(f"rtnetlink: {error}") from error
        enlarge_receive_buffer(self._socket)
        try:
            self._resynchronize()
        except OSError as error:
            self._socket.close()
            raise SourceUnavailable(f"rtnetlink: cannot list interfaces: {error}") from error

    def fileno(self) -> int:
        """The descriptor for the loop."""
        return self._socket.fileno()

    def carrier(self, netdev: str) -> bool | None:
        """Whether ``netdev`` is up with a carrier, as last told; None for an unknown interface."""
        index = self._indices.get(netdev)
        return None if index is None else self._links[index].carrier

    def read(self) -> list[Event]:
        """Return the changes that arrived; raise SourceFailed when the socket is dead.

        After an overrun: LOST_EVENTS, then what the present state differs in. Older
        kernels list interfaces under their RTNL lock: then, and only then, this may wait.
        """
        events: list[Event] = []
        try:
            for _ in range(_DATAGRAMS_PER_READ):
                for message in self._receive():
                    events += self._learn(message)
        except BlockingIOError:
            pass
        except _OverrunError:
            events.append(self._event(EventKind.LOST_EVENTS))
            events += self._recover()
        except (OSError, ValueError) as error:
            raise SourceFailed(f"rtnetlink: {error}") from error
        return events

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _receive(self) -> list[LinkMessage]:
        """Take one datagram; raises BlockingIOError when there is none."""
        try:
            data, _, flags, sender = self._socket.recvmsg(_DATAGRAM_BYTES)
        except OSError as error:
            if error.errno == errno.ENOBUFS:
                raise _OverrunError from error
            raise
        if flags & socket.MSG_TRUNC:
            raise _OverrunError
        from_kernel = sender[0] == 0
        return list(parse(data)) if from_kernel else []

    def _recover(self) -> list[Event]:
        """Begin anew from a list, once what is still queued is gone: all of it is older."""
        try:
            self._discard_queued()
            return self._resynchronize()
        except OSError as error:
            raise SourceFailed(f"rtnetlink: cannot list interfaces: {error}") from error

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
        listed = _list_links()
        present = {link.ifindex for link in listed}
        gone = [link for index, link in self._links.items() if index not in present]
        changes = [link._replace(carrier=False, present=False) for link in gone] + listed
        return [event for message in changes for event in self._learn(message)]

    def _learn(self, message: LinkMessage) -> list[Event]:
        """Remember one message; return its event when it changes the carrier."""
        before = self._links.pop(message.ifindex, None)
        # The name may have gone to another interface meanwhile.
        if before is not None and self._indices.get(before.name) == before.ifindex:
            del self._indices[before.name]
        if message.present:
            self._links[message.ifindex] = message
            self._indices[message.name] = message.ifindex
        had = before is not None and before.carrier
        if had == message.carrier:
            return []
        kind = EventKind.CARRIER_GAINED if message.carrier else EventKind.CARRIER_LOST
        return [self._event(kind, message.name)]

    def _event(self, kind: EventKind, device: str = "") -> Event:
        return Event(self._clock(), self.name, kind, device)


def parse(datagram: bytes) -> Iterator[LinkMessage]:
    """Yield the link messages of a datagram; what is cut short or of another kind is skipped.

    A bridge also announces its ports' comings and goings, as messages of its own
    address family: those say nothing of the interface itself.
    """
    for kind, body in _messages(datagram):
        if kind not in {_RTM_NEWLINK, _RTM_DELLINK} or len(body) < _LINK.size:
            continue
        family, _, ifindex, flags, _ = _LINK.unpack_from(body)
        name = _interface_name(body)
        if family == socket.AF_UNSPEC and name:
            present = kind == _RTM_NEWLINK
            up = bool(flags & _IFF_UP and flags & _IFF_LOWER_UP)
            yield LinkMessage(ifindex, name, present and up, present)


def _messages(datagram: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while offset + _HEADER.size <= len(datagram):
        length, kind, *_ = _HEADER.unpack_from(datagram, offset)
        if length < _HEADER.size:
            return
        yield kind, datagram[offset + _HEADER.size : offset + length]
        offset += _aligned(length)


def _interface_name(body: bytes) -> str:
    offset = _LINK.size
    while offset + _ATTRIBUTE.size <= len(body):
        length, kind = _ATTRIBUTE.unpack_from(body, offset)
        if length < _ATTRIBUTE.size:
            break
        if kind == _IFLA_IFNAME:
            value = body[offset + _ATTRIBUTE.size : offset + length]
            return value.rstrip(b"\0").decode("utf-8", "replace")
        offset += _aligned(length)
    return ""


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def _open(flags: int, groups: int) -> socket.socket:
    opened = socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC | flags, _NETLINK_ROUTE
    )
    try:
        opened.bind((0, groups))
    except OSError:
        opened.close()
        raise
    return opened


def _list_links() -> list[LinkMessage]:
    """Ask for every interface, on a socket of its own; raises OSError, also after a second."""
    body = _LINK.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
    body += _ATTRIBUTE.pack(_ATTRIBUTE.size + _WORD.size, _IFLA_EXT_MASK)
    body += _WORD.pack(_RTEXT_FILTER_SKIP_STATS)
    request = _HEADER.pack(_HEADER.size + len(body), _RTM_GETLINK, _NLM_F_REQUEST_DUMP, 1, 0)
    links: list[LinkMessage] = []
    with _open(0, 0) as asked:
        asked.settimeout(_DUMP_SECONDS)
        asked.sendto(request + body, (0, 0))
        while True:
            datagram = asked.recv(_DATAGRAM_BYTES)
            links += parse(datagram)
            for kind, answer in _messages(datagram):
                if kind == _NLMSG_ERROR:
                    _raise_error(answer)
                if kind == _NLMSG_DONE:
                    return links


def _raise_error(body: bytes) -> None:
    """Raise the error of an ``nlmsgerr``: a negative errno."""
    number = -struct.unpack_from("=i", body)[0] if len(body) >= _WORD.size else errno.EPROTO
    raise OSError(number, os.strerror(number))
