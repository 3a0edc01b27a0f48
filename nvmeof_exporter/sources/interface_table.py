"""The network interfaces of one moment: carrier, kind, addresses. Immutable, for any thread."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nvmeof_exporter.sources.rtnetlink import AddressMessage, LinkMessage

__all__ = ["InterfaceTable", "packed_address"]

#: Interfaces that hold addresses, and hand what is sent from them to another interface.
_HOLDERS_OF_ADDRESSES = frozenset({"dummy", "loopback", "vrf"})

_KEPT_ADDRESSES = 4096  # texts; a node has one to three for each path


@dataclass(frozen=True, slots=True)
class InterfaceTable:
    """Interfaces by name and index, and whose an address is. Made by ``build``."""

    _links: Mapping[str, LinkMessage] = field(default_factory=dict)
    _names: Mapping[int, str] = field(default_factory=dict)
    _owners: Mapping[bytes, tuple[str, ...]] = field(default_factory=dict)
    _addresses: Mapping[str, tuple[tuple[bytes, int], ...]] = field(default_factory=dict)
    _alternatives: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def build(
        cls, links: Iterable[LinkMessage], addresses: Iterable[AddressMessage]
    ) -> InterfaceTable:
        """Make a table; an address of an interface that is not among the links is left out."""
        by_name = {link.name: link for link in links}
        names = {link.ifindex: link.name for link in by_name.values()}
        owners: dict[bytes, tuple[str, ...]] = {}
        held: dict[str, tuple[tuple[bytes, int], ...]] = {}
        for message in addresses:
            name = names.get(message.ifindex)
            if name is not None:
                owners[message.address] = (*owners.get(message.address, ()), name)
                held[name] = (*held.get(name, ()), (message.address, message.prefix))
        alternatives = {
            other: link.name for link in by_name.values() for other in link.alternatives
        }
        return cls(by_name, names, owners, held, alternatives)

    def carriers(self) -> dict[str, bool]:
        """Return every interface and whether it is up with a carrier."""
        return {name: link.carrier for name, link in self._links.items()}

    def carrier(self, netdev: str) -> bool | None:
        """Whether ``netdev`` is up with a carrier; None for an unknown interface."""
        link = self._links.get(netdev)
        return None if link is None else link.carrier

    def canonical(self, netdev: str) -> str:
        """Return the kernel's name of an interface that may be called by an alternative one."""
        return netdev if netdev in self._links else self._alternatives.get(netdev, netdev)

    def name(self, ifindex: int) -> str:
        """Name an interface; ``""`` for an unknown index."""
        return self._names.get(ifindex, "")

    def index(self, netdev: str) -> int:
        """Return the index of an interface; 0 for an unknown one."""
        link = self._links.get(netdev)
        return 0 if link is None else link.ifindex

    def is_vrf(self, netdev: str) -> bool:
        """Whether ``netdev`` is a VRF: a routing domain, not an interface that sends."""
        link = self._links.get(netdev)
        return link is not None and link.kind == "vrf"

    def sends(self, netdev: str) -> bool:
        """Whether packets may leave through it; not so for loopback, dummy and VRF devices.

        Those hold addresses: where a host takes part in routing, its address is on
        ``lo`` or ``dummy0`` and its packets leave through whatever the routes say.
        """
        link = self._links.get(netdev)
        return link is None or link.kind not in _HOLDERS_OF_ADDRESSES

    def owner(self, address: str) -> str:
        """Name the interface that has an IPv4 or IPv6 address (``fe80::1%eth0`` names it itself).

        ``""`` when none has it, when several have, and for what is no address.
        """
        packed, scope = packed_address(address)
        names = set(self._owners.get(packed, ()))
        if scope:
            scope = self.scope(scope)
            return scope if scope in names else ""
        return names.pop() if len(names) == 1 else ""

    def scope(self, zone: str) -> str:
        """Name the interface that the zone of a scoped address means: a name, or an index."""
        name = self.canonical(zone)
        if name in self._links or not (zone.isascii() and zone.isdecimal()):
            return name
        return self.name(int(zone))

    def subnet(self, netdev: str, source: str, target: str) -> str:
        """Return the network of the host's own address on an interface.

        That of ``source`` where the interface has it; else the narrowest that
        ``target`` is in; else the only one of the target's family; else ``""``.
        A link-local network ends in its interface (``fe80::/64%eth0``): every
        link has one of its own under the same number.
        """
        own, _ = packed_address(source)
        far, _ = packed_address(target)
        held = self._addresses.get(netdev, ())
        networks = [_network(address, prefix) for address, prefix in held if address == own]
        if not networks:
            family = [_network(*pair) for pair in held if len(pair[0]) == len(far)]
            inside = [network for network in family if ipaddress.ip_address(far) in network]
            inside.sort(key=lambda network: network.prefixlen)
            networks = inside[-1:] or [n for n in family if not n.is_link_local]
        if len(set(networks)) != 1:
            return ""
        return f"{networks[0]}%{netdev}" if networks[0].is_link_local else str(networks[0])


@lru_cache(maxsize=_KEPT_ADDRESSES)
def packed_address(text: str) -> tuple[bytes, str]:
    """Split an address into its bytes, ``b""`` for what is none, and its zone (``%eth0``)."""
    bare, _, zone = text.strip("[]").partition("%")
    try:
        return ipaddress.ip_address(bare).packed, zone
    except ValueError:
        return b"", ""


def _network(address: bytes, prefix: int) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    return ipaddress.ip_network((address, prefix), strict=False)
