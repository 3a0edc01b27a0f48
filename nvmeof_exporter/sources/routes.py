"""Which way the kernel would send to an address now: one route lookup over rtnetlink.

``rtmsg`` and its attributes: include/uapi/linux/rtnetlink.h. Announcements of
routes are not listened to: a node that takes part in routing hears thousands,
and what matters here is only asked for now and then, of live paths.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
from typing import NamedTuple

from nvmeof_exporter.sources.interface_table import packed_address
from nvmeof_exporter.sources.rtnetlink import ask, attributes, messages, pack_attributes

__all__ = ["Route", "look_up", "parse_route"]

_RTM_NEWROUTE, _RTM_GETROUTE = 24, 26
_RTA_DST, _RTA_SRC, _RTA_OIF, _RTA_PREFSRC = 1, 2, 4, 7
_RTN_UNICAST, _RTN_LOCAL = 1, 2

# rtmsg: family, prefixes of target and source, tos, table, protocol, scope, type, flags
_ROUTE = struct.Struct("=BBBBBBBBI")
_WORD = struct.Struct("=I")

#: fe80::/64 (RFC 4291, 2.5.6). IPv4's link-local network has routes like any other.
_LINK_LOCAL = b"\xfe\x80"

#: No way there, or none from that address: an answer, not a failure. EINVAL: the source
#: is no address of this host (``ip_route_output_key_hash_rcu`` in net/ipv4/route.c).
_NO_ROUTE = frozenset(
    {
        errno.ENETUNREACH,
        errno.EHOSTUNREACH,
        errno.EACCES,
        errno.EINVAL,
        errno.ENODEV,
        errno.ENETDOWN,
        errno.EADDRNOTAVAIL,
        errno.EAFNOSUPPORT,
    }
)


class Route(NamedTuple):
    """Index of the interface to send through, and the host's address there (``""``: untold)."""

    ifindex: int
    source: str


def look_up(target: str, source: str = "", ifindex: int = 0) -> Route | None:
    """Ask the kernel for the way to an address; None when there is none.

    A link-local IPv6 target has no way without its interface. For a VRF the answer is
    the interface in it that sends.

    Args:
        target: IPv4 or IPv6 address, without a zone.
        source: address of this host to send from; ``""`` for the kernel's choice.
        ifindex: interface, or VRF, to send through; 0 for any.

    Raises:
        OSError: rtnetlink does not answer; TimeoutError after a second.

    """
    far, near = packed_address(target)[0], packed_address(source)[0]
    if not far or (not ifindex and far[:2] == _LINK_LOCAL):
        return None
    wanted = [(_RTA_DST, far)]
    if len(near) == len(far):
        wanted.append((_RTA_SRC, near))
    if ifindex:
        wanted.append((_RTA_OIF, _WORD.pack(ifindex)))
    family = socket.AF_INET if len(far) == len(socket.inet_aton("0")) else socket.AF_INET6
    bits = dict(wanted)
    lengths = (len(far) * 8, len(bits.get(_RTA_SRC, b"")) * 8)
    body = _ROUTE.pack(family, *lengths, 0, 0, 0, 0, 0, 0) + pack_attributes(wanted)
    try:
        answers = ask(_RTM_GETROUTE, body)
    except OSError as error:
        if error.errno in _NO_ROUTE:
            return None
        raise
    found = next(filter(None, map(parse_route, answers)), None)
    # The kernel tells the source that it would choose, not the one that it was given.
    return found._replace(source=found.source or source) if found is not None else None


def parse_route(datagram: bytes) -> Route | None:
    """Return the route that a datagram tells; None for one that leads nowhere, or for none."""
    for kind, body in messages(datagram):
        if kind != _RTM_NEWROUTE or len(body) < _ROUTE.size:
            continue
        told = attributes(body, _ROUTE.size)
        out = told.get(_RTA_OIF, b"")
        leads = _ROUTE.unpack_from(body)[7] in {_RTN_UNICAST, _RTN_LOCAL}
        if leads and len(out) == _WORD.size:
            source = told.get(_RTA_PREFSRC, b"")
            text = str(ipaddress.ip_address(source)) if len(source) in {4, 16} else ""
            return Route(_WORD.unpack(out)[0], text)
    return None
