"""Whether requests on one path make progress, and how long those waited that did not.

The kernel's completion counts lie at the moment that matters: when a path is
lost, its requests are *completed* there with success and sent elsewhere
(``cancelled.py`` tells these apart). The time fields of the same
``stat`` line date the pause: at the end of a request they grow by exactly what
it was outstanding, so a pause is known to milliseconds however long the poll
interval is. ``docs/failover.md`` has the drawing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nvmeof_exporter.monitor.cancelled import Cancellations, Change

if TYPE_CHECKING:
    from nvmeof_exporter.model import IoCounters, NamespacePath

__all__ = ["PathProgress", "Step"]

#: Weight of the newest interval in the running means of rate and latency.
_SMOOTHING = 0.2

#: A longer time without completions ends a run of them (seconds).
_RUN_GAP_SECONDS = 0.25

#: How far completions may be off their usual pace, as a share of an interval.
_PACE_UNCERTAINTY = 0.1

#: Latency (seconds) that may pass for usual whatever was usual before.
_LATENCY_FLOOR = 0.01

#: How many groups of requests are told apart while nothing completes.
_MAX_GROUPS = 64


@dataclass(slots=True)
class Step:
    """What one path did between two polls.

    ``true`` and ``cancelled`` are completions. ``wait`` (seconds) is how long
    the oldest request that ended had been outstanding, None when that is not
    known or nothing had stood still. ``ended`` is when they ended (monotonic
    seconds; the middle of the interval where nothing tells better),
    ``latency`` the mean of those ended. ``lost`` and ``returned``: left or
    entered the usable set. ``last_true`` is when a request last truly completed
    here, as known before this interval.
    """

    true: int = 0
    cancelled: int = 0
    wait: float | None = None
    ended: float = 0.0
    latency: float = 0.0
    lost: bool = False
    returned: bool = False
    gone: bool = False
    in_flight_before: int = 0
    last_true: float | None = None

    @property
    def flowed(self) -> int:
        """How many requests were done, as far as anybody knows.

        Where cancelled ones cannot be told from others, those that were not in flight before
        were issued, and hence done, in this interval; one was the last.
        """
        return self.true or max(self.cancelled - max(self.in_flight_before, 1), 0)


@dataclass(slots=True)
class _Group:
    """Requests issued between two polls: how many, and when at the earliest and latest.

    ``earliest`` is an estimate; before ``floor`` none of them can have been issued.
    """

    count: int
    earliest: float
    latest: float
    floor: float

    @property
    def middle(self) -> float:
        return (self.earliest + self.latest) / 2

    @property
    def width(self) -> float:
        return self.latest - self.earliest


class PathProgress:
    """The I/O of one namespace path over time.

    ``last_true`` is when a request last truly completed here (estimate),
    ``flow_since`` when the present run of completions began, ``stalled_since``
    since when requests in flight make no progress (None: they do, or there
    are none). All are monotonic seconds.
    """

    __slots__ = (
        "_cancellations",
        "_giving_up",
        "_groups",
        "_instance",
        "_io",
        "_latency",
        "_newest",
        "_rate",
        "_seen",
        "_still",
        "flow_since",
        "in_flight",
        "last_ended",
        "last_true",
        "unread_since",
        "usable",
    )

    def __init__(self) -> None:
        self._newest: NamespacePath | None = None
        self._still: Step | None = None
        self._instance = ""
        self._io: IoCounters | None = None
        self._cancellations = Cancellations()
        self._giving_up = False
        self.unread_since: float | None = None
        self._groups: list[_Group] = []
        self._rate = 0.0
        self._latency = 0.0
        self._seen: float | None = None
        self.in_flight = 0
        self.usable = False
        self.last_true: float | None = None
        self.last_ended: float | None = None
        self.flow_since: float | None = None

    @property
    def stalled_since(self) -> float | None:
        """Since when those in flight make no progress; None without any in flight."""
        if self.unread_since is not None:
            return None
        if not self._groups or not self.in_flight:
            return None
        return max(self._groups[0].middle, self.last_ended or 0.0)

    def next_due(self, step: Step) -> float | None:
        """Date what should have come next, at the usual pace, when the path gave up."""
        if self.last_true is None or not self._rate:
            return None
        unseen = 0 if step.true else step.flowed
        return self.last_true + (unseen + 1) / self._rate

    def observe(
        self,
        path: NamespacePath,
        before: float,
        now: float,
        *,
        renewed: bool,
        given_up_at: float | None = None,
    ) -> Step:
        """Take the path as it is now.

        Args:
            path: the path in the newest snapshot.
            before: when the previous snapshot was taken, monotonic seconds.
            now: when the newest was taken.
            renewed: the association was made anew in between, though both
                polls may have seen it live.
            given_up_at: when the kernel announced in between that it gives the
                controller up, None when it did not.

        """
        if path is self._newest and not renewed:
            return self._stand_still((before + now) / 2)
        self._newest, self._still = path, None
        step = Step(
            ended=(before + now) / 2, in_flight_before=self.in_flight, last_true=self.last_true
        )
        usable_before, self.usable = self.usable, path.usable
        step.lost = usable_before and not self.usable
        announced = step.lost and given_up_at is not None
        if announced:
            step.ended = min(max(given_up_at or now, before), now)
        step.returned = self.usable and not usable_before
        instance = f"{path.controller.name}/{path.disk}"
        new, old = path.io, self._io
        if new is None:
            self.unread_since = self.unread_since if self.unread_since is not None else before
            return step
        self.unread_since = None
        fresh = old is None or instance != self._instance or new.completed < old.completed
        self._instance, self._io = instance, new
        if fresh or old is None:
            self._begin(path, new, now)
            return step
        change = Change(old, new)
        ended, waited = change.ended, change.waited
        if usable_before and self.usable and not renewed:
            survivors = None
        else:
            # It came back: what was in flight before cannot have survived. Or it is lost.
            survivors = max(ended - self.in_flight, 0) if self.usable else 0
        step.cancelled = self._cancellations.count(path.failovers, change, now, survivors)
        step.true = ended - step.cancelled
        if ended:
            if step.lost and not announced and step.flowed and self._rate:
                # It was well while requests ended at their pace.
                step.ended = min(before + step.flowed / self._rate, now)
            self._date_end(step, new.in_flight, before, now)
            step.latency = waited / ended
            step.wait = self._wait_of_the_oldest(step, waited, before, now)
        elif new.in_flight < self.in_flight and not self.usable:
            # Given up without being counted anywhere: on no path any more, and not done.
            step.cancelled = self.in_flight - new.in_flight
            step.wait = max(step.ended - self._groups[0].middle, 0.0) if self._groups else None
        self._account(step, ended, new.in_flight, before, now)
        return step

    def _stand_still(self, middle: float) -> Step:
        """Nothing about the path is another value: as most of the time, on most paths.

        The step is that of the previous interval, if nothing happened in that either.
        """
        if self._still is None:
            self._still = Step(in_flight_before=self.in_flight, last_true=self.last_true)
        self._still.ended = middle
        return self._still

    def vanish(self, before: float, now: float) -> Step:
        """Take it that the path is gone from the kernel; its requests were given up."""
        step = Step(
            ended=(before + now) / 2,
            in_flight_before=self.in_flight,
            cancelled=self.in_flight,
            lost=self.usable,
            gone=True,
            last_true=self.last_true,
        )
        if self._groups and self._groups[0].latest < before:
            step.wait = max(step.ended - self._groups[0].middle, 0.0)
        self.usable = False
        self._io = None
        self._cancellations.begin(None)
        self._groups = []
        self.in_flight = 0
        return step

    def _begin(self, path: NamespacePath, io: IoCounters, now: float) -> None:
        """Start from here: what happened before is not known."""
        self._cancellations.begin(path.failovers)
        self.in_flight = io.in_flight
        self._groups = [_Group(io.in_flight, now, now, now)] if io.in_flight else []

    def _date_end(self, step: Step, left: int, before: float, now: float) -> None:
        """Date the end of the requests where that can be told; ``left`` are in flight still.

        A lost path gives all of them up at one stroke: a poll that saw a part
        of them gone and a part not yet dates it, for the poll after it as well.
        """
        was_giving_up, self._giving_up = self._giving_up, step.cancelled > 0 and not self.usable
        if was_giving_up and step.cancelled:
            step.ended = before
        elif self._giving_up and left:
            step.ended = now

    def _wait_of_the_oldest(
        self, step: Step, waited: float, before: float, now: float
    ) -> float | None:
        """Estimate how long the oldest of the ended requests had waited.

        ``waited`` is the exact sum over all of them; when each group was issued
        is known to a poll interval. What the sum differs from the intervals'
        middles is shared out by how uncertain each group is.
        """
        ended, end = step.true + step.cancelled, step.ended
        if not self._groups:
            # All were issued in this interval: nobody knows which one waited longest.
            return waited / ended if step.cancelled else None
        oldest, youngest = self._groups[0], self._groups[-1]
        outstanding = sum(group.count for group in self._groups)
        if ended < outstanding:
            wait = waited / ended
        else:
            unseen = ended - outstanding
            if not step.true and youngest.latest <= before - (now - before):
                # All were given up and none had come of late: these waited as well, for the
                # driver to take them, and so were in no count.
                oldest.count += unseen
                unseen = 0
            rest = waited - unseen * min(self._latency, now - before)
            rest -= sum(group.count * (end - group.middle) for group in self._groups)
            uncertainty = sum(group.count * group.width**2 for group in self._groups)
            share = oldest.width**2 / uncertainty if uncertainty else 1 / oldest.count
            mean = end - oldest.middle + rest * share
            wait = mean + self._spread(oldest, end - mean)
        return min(max(wait, before - oldest.latest, 0.0), now - oldest.floor)

    def _spread(self, group: _Group, middle: float) -> float:
        """Return how much earlier than the mean (``middle``) the oldest of a group was issued.

        The youngest was issued as much later, and not after it was seen.
        """
        if group.count < 2 or not self._rate:  # noqa: PLR2004 (one request is its own mean)
            return 0.0
        span = min(group.width, group.count / self._rate)
        spread = span / 2 * (group.count - 1) / (group.count + 1)
        return max(min(spread, group.latest - middle, middle - group.floor), 0.0)

    def _account(self, step: Step, ended: int, in_flight: int, before: float, now: float) -> None:
        ended_before_all = ended >= self.in_flight
        if step.true:
            self._account_true(step, before, now)
        if ended:
            earliest, floor = self._earliest_issue(before, now), before
            if self._groups and not ended_before_all:
                earliest, floor = self._groups[0].earliest, self._groups[0].floor
            self._groups = [_Group(in_flight, earliest, now, floor)] if in_flight else []
            self.last_ended = now
        elif in_flight > self.in_flight:
            if len(self._groups) < _MAX_GROUPS:
                self._groups.append(_Group(in_flight - self.in_flight, before, now, before))
            else:
                self._groups[-1].count += in_flight - self.in_flight
        elif not in_flight:
            self._groups = []
        self.in_flight = in_flight

    def _earliest_issue(self, before: float, now: float) -> float:
        """Date the oldest request in flight after an interval in which all older ones ended.

        While requests came at their usual pace, it is about as young as one
        takes; where they stopped half-way, it may have been issued then.
        """
        if self.last_true is None or not self._rate or self.last_true < before:
            return before
        slack = self._latency + 2 / self._rate + _PACE_UNCERTAINTY * (now - before)
        return max(before, self.last_true - slack)

    def _account_true(self, step: Step, before: float, now: float) -> None:
        length = now - before
        # At the usual rate the run of completions covered only this much of the interval.
        covered = min(step.true / self._rate, length) if self._rate else length
        seen = self._seen
        self._seen = now
        if seen is None or before - seen > _RUN_GAP_SECONDS:
            self.flow_since = now - covered
            self.last_true = now
            elapsed = length
        else:
            # It ran on and may have stopped before the interval ended.
            self.last_true = before + covered
            elapsed = now - seen
        if elapsed > 0:
            weight = _SMOOTHING if self._rate else 1.0
            self._rate += weight * (step.true / elapsed - self._rate)
        if not step.cancelled:
            usual = step.latency
            if self._latency:
                # One stalled request must not pass for the usual latency.
                usual = min(usual, 2 * self._latency + _LATENCY_FLOOR)
            weight = _SMOOTHING if self._latency else 1.0
            self._latency += weight * (usual - self._latency)
