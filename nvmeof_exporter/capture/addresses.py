"""Stand-ins for addresses that keep what matters of them: their kind and who is near whom.

Two addresses whose first N bits are equal have stand-ins whose first N bits are equal, and
no more: subnets stay subnets of the same size, and what shares one still does. (The scheme
of Crypto-PAn: J. Xu et al., "Prefix-Preserving IP Address Anonymization", ICNP 2002, with
BLAKE2 as the pseudo-random function.) Special networks, such as 10/8 or fe80::/64, are
kept, so a private address stays a private address.
"""

from __future__ import annotations

import hashlib
import ipaddress

__all__ = ["StandInAddresses"]

#: IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890), as far as an address of
#: another kind would be understood differently.
_KEPT = (
    *("0.0.0.0/32", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "127.0.0.1/32"),
    *("169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.168.0.0/16"),
    *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
    *("255.255.255.255/32", "::/128", "::1/128", "::ffff:0:0/96", "64:ff9b::/96"),
    *("2000::/3", "2001:db8::/32", "2002::/16", "fc00::/7", "fd00::/8", "fe80::/64", "ff00::/8"),
)

#: Bits of the network in which IPv6 holds IPv4 addresses (RFC 4291, 2.5.5.2): RoCE's GIDs do.
_MAPPED = ipaddress.ip_network("::ffff:0:0/96")
_BITS = {4: 32, 6: 128}


class StandInAddresses:
    """One consistent, one-to-one replacement of all addresses under a secret key."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._known: dict[tuple[int, int], int] = {}
        #: Beginnings (IP version, length, bits) after which the next bit stays as it is.
        self._fixed: set[tuple[int, int, int]] = set()
        for text in _KEPT:
            network = ipaddress.ip_network(text)
            number = int(network.network_address)
            width = _BITS[network.version]
            for length in range(network.prefixlen):
                self._fixed.add((network.version, length, number >> (width - length)))

    def stand_in(
        self, address: ipaddress.IPv4Address | ipaddress.IPv6Address
    ) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
        """Return the address that takes the place of another of the same version."""
        if address in _MAPPED:
            inner = self._map(4, int(address) & 0xFFFF_FFFF)
            return ipaddress.IPv6Address(int(_MAPPED.network_address) | inner)
        return type(address)(self._map(address.version, int(address)))

    def _map(self, version: int, number: int) -> int:
        found = self._known.get((version, number))
        if found is None:
            width = _BITS[version]
            found = 0
            for length in range(width):
                bit = number >> (width - length - 1) & 1
                found = found << 1 | bit ^ self._flip(version, length, number >> (width - length))
            self._known[version, number] = found
        return found

    def _flip(self, version: int, length: int, beginning: int) -> int:
        """Whether the bit after a beginning is turned: 0 or 1."""
        if (version, length, beginning) in self._fixed:
            return 0
        text = f"{version}/{length}/{beginning:x}".encode()
        return hashlib.blake2b(text, key=self._key, digest_size=1).digest()[0] & 1
