"""The course of a drill: when the fault is due, what counts as over, when to put things right.

A pure machine: observations in, one thing to do out. It knows no clock and runs nothing,
so that a course can be written down and replayed. Whatever happens, once the fault
was begun it is undone, and once only.

::

    baseline ──> fault ──> recovery ──> failback ──> over
             │         │            │            │
             trigger   I/O goes on  restore      every path is usable again, as many
                       over what                 as before carry I/O, and none that
                       is left                   is not preferred

Where nothing is left to go on over (``survivors`` is False), the fault lasts for a while,
is undone, and recovery is the time until I/O goes on.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Course", "Do", "Observation", "Phase", "Plan"]

#: However short the baseline is to be, a load has so long (seconds) to get going.
_PATIENCE_SECONDS = 10.0


class Phase(enum.Enum):
    """Where a drill is."""

    BASELINE = "baseline"
    FAULT = "fault"
    RECOVERY = "recovery"
    FAILBACK = "failback"
    OVER = "over"


class Do(enum.Enum):
    """What is to be done now."""

    TRIGGER = "cause the fault"
    RESTORE = "undo the fault"
    END = "end the load"


@dataclass(frozen=True, slots=True)
class Plan:
    """How long things take, in seconds.

    ``baseline``: how long the load is measured before. ``hold``: how long it is measured on
    what is left, and again when everything is back. ``settle``: I/O goes on when it has
    done so for this long. ``limit``: what has not come about after this does not count on.
    ``survivors``: whether a path is meant to be left.
    """

    baseline: float = 30.0
    hold: float = 30.0
    settle: float = 2.0
    limit: float = 600.0
    survivors: bool = True


class Observation(NamedTuple):
    """What is seen at one moment.

    ``done`` counts requests that were done, ``stalled`` is for how long (seconds) the worker
    that waits longest has waited. ``usable``, ``preferred`` and ``carrying`` are labels of
    paths: those that can be used, those of them that are optimized, and those on which
    requests were done since the observation before. ``changes`` counts the paths' changes of
    state, also those between two observations.
    """

    time: float
    done: int
    stalled: float
    usable: frozenset[str]
    preferred: frozenset[str]
    carrying: frozenset[str]
    changes: int


class Course:
    """One drill's course.

    Attributes:
        phase: where it is.
        marks: when each phase began, by phase.
        lost: labels of the paths that were not usable at some time since the fault began.
        problems: why something cannot be judged, in the order it came about.
        struck: when a path was seen lost last, None while none was.
        resumed: when it was clear that I/O had gone on, None while it has not.
        undone: when undoing the fault began.
        back: when everything was as before the fault, None while it has not been so.

    """

    def __init__(self, plan: Plan, start: float) -> None:
        self.plan = plan
        self.phase = Phase.BASELINE
        self.marks = {Phase.BASELINE: start}
        self.lost: set[str] = set()
        self.problems: list[str] = []
        self.struck: float | None = None
        self.resumed: float | None = None
        self.undone: float | None = None
        self.back: float | None = None
        self._usable: frozenset[str] = frozenset()
        self._carrying: frozenset[str] = frozenset()
        self._away: frozenset[str] = frozenset()
        self._recent: deque[tuple[float, frozenset[str]]] = deque()
        self._changes = 0
        self._triggered = False
        self._ending = False

    def observe(self, seen: Observation) -> Do | None:
        """Take the newest observation; returns what is to be done now."""
        if self.phase is Phase.OVER:
            return None
        self._follow(seen)
        if self._ending:
            return self._end(seen.time)
        return _STEPS[self.phase](self, seen)

    def abort(self, time: float, why: str) -> Do | None:
        """Give up, for a reason; returns what is to be done now: END may be due only later."""
        if self.phase is Phase.OVER:
            return None
        self.problems.append(why)
        self._ending = True
        return self._end(time)

    def _follow(self, seen: Observation) -> None:
        """Keep what does not depend on the phase."""
        self._recent.append((seen.time, seen.carrying))
        while self._recent[0][0] < seen.time - self.plan.settle:
            self._recent.popleft()
        changed = seen.changes > self._changes
        self._changes = seen.changes
        if self.phase is Phase.BASELINE:
            self._usable |= seen.usable
            self._carrying |= seen.carrying & seen.preferred
        elif self.undone is None:
            away = self._usable - seen.usable
            if changed or away - self._away:
                self.struck = seen.time
            self._away = away
            self.lost |= away

    def _baseline(self, seen: Observation) -> Do | None:
        if not self._past(Phase.BASELINE, self.plan.baseline, seen.time):
            return None
        away = self._usable - seen.usable
        if away:
            return self.abort(
                seen.time, f"before the fault a path was lost already: {', '.join(sorted(away))}"
            )
        if self.plan.survivors and len(self._usable) < 2:  # noqa: PLR2004  # one is none
            return self.abort(seen.time, "there is no second usable path to fail over to")
        if not seen.done or seen.stalled >= self.plan.baseline:
            patience = max(self.plan.baseline, _PATIENCE_SECONDS)
            if not self._past(Phase.BASELINE, patience, seen.time):
                return None
            return self.abort(seen.time, "before the fault no I/O was done")
        self._enter(Phase.FAULT, seen.time)
        self._triggered = True
        return Do.TRIGGER

    def _fault(self, seen: Observation) -> Do | None:
        late = self._past(Phase.FAULT, self.plan.limit, seen.time)
        if self.struck is None:
            return self.abort(seen.time, "the fault took no path away") if late else None
        if not self.plan.survivors:
            if self._past(Phase.FAULT, self.plan.hold, seen.time):
                self._enter(Phase.RECOVERY, seen.time)
                return self._restore(seen.time)
            return None
        if self._goes_on_since(self.struck, seen):
            self.resumed = seen.time
        if self.resumed is not None or late:
            # That nothing goes on over what is left is a result, not a problem.
            self._enter(Phase.RECOVERY, seen.time)
        return None

    def _recovery(self, seen: Observation) -> Do | None:
        if self.plan.survivors:
            if self.resumed is None or self._past(Phase.RECOVERY, self.plan.hold, seen.time):
                self._enter(Phase.FAILBACK, seen.time)
                return self._restore(seen.time)
            return None
        if self._goes_on_since(self.marks[Phase.RECOVERY], seen):
            self.resumed = seen.time
        if self.resumed is not None or self._past(Phase.RECOVERY, self.plan.limit, seen.time):
            self._enter(Phase.FAILBACK, seen.time)
        return None

    def _failback(self, seen: Observation) -> Do | None:
        if self.back is None:
            if self._is_as_before(seen):
                self.back = seen.time
            elif self._past(Phase.FAILBACK, self.plan.limit, seen.time):
                return self._end(seen.time)
            return None
        if seen.time - self.back >= self.plan.hold:
            return self._end(seen.time)
        return None

    def _goes_on_since(self, moment: float, seen: Observation) -> bool:
        """Whether the worker that waits longest has got something done well after a moment."""
        return seen.time - seen.stalled >= moment + self.plan.settle

    def _is_as_before(self, seen: Observation) -> bool:
        carrying = frozenset[str]().union(*(labels for _, labels in self._recent))
        return (
            self._usable <= seen.usable
            and len(carrying) >= max(len(self._carrying), 1)
            and (carrying <= seen.preferred or not seen.preferred)
        )

    def _end(self, time: float) -> Do:
        """Undo the fault where that was not done yet, and only then end."""
        if self._triggered and self.undone is None:
            return self._restore(time)
        self._enter(Phase.OVER, time)
        return Do.END

    def _restore(self, time: float) -> Do:
        self.undone = time
        return Do.RESTORE

    def _enter(self, phase: Phase, time: float) -> None:
        self.phase = phase
        self.marks[phase] = time

    def _past(self, phase: Phase, seconds: float, time: float) -> bool:
        return time - self.marks[phase] >= seconds


_STEPS = {
    Phase.BASELINE: Course._baseline,  # noqa: SLF001  # its own steps
    Phase.FAULT: Course._fault,  # noqa: SLF001
    Phase.RECOVERY: Course._recovery,  # noqa: SLF001
    Phase.FAILBACK: Course._failback,  # noqa: SLF001
}
