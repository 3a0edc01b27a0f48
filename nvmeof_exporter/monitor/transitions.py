"""The states of one path over time."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from nvmeof_exporter.model import EventKind
from nvmeof_exporter.monitor.causes import error_cause

if TYPE_CHECKING:
    from collections.abc import Container

    from nvmeof_exporter.model import Controller, Event

__all__ = ["PathHistory", "Transition"]

#: What a path that is gone counts as.
MISSING = "missing"

#: Causes of which the kernel writes several lines for one and the same loss.
_ONCE_PER_OUTAGE = frozenset({"keep_alive", "removed"})

#: A new cntlid or a grown counter this soon (seconds) after a change of state
#: belongs to that change: identities are read again every few seconds only.
_SETTLED_SECONDS = 6.0


#: So far back (seconds) the states of a path are kept, and at most so many of them.
_TIMELINE_SECONDS = 3600.0
_MOST_STATES = 360

#: What the kernel says of a path that it may give up, and of one that is well again.
_TROUBLE = frozenset(
    {
        EventKind.ERROR_RECOVERY,
        EventKind.TRANSPORT_ERROR,
        EventKind.IO_TIMEOUT,
        EventKind.RECONNECT_SCHEDULED,
        EventKind.RECONNECT_FAILED,
    }
)
_RECOVERED = frozenset({EventKind.RECONNECTED, EventKind.CONTROLLER_CONNECTED})


class Transition:
    """One change of state: from, to, and how long the old one lasted (seconds)."""

    __slots__ = ("after", "duration", "old")

    def __init__(self, old: str, after: str, duration: float) -> None:
        self.old = old
        self.after = after
        self.duration = duration


class PathHistory:
    """Counts what happened to one path since the exporter knows it.

    ``state`` is one of PATH_STATES, ``since`` (monotonic seconds) when it was
    entered or first seen, ``last_transition`` a wall-clock time. ``timeline`` holds when
    each state of the last hour was entered and which it was, ``watched`` is since when the
    path is followed (monotonic seconds). ``renewed``
    says that the newest look found a reconnect that no look had seen happen,
    ``left_on_purpose`` that the path is gone because it was disconnected while live.
    All totals only grow, whatever instance of controller the path has and
    whatever the kernel's counters do.
    """

    __slots__ = (
        "_attempts_heard",
        "_attempts_told",
        "_cntlid",
        "_in_trouble",
        "_left_live",
        "_name",
        "_newest",
        "_reconnect_count",
        "_reconnects",
        "_reset_count",
        "_resets_seen",
        "_resets_told",
        "_told_once",
        "_told_to_go",
        "ana",
        "ana_transitions",
        "errors",
        "last_transition",
        "left_on_purpose",
        "renewed",
        "seconds",
        "since",
        "state",
        "timeline",
        "transitions",
        "watched",
    )

    def __init__(self, controller: Controller | None, now: float) -> None:
        self.state = MISSING if controller is None else controller.state or "unknown"
        self.since = self.watched = now
        self.transitions: dict[str, int] = {}
        self.seconds: dict[str, float] = {self.state: 0.0}
        self.last_transition: float | None = None
        self.timeline = deque([(now, self.state)], maxlen=_MOST_STATES)
        self.errors: dict[str, int] = {}
        self.ana: dict[str, str] = {}
        self.ana_transitions: dict[str, int] = {}
        self.renewed = False
        self.left_on_purpose = False
        self._newest = controller
        self._in_trouble = self.state != "live"
        self._told_to_go = False
        self._told_once: set[str] = set()
        self._attempts_heard = 0
        self._attempts_told = 0
        self._reconnects = 0
        self._resets_seen = 0
        self._resets_told = 0
        self._name = controller.name if controller is not None else ""
        self._cntlid = controller.cntlid if controller is not None else ""
        self._reset_count = controller.resets if controller is not None else None
        self._reconnect_count = controller.reconnects if controller is not None else None
        self._left_live: float | None = None

    @property
    def resets(self) -> int:
        """Controller resets, seen or told by ``diag/reset_count`` (error recovery included)."""
        return max(self._resets_seen, self._resets_told)

    @property
    def reconnect_attempts(self) -> int:
        """Attempts by the kernel's log or counter, or at least the reconnects that succeeded."""
        return max(self._attempts_heard, self._attempts_told, self._reconnects)

    def pass_time(self, elapsed: float) -> None:
        """Count the time (seconds) since the last look for the state it was in then."""
        self.seconds[self.state] = self.seconds.get(self.state, 0.0) + elapsed

    def observe(
        self, controller: Controller | None, now: float, wall: float
    ) -> tuple[Transition | None, float | None]:
        """Take the path as it is now (None: gone from the kernel).

        Returns:
            The transition, if there was one, and the length in seconds of the
            outage that it ended. A state that could not be read changes nothing.

        """
        self.renewed = False
        if controller is not None and controller is self._newest:
            return None, None
        self._newest = controller
        state = MISSING if controller is None else controller.state
        transition = None
        outage = None
        if state is not None and state != self.state:
            transition = Transition(self.state, state, now - self.since)
            outage = self._change(state, now, wall)
        if controller is not None:
            self._count_unseen(controller, now, wall)
        return transition, outage

    def observe_ana(self, nsid: str, ana_state: str | None) -> str | None:
        """Take a namespace's ANA state; returns the old one if it changed."""
        if not ana_state:
            return None
        old = self.ana.get(nsid)
        self.ana[nsid] = ana_state
        if old is None or old == ana_state:
            return None
        self.ana_transitions[ana_state] = self.ana_transitions.get(ana_state, 0) + 1
        return old

    def keep_ana(self, nsids: Container[str]) -> None:
        """Forget the ANA states of namespaces that are not there any more."""
        for nsid in [nsid for nsid in self.ana if nsid not in nsids]:
            del self.ana[nsid]

    def announce(self, event: Event) -> None:
        """Count what the kernel log said of the path's controller."""
        if event.kind in _TROUBLE:
            self._in_trouble = True
        elif event.kind in _RECOVERED:
            self._in_trouble = False
        elif event.kind is EventKind.REMOVING and not self._in_trouble:
            self._told_to_go = self.state in {"live", "deleting"}
        cause = error_cause(event.kind)
        if cause is not None and cause not in self._told_once:
            self.errors[cause] = self.errors.get(cause, 0) + 1
            if cause in _ONCE_PER_OUTAGE:
                self._told_once.add(cause)
        if event.kind in _RECOVERED:
            self._told_once.clear()
        if event.kind in {EventKind.RECONNECT_FAILED, EventKind.RECONNECTED}:
            self._attempts_heard += 1

    def _change(self, state: str, now: float, wall: float) -> float | None:
        old, self.state = self.state, state
        self._note_departure(old, state)
        self.since, self.last_transition = now, wall
        self._remember(state, now)
        self._count_transition(state, 1)
        if state == "resetting":
            self._resets_seen += 1
        if old == "live":
            self._left_live = now
        if state != "live":
            return None
        if old in {"connecting", "resetting", MISSING}:
            self._reconnects += 1
        left, self._left_live = self._left_live, None
        return now - left if left is not None else None

    def _remember(self, state: str, now: float) -> None:
        """Go on with the time line, and let go of what ended more than an hour ago."""
        self.timeline.append((now, state))
        while len(self.timeline) > 1 and self.timeline[1][0] <= now - _TIMELINE_SECONDS:
            self.timeline.popleft()

    def _note_departure(self, old: str, state: str) -> None:
        """Find out whether the path goes because somebody wants it to.

        What is removed on purpose goes from live to deleting; what the kernel
        gives up was connecting before, or the log told of its trouble.
        """
        if state == "live":
            self._told_once.clear()
            self._in_trouble = self._told_to_go = False
        elif state == "deleting" and old == "live" and not self._in_trouble:
            self._told_to_go = True
        elif state not in {"deleting", MISSING}:
            self._in_trouble = True
            self._told_to_go = False
        self.left_on_purpose = state == MISSING and self._told_to_go

    def _count_unseen(self, controller: Controller, now: float, wall: float) -> None:
        """Find reconnects between two looks, both of which saw the path live.

        A reconnect makes a new association: the target hands out a new cntlid
        as a rule, and ``diag/reconnect_count`` (7.2+) counts the attempts.
        """
        replaced = controller.name != self._name
        self._name = controller.name
        resets = 0 if replaced else _growth(self._reset_count, controller.resets)
        attempts = 0 if replaced else _growth(self._reconnect_count, controller.reconnects)
        self._reset_count = controller.resets
        self._reconnect_count = controller.reconnects
        self._resets_told += resets
        self._attempts_told += attempts
        unseen = attempts
        if controller.cntlid:
            if self._cntlid and controller.cntlid != self._cntlid:
                unseen = max(unseen, 1)
            self._cntlid = controller.cntlid
        settled = self.state == "live" and (
            self.last_transition is None or now - self.since > _SETTLED_SECONDS
        )
        if unseen and settled:
            self._reconnects += unseen
            self._count_transition("connecting", unseen)
            self._count_transition("live", unseen)
            self.last_transition = wall
            self.renewed = True

    def _count_transition(self, state: str, count: int) -> None:
        self.transitions[state] = self.transitions.get(state, 0) + count


def _growth(before: int | None, now: int | None) -> int:
    """Return how much a counter grew that root may reset to zero."""
    if before is None or now is None:
        return 0
    return now - before if now >= before else now
