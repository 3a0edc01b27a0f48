"""The monitor: (snapshot, what was announced) in, meaning out.

Pure: no clock, file or thread. Feed it with snapshots in the order of their
monotonic times and read its records; a recording replayed gives the same
figures. It keeps what scrapes cannot see: what happened between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmeof_exporter.monitor.causes import Losses
from nvmeof_exporter.monitor.chronicle import Chronicle
from nvmeof_exporter.monitor.expectations import Expectations
from nvmeof_exporter.monitor.failover import FailoverTracker
from nvmeof_exporter.monitor.look import Journal, Look
from nvmeof_exporter.monitor.namespaces import SUSPICION_SECONDS, NamespaceWatch
from nvmeof_exporter.monitor.paths import PathWatch
from nvmeof_exporter.monitor.records import SubsystemRecord
from nvmeof_exporter.monitor.retiring import Retirement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nvmeof_exporter.model import Controller, Event, Snapshot, Subsystem
    from nvmeof_exporter.monitor.failover import Failback, Failover
    from nvmeof_exporter.monitor.records import NamespaceRecord, Occurrence
    from nvmeof_exporter.monitor.transitions import PathHistory

__all__ = ["Monitor"]


class Monitor:
    """Follows every subsystem of the node.

    Args:
        stall_threshold: pauses at least this long (seconds) are counted.
        expectations: which paths there should be.
        netdev_of: names the interface a path uses, ``""`` when not known.

    Attributes:
        subsystems: totals by nqn.
        superseded: by nqn, names of controllers that are not expected back.
        missing: by nqn, labels of paths that were there, or should be, and are not.
        occurrences: what happened, oldest first, as far back as is kept.
        attention: whether polls should be dense now.

    """

    def __init__(
        self,
        stall_threshold: float = 0.5,
        expectations: Expectations | None = None,
        netdev_of: Callable[[Controller], str] | None = None,
    ) -> None:
        self.expectations = expectations if expectations is not None else Expectations()
        self.subsystems: dict[str, SubsystemRecord] = {}
        self.missing: dict[str, list[str]] = {}
        self.superseded: dict[str, frozenset[str]] = {}
        self.occurrences = Chronicle()
        self.attention = False
        self._journal = Journal()
        self._paths = PathWatch(self._journal)
        self._namespaces = NamespaceWatch(self._journal, stall_threshold)
        self._losses = Losses(netdev_of or _given_interface)
        self._retirement = Retirement(self.expectations.known)
        self._trackers: dict[str, FailoverTracker] = {}
        self._newest: float | None = None

    @property
    def paths(self) -> dict[tuple[str, str], PathHistory]:
        """Histories by (nqn, path label)."""
        return self._paths.histories

    @property
    def namespaces(self) -> dict[tuple[str, str], NamespaceRecord]:
        """Totals by (nqn, nsid label)."""
        return self._namespaces.records

    def last_io(self, nqn: str, nsid: str) -> dict[str, float]:
        """When a request last truly completed on each path, by label (monotonic seconds)."""
        return self._namespaces.last_io(nqn, nsid)

    @property
    def log_readable(self) -> bool:
        """Whether the kernel log is heard, so that what it does not say did not happen."""
        return self._namespaces.log_readable

    @log_readable.setter
    def log_readable(self, readable: bool) -> None:
        self._namespaces.log_readable = readable

    def configure(self, stall_threshold: float) -> None:
        """Take over a new configuration."""
        self._namespaces.threshold = stall_threshold

    def observe(self, snapshot: Snapshot, events: Iterable[Event] = ()) -> list[Occurrence]:
        """Take the newest snapshot and what was announced since the previous one.

        A snapshot that is not newer than the previous one is ignored; what came
        with it is heard all the same.

        Returns:
            What happened, oldest first.

        """
        now = snapshot.monotonic
        heard = list(events)
        self._losses.hear(heard)
        self._paths.hear(heard)
        self._namespaces.hear(heard)
        before = self._newest if self._newest is not None else now
        if self._newest is not None and now <= before:
            return []
        self._newest = now
        self._paths.pass_time(now - before)
        by_nqn: dict[str, list[Subsystem]] = {}
        for subsystem in snapshot.subsystems:
            by_nqn.setdefault(subsystem.nqn, []).append(subsystem)
        for nqn in sorted(by_nqn.keys() | self.expectations.nqns() | self._trackers.keys()):
            self._observe_subsystem(Look.at(nqn, by_nqn.get(nqn, ()), snapshot, before))
            if nqn not in by_nqn and nqn not in self.expectations.nqns():
                self._drop(nqn)
        self._namespaces.heed()
        news = self._journal.take()
        self.occurrences.extend(news)
        self.attention = self._journal.is_alert(now) or self._namespaces.is_suspicious(now)
        return news

    def _observe_subsystem(self, look: Look) -> None:
        if look.nqn not in self._trackers:
            self.subsystems[look.nqn] = SubsystemRecord()
            self._trackers[look.nqn] = FailoverTracker()
        record, tracker = self.subsystems[look.nqn], self._trackers[look.nqn]
        known = self.expectations.known.get(look.nqn)
        remembered = known.paths if known is not None else ()
        renewed = self._paths.observe(look, remembered, record.outages)
        views = self._namespaces.observe(look, renewed, record.pauses)
        self._losses.observe(look, views)
        failover, failbacks = tracker.observe(views, look.before, look.now)
        if failover is not None:
            self._count_failover(look, record, failover)
        for failback in failbacks:
            self._count_failback(look, record, failback)
        record.in_progress = tracker.in_progress or self._namespaces.a_path_stalls(look)
        if tracker.in_progress or tracker.settling:
            self._journal.alert(look.now + SUSPICION_SECONDS)
        self._observe_expectations(look)

    def _count_failover(self, look: Look, record: SubsystemRecord, failover: Failover) -> None:
        causes = {
            str(path): self._losses.cause(look.nqn, path, look.now, log_readable=self.log_readable)
            for path in failover.paths
        }
        (label, cause), *also = causes.items()
        fields: dict[str, str | float] = {"path": label, "cause": cause}
        if also:
            fields["also"] = " ".join(other for other, _ in also)
        span = None
        if failover.duration is not None and failover.end is not None:
            span = (failover.end - failover.duration, failover.end)
            fields["seconds"] = round(failover.duration, 3)
            fields["detection_seconds"] = round(failover.detection, 3)
            fields["reroute_seconds"] = round(failover.reroute, 3)
        record.count_failover(causes, failover, wall=look.wall, now=look.now)
        self._journal.tell(look, "failover", severe=True, span=span, **fields)

    def _count_failback(self, look: Look, record: SubsystemRecord, failback: Failback) -> None:
        label = str(failback.path)
        record.count_failback(label, failback)
        fields: dict[str, str | float] = {"path": label}
        if failback.reconnect is not None and failback.failback is not None:
            fields["reconnect_seconds"] = round(failback.reconnect, 3)
            fields["failback_seconds"] = round(failback.failback, 3)
        self._journal.tell(look, "failback", severe=False, span=None, **fields)

    def _observe_expectations(self, look: Look) -> None:
        nqn = look.nqn
        known = self.expectations.known.get(nqn)
        retiring = self._retirement.observe(look, known, self._paths.histories)
        present = look.controllers.keys()
        self.expectations.observe(nqn, present, retiring, wall=look.wall, now=look.now)
        self.superseded[nqn] = frozenset(
            look.controllers[path].name for path in retiring if path in look.controllers
        )
        self.missing[nqn] = self.expectations.missing(nqn, look.controllers)
        known = self.expectations.known.get(nqn)
        if known is not None:
            self.subsystems[nqn].keep_paths({str(path) for path in known.paths})
            self._trackers[nqn].keep_paths(known.paths)

    def _drop(self, nqn: str) -> None:
        """Forget a subsystem that is gone and not expected back."""
        self._paths.drop(nqn)
        self._namespaces.drop(nqn)
        self._losses.drop(nqn)
        self._retirement.drop(nqn)
        del self.subsystems[nqn], self._trackers[nqn], self.missing[nqn], self.superseded[nqn]


def _given_interface(controller: Controller) -> str:
    return controller.path.host_iface
