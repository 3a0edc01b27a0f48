"""The I/O of every namespace: whether it moves, how long it paused, what it adds up to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmeof_exporter.model import EventKind
from nvmeof_exporter.monitor.pace import NamespaceStep
from nvmeof_exporter.monitor.records import NamespaceRecord
from nvmeof_exporter.monitor.share import NamespaceView
from nvmeof_exporter.monitor.stall import Announced, NamespaceProgress

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nvmeof_exporter.model import Event
    from nvmeof_exporter.monitor.histogram import Histogram
    from nvmeof_exporter.monitor.look import Journal, Look
    from nvmeof_exporter.monitor.stall import Pause

__all__ = ["SUSPICION_SECONDS", "NamespaceWatch"]

#: In flight without progress for this long (seconds) is worth a closer look.
SUSPICION_SECONDS = 0.15

_HEAD_EVENTS = frozenset({EventKind.REQUEUED, EventKind.FAILED})

#: The kernel says these at the moment in which a controller leaves ``live``.
_GIVES_UP = frozenset({EventKind.ERROR_RECOVERY, EventKind.RESETTING, EventKind.REMOVING})

#: The step of a namespace that looks as it did and waits for nothing: most of the time.
_NOTHING = NamespaceStep()


class NamespaceWatch:
    """Follows every namespace that has a head or a disk.

    Attributes:
        records: totals by (nqn, nsid label).
        threshold: pauses at least this long (seconds) are counted.
        log_readable: whether the kernel log can serve as a source of counts.

    """

    def __init__(self, journal: Journal, threshold: float) -> None:
        self.records: dict[tuple[str, str], NamespaceRecord] = {}
        self.threshold = threshold
        self.log_readable = False
        self._journal = journal
        self._progress: dict[str, dict[str, NamespaceProgress]] = {}
        self._announced: dict[str, list[Event]] = {}
        self._given_up_at: dict[str, float] = {}

    def hear(self, events: Iterable[Event]) -> None:
        """Take what was announced of head disks and controllers, for the next look at them."""
        for event in events:
            if event.kind in _HEAD_EVENTS and event.device:
                self._announced.setdefault(event.device, []).append(event)
            elif event.kind in _GIVES_UP:
                self._given_up_at.setdefault(event.device, event.time)

    def observe(self, look: Look, renewed: set[str], pauses: Histogram) -> dict[str, NamespaceView]:
        """Follow the I/O of one subsystem's namespaces.

        Args:
            look: the newest.
            renewed: names of controllers that reconnected in between unseen.
            pauses: takes the length in seconds of every pause that ended.

        Returns:
            Each namespace's progress and newest step, by nsid label.

        """
        followed = self._progress.setdefault(look.nqn, {})
        views = {}
        for nsid, namespace in look.namespaces.items():
            progress = followed.get(nsid)
            if progress is None:
                progress = followed[nsid] = NamespaceProgress()
                self.records[look.nqn, nsid] = NamespaceRecord()
            record = self.records[look.nqn, nsid]
            announced = self._announced.get(namespace.device, ())
            if progress.is_unmoved(namespace) and not announced and not renewed:
                views[nsid] = NamespaceView(progress, _NOTHING)
                continue
            requeued = [event.time for event in announced if event.kind is EventKind.REQUEUED]
            failed = len(announced) - len(requeued)
            step = progress.observe(
                namespace,
                look.before,
                look.now,
                Announced(
                    renewed, self._given_up_at, min(requeued, default=None), failed=failed > 0
                ),
            )
            record.observe(namespace, step, log_readable=self.log_readable)
            record.announced(requeued=len(requeued), failed=failed)
            self._publish_stalls(record, progress, look.now)
            if step.pause is not None:
                self._count(look, nsid, step.pause, pauses)
            views[nsid] = NamespaceView(progress, step)
        for nsid in [nsid for nsid in followed if nsid not in look.namespaces]:
            pause = followed.pop(nsid).vanish(look.now)
            self.records.pop((look.nqn, nsid), None)
            if pause is not None:
                self._count(look, nsid, pause, pauses)
        return views

    def heed(self) -> None:
        """Take it that every subsystem was observed with what was announced."""
        self._announced.clear()
        self._given_up_at.clear()

    def drop(self, nqn: str) -> None:
        """Forget a subsystem, the last of whose namespaces is gone."""
        self._progress.pop(nqn, None)

    def last_io(self, nqn: str, nsid: str) -> dict[str, float]:
        """When a request last truly completed on each path, by label (monotonic seconds)."""
        progress = self._progress.get(nqn, {}).get(nsid)
        return {
            str(path): own.last_true
            for path, own in (progress.paths if progress is not None else {}).items()
            if own.last_true is not None
        }

    def a_path_stalls(self, look: Look) -> bool:
        """Whether requests stand still on a path of a namespace that has others."""
        return any(
            any(self.records[look.nqn, nsid].path_stalled.values())
            for nsid, namespace in look.namespaces.items()
            if len(namespace.paths) > 1
        )

    def is_suspicious(self, now: float) -> bool:
        """Whether any I/O of the node moves so slowly that it may have stopped."""
        for followed in self._progress.values():
            for progress in followed.values():
                if progress.stalled_for(now) > SUSPICION_SECONDS:
                    return True
                for own in progress.paths.values():
                    since = own.stalled_since if own.in_flight else None
                    if since is not None and now - since > SUSPICION_SECONDS:
                        return True
        return False

    def _publish_stalls(
        self, record: NamespaceRecord, progress: NamespaceProgress, now: float
    ) -> None:
        stalled = progress.stalled_for(now)
        if progress.may_wait_unseen:
            record.stalled = None
        else:
            record.stalled = stalled if stalled >= self.threshold else 0.0
        record.path_stalled = {}
        for path, own in progress.paths.items():
            waiting = now - own.stalled_since if own.stalled_since is not None else 0.0
            record.path_stalled[str(path)] = waiting if waiting >= self.threshold else 0.0

    def _count(self, look: Look, nsid: str, pause: Pause, pauses: Histogram) -> None:
        if pause.duration < self.threshold:
            return
        pauses.observe(pause.duration)
        self._journal.tell(
            look,
            "I/O paused",
            severe=True,
            span=(pause.start, pause.start + pause.duration),
            nsid=nsid,
            seconds=round(pause.duration, 3),
            outcome=pause.outcome,
        )
