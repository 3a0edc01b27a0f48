"""Which completions of a path are true, and which were cancelled: sent elsewhere, not done."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nvmeof_exporter.model import IoCounters

__all__ = ["Cancellations", "Change"]

#: A failed-over request counted by the kernel ends within this time (seconds);
#: after it, a count that found no completion is dropped.
_CARRY_SECONDS = 1.0

#: Intervals of one request size after which the size is taken for known.
_SIZE_SAMPLES = 3


class Change:
    """What two readings of ``stat`` differ by; ``waited`` in seconds."""

    __slots__ = ("ended", "sectors", "transfers", "waited")

    def __init__(self, old: IoCounters, new: IoCounters) -> None:
        self.ended = new.completed - old.completed
        self.transfers = max(new.reads + new.writes - old.reads - old.writes, 0)
        moved = new.read_sectors + new.write_sectors - old.read_sectors - old.write_sectors
        self.sectors = max(moved, 0)
        self.waited = max(new.waited_ms - old.waited_ms, 0) / 1000


class _Sizes:
    """Learns whether all requests of a path are of one size."""

    __slots__ = ("_seen", "_size")

    def __init__(self) -> None:
        self._size = 0
        self._seen = 0

    @property
    def uniform(self) -> int:
        """The size in sectors, 0 while it is not known or differs."""
        return self._size if self._seen >= _SIZE_SAMPLES else 0

    def learn(self, transfers: int, sectors: int) -> None:
        """Take the requests of an interval in which none was cancelled."""
        if not transfers:
            return
        size, rest = divmod(sectors, transfers)
        if rest or size != self._size:
            self._size = 0 if rest else size
            self._seen = 0
        self._seen += bool(self._size)


class Cancellations:
    """Tells of one path how many of the requests that ended were cancelled."""

    __slots__ = ("_carry", "_carry_until", "_failovers", "_sizes")

    def __init__(self) -> None:
        self._failovers: int | None = None
        self._carry = 0
        self._carry_until = 0.0
        self._sizes = _Sizes()

    def begin(self, failovers: int | None) -> None:
        """Start from here: what was counted before is not known."""
        self._failovers = failovers
        self._carry = 0

    def count(
        self, failovers: int | None, change: Change, now: float, survivors: int | None
    ) -> int:
        """Tell how many of the requests that ended in an interval were cancelled.

        Args:
            failovers: the kernel's own count (7.2+), None where there is none.
            change: what ended.
            now: when the interval ended, monotonic seconds.
            survivors: how many at most can be true where neither the kernel's count
                nor sizes tell; None where the path was usable throughout.

        """
        if failovers is not None and self._failovers is not None:
            return self._by_count(failovers, self._failovers, change, now)
        self._failovers = failovers
        return self._by_signs(change, survivors)

    def _by_count(self, failovers: int, before: int, change: Change, now: float) -> int:
        """Use the kernel's failover count: it counts exactly these.

        It is raised before the request ends, so it may run ahead by a poll.
        It is writable by root: a fall is a reset to zero.
        """
        self._failovers = failovers
        grown = failovers - before if failovers >= before else failovers
        if now > self._carry_until:
            self._carry = 0
        if grown:
            self._carry += grown
            self._carry_until = now + _CARRY_SECONDS
        cancelled = min(self._carry, change.ended)
        self._carry -= cancelled
        return cancelled

    def _by_signs(self, change: Change, survivors: int | None) -> int:
        """Do without the count: a cancelled request moves no sectors.

        Where requests have all been of one size, the sectors therefore tell how
        many were true. Else, completions without a single sector are none, and
        completions in an interval in which the path was not usable throughout
        prove nothing.
        """
        transfers = change.transfers
        size = self._sizes.uniform
        if transfers and not change.sectors:
            return transfers
        if size and change.sectors % size == 0 and change.sectors // size <= transfers:
            return transfers - change.sectors // size
        if survivors is None:
            self._sizes.learn(transfers, change.sectors)
            return 0
        return change.ended - survivors
