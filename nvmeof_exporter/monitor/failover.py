"""Failovers of one subsystem: I/O that left one path for another, and came back.

A failover opens when a path that carries I/O leaves the usable set, and closes
when every namespace whose I/O was on it has seen a request truly completed on
another path *after* the lost one gave its requests up. Further paths that carry
I/O and are lost meanwhile belong to it: it is timed once, and tells of each path
that I/O left. Losing several namespaces by one event is one failover; flapping
meanwhile does not make two; with no other path to go to it is a pause (see
``stall.py``), not a failover.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nvmeof_exporter.monitor.share import Share, go_on, last_moved, note_given_up

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from nvmeof_exporter.model import PathId
    from nvmeof_exporter.monitor.pace import NamespaceStep
    from nvmeof_exporter.monitor.progress import Step
    from nvmeof_exporter.monitor.share import NamespaceView

__all__ = ["Failback", "Failover", "FailoverTracker"]

#: A path carries I/O when its newest completion is at most this much (seconds)
#: older than the namespace's newest.
_CARRIER_SECONDS = 1.0

#: I/O is under way when a request completed at most this long (seconds) before the loss.
_ACTIVE_SECONDS = 0.5

#: The record is closed this long (seconds) after the loss at the earliest, so
#: that what the kernel logs about it can tell the cause.
_SETTLE_SECONDS = 0.3

#: I/O that nobody wants any more for this long (seconds) will not go elsewhere.
_ABANDONED_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Failover:
    """One failover that is over. Times are monotonic seconds; None when no I/O took part.

    ``path`` is the one whose I/O waited longest, ``also`` others that I/O left by
    the same event.
    """

    path: PathId
    lost_at: float
    start: float | None = None
    end: float | None = None
    also: tuple[PathId, ...] = ()

    @property
    def paths(self) -> tuple[PathId, ...]:
        """Every path that I/O left."""
        return (self.path, *self.also)

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
class _Loss:
    """One lost path of a failover.

    ``timed``: I/O was under way on it. ``usable_at`` and ``back_at``: since when it is
    usable again, and carries I/O again, before the failover is closed.
    """

    lost_at: float
    timed: bool = False
    usable_at: float | None = None
    back_at: float | None = None
    shares: dict[str, Share] = field(default_factory=dict)

    @property
    def pending(self) -> bool:
        return any(share.end is None and not share.returned for share in self.shares.values())

    @property
    def went_on(self) -> list[Share]:
        """The shares of those namespaces whose I/O went on elsewhere."""
        return [share for share in self.shares.values() if share.end is not None]


@dataclass(slots=True)
class _Open:
    """A failover that is not over. ``newest`` is when the newest of its losses was seen."""

    newest: float
    losses: dict[PathId, _Loss] = field(default_factory=dict)

    @property
    def pending(self) -> bool:
        return any(loss.pending for loss in self.losses.values())


@dataclass(slots=True)
class _Away:
    """A path that I/O has left: since when, whether timed, when usable and when used again."""

    since: float
    timed: bool
    usable_at: float | None = None
    back_at: float | None = None


class FailoverTracker:
    """Follows one subsystem NQN."""

    def __init__(self) -> None:
        self._open: _Open | None = None
        self._away: dict[PathId, _Away] = {}

    @property
    def in_progress(self) -> bool:
        """Whether a path was given up and its I/O has not gone on elsewhere yet."""
        return self._open is not None and self._open.pending

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
        for path, loss in (self._open.losses if self._open is not None else {}).items():
            _note_return(loss, path, namespaces.values(), (before + now) / 2)
            for nsid, share in list(loss.shares.items()):
                view_now = namespaces.get(nsid)
                if view_now is None:
                    del loss.shares[nsid]
                else:
                    self._follow(path, share, view_now, before, now)
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
            self._open = _Open(now)
        loss = self._open.losses.get(path)
        if loss is None:
            loss = self._open.losses[path] = _Loss(step.ended)
            self._open.newest = now
        loss.timed |= active
        if active and nsid not in loss.shares:
            loss.shares[nsid] = Share(start=last_moved(view, path, step))

    def _follow(
        self, lost: PathId, share: Share, view: NamespaceView, before: float, now: float
    ) -> None:
        """Look for the end of one namespace's share of the loss of a path."""
        if share.end is not None:
            return
        own = view.step.paths.get(lost)
        progress = view.progress.paths.get(lost)
        given_up_now = share.given_up is None
        if own is not None:
            note_given_up(share, own, progress, now - before)
        elif given_up_now:
            share.given_up = now
        # One that was lost as well took nothing over: what it did came before.
        others = {p: s for p, s in view.step.paths.items() if p != lost and s.true and not s.lost}
        sent_on = view.progress.sent_on_at(share.given_up)
        on_it_again = own is not None and own.true and progress is not None and progress.usable
        if on_it_again and not (others and sent_on is not None):
            # With others usable all the time, one of them would have come first.
            share.returned = True
        elif share.given_up is not None and others:
            share.returned = False
            go_on(share, view, own, others, (before, now), given_up_now=given_up_now)
        elif share.given_up is not None and not view.progress.wanted:
            # Failed, or nobody waits for it any more: nothing will go elsewhere.
            share.returned |= now - share.given_up > _ABANDONED_SECONDS

    def _close(self, namespaces: Mapping[str, NamespaceView], now: float) -> Failover | None:
        record = self._open
        if record is None or now - record.newest < _SETTLE_SECONDS or record.pending:
            return None
        self._open = None
        left: dict[PathId, float] = {}
        for path, loss in record.losses.items():
            if loss.went_on:
                left[path] = max(share.end or 0.0 for share in loss.went_on)
                self._away[path] = _Away(
                    left[path], timed=True, usable_at=loss.usable_at, back_at=loss.back_at
                )
            elif not loss.timed and _another_usable(namespaces.values(), path):
                left[path] = now
                self._away[path] = _Away(now, timed=False)
        if not left:
            return None
        shares = [(path, share) for path in left for share in record.losses[path].went_on]
        path, worst = max(
            shares, key=lambda found: found[1].waited, default=(next(iter(left)), None)
        )
        also = tuple(other for other in left if other != path)
        lost_at = record.losses[path].lost_at
        if worst is None:
            return Failover(path, lost_at, also=also)
        return Failover(path, lost_at, worst.start, worst.end, also)

    def _failbacks(
        self, namespaces: Mapping[str, NamespaceView], before: float, now: float
    ) -> list[Failback]:
        found = []
        middle = (before + now) / 2
        for path, away in list(self._away.items()):
            views = [v for v in namespaces.values() if path in v.progress.paths]
            usable = bool(views) and all(v.progress.paths[path].usable for v in views)
            if not usable:
                away.usable_at = away.back_at = None
                continue
            if away.usable_at is None:
                away.usable_at = middle
            if away.back_at is None and any(_moved(v, path) for v in views):
                away.back_at = middle
            if away.back_at is not None:
                del self._away[path]
                if away.timed:
                    found.append(
                        Failback(
                            path,
                            max(away.usable_at - away.since, 0.0),
                            max(away.back_at - away.usable_at, 0.0),
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


def _note_return(loss: _Loss, path: PathId, views: Iterable[NamespaceView], middle: float) -> None:
    """Note when a lost path is usable and carries I/O again; ``middle`` is the interval's."""
    steps = [view.step.paths[path] for view in views if path in view.step.paths]
    if any(step.lost for step in steps):
        loss.usable_at = loss.back_at = None
    elif any(step.returned for step in steps):
        loss.usable_at = middle
    if loss.usable_at is not None and loss.back_at is None and any(step.true for step in steps):
        loss.back_at = middle


def _moved(view: NamespaceView, path: PathId) -> bool:
    return path in view.step.paths and view.step.paths[path].true > 0


def _another_usable(views: Iterable[NamespaceView], path: PathId) -> bool:
    return any(
        other.usable for view in views for key, other in view.progress.paths.items() if key != path
    )
