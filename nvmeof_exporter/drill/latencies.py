"""Latencies as a histogram with a high dynamic range: from a microsecond to hours, within 1 %.

The scheme is HdrHistogram's: buckets that double, each of equally many steps. Its Python
library is not used: it has no build for ARM servers, and needs a build tool at run time.
"""

from __future__ import annotations

import math

__all__ = ["PERCENTILES", "Latencies"]

#: Below so many microseconds every one has a step of its own; above, steps are at most
#: one part in so many halves.
_STEPS = 256
_SHIFT = _STEPS.bit_length() - 1

_MICROSECONDS = 1_000_000

#: What a report tells of a distribution.
PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99, 100.0)


class Latencies:
    """Counts of latencies. Values are seconds; the greatest and the sum are kept as they are."""

    __slots__ = ("_counts", "count", "greatest", "total")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.count = 0
        self.greatest = 0.0
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        step = _step_of(max(int(seconds * _MICROSECONDS), 0))
        self._counts[step] = self._counts.get(step, 0) + 1
        self.count += 1
        self.total += seconds
        self.greatest = max(self.greatest, seconds)

    def percentile(self, share: float) -> float | None:
        """The latency (seconds) that ``share`` percent do not exceed; None where there are none.

        At most 1 % too great, and exact for 100.
        """
        if not self.count:
            return None
        wanted = max(math.ceil(share / 100 * self.count), 1)
        if wanted >= self.count:
            return self.greatest
        seen = 0
        for step in sorted(self._counts):
            seen += self._counts[step]
            if seen >= wanted:
                return min(_most_in(step) / _MICROSECONDS, self.greatest)
        return self.greatest

    def add_all(self, other: Latencies) -> None:
        """Count everything that ``other`` has counted."""
        for step, count in other._counts.items():
            self._counts[step] = self._counts.get(step, 0) + count
        self.count += other.count
        self.total += other.total
        self.greatest = max(self.greatest, other.greatest)


def _step_of(microseconds: int) -> int:
    """Number the step that a value falls into; the numbers rise with the values."""
    doublings = max(microseconds.bit_length() - _SHIFT, 0)
    return doublings * (_STEPS // 2) + (microseconds >> doublings)


def _most_in(step: int) -> int:
    """The greatest value (microseconds) that falls into a step, and one."""
    half = _STEPS // 2
    doublings = max(step // half - 1, 0)
    return (step - doublings * half + 1) << doublings
