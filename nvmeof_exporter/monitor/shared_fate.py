"""What the paths of a subsystem share: one failure that would take all of them at once.

Pure: from one snapshot, and from what is known of the ports and switches behind it.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from nvmeof_exporter.monitor.redundancy import can_tell, conditions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from nvmeof_exporter.hardware import PathPort
    from nvmeof_exporter.model import Controller, Subsystem

__all__ = ["RESOURCES", "distinct"]

#: What paths may share, from the host outwards.
RESOURCES = ("netdev", "nic", "rdma_device", "subnet", "switch", "target_address")

#: Transports that lead to another machine; those of PCIe and loop share the host itself.
_FABRICS = frozenset({"tcp", "rdma", "fc"})

#: The conditions of paths by which a namespace survives.
_BEARING = frozenset({"optimized", "non-optimized", "standby"})

#: Addresses and networks whose normal form is remembered: parsing is slow, and they stay.
_REMEMBERED = 4096

#: By resource, all those that a path runs over; empty where they are not known.
_Footing: TypeAlias = "dict[str, frozenset[str]]"


def distinct(
    subsystems: Iterable[Subsystem],
    port_of: Callable[[Controller], PathPort],
    switch_of: Mapping[str, str],
) -> dict[str, int]:
    """Count, for each of RESOURCES, how many must fail before the last path is lost.

    A path over a bond falls only with all of the bond's members, so what counts is the
    union over all members of all paths. 1: a single point of failure. Counted are the
    usable paths of a namespace and its standbys, which take over; the namespace that
    has the fewest decides.

    Args:
        subsystems: every subsystem directory of one NQN.
        port_of: what a path runs over; an empty PathPort where nothing is known.
        switch_of: the switch at the other end of an interface's cable, by interface.

    Returns:
        Only the resources that are known for every path that counts: what is not known
        may be the same or not. Nothing at all while no path is usable, or when it is not
        the kernel's to tell (native multipath is off).

    """
    own = list(subsystems)
    if not all(subsystem.multipath for subsystem in own):
        return {}
    bearing = _bearing_paths(own)
    footings = {
        name: _footing(controller, port_of, switch_of)
        for controllers in bearing
        for name, controller in controllers.items()
    }
    counts: dict[str, int] = {}
    for resource in RESOURCES:
        fewest = [_count(footings[name][resource] for name in names) for names in bearing]
        if fewest and all(fewest):
            counts[resource] = min(fewest)
    return counts


def _bearing_paths(subsystems: Collection[Subsystem]) -> list[dict[str, Controller]]:
    """Return, per namespace that can be reached, the controllers that bear it, by name.

    Namespaces over the same controllers are one. None at all when something could not be
    read: a path that may bear a namespace or not leaves every count open.
    """
    bearing: dict[frozenset[str], dict[str, Controller]] = {}
    namespaces = [n for subsystem in subsystems for n in subsystem.namespaces]
    for namespace in namespaces:
        found = conditions(namespace)
        if not can_tell(namespace) or "" in found:
            return []
        if any(path.usable for path in namespace.paths):
            controllers = {
                path.controller.name: path.controller
                for path, condition in zip(namespace.paths, found, strict=True)
                if condition in _BEARING
            }
            bearing[frozenset(controllers)] = controllers
    if not namespaces:  # the controllers alone tell
        controllers = {c.name: c for s in subsystems for c in s.controllers if c.usable}
        return [controllers] if controllers else []
    return list(bearing.values())


def _count(sets: Iterator[frozenset[str]]) -> int:
    """Return the size of the union; 0 when one of the sets is not known."""
    union: set[str] = set()
    for members in sets:
        if not members:
            return 0
        union |= members
    return len(union)


def _footing(
    controller: Controller,
    port_of: Callable[[Controller], PathPort],
    switch_of: Mapping[str, str],
) -> _Footing:
    path = controller.path
    if path.transport not in _FABRICS:
        return dict.fromkeys(RESOURCES, frozenset())
    port = port_of(controller)
    return {
        # Two VLANs of one port are one cable, a bond of two ports is two.
        "netdev": _known(port.members),
        "nic": _known(port.nics),
        "rdma_device": _known((port.rdma_device,)),
        "subnet": _known((_subnet(port.subnet, port.netdev),)),
        "switch": _known([switch_of.get(member, "") for member in port.members]),
        "target_address": _known((_host(path.traddr),)),
    }


def _known(names: Collection[str]) -> frozenset[str]:
    """Return the names; none of them when one is not known."""
    return frozenset() if "" in names else frozenset(names)


@lru_cache(_REMEMBERED)
def _subnet(subnet: str, netdev: str) -> str:
    """Return a network's normal form; ``""`` for none.

    Every link has the same link-local network: it is told apart by its interface
    (``fe80::/64%eth0``, or ``netdev`` where it names none).
    """
    bare, _, zone = subnet.partition("%")
    try:
        network = ipaddress.ip_network(bare, strict=False)
    except ValueError:
        return ""
    if network.is_link_local:
        zone = zone or netdev
        return f"{network}%{zone}" if zone else ""
    return str(network)


@lru_cache(_REMEMBERED)
def _host(traddr: str) -> str:
    """Return an address's normal form, without scope; Fibre Channel's names as they are."""
    try:
        address = ipaddress.ip_address(traddr.strip("[]").partition("%")[0])
    except ValueError:
        return traddr.lower()
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
