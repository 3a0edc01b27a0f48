"""Value objects: what one look at the machine shows, and what the kernel announced.

Everything here is immutable, so that a snapshot may be handed between threads,
kept in a history and replayed in a test. No behaviour beyond what follows from
the values themselves; meaning over time is the monitor's business.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = [
    "ANA_STATES",
    "PATH_STATES",
    "SECTOR_BYTES",
    "USABLE_ANA_STATES",
    "USABLE_CONTROLLER_STATES",
    "Controller",
    "Event",
    "EventKind",
    "HostIdentity",
    "IoCounters",
    "Namespace",
    "NamespacePath",
    "PathId",
    "PathSettings",
    "Snapshot",
    "Subsystem",
]

#: Controller states as published; ``missing`` is the monitor's, ``unknown`` any other string.
#: Source: ``nvme_sysfs_show_state`` in the kernel's drivers/nvme/host/sysfs.c.
PATH_STATES = (
    "new",
    "live",
    "resetting",
    "connecting",
    "deleting",
    "dead",
    "missing",
    "unknown",
)

#: ANA states as published. Source: ``nvme_ana_state_names`` in drivers/nvme/host/multipath.c.
ANA_STATES = (
    "optimized",
    "non-optimized",
    "inaccessible",
    "persistent-loss",
    "change",
    "unknown",
)

#: A path carries I/O only over a controller in one of these states
#: (``nvme_path_is_disabled`` in drivers/nvme/host/multipath.c).
USABLE_CONTROLLER_STATES = frozenset({"live", "deleting"})

#: ANA states over which the kernel sends I/O (``__nvme_find_path``, same file).
USABLE_ANA_STATES = frozenset({"optimized", "non-optimized"})


class _Labelled:
    """Slots for a text and its hash, made once, that are no fields of their value object."""

    __slots__ = ("_hash", "_label")

    _hash: int
    _label: str


@dataclass(frozen=True, slots=True, order=True)
class PathId(_Labelled):
    """The stable identity of a path within its subsystem.

    The same before and after a reconnect as a new controller instance: it is
    made only of what was given at connect time. ``src_addr`` (chosen by the
    host, absent while not live), ``nvmeX`` and ``cntlid`` are no part of it.

    ``ordinal`` tells apart several controllers of one subsystem NQN that have
    the same address: 1 for the first, shown as ``#2``, ``#3`` from the second.
    """

    transport: str
    traddr: str
    trsvcid: str = ""
    host_traddr: str = ""
    host_iface: str = ""
    ordinal: int = 1

    def __str__(self) -> str:
        """The ``path`` label, e.g. ``tcp:[fe80::1]:4420@[fe80::2]%eth0``."""
        try:
            return self._label
        except AttributeError:
            label = self._make_label()
            object.__setattr__(self, "_label", label)
            return label

    def __hash__(self) -> int:
        """Hash the label: equal identities have equal labels, and its hash is kept with it."""
        try:
            return self._hash
        except AttributeError:
            number = hash(str(self))
            object.__setattr__(self, "_hash", number)
            return number

    def _make_label(self) -> str:
        text = f"{self.transport}:{_bracketed(self.transport, self.traddr)}"
        if self.trsvcid:
            text += f":{self.trsvcid}"
        if self.host_traddr:
            text += f"@{_bracketed(self.transport, self.host_traddr)}"
        if self.host_iface:
            text += f"%{self.host_iface}"
        if self.ordinal > 1:
            text += f"#{self.ordinal}"
        return text


def _bracketed(transport: str, address: str) -> str:
    """Put an IPv6 address in brackets; FC and PCI addresses hold colons of their own."""
    if transport in {"tcp", "rdma"} and ":" in address and not address.startswith("["):
        return f"[{address}]"
    return address


#: What the kernel calls a sector, whatever the device's block size.
SECTOR_BYTES = 512


class IoCounters(NamedTuple):
    """The ``stat`` file of a block device, in the kernel's order and units.

    Sectors are of SECTOR_BYTES whatever the device's block size; times are in
    milliseconds. Source: Documentation/block/stat.rst. Kernels before 4.18
    have no discard fields, before 5.5 no flush fields: those are 0 there.
    """

    reads: int
    read_merges: int
    read_sectors: int
    read_ms: int
    writes: int
    write_merges: int
    write_sectors: int
    write_ms: int
    in_flight: int
    busy_ms: int
    queue_ms: int
    discards: int = 0
    discard_merges: int = 0
    discard_sectors: int = 0
    discard_ms: int = 0
    flushes: int = 0
    flush_ms: int = 0

    @property
    def completed(self) -> int:
        """Requests of every kind that have ended, true or cancelled."""
        return self.reads + self.writes + self.discards + self.flushes

    @property
    def waited_ms(self) -> int:
        """Milliseconds that the ended requests were outstanding, summed over them."""
        return self.read_ms + self.write_ms + self.discard_ms + self.flush_ms


@dataclass(frozen=True, slots=True)
class PathSettings:
    """Time-outs and queues of one controller, in seconds; None where the kernel shows none.

    ``ctrl_loss_timeout`` and ``fast_io_fail_timeout`` are ``inf`` when off.
    """

    keep_alive_timeout: float | None = None
    ctrl_loss_timeout: float | None = None
    reconnect_delay: float | None = None
    fast_io_fail_timeout: float | None = None
    io_timeout: float | None = None
    queues: int | None = None


@dataclass(frozen=True, slots=True)
class Controller:
    """One fabric connection (one *path* in ``nvme list-subsys``).

    ``state`` is one of PATH_STATES, or None when the file could not be read:
    unknown to us is not the kernel's ``unknown``. ``raw_state`` is the kernel's
    own text, the last one that could be read. ``resets`` and ``reconnects`` are
    ``diag/`` counters (7.2+).
    """

    name: str
    nqn: str
    path: PathId
    state: str | None
    raw_state: str = ""
    cntlid: str = ""
    hostnqn: str = ""
    hostid: str = ""
    src_addr: str = ""
    resets: int | None = None
    reconnects: int | None = None
    settings: PathSettings = field(default_factory=PathSettings)

    @property
    def usable(self) -> bool:
        """Whether the kernel would send I/O over this controller, ANA apart.

        ``deleting (no IO)`` is published as ``deleting`` but takes no requests.
        """
        return (self.raw_state or self.state) in USABLE_CONTROLLER_STATES


@dataclass(frozen=True, slots=True)
class NamespacePath:
    """One way to one namespace: a hidden ``nvmeScCnM`` disk, or ``nvmeXnM`` without multipath.

    ``ana_state`` is one of ANA_STATES, ``""`` where the controller has no ANA
    (the kernel then takes the path as optimized), or None when the file exists
    but could not be read; ``last_ana_state`` then says what it was.
    ``failovers`` is ``diag/multipath_failover_count``: requests that were
    cancelled here and re-sent elsewhere (7.2+, else None).
    ``hidden`` is False for a disk of its own that applications may open.
    """

    disk: str
    controller: Controller
    ana_state: str | None = ""
    io: IoCounters | None = None
    failovers: int | None = None
    hidden: bool = True
    last_ana_state: str = ""

    @property
    def known(self) -> bool:
        """Whether enough was ever read to tell if I/O can go this way."""
        controller = self.controller
        return bool(controller.state or controller.raw_state) and (
            self.ana_state is not None or self.last_ana_state != ""
        )

    @property
    def usable(self) -> bool:
        """Whether I/O can go this way now (controller state and ANA together)."""
        ana = self.ana
        return self.controller.usable and (ana == "" or ana in USABLE_ANA_STATES)

    @property
    def optimized(self) -> bool:
        """Usable and preferred: ANA optimized, or no ANA at all."""
        return self.controller.usable and self.ana in {"", "optimized"}

    @property
    def ana(self) -> str:
        """The ANA state, or the last one known where it cannot be read."""
        if self.ana_state is not None:
            return self.ana_state
        return self.last_ana_state or "unknown"


@dataclass(frozen=True, slots=True)
class Namespace:
    """What an application opens, with its paths.

    ``nsid`` is the label: the namespace ID, with ``#2``, ``#3`` where a subsystem
    NQN shows several block devices of one NSID (two host NQNs, or private
    namespaces). ``device`` is the head (``nvmeSnM``), ``""`` when there is none.
    ``requeued`` and ``failed`` are the head's ``diag/`` counters (7.2+).
    """

    nqn: str
    nsid: str
    device: str
    wwid: str = ""
    size_bytes: int | None = None
    io: IoCounters | None = None
    requeued: int | None = None
    failed: int | None = None
    paths: tuple[NamespacePath, ...] = ()


@dataclass(frozen=True, slots=True)
class Subsystem:
    """One ``nvme-subsysS`` directory; ``name`` is ``""`` for controllers that have none.

    ``multipath`` is False when its namespaces are plain disks without a head
    because native multipath is off: redundancy is then not the kernel's to tell.
    """

    name: str
    nqn: str
    model: str = ""
    serial: str = ""
    firmware: str = ""
    iopolicy: str = ""
    multipath: bool = True
    controllers: tuple[Controller, ...] = ()
    namespaces: tuple[Namespace, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class HostIdentity:
    """A host NQN and host ID pair, as a controller presented it to its subsystem."""

    hostnqn: str
    hostid: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look at the machine. Times are seconds: ``monotonic`` to measure, ``wall`` to tell."""

    monotonic: float
    wall: float
    subsystems: tuple[Subsystem, ...] = ()
    hosts: tuple[HostIdentity, ...] = ()
    multipath_enabled: bool | None = None
    discovery_controllers: int = 0


class EventKind(enum.Enum):
    """What the kernel announced between two looks.

    The kernel log's wordings differ per transport and version; what they mean
    is one of these. ``REQUEUED`` and ``FAILED`` name a head disk, the link
    events an interface, all others a controller.
    """

    # from uevents
    CONTROLLER_ADDED = "controller added"
    CONTROLLER_REMOVED = "controller removed"
    CONTROLLER_CONNECTED = "controller connected"
    TOPOLOGY_CHANGED = "topology changed"
    # from rtnetlink
    CARRIER_LOST = "carrier lost"
    CARRIER_GAINED = "carrier gained"
    # from the kernel log
    ERROR_RECOVERY = "error recovery"
    KEEP_ALIVE_FAILED = "keep-alive failed"
    IO_TIMEOUT = "I/O timeout"
    TRANSPORT_ERROR = "transport error"
    CONNECT_FAILED = "connect failed"
    RECONNECT_SCHEDULED = "reconnect scheduled"
    RECONNECT_FAILED = "reconnect failed"
    RECONNECTED = "reconnected"
    RESETTING = "resetting"
    REMOVING = "removing"
    FAST_FAIL = "fast I/O fail"
    ANA_TIMEOUT = "ANA transition timeout"
    REQUEUED = "no usable path, I/O requeued"
    FAILED = "no available path, I/O failed"
    # from any of them
    LOST_EVENTS = "events were lost"


@dataclass(frozen=True, slots=True)
class Event:
    """One announcement. ``time`` is in seconds on the monotonic clock.

    ``source`` is ``udev``, ``netlink`` or ``kmsg``. ``device`` is the kernel
    name it is about (``nvme0``, ``nvme0n1``, ``eth0``), ``""`` when none.
    """

    time: float
    source: str
    kind: EventKind
    device: str = ""
    text: str = ""
