"""What the monitor has found out so far, as the collector publishes it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING

from nvmeof_exporter.model import IoCounters
from nvmeof_exporter.monitor.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

    from nvmeof_exporter.model import Namespace, NamespacePath
    from nvmeof_exporter.monitor.failover import Failback, Failover
    from nvmeof_exporter.monitor.pace import NamespaceStep

__all__ = [
    "PHASES",
    "NamespaceRecord",
    "Occurrence",
    "SubsystemRecord",
    "ToldFailover",
    "published_of",
]

_NOTHING = IoCounters(*[0] * 11)

PHASES = ("detection", "reroute", "reconnect", "failback")

#: The newest failovers of a subsystem that are kept with all that is known of them.
_KEPT_FAILOVERS = 10


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Something that happened: for the log and whoever asks for recent events.

    ``kind`` is a few words (``path state changed``); ``fields`` hold texts and numbers.
    ``number`` counts up from 1. ``start`` and ``end`` of what lasted, and ``wall``, when it
    was told, are wall-clock seconds.
    """

    wall: float
    kind: str
    nqn: str
    fields: dict[str, str | float]
    severe: bool = False
    number: int = 0
    start: float | None = None
    end: float | None = None


@dataclass(frozen=True, slots=True)
class ToldFailover:
    """A failover that is over, as it is told. Times are wall-clock seconds.

    ``wall`` is when it was told. What follows ``cause`` is None where no I/O took part;
    ``reconnect`` and ``failback`` (seconds) also until I/O is back on ``path``.
    """

    wall: float
    path: str
    also: tuple[str, ...]
    cause: str
    start: float | None = None
    duration: float | None = None
    detection: float | None = None
    reroute: float | None = None
    reconnect: float | None = None
    failback: float | None = None


@dataclass(slots=True)
class SubsystemRecord:
    """Totals of one NQN. ``failovers`` goes by (path label, cause), ``failbacks`` by path label."""

    outages: Histogram = field(default_factory=Histogram)
    durations: Histogram = field(default_factory=Histogram)
    phases: dict[str, Histogram] = field(
        default_factory=lambda: {phase: Histogram() for phase in PHASES}
    )
    pauses: Histogram = field(default_factory=Histogram)
    failovers: dict[tuple[str, str], int] = field(default_factory=dict)
    failbacks: dict[str, int] = field(default_factory=dict)
    last_duration: float | None = None
    last_timestamp: float | None = None
    in_progress: bool = False
    newest: deque[ToldFailover] = field(default_factory=lambda: deque(maxlen=_KEPT_FAILOVERS))

    def count_failover(
        self, causes: Mapping[str, str], failover: Failover, *, wall: float, now: float
    ) -> None:
        """Count one that is over: for each path that I/O left, and timed once.

        ``causes`` goes by path label; ``wall`` and ``now`` are the same moment on both clocks.
        """
        for key in causes.items():
            self.failovers[key] = self.failovers.get(key, 0) + 1
        (path, cause), *also = causes.items()
        told = ToldFailover(wall, path, tuple(other for other, _ in also), cause)
        if failover.duration is None or failover.end is None:
            self.newest.append(told)
            return
        self.newest.append(
            replace(
                told,
                start=wall - (now - failover.end) - failover.duration,
                duration=failover.duration,
                detection=failover.detection,
                reroute=failover.reroute,
            )
        )
        self.durations.observe(failover.duration)
        self.phases["detection"].observe(failover.detection)
        self.phases["reroute"].observe(failover.reroute)
        self.last_duration = failover.duration
        self.last_timestamp = wall - (now - failover.end)

    def count_failback(self, label: str, failback: Failback) -> None:
        """Count that I/O is back on a path; the phases where they are known."""
        self.failbacks[label] = self.failbacks.get(label, 0) + 1
        if failback.reconnect is not None and failback.failback is not None:
            self.phases["reconnect"].observe(failback.reconnect)
            self.phases["failback"].observe(failback.failback)
            self._complete(label, failback.reconnect, failback.failback)

    def _complete(self, label: str, reconnect: float, failback: float) -> None:
        """Add the last phases to the newest failover that the path had."""
        for index in reversed(range(len(self.newest))):
            told = self.newest[index]
            if told.path == label:
                self.newest[index] = replace(told, reconnect=reconnect, failback=failback)
                return

    def keep_paths(self, labels: Container[str]) -> None:
        """Drop the counts of paths that are not known any more."""
        for key in [key for key in self.failovers if key[0] not in labels]:
            del self.failovers[key]
        for label in [label for label in self.failbacks if label not in labels]:
            del self.failbacks[label]


class NamespaceRecord:
    """Totals of one namespace: its I/O, and what found no path.

    The kernel counts I/O on the head since 6.2 or so. Before, the head's
    counters stay 0 for ever; then the paths' are added up as they grow,
    cancelled requests left out. Which of both it is, the data tell: a head
    that counted once counts always.
    """

    __slots__ = (
        "_failed",
        "_head_counts",
        "_paths",
        "_requeued",
        "_sum",
        "failed",
        "io",
        "path_stalled",
        "requeued",
        "stalled",
    )

    #: Fields of IoCounters that are published.
    FIELDS = ("reads", "read_sectors", "read_ms", "writes", "write_sectors", "write_ms")

    def __init__(self) -> None:
        self._head_counts = False
        self._sum = [0] * len(self.FIELDS)
        self._paths: dict[str, IoCounters] = {}
        self._requeued: int | None = None
        self._failed: int | None = None
        #: The six published totals in the kernel's units, None when nothing can be read.
        self.io: list[int] | None = None
        self.requeued: int | None = None
        self.failed: int | None = None
        self.stalled: float | None = 0.0
        self.path_stalled: dict[str, float] = {}

    def observe(self, namespace: Namespace, step: NamespaceStep, *, log_readable: bool) -> None:
        """Take the newest counters; ``log_readable``: the kernel log can serve as a source."""
        readable = namespace.io is not None
        for path in namespace.paths:
            if path.io is not None:
                readable = True
                if not self._head_counts:
                    self._add(path, path.io, step)
        if not self._head_counts:
            for disk in self._paths.keys() - {path.disk for path in namespace.paths}:
                del self._paths[disk]
        head = namespace.io
        if head is not None and (head.reads or head.writes):
            self._head_counts = True
        if self._head_counts:
            self.io = list(published_of(head)) if head is not None else None
        else:
            self.io = list(self._sum) if readable else None
        self.requeued, self._requeued = _grow(self.requeued, self._requeued, namespace.requeued)
        self.failed, self._failed = _grow(self.failed, self._failed, namespace.failed)
        if log_readable:
            self.requeued = self.requeued or 0
            self.failed = self.failed or 0

    def announced(self, *, requeued: int, failed: int) -> None:
        """Count lines of the kernel log, unless the kernel's own counter is there."""
        if requeued and self._requeued is None:
            self.requeued = (self.requeued or 0) + requeued
        if failed and self._failed is None:
            self.failed = (self.failed or 0) + failed

    def _add(self, path: NamespacePath, io: IoCounters, step: NamespaceStep) -> None:
        before = self._paths.get(path.disk)
        if before is io:
            return
        self._paths[path.disk] = io
        if before is None or io.completed < before.completed:
            # A disk that was not there before: all it counted is this namespace's.
            before = _NOTHING
        else:
            own = step.paths.get(path.controller.path)
            if own is not None and own.cancelled and not own.true:
                return
        grown = zip(self._sum, published_of(io), published_of(before), strict=True)
        self._sum = [total + max(new - old, 0) for total, new, old in grown]


#: Returns the published fields of IoCounters, in the order of NamespaceRecord.FIELDS.
published_of: Callable[[IoCounters], tuple[int, ...]] = attrgetter(*NamespaceRecord.FIELDS)


def _grow(total: int | None, before: int | None, now: int | None) -> tuple[int | None, int | None]:
    """Let a total follow a kernel counter that root may reset."""
    if now is None:
        return total, before
    if total is None or before is None:
        return max(total or 0, now), now
    return total + (now - before if now >= before else now), now
