"""Virtual time: what is due when. Deterministic, and nobody sleeps."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Agenda", "Timer"]


class Timer:
    """One thing to do later; ``cancel`` makes it nothing."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None] | None) -> None:
        self.action = action

    def cancel(self) -> None:
        """Do not do it. Harmless when done or cancelled already."""
        self.action = None


class Agenda:
    """Timers in order of time; those of one moment in order of their making.

    ``now`` is in seconds since the node began.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._made = 0
        self._heap: list[tuple[float, int, Timer]] = []

    def after(self, delay: float, action: Callable[[], None]) -> Timer:
        """Do ``action`` in ``delay`` seconds (not negative)."""
        timer = Timer(action)
        self._made += 1
        heapq.heappush(self._heap, (self.now + delay, self._made, timer))
        return timer

    def run(self, seconds: float) -> None:
        """Let ``seconds`` pass, doing all that falls due meanwhile."""
        end = self.now + seconds
        heap = self._heap
        while heap and heap[0][0] <= end:
            when, _, timer = heapq.heappop(heap)
            if timer.action is not None:
                self.now = when
                action, timer.action = timer.action, None
                action()
        self.now = end
