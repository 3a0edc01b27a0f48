"""The monitor: (snapshot, what was announced) in, meaning out.

Pure: no clock, file or thread. Feed it with snapshots in the order of their
monotonic times and read its records; a recording replayed gives the same
figures. It keeps what scrapes cannot see: what happened between them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from nvmeof_exporter.model import EventKind
from nvmeof_exporter.monitor.causes import Evidence, LossSigns
from nvmeof_exporter.monitor.expectations import Expectations
from nvmeof_exporter.monitor.failover import Failover, FailoverTracker, NamespaceView
from nvmeof_exporter.monitor.records import NamespaceRecord, Occurrence, SubsystemRecord
from nvmeof_exporter.monitor.stall import NamespaceProgress
from nvmeof_exporter.monitor.transitions import PathHistory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nvmeof_exporter.model import Controller, Event, Namespace, PathId, Snapshot, Subsystem
    from nvmeof_exporter.monitor.stall import Pause

__all__ = ["Monitor"]

#: Occurrences kept for whoever asks.
_KEPT_OCCURRENCES = 1000

#: In flight without progress for this long (seconds) is worth a closer look.
_SUSPICION_SECONDS = 0.15

#: After a change of state or ANA state, polls stay dense for this long (seconds).
_AFTERMATH_SECONDS = 2.0

#: How far before the last completion a cause may have been announced (seconds).
_CAUSE_LEAD_SECONDS = 2.0


class Monitor:
    """Follows every subsystem of the node.

    Args:
        stall_threshold: pauses at least this long (seconds) are counted.
        expectations: which paths there should be.
        netdev_of: names the interface a path uses, ``""`` when not known.

    Attributes:
        paths: histories by (nqn, path label).
        subsystems: totals by nqn.
        namespaces: totals by (nqn, nsid label).
        superseded: by nqn, names of controllers that are not expected back.
        missing: by nqn, labels of paths that should be there and are not.

    """

    def __init__(
        self,
        stall_threshold: float = 0.5,
        expectations: Expectations | None = None,
        netdev_of: Callable[[Controller], str] | None = None,
    ) -> None:
        self.expectations = expectations if expectations is not None else Expectations()
        self.paths: dict[tuple[str, str], PathHistory] = {}
        self.subsystems: dict[str, SubsystemRecord] = {}
        self.namespaces: dict[tuple[str, str], NamespaceRecord] = {}
        self.missing: dict[str, list[str]] = {}
        self.superseded: dict[str, frozenset[str]] = {}
        self.occurrences: deque[Occurrence] = deque(maxlen=_KEPT_OCCURRENCES)
        self.log_readable = False
        self.attention = False
        self._threshold = stall_threshold
        self._netdev_of = netdev_of or (lambda controller: controller.path.host_iface)
        self._evidence = Evidence()
        self._progress: dict[tuple[str, str], NamespaceProgress] = {}
        self._trackers: dict[str, FailoverTracker] = {}
        self._signs: dict[tuple[str, PathId], LossSigns] = {}
        self._controllers: dict[tuple[str, PathId], Controller] = {}
        self._previous: Snapshot | None = None
        self._alert_until = 0.0
        self._news: list[Occurrence] = []

    def configure(self, stall_threshold: float) -> None:
        """Take over a new configuration."""
        self._threshold = stall_threshold

    def observe(self, snapshot: Snapshot, events: Iterable[Event] = ()) -> list[Occurrence]:
        """Take the newest snapshot and what was announced since the previous one.

        A snapshot that is not newer than the previous one is ignored.

        Returns:
            What happened, oldest first.

        """
        before = self._previous
        now = snapshot.monotonic
        if before is not None and now <= before.monotonic:
            return []
        since = before.monotonic if before is not None else now
        self._news = []
        heard = list(events)
        self._evidence.add(heard)
        by_nqn: dict[str, list[Subsystem]] = {}
        for subsystem in snapshot.subsystems:
            by_nqn.setdefault(subsystem.nqn, []).append(subsystem)
        for history in self.paths.values():
            history.pass_time(now - since)
        self._hear(heard)
        named = {e.device: e.kind for e in heard if e.kind in _HEAD_EVENTS}
        for nqn in sorted(by_nqn.keys() | self.expectations.nqns() | self._trackers.keys()):
            self._observe_subsystem(nqn, by_nqn.get(nqn, []), snapshot, since, named)
        self._previous = snapshot
        self.occurrences.extend(self._news)
        self.attention = now < self._alert_until or self._is_suspicious(now)
        return self._news

    # -- one subsystem NQN ---------------------------------------------------------------

    def _observe_subsystem(
        self,
        nqn: str,
        subsystems: list[Subsystem],
        snapshot: Snapshot,
        since: float,
        named: dict[str, EventKind],
    ) -> None:
        now, wall = snapshot.monotonic, snapshot.wall
        record = self.subsystems.setdefault(nqn, SubsystemRecord())
        tracker = self._trackers.setdefault(nqn, FailoverTracker())
        controllers = {c.path: c for s in subsystems for c in s.controllers}
        namespaces = {n.nsid: n for s in subsystems for n in s.namespaces}
        renewed = self._observe_paths(nqn, controllers, namespaces, now, wall)
        views = self._observe_namespaces(nqn, namespaces, since, now, wall, renewed, named)
        self._note_losses(nqn, controllers, views, now)
        failover, failbacks = tracker.observe(views, since, now)
        if failover is not None:
            self._count_failover(nqn, record, failover, now, wall)
        for failback in failbacks:
            label = str(failback.path)
            record.failbacks[label] = record.failbacks.get(label, 0) + 1
            if failback.reconnect is not None and failback.failback is not None:
                record.phases["reconnect"].observe(failback.reconnect)
                record.phases["failback"].observe(failback.failback)
            self._tell(wall, "failback", nqn, path=label)
        record.in_progress = tracker.in_progress or self._path_stalled(nqn, namespaces)
        self._observe_expectations(nqn, controllers, namespaces, wall)
        if tracker.in_progress or tracker.settling:
            self._alert_until = max(self._alert_until, now + _SUSPICION_SECONDS)
        if not subsystems and nqn not in self.expectations.nqns():
            self._drop_subsystem(nqn)

    def _observe_paths(
        self,
        nqn: str,
        controllers: dict[PathId, Controller],
        namespaces: dict[str, Namespace],
        now: float,
        wall: float,
    ) -> set[str]:
        """Follow the states; returns the names of controllers that reconnected unseen."""
        renewed = set()
        known = self.expectations.known.get(nqn)
        labels = {str(path): controllers.get(path) for path in (known.paths if known else ())}
        labels.update({str(path): controller for path, controller in controllers.items()})
        for label, controller in labels.items():
            key = (nqn, label)
            history = self.paths.get(key)
            if history is None:
                history = self.paths[key] = PathHistory(controller, now)
                continue
            transition, outage = history.observe(controller, now, wall)
            if history.renewed and controller is not None:
                renewed.add(controller.name)
            if outage is not None:
                self.subsystems[nqn].outages.observe(outage)
            if transition is not None:
                self._alert_until = now + _AFTERMATH_SECONDS
                self._tell(
                    wall,
                    "path state changed",
                    nqn,
                    severe=transition.after not in {"live", "new"},
                    path=label,
                    controller=controller.name if controller is not None else "",
                    old=transition.old,
                    new=transition.after,
                    old_seconds=round(transition.duration, 3),
                )
        for key in [k for k in self.paths if k[0] == nqn and k[1] not in labels]:
            del self.paths[key]
        self._observe_ana(nqn, namespaces, now, wall)
        return renewed

    def _observe_ana(
        self, nqn: str, namespaces: dict[str, Namespace], now: float, wall: float
    ) -> None:
        for nsid, namespace in namespaces.items():
            for path in namespace.paths:
                history = self.paths.get((nqn, str(path.controller.path)))
                if history is None:
                    continue
                old = history.observe_ana(nsid, path.ana_state)
                if old is not None:
                    self._alert_until = now + _AFTERMATH_SECONDS
                    self._tell(
                        wall,
                        "ANA state changed",
                        nqn,
                        nsid=nsid,
                        path=str(path.controller.path),
                        controller=path.controller.name,
                        old=old,
                        new=path.ana_state or "",
                    )

    def _observe_namespaces(
        self,
        nqn: str,
        namespaces: dict[str, Namespace],
        since: float,
        now: float,
        wall: float,
        renewed: set[str],
        named: dict[str, EventKind],
    ) -> dict[str, NamespaceView]:
        views = {}
        for nsid, namespace in namespaces.items():
            key = (nqn, nsid)
            progress = self._progress.setdefault(key, NamespaceProgress())
            record = self.namespaces.setdefault(key, NamespaceRecord())
            announced = named.get(namespace.device) if namespace.device else None
            step = progress.observe(
                namespace,
                since,
                now,
                renewed=renewed,
                requeued=announced is EventKind.REQUEUED,
                failed=announced is EventKind.FAILED,
            )
            record.observe(namespace, step, log_readable=self.log_readable)
            if announced is not None:
                record.announced(requeued=announced is EventKind.REQUEUED)
            self._publish_stalls(record, progress, now)
            if step.pause is not None:
                self._count_pause(nqn, nsid, step.pause, wall)
            views[nsid] = NamespaceView(progress, step)
        for key in [k for k in self._progress if k[0] == nqn and k[1] not in namespaces]:
            pause = self._progress.pop(key).vanish(now)
            self.namespaces.pop(key, None)
            if pause is not None:
                self._count_pause(nqn, key[1], pause, wall)
        return views

    def _publish_stalls(
        self, record: NamespaceRecord, progress: NamespaceProgress, now: float
    ) -> None:
        stalled = progress.stalled_for(now)
        record.stalled = stalled if stalled >= self._threshold else 0.0
        record.path_stalled = {}
        for path, own in progress.paths.items():
            waiting = now - own.stalled_since if own.stalled_since is not None else 0.0
            record.path_stalled[str(path)] = waiting if waiting >= self._threshold else 0.0

    def _count_pause(self, nqn: str, nsid: str, pause: Pause, wall: float) -> None:
        if pause.duration < self._threshold:
            return
        self.subsystems[nqn].pauses.observe(pause.duration)
        self._tell(
            wall,
            "I/O paused",
            nqn,
            severe=True,
            nsid=nsid,
            seconds=round(pause.duration, 3),
            outcome=pause.outcome,
        )

    # -- failovers -----------------------------------------------------------------------

    def _note_losses(
        self,
        nqn: str,
        controllers: dict[PathId, Controller],
        views: dict[str, NamespaceView],
        now: float,
    ) -> None:
        """Keep what the snapshots show of each loss, for telling its cause later."""
        for view in views.values():
            for path, step in view.step.paths.items():
                if not step.lost:
                    continue
                controller = controllers.get(path)
                last = self._controllers.get((nqn, path))
                known = controller or last
                if known is None:
                    continue
                waited = step.last_true if step.last_true is not None else now
                self._signs[nqn, path] = LossSigns(
                    known.name,
                    self._netdev_of(known),
                    min(waited, now) - _CAUSE_LEAD_SECONDS,
                    ana=controller is not None and controller.usable,
                    gone=controller is None,
                )
        for (owner, path), signs in self._signs.items():
            controller = controllers.get(path) if owner == nqn else None
            if controller is not None and controller.state is not None:
                signs.states.add(controller.state)
        for path, controller in controllers.items():
            self._controllers[nqn, path] = controller

    def _count_failover(
        self, nqn: str, record: SubsystemRecord, failover: Failover, now: float, wall: float
    ) -> None:
        label = str(failover.path)
        signs = self._signs.pop((nqn, failover.path), None)
        cause = self._evidence.cause(signs, now) if signs is not None else "unknown"
        record.failovers[label, cause] = record.failovers.get((label, cause), 0) + 1
        fields: dict[str, str | float] = {"path": label, "cause": cause}
        if failover.duration is not None:
            record.durations.observe(failover.duration)
            record.phases["detection"].observe(failover.detection)
            record.phases["reroute"].observe(failover.reroute)
            record.last_duration = failover.duration
            record.last_timestamp = wall - (now - (failover.end or now))
            fields["seconds"] = round(failover.duration, 3)
            fields["detection_seconds"] = round(failover.detection, 3)
            fields["reroute_seconds"] = round(failover.reroute, 3)
        self._tell(wall, "failover", nqn, severe=True, **fields)

    # -- what there should be ------------------------------------------------------------

    def _observe_expectations(
        self,
        nqn: str,
        controllers: dict[PathId, Controller],
        namespaces: dict[str, Namespace],
        wall: float,
    ) -> None:
        retiring = self._retiring(nqn, controllers, namespaces)
        self.expectations.observe(nqn, controllers.keys(), retiring, wall)
        self.superseded[nqn] = frozenset(
            controllers[path].name for path in retiring if path in controllers
        )
        self.missing[nqn] = self.expectations.missing(nqn, controllers)

    def _retiring(
        self, nqn: str, controllers: dict[PathId, Controller], namespaces: dict[str, Namespace]
    ) -> set[PathId]:
        """Find the paths whose successors took over, so that they are not expected back.

        Such a path was inaccessible in every namespace when it was lost, while
        a *younger* path carries on: a gateway was replaced, not lost. A path
        already retiring stays so until it is live again.
        """
        known = self.expectations.known.get(nqn)
        if known is None:
            return set()
        usable = {p.controller.path for n in namespaces.values() for p in n.paths if p.usable}
        youngest = max(
            (known.paths[path].first_seen for path in usable if path in known.paths), default=None
        )
        retiring = set()
        for path, entry in known.paths.items():
            controller = controllers.get(path)
            if controller is not None and controller.state == "live":
                continue
            if entry.retiring_since is not None:
                retiring.add(path)
                continue
            history = self.paths.get((nqn, str(path)))
            inaccessible = bool(history and history.ana) and all(
                state == "inaccessible" for state in (history.ana.values() if history else ())
            )
            if inaccessible and youngest is not None and youngest > entry.first_seen:
                retiring.add(path)
        return retiring

    # -- small things --------------------------------------------------------------------

    def _hear(self, events: list[Event]) -> None:
        """Let each path's history count what was announced of its controller."""
        if not events:
            return
        owners = {c.name: (nqn, str(path)) for (nqn, path), c in self._controllers.items()}
        for event in events:
            owner = owners.get(event.device)
            history = self.paths.get(owner) if owner is not None else None
            if history is not None:
                history.announce(event)

    def _path_stalled(self, nqn: str, namespaces: dict[str, Namespace]) -> bool:
        return any(
            any(self.namespaces[nqn, nsid].path_stalled.values())
            for nsid, namespace in namespaces.items()
            if len(namespace.paths) > 1
        )

    def _is_suspicious(self, now: float) -> bool:
        for progress in self._progress.values():
            if progress.stalled_for(now) > _SUSPICION_SECONDS:
                return True
            for own in progress.paths.values():
                since = own.stalled_since
                if since is not None and now - since > _SUSPICION_SECONDS:
                    return True
        return False

    def _drop_subsystem(self, nqn: str) -> None:
        """Forget a subsystem that is gone and not expected back."""
        for totals in (self.subsystems, self._trackers, self.missing, self.superseded):
            totals.pop(nqn, None)  # type: ignore[attr-defined]
        for key in [k for k in self.paths if k[0] == nqn]:
            del self.paths[key]
        for gone in [k for k in self._controllers if k[0] == nqn]:
            del self._controllers[gone]
        for gone in [k for k in self._signs if k[0] == nqn]:
            del self._signs[gone]

    def _tell(
        self, wall: float, kind: str, nqn: str, *, severe: bool = False, **fields: str | float
    ) -> None:
        self._news.append(Occurrence(wall, kind, nqn, fields, severe))


_HEAD_EVENTS = frozenset({EventKind.REQUEUED, EventKind.FAILED})
