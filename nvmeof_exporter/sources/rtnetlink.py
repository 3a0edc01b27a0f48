"""The rtnetlink protocol: asking, and the few facts of its messages that matter here.

A plain socket and messages taken apart by hand: importing any part of pyroute2
costs 24 MB and 0.2 s, and decoding a whole link message a thousand times what
these facts take, in the loop that must not wait.

Layouts: ``nlmsghdr`` in include/uapi/linux/netlink.h, ``ifinfomsg``, ``ifaddrmsg`` and
the attributes in include/uapi/linux/{rtnetlink,if_link,if_addr}.h.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "DATAGRAM_BYTES",
    "RTMGRP_IPV4_IFADDR",
    "RTMGRP_IPV6_IFADDR",
    "RTMGRP_LINK",
    "AddressMessage",
    "LinkMessage",
    "ask",
    "attributes",
    "list_addresses",
    "list_links",
    "messages",
    "open_socket",
    "pack_attributes",
    "parse_addresses",
    "parse_links",
]

RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR = 0x1, 0x10, 0x100

_NETLINK_ROUTE = 0
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_RTM_NEWLINK, _RTM_DELLINK, _RTM_GETLINK = 16, 17, 18
_RTM_NEWADDR, _RTM_DELADDR, _RTM_GETADDR = 20, 21, 22
_NLM_F_REQUEST, _NLM_F_DUMP_INTR, _NLM_F_DUMP = 0x1, 0x10, 0x300
_IFLA_IFNAME, _IFLA_MASTER, _IFLA_LINKINFO, _IFLA_EXT_MASK = 3, 10, 18, 29
_IFLA_PROP_LIST, _IFLA_ALT_IFNAME = 52, 53
_IFLA_INFO_KIND = 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTEXT_FILTER_SKIP_STATS = 1 << 3

#: UP and LOWER_UP together: ``dev_get_flags`` in net/core/dev.c sets LOWER_UP only while the
#: interface is administratively up and has a carrier. ``operstate`` follows later, from a
#: work queue.
_IFF_UP, _IFF_LOOPBACK, _IFF_LOWER_UP = 1 << 0, 1 << 3, 1 << 16

_HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, kind, flags, sequence, port
_LINK = struct.Struct("=BxHiII")  # ifinfomsg: family, device type, index, flags, change mask
_ADDRESS = struct.Struct("=BBBBI")  # ifaddrmsg: family, prefix, flags, scope, index
_ATTRIBUTE = struct.Struct("=HH")  # rtattr: length, kind
_WORD = struct.Struct("=I")

#: Of an attribute's kind the two upper bits are flags (NLA_TYPE_MASK).
_KIND_BITS = 0x3FFF

_ADDRESS_BYTES = frozenset({4, 16})  # IPv4, IPv6

DATAGRAM_BYTES = 1 << 16
_SEQUENCE = 1
_ANSWER_SECONDS = 1.0

#: So often is a list asked for that changes meanwhile.
_TRIES = 3


class LinkMessage(NamedTuple):
    """One interface as the kernel announced it; ``present`` is False when it has gone.

    ``kind`` is the kernel's word (``bond``, ``vlan``, ``vrf``), ``loopback`` for ``lo``, and
    ``""`` for hardware. ``master`` is the index of the bond, bridge or VRF it belongs to, or 0.
    ``alternatives`` are further names, as udev gives them.
    """

    ifindex: int
    name: str
    carrier: bool
    present: bool
    kind: str = ""
    master: int = 0
    alternatives: tuple[str, ...] = ()


class AddressMessage(NamedTuple):
    """An IPv4 or IPv6 address that an interface got, or lost when ``present`` is False."""

    ifindex: int
    address: bytes
    prefix: int
    present: bool


def parse_links(datagram: bytes) -> Iterator[LinkMessage]:
    """Yield the link messages of a datagram; what is cut short or of another kind is skipped.

    A bridge also announces its ports' comings and goings, as messages of its own
    address family: those say nothing of the interface itself.
    """
    for kind, body in messages(datagram):
        if kind not in {_RTM_NEWLINK, _RTM_DELLINK} or len(body) < _LINK.size:
            continue
        family, _, ifindex, flags, _ = _LINK.unpack_from(body)
        told = attributes(body, _LINK.size)
        name = _text(told.get(_IFLA_IFNAME, b""))
        if family == socket.AF_UNSPEC and name:
            present = kind == _RTM_NEWLINK
            up = bool(flags & _IFF_UP and flags & _IFF_LOWER_UP)
            yield LinkMessage(
                ifindex,
                name,
                present and up,
                present,
                "loopback" if flags & _IFF_LOOPBACK else _link_kind(told),
                _word(told.get(_IFLA_MASTER, b"")),
                _alternatives(told.get(_IFLA_PROP_LIST, b"")),
            )


def parse_addresses(datagram: bytes) -> Iterator[AddressMessage]:
    """Yield the address messages of a datagram; what is cut short or of another kind is skipped.

    On a point-to-point interface only ``IFA_LOCAL`` is its own address, the other is its peer's.
    """
    for kind, body in messages(datagram):
        if kind not in {_RTM_NEWADDR, _RTM_DELADDR} or len(body) < _ADDRESS.size:
            continue
        _, prefix, _, _, ifindex = _ADDRESS.unpack_from(body)
        told = attributes(body, _ADDRESS.size)
        address = told.get(_IFA_LOCAL) or told.get(_IFA_ADDRESS) or b""
        if len(address) in _ADDRESS_BYTES and prefix <= len(address) * 8:
            yield AddressMessage(ifindex, address, prefix, kind == _RTM_NEWADDR)


def messages(datagram: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield kind and body of each message in a datagram."""
    for kind, _, body in _flagged_messages(datagram):
        yield kind, body


def _flagged_messages(datagram: bytes) -> Iterator[tuple[int, int, bytes]]:
    offset = 0
    while offset + _HEADER.size <= len(datagram):
        length, kind, flags, *_ = _HEADER.unpack_from(datagram, offset)
        if length < _HEADER.size:
            return
        yield kind, flags, datagram[offset + _HEADER.size : offset + length]
        offset += _aligned(length)


def attributes(body: bytes, offset: int = 0) -> dict[int, bytes]:
    """Return the attributes that follow a message's fixed part, the last of each kind."""
    return dict(_each_attribute(body, offset))


def _each_attribute(body: bytes, offset: int) -> Iterator[tuple[int, bytes]]:
    while offset + _ATTRIBUTE.size <= len(body):
        length, kind = _ATTRIBUTE.unpack_from(body, offset)
        if length < _ATTRIBUTE.size:
            return
        yield kind & _KIND_BITS, body[offset + _ATTRIBUTE.size : offset + length]
        offset += _aligned(length)


def pack_attributes(pairs: Iterable[tuple[int, bytes]]) -> bytes:
    """Make attributes of kinds and values."""
    packed = b""
    for kind, value in pairs:
        packed += _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value
        packed += b"\0" * (-len(packed) % 4)
    return packed


def open_socket(flags: int = 0, groups: int = 0) -> socket.socket:
    """Open a socket of this network namespace that hears ``groups``; raises OSError."""
    opened = socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC | flags, _NETLINK_ROUTE
    )
    try:
        opened.bind((0, groups))
    except OSError:
        opened.close()
        raise
    return opened


def ask(kind: int, body: bytes, *, dump: bool = False) -> list[bytes]:
    """Send a request on a socket of its own and return the answer's datagrams.

    Args:
        kind: the request, an ``RTM_GET...``.
        body: its fixed part and attributes.
        dump: ask for a list of all, not for one.

    Raises:
        OSError: the kernel's refusal (ENETUNREACH: no route); TimeoutError after a
            second of silence.

    """
    flags = _NLM_F_REQUEST | (_NLM_F_DUMP if dump else 0)
    request = _HEADER.pack(_HEADER.size + len(body), kind, flags, _SEQUENCE, 0) + body
    answers = []
    with open_socket() as asked:
        asked.settimeout(_ANSWER_SECONDS)
        asked.sendto(request, (0, 0))
        while True:
            datagram, sender = asked.recvfrom(DATAGRAM_BYTES)
            if sender[0] != 0:  # not from the kernel
                continue
            answers.append(datagram)
            if _is_last(datagram, dump=dump):
                return answers


def list_links() -> list[LinkMessage]:
    """Ask for every interface; raises as ``_ask_for_all`` does."""
    body = _LINK.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
    body += pack_attributes([(_IFLA_EXT_MASK, _WORD.pack(_RTEXT_FILTER_SKIP_STATS))])
    answers = _ask_for_all(_RTM_GETLINK, body)
    return [link for datagram in answers for link in parse_links(datagram)]


def list_addresses() -> list[AddressMessage]:
    """Ask for every address of every interface; raises as ``_ask_for_all`` does."""
    body = _ADDRESS.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
    answers = _ask_for_all(_RTM_GETADDR, body)
    return [address for datagram in answers for address in parse_addresses(datagram)]


def _ask_for_all(kind: int, body: bytes) -> list[bytes]:
    """Ask for a list, and again when it changed while the kernel made it.

    Such a list may lack what has not changed at all; the kernel says so in the flags of one
    message (``nl_dump_check_consistent`` in include/net/netlink.h).

    Raises:
        OSError: as ``ask`` does; InterruptedError when it changed each time.

    """
    for _ in range(_TRIES):
        answers = ask(kind, body, dump=True)
        told = (flags for datagram in answers for _, flags, _ in _flagged_messages(datagram))
        if not any(flags & _NLM_F_DUMP_INTR for flags in told):
            return answers
    raise InterruptedError(errno.EINTR, "the list changes faster than it is told")


def _is_last(datagram: bytes, *, dump: bool) -> bool:
    """Whether an answer ends with this datagram; raises the error that it tells."""
    for kind, body in messages(datagram):
        if kind == _NLMSG_ERROR:
            _raise_error(body)
        if kind == _NLMSG_DONE:
            return True
    return not dump


def _raise_error(body: bytes) -> None:
    """Raise the error of an ``nlmsgerr``: a negative errno."""
    number = -struct.unpack_from("=i", body)[0] if len(body) >= _WORD.size else errno.EPROTO
    raise OSError(number, os.strerror(number))


def _link_kind(told: dict[int, bytes]) -> str:
    return _text(attributes(told.get(_IFLA_LINKINFO, b"")).get(_IFLA_INFO_KIND, b""))


def _alternatives(properties: bytes) -> tuple[str, ...]:
    each = _each_attribute(properties, 0)
    return tuple(_text(value) for kind, value in each if kind == _IFLA_ALT_IFNAME)


def _text(value: bytes) -> str:
    """Decode a name as ``os.listdir`` does, so that it is the one in ``/sys``."""
    return os.fsdecode(value.rstrip(b"\0"))


def _word(value: bytes) -> int:
    return int(_WORD.unpack(value)[0]) if len(value) == _WORD.size else 0


def _aligned(length: int) -> int:
    return (length + 3) & ~3
