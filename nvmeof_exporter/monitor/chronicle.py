"""What happened, numbered, as far back as is kept: for whoever asks later."""

from __future__ import annotations

from collections import deque
from heapq import merge
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nvmeof_exporter.monitor.records import Occurrence

__all__ = ["Chronicle"]

#: As many are kept of either sort.
_KEPT = 500

#: What one incident brings a few of. The others come once per path and namespace: a takeover
#: of a large array brings thousands, and must not push these out.
_WEIGHTY = frozenset({"failover", "failback", "I/O paused"})

_by_number = attrgetter("number")


class Chronicle:
    """Keeps the newest occurrences, oldest first.

    Attributes:
        newest: the number of the newest one, 0 before the first.

    """

    def __init__(self) -> None:
        self.newest = 0
        self._weighty: deque[Occurrence] = deque(maxlen=_KEPT)
        self._others: deque[Occurrence] = deque(maxlen=_KEPT)

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._weighty) + len(self._others)

    def __iter__(self) -> Iterator[Occurrence]:
        """Each that is kept, oldest first."""
        return merge(self._weighty, self._others, key=_by_number)

    def extend(self, news: Iterable[Occurrence]) -> None:
        """Take what happened since, oldest first."""
        for occurrence in news:
            kept = self._weighty if occurrence.kind in _WEIGHTY else self._others
            kept.append(occurrence)
            self.newest = occurrence.number
