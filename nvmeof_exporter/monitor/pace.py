"""How fast the requests of a namespace complete, and what that tells of when one did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nvmeof_exporter.model import PathId
    from nvmeof_exporter.monitor.progress import Step
    from nvmeof_exporter.monitor.stall import Pause

__all__ = ["NamespaceStep", "Pace", "first_done"]

#: Weight of the newest interval in the running mean.
_WEIGHT = 0.2

#: A longer time (seconds) without completions is no part of their pace.
_GAP_SECONDS = 0.25


@dataclass(slots=True)
class NamespaceStep:
    """What one namespace did between two polls, path by path.

    ``pace``: true completions per second before this interval, 0 when not known.
    """

    paths: dict[PathId, Step] = field(default_factory=dict)
    pace: float = 0.0
    pause: Pause | None = None

    @property
    def true(self) -> int:
        """Requests truly completed, on whichever path."""
        return sum([step.true for step in self.paths.values()])


class Pace:
    """A running mean of true completions per second, while they come; 0 when not known."""

    __slots__ = ("_seen", "per_second")

    def __init__(self) -> None:
        self.per_second = 0.0
        self._seen: float | None = None

    def follow(self, true: int, before: float, now: float) -> None:
        """Take an interval (monotonic seconds) in which requests truly completed."""
        seen, self._seen = self._seen, now
        elapsed = now - before
        if seen is not None and before - seen < _GAP_SECONDS:
            elapsed = now - seen
        if elapsed > 0:
            weight = _WEIGHT if self.per_second else 1.0
            self.per_second += weight * (true / elapsed - self.per_second)


def first_done(
    step: NamespaceStep, resent_at: float | None, resent: int, before: float, now: float
) -> float:
    """Date the first true completion of an interval, from how many it held.

    More than fit at the usual pace came all at once, at a time nobody knows:
    the middle then. ``resent_at`` is when ``resent`` requests were sent on over
    these paths, None when that is not known: the first of them cannot have taken
    longer than their share of what all that ended took together.
    """
    first = (before + now) / 2
    if step.pace and now - step.true / step.pace > before:
        first = now - step.true / step.pace
    if resent_at is None:
        return first
    took = min(s.latency * s.true for s in step.paths.values() if s.true)
    return max(before, min(first, resent_at + took / max(resent, 1)))
