"""What the view of a node is made of; ``docs/api.md`` explains every field to its users.

Times are wall-clock seconds since the epoch, durations seconds. None (``null``) is "not
known" or "does not apply", never zero; texts are as the kernel shows them, so whoever
prints them must make them harmless first.
"""

from __future__ import annotations

from typing import Literal

import msgspec

# Annotations are read when a view is decoded.
from nvmeof_exporter.policy.report import Told  # noqa: TC001

__all__ = [
    "FORMAT",
    "CollectorView",
    "FailoverView",
    "HealthView",
    "HostView",
    "IoView",
    "NamespacePathView",
    "NamespaceView",
    "NodeView",
    "PathHistoryView",
    "PathView",
    "PolicyView",
    "PollView",
    "RedundancyView",
    "SettingsView",
    "SubsystemView",
]

#: The format of the structure; it grows when a field changes its meaning or goes.
FORMAT = 1


class _Struct(msgspec.Struct, frozen=True):
    """A part of the view."""


class PollView(_Struct, frozen=True, kw_only=True):
    """How fresh the view is. ``interval_seconds`` is None when nothing polls."""

    time: float
    age_seconds: float
    interval_seconds: float | None


class CollectorView(_Struct, frozen=True, kw_only=True):
    """One source of the exporter: whether it works, and how often it could not be read."""

    name: str
    success: bool
    errors: int


class HealthView(_Struct, frozen=True, kw_only=True):
    """Whether the exporter does its work; ``problem`` says why not."""

    healthy: bool
    problem: str | None
    collectors: tuple[CollectorView, ...]


class HostView(_Struct, frozen=True, kw_only=True):
    """A host NQN and host ID that this node presents; it has several where they differ."""

    hostnqn: str
    hostid: str


class RedundancyView(_Struct, frozen=True, kw_only=True):
    """How the subsystem would take the next failure.

    ``level`` is one of ``monitor.redundancy.LEVELS``, None where that cannot be told.
    ``verdict`` says it in a sentence. ``connected`` paths the kernel shows, ``usable`` ones
    can carry I/O for every namespace they hold, ``expected`` is how many there should be.
    """

    level: str | None
    verdict: str
    connected: int
    usable: int
    expected: int | None


class SettingsView(_Struct, frozen=True, kw_only=True):
    """Time-outs and queues of a path; ``off`` where the kernel never gives up."""

    keep_alive_timeout_seconds: float | Literal["off"] | None
    ctrl_loss_timeout_seconds: float | Literal["off"] | None
    reconnect_delay_seconds: float | Literal["off"] | None
    fast_io_fail_timeout_seconds: float | Literal["off"] | None
    io_timeout_seconds: float | Literal["off"] | None
    queues: int | None


class PathHistoryView(_Struct, frozen=True, kw_only=True):
    """How a path fared since ``watched_since``, when the exporter first saw it.

    ``errors`` are those that the kernel log told, by cause. ``timeline`` holds when each state
    of the last hour began, and which it was; ``missing`` is one too.
    """

    watched_since: float
    transitions: int
    resets: int
    reconnect_attempts: int
    errors: dict[str, int]
    timeline: tuple[tuple[float, str], ...]


class PathView(_Struct, frozen=True, kw_only=True):
    """One path, also one that is missing: then only what is remembered of it is filled.

    ``state`` is one of ``model.PATH_STATES``, None when it could not be read; ``raw_state``
    is the kernel's own word. ``since`` is when the state was entered, None when nobody saw
    that. ``ana`` counts the namespaces by ANA state, ``conditions`` by what the path is to
    them (``monitor.redundancy.CONDITIONS``). ``usable``: it can carry I/O for every namespace
    it holds. ``carries_io``: the newest requests of a namespace went over it.
    ``stalled_seconds``: how long requests on it have stood still, 0 when they move or there
    are none. What follows ``subnet`` is what the path runs over, as far as it is known.
    """

    path: str
    state: str | None
    raw_state: str | None = None
    since: float | None = None
    last_seen: float | None = None
    superseded: bool = False
    usable: bool | None = None
    conditions: dict[str, int] | None = None
    ana: dict[str, int] | None = None
    carries_io: bool | None = None
    stalled_seconds: float | None = None
    controller: str | None = None
    cntlid: str | None = None
    transport: str | None = None
    traddr: str | None = None
    trsvcid: str | None = None
    host_traddr: str | None = None
    host_iface: str | None = None
    src_addr: str | None = None
    subnet: str | None = None
    netdev: str | None = None
    members: tuple[str, ...] = ()
    nics: tuple[str, ...] = ()
    rdma_device: str | None = None
    rdma_port: str | None = None
    switches: tuple[str, ...] = ()
    link_up: bool | None = None
    settings: SettingsView | None = None
    history: PathHistoryView | None = None


class IoView(_Struct, frozen=True, kw_only=True):
    """I/O of a path or namespace since the kernel counts: requests, bytes, and those in flight."""

    reads: int
    read_bytes: int
    writes: int
    written_bytes: int
    in_flight: int | None


class NamespacePathView(_Struct, frozen=True, kw_only=True):
    """One way to a namespace. ``path`` names the path of the subsystem.

    ``ana_state`` is None without ANA or when it could not be read, ``condition`` None when
    too little could. ``last_io`` is when a request last completed here.
    """

    path: str
    controller: str
    disk: str
    ana_state: str | None
    condition: str | None
    usable: bool | None
    carries_io: bool | None
    last_io: float | None
    stalled_seconds: float | None
    io: IoView | None


class NamespaceView(_Struct, frozen=True, kw_only=True):
    """What applications open. ``devices`` is the head, or the plain disks where there is none.

    ``conditions`` counts the paths by what they are to it, None when too little could be
    read. ``stalled_seconds``: how long I/O that is wanted has stood still by now, 0 when it
    flows or nobody wants any, None while it may wait since before the exporter started.
    """

    nsid: str
    devices: tuple[str, ...]
    wwid: str | None
    size_bytes: int | None
    conditions: dict[str, int] | None
    stalled_seconds: float | None
    last_io: float | None
    requeued: int | None
    failed: int | None
    io: IoView | None
    paths: tuple[NamespacePathView, ...]


class FailoverView(_Struct, frozen=True, kw_only=True):
    """A failover that is over. ``also`` are further paths that I/O left by the same event.

    ``start`` is when the last request completed on ``path``, ``seconds`` how long until the
    next one elsewhere; None when no I/O took part. ``phases`` holds what is known of
    ``detection``, ``reroute``, ``reconnect`` and ``failback`` (seconds).
    """

    time: float
    start: float | None
    path: str
    also: tuple[str, ...]
    cause: str
    seconds: float | None
    phases: dict[str, float]


class SubsystemView(_Struct, frozen=True, kw_only=True):
    """One NQN, all directories that the kernel has of it together.

    ``directories`` are their names, none when the subsystem is gone. ``iopolicy`` holds
    every one that is set. ``shared`` tells how many of each resource
    (``monitor.shared_fate.RESOURCES``) its paths run over, None where that is not known; 1
    is a single point of failure. ``failovers`` are the newest, newest first; like
    ``failover_in_progress`` None when nobody watched.
    """

    nqn: str
    directories: tuple[str, ...]
    model: str | None
    serial: str | None
    firmware: str | None
    iopolicy: str | None
    multipath: bool
    redundancy: RedundancyView
    shared: dict[str, int | None]
    failover_in_progress: bool | None
    failovers: tuple[FailoverView, ...] | None
    paths: tuple[PathView, ...]
    namespaces: tuple[NamespaceView, ...]


class PolicyView(_Struct, frozen=True, kw_only=True):
    """How the node keeps its policy: as ``check`` tells it, only the violations in full."""

    name: str
    status: str
    counts: dict[str, int]
    violations: tuple[Told, ...]


class NodeView(_Struct, frozen=True, kw_only=True):
    """The whole node.

    ``source`` is ``exporter`` or, when the tree was read for the occasion, ``sysfs``: all
    that only a watcher knows is None then. ``instance`` names this run of the exporter;
    numbers of events mean nothing in another one.
    """

    format: int
    version: str
    source: Literal["exporter", "sysfs"]
    node: str
    sysfs: str
    instance: str | None
    started: float | None
    time: float
    poll: PollView
    health: HealthView | None
    multipath_enabled: bool | None
    discovery_controllers: int
    hosts: tuple[HostView, ...]
    subsystems: tuple[SubsystemView, ...]
    policy: PolicyView
