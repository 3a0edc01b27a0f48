"""A histogram that only counts: no clock, no lock, no registry."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import NamedTuple

__all__ = ["DURATION_BUCKETS", "POLL_BUCKETS", "Histogram", "Observed"]

#: Upper bounds in seconds for pauses and outages: from below one poll to ctrl_loss_tmo's default.
DURATION_BUCKETS = (
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.0,
    3.0,
    5.0,
    7.5,
    10.0,
    15.0,
    30.0,
    45.0,
    60.0,
    120.0,
    300.0,
    600.0,
)

#: Upper bounds in seconds for the cost of one poll.
POLL_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


class Observed(NamedTuple):
    """What a histogram held at one moment: counts at or below each bound, and of all as the last.

    ``sum`` is in the observations' unit.
    """

    bounds: tuple[float, ...]
    cumulative: tuple[int, ...]
    sum: float


class Histogram:
    """Counts observations by upper bound; ``sum`` is in the observations' unit."""

    __slots__ = ("_counts", "_observed", "bounds", "sum")

    def __init__(self, bounds: tuple[float, ...] = DURATION_BUCKETS) -> None:
        self.bounds = bounds
        self.sum = 0.0
        self._counts = [0] * (len(bounds) + 1)
        self._observed: Observed | None = None

    def observe(self, value: float) -> None:
        """Count one value (not negative)."""
        self._counts[bisect_left(self.bounds, value)] += 1
        self.sum += value
        self._observed = None

    @property
    def count(self) -> int:
        """How many values were observed."""
        return sum(self._counts)

    def cumulative(self) -> list[int]:
        """Return the count at or below each bound, and of all as the last."""
        return list(accumulate(self._counts))

    def observed(self) -> Observed:
        """Return what it holds now: the same object until the next observation."""
        if self._observed is None:
            self._observed = Observed(self.bounds, tuple(self.cumulative()), self.sum)
        return self._observed
