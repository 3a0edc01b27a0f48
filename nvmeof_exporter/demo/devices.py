"""The make-believe node's parts: state only, no behaviour beyond what it implies.

Unlike the value objects of ``nvmeof_exporter.model`` they change in place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nvmeof_exporter.demo.counters import DiskCounters
from nvmeof_exporter.model import USABLE_ANA_STATES, USABLE_CONTROLLER_STATES

if TYPE_CHECKING:
    from nvmeof_exporter.demo.agenda import Timer
    from nvmeof_exporter.demo.load import Application, Request
    from nvmeof_exporter.model import PathId

__all__ = [
    "Connection",
    "Controller",
    "Flow",
    "Namespace",
    "Netdev",
    "Path",
    "Subsystem",
    "Timeouts",
]

#: Data travels in packets of this size: RoCE's largest MTU.
_PACKET_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Settings given at connect time, in seconds; None is ``off``."""

    keep_alive: int = 5
    reconnect_delay: int = 2
    ctrl_loss: int | None = 600
    fast_io_fail: int | None = None
    queues: int = 3

    @property
    def max_reconnects(self) -> int | None:
        """How many attempts before the controller is given up (``nvmf_create_ctrl``)."""
        if self.ctrl_loss is None:
            return None
        return -(-self.ctrl_loss // self.reconnect_delay)

    @property
    def shown_ctrl_loss(self) -> int | None:
        """What ``ctrl_loss_tmo`` reads: the attempts times the delay between them."""
        attempts = self.max_reconnects
        return None if attempts is None else attempts * self.reconnect_delay


@dataclass(eq=False, slots=True)
class Flow:
    """What an interface has carried by one means: requests done, payload bytes, packets."""

    reads: int = 0
    writes: int = 0
    received_bytes: int = 0
    transmitted_bytes: int = 0
    received_packets: int = 0
    transmitted_packets: int = 0

    @property
    def requests(self) -> int:
        """All that were done; nothing else here changes without it."""
        return self.reads + self.writes

    def count(self, size: int, *, read: bool) -> None:
        """Count a request that was done; its data goes one way, a packet of words the other."""
        packets = -(-size // _PACKET_BYTES)
        if read:
            self.reads += 1
            self.received_bytes += size
            self.received_packets += packets
            self.transmitted_packets += 1
        else:
            self.writes += 1
            self.transmitted_bytes += size
            self.transmitted_packets += packets
            self.received_packets += 1


@dataclass(eq=False, slots=True)
class Netdev:
    """A network interface of the host; ``rdma`` is the RDMA device on it, if any.

    ``pci`` is its PCI function (``0000:3b:00.0``); without one it is virtual, and its RDMA
    device is soft-RoCE, else a Mellanox card's. ``speed`` is in Mb/s. What RDMA carries is
    counted apart: ``retries_exceeded`` is how often it gave a silent peer up.
    ``vendor_counters`` is how many counters the card has beyond those of the kernel's driver.
    """

    name: str
    address: str
    rdma: str = ""
    pci: str = ""
    speed: int = 10_000
    carrier: bool = True
    carrier_changes: int = 2
    plain: Flow = field(default_factory=Flow)
    roce: Flow = field(default_factory=Flow)
    retries_exceeded: int = 0
    vendor_counters: int = 0


@dataclass(eq=False, slots=True)
class Connection:
    """A path as configured: it outlives the controllers made for it one after the other.

    ``dropping`` and ``refusing`` are what is wrong with it; ``ana`` is the
    target's word on each ANA group, whether the host knows it yet or not.
    """

    subsystem: Subsystem
    path_id: PathId
    netdev: Netdev
    timeouts: Timeouts
    ana: dict[int, str]
    dropping: bool = False
    refusing: bool = False
    last_instance: int | None = None
    controller: Controller | None = None

    @property
    def silent(self) -> bool:
        """Whether packets vanish, so that nobody is told that they did."""
        return self.dropping or not self.netdev.carrier

    @property
    def answering(self) -> bool:
        """Whether a request would be answered."""
        return not self.silent and not self.refusing


@dataclass(eq=False, slots=True)
class Controller:
    """One ``nvmeX``.

    ``state`` is the kernel's own text; ``connected`` whether its queues are up;
    ``attempts`` those since the loss, ``reconnects`` all of them.
    """

    connection: Connection
    instance: int
    cntlid: int
    live_since: float
    state: str = "live"
    connected: bool = True
    resets: int = 0
    reconnects: int = 0
    attempts: int = 0
    failfast_expired: bool = False
    in_flight: int = 0
    paths: list[Path] = field(default_factory=list)
    timers: dict[str, Timer] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The kernel name, ``nvmeX``."""
        return f"nvme{self.instance}"

    @property
    def subsystem(self) -> Subsystem:
        """The subsystem it belongs to."""
        return self.connection.subsystem


@dataclass(eq=False, slots=True)
class Path:
    """One hidden ``nvmeScCnM`` disk.

    ``ana_state`` is what the host last read; ``ana_stale`` that a request was
    refused since, so that the kernel avoids the path until it has read again.
    """

    controller: Controller
    namespace: Namespace
    disk: str
    ana_state: str
    minor: int
    ana_stale: bool = False
    counters: DiskCounters = field(default_factory=DiskCounters)
    in_flight: dict[Request, None] = field(default_factory=dict)
    failovers: int = 0
    last_completion: float | None = None

    @property
    def usable(self) -> bool:
        """Whether the kernel sends new requests this way (``nvme_path_is_disabled``)."""
        return (
            self.controller.state in USABLE_CONTROLLER_STATES
            and not self.ana_stale
            and self.ana_state in USABLE_ANA_STATES
        )

    @property
    def optimized(self) -> bool:
        """Usable and preferred."""
        return self.usable and self.ana_state == "optimized"


@dataclass(eq=False, slots=True)
class Namespace:
    """A namespace of the target; ``head`` is the M of its ``nvmeSnM``, None while it has none.

    ``routes`` holds the paths that the policy chooses from (None: to be found
    anew), ``current`` the one chosen last, ``parked`` the requeue list.
    """

    subsystem: Subsystem
    nsid: int
    group: int
    size_bytes: int
    uuid: str
    enabled: bool = True
    head: int | None = None
    last_head: int | None = None
    minor: int = 0
    counters: DiskCounters = field(default_factory=DiskCounters)
    requeued: int = 0
    failed: int = 0
    paths: list[Path] = field(default_factory=list)
    routes: list[Path] | None = None
    current: Path | None = None
    turn: int = 0
    parked: list[Request] = field(default_factory=list)
    application: Application | None = None

    @property
    def disk(self) -> str:
        """The head's kernel name, ``""`` while there is none."""
        return "" if self.head is None else f"nvme{self.subsystem.instance}n{self.head}"


@dataclass(eq=False, slots=True)
class Subsystem:
    """One NQN; ``instance`` is the S of ``nvme-subsysS``, None while the host knows it not."""

    nqn: str
    model: str
    serial: str
    firmware: str
    iopolicy: str
    discovery: bool = False
    instance: int | None = None
    next_cntlid: int = 1
    connections: list[Connection] = field(default_factory=list)
    namespaces: list[Namespace] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The kernel name, ``nvme-subsysS``."""
        return f"nvme-subsys{self.instance}"

    @property
    def controllers(self) -> list[Controller]:
        """The controllers there are, in order of connection."""
        return [c.controller for c in self.connections if c.controller is not None]
