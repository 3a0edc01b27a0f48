"""rtnetlink: carrier of network interfaces, told the moment it changes, and their addresses.

A plain socket and the few facts of a message that matter here, taken by hand:
importing any part of pyroute2 costs 24 MB and 0.2 s, and decoding a whole link
message a thousand times what these facts take, in the loop that must not wait.

Layouts: ``nlmsghdr`` in include/uapi/linux/netlink.h, ``ifinfomsg``, ``ifaddrmsg`` and
the attributes in include/uapi/linux/{rtnetlink,if_link,if_addr}.h.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
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

__all__ = ["AddressMessage", "LinkMessage", "Links", "parse", "parse_addresses"]

_NETLINK_ROUTE = 0
_RTMGRP_LINK, _RTMGRP_IPV4_IFADDR, _RTMGRP_IPV6_IFADDR = 0x1, 0x10, 0x100
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_RTM_NEWLINK, _RTM_DELLINK, _RTM_GETLINK = 16, 17, 18
_RTM_NEWADDR, _RTM_DELADDR, _RTM_GETADDR = 20, 21, 22
_NLM_F_REQUEST_DUMP = 0x301
_IFLA_IFNAME, _IFLA_EXT_MASK = 3, 29
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTEXT_FILTER_SKIP_STATS = 1 << 3

#: Both: ``dev_get_flags`` in net/core/dev.c sets LOWER_UP only while the interface is
#: administratively up and has a carrier. ``operstate`` follows later, from a work queue.
_IFF_UP, _IFF_LOWER_UP = 1 << 0, 1 << 16

_HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, kind, flags, sequence, port
_LINK = struct.Struct("=BxHiII")  # ifinfomsg: family, device type, index, flags, change mask
_ADDRESS = struct.Struct("=BBBBI")  # ifaddrmsg: family, prefix, flags, scope, index
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


class AddressMessage(NamedTuple):
    """An IPv4 or IPv6 address that an interface got, or lost when ``present`` is False."""

    ifindex: int
    address: bytes
    present: bool


class _OverrunError(Exception):
    """The kernel dropped messages: the receive buffer was full, or one was cut short."""


class Links:
    """Carrier changes in this network namespace, as an EventSource named ``netlink``.

    It also knows which interface has which address; those make no events. What is up
    at the start makes none either. An interface that is administratively down, or gone,
    has no carrier. Raises SourceUnavailable without rtnetlink.
    """

    name = "netlink"

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._links: dict[int, LinkMessage] = {}
        self._indices: dict[str, int] = {}
        self._owners: dict[bytes, set[int]] = {}
        groups = _RTMGRP_LINK | _RTMGRP_IPV4_IFADDR | _RTMGRP_IPV6_IFADDR
        try:
            self._socket = _open(socket.SOCK_NONBLOCK, groups)
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

    def interface(self, address: str) -> str:
        """Name the interface that has an IPv4 or IPv6 address (``fe80::1%eth0`` names it itself).

        ``""`` when none has it, when several have, and for what is no address.
        """
        bare, _, scope = address.strip("[]").partition("%")
        try:
            owners = self._owners.get(ipaddress.ip_address(bare).packed, set())
        except ValueError:
            return ""
        names = {link.name for index in owners.copy() if (link := self._links.get(index))}
        if scope in names:
            return scope
        return names.pop() if len(names) == 1 and not scope else ""

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
        if sender[0] != 0:  # not from the kernel
            return []
        for message in parse_addresses(data):
            self._learn_address(message)
        return list(parse(data))

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
        self._owners = {}
        for address in _list_addresses():
            self._learn_address(address)
        return [event for message in changes for event in self._learn(message)]

    def _learn_address(self, message: AddressMessage) -> None:
        if message.present:
            self._owners.setdefault(message.address, set()).add(message.ifindex)
            return
        owners = self._owners.get(message.address, set())
        owners.discard(message.ifindex)
        if not owners:
            self._owners.pop(message.address, None)

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
        name = _attributes(body, _LINK.size).get(_IFLA_IFNAME, b"").rstrip(b"\0")
        if family == socket.AF_UNSPEC and name:
            present = kind == _RTM_NEWLINK
            up = bool(flags & _IFF_UP and flags & _IFF_LOWER_UP)
            text = name.decode("utf-8", "replace")
            yield LinkMessage(ifindex, text, present and up, present)


def parse_addresses(datagram: bytes) -> Iterator[AddressMessage]:
    """Yield the address messages of a datagram; what is cut short or of another kind is skipped.

    On a point-to-point interface only ``IFA_LOCAL`` is its own address, the other is its peer's.
    """
    for kind, body in _messages(datagram):
        if kind not in {_RTM_NEWADDR, _RTM_DELADDR} or len(body) < _ADDRESS.size:
            continue
        *_, ifindex = _ADDRESS.unpack_from(body)
        attributes = _attributes(body, _ADDRESS.size)
        address = attributes.get(_IFA_LOCAL) or attributes.get(_IFA_ADDRESS)
        if address:
            yield AddressMessage(ifindex, address, kind == _RTM_NEWADDR)


def _messages(datagram: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while offset + _HEADER.size <= len(datagram):
        length, kind, *_ = _HEADER.unpack_from(datagram, offset)
        if length < _HEADER.size:
            return
        yield kind, datagram[offset + _HEADER.size : offset + length]
        offset += _aligned(length)


def _attributes(body: bytes, offset: int) -> dict[int, bytes]:
    """Return the attributes that follow a message's fixed part, by kind."""
    found = {}
    while offset + _ATTRIBUTE.size <= len(body):
        length, kind = _ATTRIBUTE.unpack_from(body, offset)
        if length < _ATTRIBUTE.size:
            break
        found[kind] = body[offset + _ATTRIBUTE.size : offset + length]
        offset += _aligned(length)
    return found


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
    """Ask for every interface; raises OSError."""
    body = _LINK.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
    body += _ATTRIBUTE.pack(_ATTRIBUTE.size + _WORD.size, _IFLA_EXT_MASK)
    body += _WORD.pack(_RTEXT_FILTER_SKIP_STATS)
    return [link for datagram in _dump(_RTM_GETLINK, body) for link in parse(datagram)]


def _list_addresses() -> list[AddressMessage]:
    """Ask for every address of every interface; raises OSError."""
    body = _ADDRESS.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
    answers = _dump(_RTM_GETADDR, body)
    return [address for datagram in answers for address in parse_addresses(datagram)]


def _dump(kind: int, body: bytes) -> list[bytes]:
    """Ask for a list, on a socket of its own; raises OSError, also after a second of silence."""
    request = _HEADER.pack(_HEADER.size + len(body), kind, _NLM_F_REQUEST_DUMP, 1, 0) + body
    answers = []
    with _open(0, 0) as asked:
        asked.settimeout(_DUMP_SECONDS)
        asked.sendto(request, (0, 0))
        while True:
            datagram = asked.recv(_DATAGRAM_BYTES)
            answers.append(datagram)
            for answered, answer in _messages(datagram):
                if answered == _NLMSG_ERROR:
                    _raise_error(answer)
                if answered == _NLMSG_DONE:
                    return answers


def _raise_error(body: bytes) -> None:
    """Raise the error of an ``nlmsgerr``: a negative errno."""
    number = -struct.unpack_from("=i", body)[0] if len(body) >= _WORD.size else errno.EPROTO
    raise OSError(number, os.strerror(number))
