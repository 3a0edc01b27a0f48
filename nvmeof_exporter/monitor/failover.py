"""Failovers of one subsystem: I/O that left one path for another, and came back.

A failover opens when a path that carries I/O leaves the usable set, and closes
when every namespace whose I/O was on it has seen a request truly completed on
another path *after* the lost one gave its requests up. Losing several paths or
namespaces by one event is one failover; flapping meanwhile does not make two;
with no other path to go to it is a pause (see ``stall.py``), not a failover.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nvmeof_exporter.monitor.stall import first_done

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from nvmeof_exporter.model import PathId
    from nvmeof_exporter.monitor.progress import PathProgress, Step
    from nvmeof_exporter.monitor.stall import NamespaceProgress, NamespaceStep

__all__ = ["Failback", "Failover", "FailoverTracker", "NamespaceView"]

#: A path carries I/O when its newest completion is at most this much (seconds)
#: older than the namespace's newest.
_CARRIER_SECONDS = 1.0

#: I/O is under way when a request completed at most this long (seconds) before the loss.
_ACTIVE_SECONDS = 0.5

#: The record is closed this long (seconds) after the loss at the earliest, so
#: that what the kernel logs about it can tell the cause.
_SETTLE_SECONDS = 0.3

#: A run of completions that began at most this long (seconds) before the loss
#: was seen is taken for the failed-over requests (ANA errors precede the state).
_EARLY_REROUTE_SECONDS = 0.3


#: I/O that nobody wants any more for this long (seconds) will not go elsewhere.
_ABANDONED_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class NamespaceView:
    """A namespace's progress and its newest step."""

    progress: NamespaceProgress
    step: NamespaceStep


@dataclass(frozen=True, slots=True)
class Failover:
    """One failover that is over. Times are monotonic seconds; None when no I/O took part."""

    path: PathId
    lost_at: float
    start: float | None = None
    end: float | None = None

    @property
    def duration(self) -> float | None:
        """From the last true completion on the lost path to the first elsewhere, in seconds."""
        if self.start is None or self.end is None:
            return None
        return max(self.end - self.start, 0.0)

    @property
    def detection(self) -> float:
        """From the last I/O until the kernel gave the path up, in seconds."""
        if self.start is None or self.end is None:
            return 0.0
        return max(min(self.lost_at, self.end) - self.start, 0.0)

    @property
    def reroute(self) -> float:
        """From giving the path up until the first I/O elsewhere, in seconds."""
        return (self.duration or 0.0) - self.detection


@dataclass(frozen=True, slots=True)
class Failback:
    """I/O is back on a path. ``reconnect`` and ``failback`` are phases in seconds, or unknown."""

    path: PathId
    reconnect: float | None = None
    failback: float | None = None


@dataclass(slots=True)
class _Part:
    """One namespace's share: when its I/O on the lost path last moved, was given up, went on.

    ``cancelled``: how many requests were given up then.
    """

    start: float | None
    given_up: float | None = None
    cancelled: int = 0
    end: float | None = None
    returned: bool = False


@dataclass(slots=True)
class _Open:
    path: PathId
    opened: float
    lost_at: float
    timed: bool
    parts: dict[str, _Part] = field(default_factory=dict)

    @property
    def pending(self) -> bool:
        return any(part.end is None and not part.returned for part in self.parts.values())


@dataclass(slots=True)
class _Away:
    """A path that I/O has left: since when, whether timed, and when it was usable again."""

    since: float
    timed: bool
    usable_at: float | None = None


class FailoverTracker:
    """Follows one subsystem NQN."""

    def __init__(self) -> None:
        self._open: _Open | None = None
        self._away: dict[PathId, _Away] = {}

    @property
    def in_progress(self) -> bool:
        """Whether a path was given up and its I/O has not gone on elsewhere yet."""
        return self._open is not None and self._open.timed and self._open.pending

    @property
    def settling(self) -> bool:
        """Whether a record is open, be it only to learn the cause."""
        return self._open is not None

    def observe(
        self, namespaces: Mapping[str, NamespaceView], before: float, now: float
    ) -> tuple[Failover | None, list[Failback]]:
        """Take the newest steps of all namespaces of the subsystem, by ``nsid`` label."""
        for nsid, view in namespaces.items():
            for path, step in view.step.paths.items():
                if step.lost:
                    self._lost(nsid, view, path, step, now)
        if self._open is not None:
            for nsid, part in list(self._open.parts.items()):
                gone = namespaces.get(nsid)
                if gone is None:
                    del self._open.parts[nsid]
                else:
                    self._follow(self._open, part, gone, before, now)
        closed = self._close(namespaces, now)
        return closed, self._failbacks(namespaces, before, now)

    def keep_paths(self, paths: Container[PathId]) -> None:
        """Wait no longer for I/O to come back to paths that nobody knows any more."""
        for path in [path for path in self._away if path not in paths]:
            del self._away[path]

    def _lost(self, nsid: str, view: NamespaceView, path: PathId, step: Step, now: float) -> None:
        away = self._away.get(path)
        carried = _carried(view.step, step)
        if away is not None and step.last_true is not None and step.last_true <= away.since:
            carried = False
        active = step.in_flight_before > 0 or step.cancelled > 0
        if not active and carried:
            active = now - (step.last_true or 0.0) < _ACTIVE_SECONDS
        if not carried and not step.in_flight_before:
            # At most a request sent on from another path was turned away here.
            return
        if not any(other != path for other in view.step.paths):
            # There is nowhere to fail over to: a pause and an outage.
            return
        if self._open is None:
            self._open = _Open(path, now, step.ended, timed=active)
        elif self._open.path != path:
            return
        self._open.timed |= active
        if active and nsid not in self._open.parts:
            self._open.parts[nsid] = _Part(start=_last_moved(view, path, step))

    def _follow(
        self, record: _Open, part: _Part, view: NamespaceView, before: float, now: float
    ) -> None:
        """Look for the end of one namespace's share."""
        if part.end is not None:
            return
        own = view.step.paths.get(record.path)
        progress = view.progress.paths.get(record.path)
        given_up_now = part.given_up is None
        if own is not None:
            self._note_given_up(part, own, progress, now - before)
        elif given_up_now:
            part.given_up = now
        others = [(p, s) for p, s in view.step.paths.items() if p != record.path and s.true]
        on_it_again = own is not None and own.true and progress is not None and progress.usable
        if on_it_again:
            # With others usable all the time, one of them would have come first.
            part.returned = True
        elif part.given_up is not None and others:
            part.returned = False
            given_up = part.given_up
            if given_up_now:
                end = min(
                    _elsewhere(part, step, view.progress.paths.get(path), before, now)
                    for path, step in others
                )
            else:
                sent_on = view.progress.sent_on_at(given_up)
                end = first_done(view.step, sent_on, part.cancelled, before, now)
            part.end = max(end, part.start or 0.0)
            part.start = given_up if part.start is None else part.start
            if given_up_now and own is not None and part.end >= before:
                _shorten(part, view.step, own, now - before)
        elif part.given_up is not None and not view.progress.wanted:
            # Failed, or nobody waits for it any more: nothing will go elsewhere.
            part.returned |= now - part.given_up > _ABANDONED_SECONDS

    @staticmethod
    def _note_given_up(
        part: _Part, own: Step, progress: PathProgress | None, interval: float
    ) -> None:
        """Note when the lost path gave its requests up, and let their waiting date the start."""
        if own.cancelled and own.wait is not None:
            start = own.ended - own.wait
            if own.wait < interval and progress is not None:
                # Too short to date anything: requests came steadily, the gap after the last does.
                start = min(start, progress.next_due or start)
            part.start = start if part.given_up is None else min(start, part.start or start)
        if part.given_up is None and (progress is None or progress.in_flight == 0):
            part.given_up = own.ended
            part.cancelled = own.cancelled

    def _close(self, namespaces: Mapping[str, NamespaceView], now: float) -> Failover | None:
        record = self._open
        if record is None or now - record.opened < _SETTLE_SECONDS:
            return None
        if record.timed and record.parts:
            if record.pending:
                return None
            self._open = None
            ended = [part for part in record.parts.values() if part.end is not None]
            if not ended:
                return None
            worst = max(ended, key=lambda part: (part.end or 0.0) - (part.start or 0.0))
            last = max(part.end or 0.0 for part in ended)
            self._away[record.path] = _Away(last, timed=True)
            return Failover(record.path, record.lost_at, worst.start, worst.end)
        self._open = None
        if record.timed or not _another_usable(namespaces.values(), record.path):
            return None
        self._away[record.path] = _Away(now, timed=False)
        return Failover(record.path, record.lost_at)

    def _failbacks(
        self, namespaces: Mapping[str, NamespaceView], before: float, now: float
    ) -> list[Failback]:
        found = []
        middle = (before + now) / 2
        for path, away in list(self._away.items()):
            views = [v for v in namespaces.values() if path in v.progress.paths]
            usable = bool(views) and all(v.progress.paths[path].usable for v in views)
            if not usable:
                away.usable_at = None
                continue
            if away.usable_at is None:
                away.usable_at = middle
            if any(path in v.step.paths and v.step.paths[path].true for v in views):
                del self._away[path]
                if away.timed:
                    found.append(
                        Failback(
                            path,
                            max(away.usable_at - away.since, 0.0),
                            max(middle - away.usable_at, 0.0),
                        )
                    )
                else:
                    found.append(Failback(path))
        return found


def _carried(whole: NamespaceStep, step: Step) -> bool:
    """Whether the path was among those that the namespace's I/O last went over."""
    if step.last_true is None:
        return False
    newest = max(s.last_true for s in whole.paths.values() if s.last_true is not None)
    return newest - step.last_true <= _CARRIER_SECONDS


def _last_moved(view: NamespaceView, path: PathId, step: Step) -> float | None:
    """Date the last true completion on a path that was lost just now."""
    progress = view.progress.paths.get(path)
    if progress is None:
        # Its counters went with it: I/O flowed on it for all that is known.
        return max(step.last_true, step.ended) if step.last_true is not None else None
    last = progress.last_true
    waiting_since = view.progress.waiting_since
    if last is not None and waiting_since is not None and not step.in_flight_before:
        # Nothing was caught on it: what waits now was turned away later.
        return max(last, waiting_since)
    return last


def _elsewhere(
    part: _Part, step: Step, progress: PathProgress | None, before: float, now: float
) -> float:
    """Date the first completion on another path when requests were given up just now.

    It came as much later as the first ones took there, unless I/O had moved
    over before the loss could be seen.
    """
    given_up = part.given_up if part.given_up is not None else now
    since = progress.flow_since if progress is not None else None
    began_early = (
        since is not None
        and part.start is not None
        and part.start - _EARLY_REROUTE_SECONDS <= since < before
        and now - since < 2 * _EARLY_REROUTE_SECONDS
    )
    if began_early and since is not None:
        return since
    return given_up + min(step.latency, (now - before) / 2)


def _shorten(part: _Part, whole: NamespaceStep, own: Step, interval: float) -> None:
    """Date a failover that began and ended within one poll interval.

    Neither end is seen then. What the lost requests waited and what the first
    ones elsewhere took is the least it lasted; what the interval lacks in
    completions, at the pace before, is what the applications did not get done.
    """
    waited = own.wait or 0.0
    if part.end is None or own.gone or waited >= interval:
        return
    if own.last_true is None or part.end - own.last_true > 2 * interval:
        return
    elsewhere = [s.latency for s in whole.paths.values() if s is not own and s.true]
    felt = waited + min(elsewhere, default=0.0)
    if whole.pace:
        # Where cancelled ones cannot be told apart, at most those in flight before were.
        flowed = whole.true + max(own.cancelled - max(own.in_flight_before, 1), 0)
        felt = max(felt, interval - flowed / whole.pace)
    part.start = part.end - min(felt, interval)


def _another_usable(views: Iterable[NamespaceView], path: PathId) -> bool:
    return any(
        other.usable for view in views for key, other in view.progress.paths.items() if key != path
    )
