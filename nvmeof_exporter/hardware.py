"""Value objects of what paths run over: interfaces, RDMA ports, NICs, switches.

These facts come from slow sources (drivers and firmware answer when they like),
so they are gathered beside the poll loop and are older than a snapshot. Like the
snapshot's objects they are immutable and may be handed between threads.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Link", "PathPort", "Pause", "RdmaPort"]


@dataclass(frozen=True, slots=True)
class PathPort:
    """What one path runs over, as far as it is known; ``""`` and ``()`` where it is not.

    ``netdev`` is the interface that the host's network stack uses: it may be a bond,
    a VLAN, a bridge or inside a VRF. ``members`` are the interfaces at the bottom of
    that stack, where the cables are: ``(netdev,)`` for a plain one. ``nics`` are the PCI
    devices of the members without their function number (``0000:3b:00``): two ports of
    one card share it; ``()`` also where that of only one member is not known. ``rdma_device``
    and ``rdma_port`` name the RDMA port behind the interface, also for a TCP path: it is the
    same cable. ``subnet`` is the network (``10.0.1.0/24``) of the host's address on
    ``netdev``; a link-local one ends in its interface (``fe80::/64%eth0``), as every link
    has one of that number.
    """

    netdev: str = ""
    members: tuple[str, ...] = ()
    nics: tuple[str, ...] = ()
    rdma_device: str = ""
    rdma_port: str = ""
    subnet: str = ""


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """One port of an RDMA device. None, ``""`` and absent statistics: not shown or not readable.

    ``port`` is ``""`` for the device as a whole, where the driver counts for it (``hw_counters``
    beside ``ports``): then only ``statistics`` is filled.
    ``state`` and ``physical_state`` are the kernel's words in lower case without their number
    (``active``, ``linkup``). ``rate`` is in bytes per second, 0 for an empty cage.
    ``statistics`` holds every other file that counts, by the kernel's own name, once each.
    """

    device: str
    port: str
    netdevs: tuple[str, ...] = ()
    link_layer: str = ""
    firmware: str = ""
    hca: str = ""
    state: str = ""
    physical_state: str = ""
    rate: float | None = None
    received_bytes: int | None = None
    transmitted_bytes: int | None = None
    received_packets: int | None = None
    transmitted_packets: int | None = None
    statistics: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Pause:
    """Pause frames of one interface, direction and priority (``""``: global pause).

    ``direction`` is ``rx`` (the peer asked us to stop) or ``tx`` (we asked the peer).
    ``seconds`` is how long that lasted, where the driver tells.
    """

    direction: str
    priority: str
    frames: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """One network interface. None where the kernel does not say.

    ``up`` is the carrier, False while administratively down; ``speed`` in bytes per second.
    """

    netdev: str
    up: bool | None = None
    carrier_changes: int | None = None
    speed: float | None = None
    pauses: tuple[Pause, ...] = ()
