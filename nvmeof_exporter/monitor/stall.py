"""Pauses of one namespace: is I/O wanted, does it move, and since when not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nvmeof_exporter.monitor.pace import NamespaceStep, Pace, first_done
from nvmeof_exporter.monitor.progress import PathProgress

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from nvmeof_exporter.model import Namespace, PathId
    from nvmeof_exporter.monitor.progress import Step

__all__ = ["Announced", "NamespaceProgress", "Pause"]

#: Requests given up by a lost path are re-sent at once when another is usable.
#: When none shows up in flight within this time (seconds), nobody wants them any more.
_PARKED_GRACE_SECONDS = 0.5

#: An ANA error cancels requests up to 0.2 s before the state says so: completions
#: this shortly (seconds) before a path left the usable set may have been cancellations.
_EARLY_CANCEL_SECONDS = 0.3

#: A controller that is deleted while its path is silent (``deleting (no IO)``) loses its
#: disks at once and its requests only with the I/O time-out, 30 s by default. As long,
#: and as long again, the head's in-flight count is believed; some kernels leak it.
_ORPHANED_SECONDS = 60.0

#: A path whose counters cannot be read for longer than this (seconds) may be the one
#: that I/O moves on: nothing is said of pauses then.
_BLIND_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Announced:
    """What is known of an interval beside the snapshots at its ends. Monotonic seconds.

    ``renewed``: names of controllers that reconnected in it unseen. ``given_up_at``: when
    the kernel said that it gives controllers up, by their names. ``requeued_at``: when it
    first said that I/O found no usable path; ``failed``: that I/O was failed for lack of any.
    """

    renewed: Collection[str] = ()
    given_up_at: Mapping[str, float] = field(default_factory=dict)
    requeued_at: float | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause that is over. ``outcome``: ``resumed``, ``failed`` (I/O was failed) or ``gone``."""

    start: float
    end: float
    outcome: str

    @property
    def duration(self) -> float:
        """Length in seconds."""
        return max(self.end - self.start, 0.0)


_NOTHING = Announced()


class NamespaceProgress:
    """Follows one namespace.

    ``last_true``: when a request last truly completed on any path.
    ``wanted_since``: since when I/O is wanted without having moved: in flight
    on a path, or parked (given up by a lost path, with no path to go to).
    Times are monotonic seconds.
    """

    def __init__(self) -> None:
        self.paths: dict[PathId, PathProgress] = {}
        self.last_true: float | None = None
        self.wanted_since: float | None = None
        self.parked_since: float | None = None
        self._start: float | None = None
        self._start_is_exact = False
        self._parked = 0
        self._on_head_only = False
        self._removed: set[PathId] = set()
        self._orphaned_until = 0.0
        self._usable_since: float | None = None
        self._seen: Namespace | None = None
        self._pace = Pace()
        self._turned_away = False
        self._unknown = False
        self._requeued: int | None = None
        self._failed: int | None = None

    @property
    def wanted(self) -> bool:
        """Whether somebody waits for I/O."""
        return self.wanted_since is not None

    def is_unmoved(self, namespace: Namespace) -> bool:
        """Whether this is what was seen last, and nobody waits for anything."""
        return namespace is self._seen and self.wanted_since is None

    @property
    def waiting_since(self) -> float | None:
        """Since when wanted I/O has made no progress (monotonic seconds)."""
        return self._start if self.wanted else None

    def sent_on_at(self, given_up: float | None) -> float | None:
        """Return ``given_up`` if another path was usable then, so that requests went on at once."""
        since = self._usable_since
        return (
            given_up if given_up is not None and since is not None and since <= given_up else None
        )

    @property
    def may_wait_unseen(self) -> bool:
        """Whether I/O may wait for a path since before the first look: no counter shows that."""
        return self._unknown and not self.wanted

    def stalled_for(self, now: float) -> float:
        """Seconds that wanted I/O has made no progress; 0 when none is wanted."""
        if self._start is None or self.wanted_since is None:
            return 0.0
        return max(now - self._start, 0.0)

    def observe(
        self,
        namespace: Namespace,
        before: float,
        now: float,
        announced: Announced = _NOTHING,
    ) -> NamespaceStep:
        """Take the namespace as it is now.

        Args:
            namespace: the newest snapshot's.
            before: when the previous snapshot was taken, monotonic seconds.
            now: when the newest was taken.
            announced: what the kernel said in between.

        """
        first, self._seen = self._seen is None, namespace
        step = NamespaceStep(pace=self._pace.per_second)
        for path in namespace.paths:
            key = path.controller.path
            progress = self.paths.get(key)
            if progress is None:
                progress = self.paths[key] = PathProgress()
            name = path.controller.name
            step.paths[key] = progress.observe(
                path,
                before,
                now,
                renewed=name in announced.renewed,
                given_up_at=announced.given_up_at.get(name),
            )
        for key in self._gone(step):
            step.paths[key] = self.paths.pop(key).vanish(before, now)
            if step.paths[key].cancelled:
                self._orphaned_until = now + _ORPHANED_SECONDS
        self._on_head_only = _on_head_only(namespace)
        self._removed = {
            path.controller.path for path in namespace.paths if path.controller.state == "deleting"
        }
        if any(
            p.unread_since is not None and now - p.unread_since > _BLIND_SECONDS
            for p in self.paths.values()
        ):
            return self._see_nothing(step)
        if self._nothing_usable():
            self._usable_since, self._unknown = None, self._unknown or first
        elif self._usable_since is None:
            self._usable_since, self._unknown = now, False
        grown, self._requeued = _growth(self._requeued, namespace.requeued)
        requeued_at = announced.requeued_at
        requeued = requeued_at is not None or grown > 0
        grown, self._failed = _growth(self._failed, namespace.failed)
        failed = announced.failed or grown > 0
        true = step.true
        if true:
            self._pace.follow(true, before, now)
            step.pause = self._resume(step, before, now, requeued=requeued)
            self._start_no_sooner_than(requeued_at)
        elif failed:
            step.pause = self._end(now, "failed")
            self.parked_since = None
        else:
            self._wait(step, before, now, requeued=requeued)
            cancelled = any(s.cancelled for s in step.paths.values())
            self._start_no_sooner_than(requeued_at, dates=not cancelled)
        return step

    def _gone(self, step: NamespaceStep) -> list[PathId]:
        """List the paths that have no step, as they are not there any more."""
        if len(self.paths) == len(step.paths):
            return []
        return [key for key in self.paths if key not in step.paths]

    def vanish(self, now: float) -> Pause | None:
        """Take it that the namespace is gone; returns the pause that this ended."""
        return self._end(now, "gone")

    def _see_nothing(self, step: NamespaceStep) -> NamespaceStep:
        """Give up what was known of a pause: whether I/O moves cannot be told meanwhile."""
        if self.parked_since is None:
            self.wanted_since = self._start = None
            self._start_is_exact = False
        return step

    def _resume(
        self, step: NamespaceStep, before: float, now: float, *, requeued: bool
    ) -> Pause | None:
        """I/O completed: end the pause, begin to wait for the next completion."""
        end, start = self._resumed_at(step, before, now)
        if start is not None and self._start is not None and not self._start_is_exact:
            self._start = start
        pause = self._end(max(end, before), "resumed")
        lasts = [p.last_true for p in self.paths.values() if p.last_true is not None]
        self.last_true = max(lasts, default=now)
        self.parked_since = None
        if self._given_up_only(step) or (requeued and self._nothing_usable()):
            self.parked_since = now
        if self.parked_since is not None or any(p.in_flight for p in self.paths.values()):
            self.wanted_since = self._start = self.last_true
        return pause

    @property
    def _tells_requeued(self) -> bool:
        """Whether the kernel counts what finds no usable path, so that nothing need be guessed.

        The kernel log tells as well, but one rate limit holds for all heads of the node.
        """
        return self._requeued is not None

    def _start_no_sooner_than(self, requeued_at: float | None, *, dates: bool = True) -> None:
        """Let the kernel log date the start: nothing waited before it was turned away.

        Only the first line of a pause does: it comes again with later requests.
        Where cancelled requests tell better it does not date, and is still the first.
        """
        if self.parked_since is None:
            self._turned_away = False
            return
        first = requeued_at is not None and not self._turned_away
        self._turned_away |= requeued_at is not None
        if first and dates and self._start is not None and not self._start_is_exact:
            self._start = max(self._start, requeued_at or 0.0)
            self._start_is_exact = True

    def _given_up_only(self, step: NamespaceStep) -> bool:
        """Whether requests were given up, or have no path any more, and none was done since."""
        given_up = {key for key, s in step.paths.items() if s.cancelled}
        lost = self._nothing_usable() and any(s.lost for s in step.paths.values())
        if lost and not self._tells_requeued:
            # I/O flowed until the last path was lost: whoever wanted it wants more.
            return True
        return bool(given_up) and all(key in given_up for key, s in step.paths.items() if s.true)

    def _resumed_at(
        self, step: NamespaceStep, before: float, now: float
    ) -> tuple[float, float | None]:
        """Date the first completion, and the start where this very completion dates it."""
        middle = (before + now) / 2
        resumed = [(key, s) for key, s in step.paths.items() if s.true]
        given_up = [s for s in step.paths.values() if s.cancelled and s.wait is not None]
        if given_up and self.parked_since is None:
            # Given up and done elsewhere within one interval: the second way's own latency counts.
            oldest = max(given_up, key=lambda s: s.wait or 0.0)
            latency = min(*(s.latency for _, s in resumed), (now - before) / 2)
            flowing = [s.last_true for s in step.paths.values() if not s.cancelled and s.last_true]
            return oldest.ended + latency, max([oldest.ended - (oldest.wait or 0.0), *flowing])
        if len(resumed) == 1 and not any(s.cancelled for s in step.paths.values()):
            key, only = resumed[0]
            waited_here = only.in_flight_before > 0 and self.parked_since is None
            if waited_here and only.wait is not None:
                start = middle - only.wait
                others = [p.last_true for k, p in self.paths.items() if k != key and p.last_true]
                return middle, max([start, *others])
        sent_on = self.sent_on_at(self.parked_since)
        return first_done(step, sent_on, self._parked, before, now), None

    def _wait(self, step: NamespaceStep, before: float, now: float, *, requeued: bool) -> None:
        """Nothing completed: find out whether somebody waits, and since when."""
        in_flight = any(progress.in_flight for progress in self.paths.values())
        middle = (before + now) / 2
        if self._given_up(step, before) or requeued:
            if self.parked_since is None:
                self.parked_since = middle
                self._parked = sum(s.cancelled for s in step.paths.values())
            self._date_start(step, now - before)
        elif self.parked_since is not None and not in_flight and self._nobody_waits(now):
            self.parked_since = None
        if in_flight or self.parked_since is not None:
            if self.wanted_since is None:
                self.wanted_since = middle
            if self._start is None:
                self._start = self._first_wanted(step, middle)
        else:
            self.wanted_since = self._start = None
            self._start_is_exact = False

    def _first_wanted(self, step: NamespaceStep, middle: float) -> float:
        """Date the start when the first sign of waiting comes after the flow stopped."""
        lost = any(s.lost or s.cancelled for s in step.paths.values())
        if (
            lost
            and self.last_true is not None
            and middle - self.last_true < 2 * _EARLY_CANCEL_SECONDS
        ):
            return self.last_true
        return middle

    def _given_up(self, step: NamespaceStep, before: float) -> bool:
        """Whether a path gave requests up that are not done yet."""
        for key, s in step.paths.items():
            if s.cancelled:
                return True
            progress = self.paths.get(key)
            if self._tells_requeued or key in self._removed:
                # The kernel tells; or an administrator takes it away, and whoever still
                # wanted I/O would have some in flight.
                continue
            if s.lost and progress is not None and progress.last_ended is not None:
                recent = before - progress.last_ended < _EARLY_CANCEL_SECONDS
                others_idle = not any(p.usable for k, p in self.paths.items() if k != key)
                if recent and others_idle and not progress.in_flight:
                    return True
        return False

    def _date_start(self, step: NamespaceStep, interval: float) -> None:
        """Let the cancelled requests' own waiting time date the start of the pause, once."""
        dated = [
            self._start_by(key, s, interval)
            for key, s in step.paths.items()
            if s.cancelled and s.wait is not None
        ]
        if not dated or self._start_is_exact:
            return
        start = min(dated)
        untouched = [
            progress.last_true
            for key, progress in self.paths.items()
            if progress.last_true is not None
            and not (step.paths[key].cancelled and step.paths[key].wait is not None)
        ]
        self._start = max([start, *untouched])
        self._start_is_exact = True

    def _start_by(self, key: PathId, step: Step, interval: float) -> float:
        """Date the start by a cancelled request; a wait shorter than the interval is not enough.

        When requests completed steadily, the gap after the last one begins the pause.
        """
        wait = step.wait or 0.0
        start = step.ended - wait
        progress = self.paths.get(key)
        due = progress.next_due(step) if progress is not None else None
        return min(start, due) if due is not None and wait < interval else start

    def _nothing_usable(self) -> bool:
        return not any(progress.usable for progress in self.paths.values())

    def _nobody_waits(self, now: float) -> bool:
        """Whether requests given up would have been sent on long ago, were there any."""
        if self._usable_since is None or self.parked_since is None:
            return False
        if self._on_head_only and now < self._orphaned_until:
            # A controller that is stuck while it is deleted keeps its requests.
            return False
        return now - max(self._usable_since, self.parked_since) > _PARKED_GRACE_SECONDS

    def _end(self, end: float, outcome: str) -> Pause | None:
        start, self._start = self._start, None
        wanted, self.wanted_since = self.wanted_since, None
        self._start_is_exact = False
        if start is None or wanted is None:
            return None
        return Pause(start, max(end, start), outcome)


def _on_head_only(namespace: Namespace) -> bool:
    """Whether the head has requests in flight that are on none of its paths."""
    if namespace.io is None:
        return False
    on_paths = sum([path.io.in_flight for path in namespace.paths if path.io is not None])
    return namespace.io.in_flight > on_paths


def _growth(before: int | None, now: int | None) -> tuple[int, int | None]:
    """Return how much a resettable counter grew, and the value to keep."""
    if now is None or before is None:
        return 0, now
    return (now - before if now >= before else now), now
