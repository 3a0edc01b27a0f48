"""Whether requests on one path make progress, and how long those waited that did not.

The kernel's completion counts lie at the moment that matters: when a path is
lost, its requests are *completed* there with success and sent elsewhere. Here
each completion is told apart as true or cancelled. The time fields of the same
``stat`` line date the pause: at the end of a request they grow by exactly what
it was outstanding, so a pause is known to milliseconds however long the poll
interval is. ``docs/failover.md`` has the drawing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nvmeof_exporter.model import IoCounters, NamespacePath

__all__ = ["PathProgress", "Step"]

#: Weight of the newest interval in the running means of rate and latency.
_SMOOTHING = 0.2

#: A failed-over request counted by the kernel ends within this time (seconds);
#: after it, a count that found no completion is dropped.
_CARRY_SECONDS = 1.0

#: A longer time without completions ends a run of them (seconds).
_RUN_GAP_SECONDS = 0.25

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
    seconds, the middle of the interval), ``latency`` the mean of those ended.
    ``lost`` and ``returned``: left or entered the usable set. ``last_true`` is
    when a request last truly completed here, as known before this interval.
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


@dataclass(slots=True)
class _Group:
    """Requests issued between two polls: how many, and when at the earliest and latest."""

    count: int
    earliest: float
    latest: float

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
        "_carry",
        "_carry_until",
        "_failovers",
        "_groups",
        "_instance",
        "_io",
        "_latency",
        "_rate",
        "_seen",
        "flow_since",
        "in_flight",
        "last_ended",
        "last_true",
        "usable",
    )

    def __init__(self) -> None:
        self._instance = ""
        self._io: IoCounters | None = None
        self._failovers: int | None = None
        self._carry = 0
        self._carry_until = 0.0
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
        """Since when the oldest request in flight waits; None without any in flight."""
        return self._groups[0].middle if self._groups and self.in_flight else None

    def observe(self, path: NamespacePath, before: float, now: float, *, renewed: bool) -> Step:
        """Take the path as it is now.

        Args:
            path: the path in the newest snapshot.
            before: when the previous snapshot was taken, monotonic seconds.
            now: when the newest was taken.
            renewed: the association was made anew in between, though both
                polls may have seen it live.

        """
        step = Step(
            ended=(before + now) / 2, in_flight_before=self.in_flight, last_true=self.last_true
        )
        usable_before, self.usable = self.usable, path.usable
        step.lost = usable_before and not self.usable
        step.returned = self.usable and not usable_before
        instance = f"{path.controller.name}/{path.disk}"
        new, old = path.io, self._io
        if new is None:
            return step
        fresh = old is None or instance != self._instance or new.completed < old.completed
        self._instance, self._io = instance, new
        if fresh or old is None:
            self._begin(path, new, now)
            return step
        ended = new.completed - old.completed
        waited = max(new.waited_ms - old.waited_ms, 0) / 1000
        step.cancelled = self._cancelled(
            path, ended, now, steady=usable_before and self.usable and not renewed
        )
        step.true = ended - step.cancelled
        if ended:
            step.latency = waited / ended
            step.wait = self._wait_of_the_oldest(ended, waited, before, now)
        self._account(step, ended, new.in_flight, before, now)
        return step

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
        if self._groups:
            step.wait = max(step.ended - self._groups[0].middle, 0.0)
        self.usable = False
        self._io = None
        self._failovers = None
        self._groups = []
        self.in_flight = 0
        return step

    def _begin(self, path: NamespacePath, io: IoCounters, now: float) -> None:
        """Start from here: what happened before is not known."""
        self._failovers = path.failovers
        self._carry = 0
        self.in_flight = io.in_flight
        self._groups = [_Group(io.in_flight, now, now)] if io.in_flight else []

    def _cancelled(self, path: NamespacePath, ended: int, now: float, *, steady: bool) -> int:
        """Tell how many of the requests that ended were sent elsewhere instead of done.

        With the kernel's failover count, exactly those; the count is raised
        before the request ends, so it may run ahead by a poll. Without it,
        every completion in an interval in which the path was not usable
        throughout proves nothing and counts as cancelled.
        """
        if path.failovers is not None and self._failovers is not None:
            # The count is writable by root: a fall is a reset to zero.
            grown = path.failovers - self._failovers
            self._failovers = path.failovers
            if grown < 0:
                grown = path.failovers
            if grown:
                self._carry += grown
                self._carry_until = now + _CARRY_SECONDS
            elif now > self._carry_until:
                self._carry = 0
            cancelled = min(self._carry, ended)
            self._carry -= cancelled
            if steady or self.usable:
                return cancelled
            return ended if not cancelled else min(ended, max(cancelled, self.in_flight))
        self._failovers = path.failovers
        if steady:
            return 0
        if self.usable:
            # It came back: what was in flight before cannot have survived.
            return min(ended, self.in_flight)
        return ended

    def _wait_of_the_oldest(
        self, ended: int, waited: float, before: float, now: float
    ) -> float | None:
        """Estimate how long the oldest of the ended requests had waited.

        ``waited`` is the exact sum over all of them; when each group was issued
        is known to a poll interval. What the sum differs from the intervals'
        middles is shared out by how uncertain each group is.
        """
        if not self._groups:
            return None
        end = (before + now) / 2
        oldest = self._groups[0]
        outstanding = sum(group.count for group in self._groups)
        if ended < outstanding:
            wait = waited / ended
        else:
            rest = waited - (ended - outstanding) * min(self._latency, now - before)
            rest -= sum(group.count * (end - group.middle) for group in self._groups)
            uncertainty = sum(group.count * group.width**2 for group in self._groups)
            share = oldest.width**2 / uncertainty if uncertainty else 1 / oldest.count
            wait = end - oldest.middle + rest * share + self._spread(oldest)
        return min(max(wait, before - oldest.latest, 0.0), now - oldest.earliest)

    def _spread(self, group: _Group) -> float:
        """Return how much earlier than the mean the oldest of a group was issued."""
        if group.count < 2 or not self._rate:  # noqa: PLR2004 (one request is its own mean)
            return 0.0
        span = min(group.width, group.count / self._rate)
        return span / 2 * (group.count - 1) / (group.count + 1)

    def _account(self, step: Step, ended: int, in_flight: int, before: float, now: float) -> None:
        if ended:
            # Those in flight now were issued in this interval, unless fewer
            # ended than there were.
            earliest = (
                self._groups[0].earliest if self._groups and ended < self.in_flight else before
            )
            self._groups = [_Group(in_flight, earliest, now)] if in_flight else []
            self.last_ended = now
        elif in_flight > self.in_flight:
            if len(self._groups) < _MAX_GROUPS:
                self._groups.append(_Group(in_flight - self.in_flight, before, now))
            else:
                self._groups[-1].count += in_flight - self.in_flight
        elif not in_flight:
            self._groups = []
        self.in_flight = in_flight
        if step.true:
            self._account_true(step, before, now)

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
