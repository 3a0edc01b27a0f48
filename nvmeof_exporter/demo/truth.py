"""What the applications felt: the measure that the exporter's figures are held against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nvmeof_exporter.demo.devices import Path
    from nvmeof_exporter.model import PathId

__all__ = ["Failover", "Pause", "Truth"]

#: Waits longer than this many seconds are remembered.
_SLOW = 0.1


@dataclass(slots=True)
class Pause:
    """Overlapping slow requests of one namespace, in seconds of virtual time.

    From the issue of the first to the end of the last; ``longest`` is the worst
    single wait, ``failed`` how many of them ended in an error.
    """

    start: float
    end: float
    longest: float
    requests: int = 1
    failed: int = 0


@dataclass(slots=True)
class Failover:
    """I/O of one namespace that left a path, in seconds of virtual time.

    ``last_completed`` is the last I/O truly completed on the lost path (None:
    there was none), ``given_up`` when its requests were cancelled, and
    ``first_elsewhere`` the first true completion on another path after that
    (None: not yet). ``cancelled`` counts the requests that were caught; 0 when
    none was on its way at that moment, of a path that had carried I/O just before.
    """

    nqn: str
    nsid: int
    path: PathId
    cause: str
    last_completed: float | None
    given_up: float
    cancelled: int
    first_elsewhere: float | None = None

    @property
    def duration(self) -> float | None:
        """From ``last_completed`` to ``first_elsewhere``; None where either is unknown."""
        if self.last_completed is None or self.first_elsewhere is None:
            return None
        return self.first_elsewhere - self.last_completed


class Truth:
    """Pauses per (NQN, NSID), and failovers in order of time.

    Args:
        threshold: waits longer than this many seconds make a pause.

    """

    def __init__(self, threshold: float = _SLOW) -> None:
        self.threshold = threshold
        self.pauses: dict[tuple[str, int], list[Pause]] = {}
        self.failovers: list[Failover] = []
        self._open: dict[tuple[str, int], list[Failover]] = {}

    def ended(
        self, key: tuple[str, int], issued: float, now: float, *, failed: bool = False
    ) -> None:
        """Note that a request of namespace ``key`` ended."""
        waited = now - issued
        if waited <= self.threshold:
            return
        pauses = self.pauses.setdefault(key, [])
        if pauses and issued <= pauses[-1].end:
            pause = pauses[-1]
            pause.start = min(pause.start, issued)
            pause.end = now
            pause.longest = max(pause.longest, waited)
            pause.requests += 1
        else:
            pause = Pause(start=issued, end=now, longest=waited)
            pauses.append(pause)
        pause.failed += failed

    def completed_on(self, path: Path, key: tuple[str, int], now: float) -> None:
        """Note a true completion on ``path``, which may end failovers of its namespace.

        I/O that returns to the path it left, none else having served it, ends
        the failover too, with ``first_elsewhere`` left unknown.
        """
        path.last_completion = now
        if waiting := self._open.pop(key, None):
            survivor = path.controller.connection.path_id
            for failover in waiting:
                if failover.path != survivor:
                    failover.first_elsewhere = now

    def left(
        self, path: Path, key: tuple[str, int], now: float, cause: str, cancelled: int
    ) -> None:
        """Note that I/O leaves ``path``, ``cancelled`` requests with it."""
        waiting = self._open.setdefault(key, [])
        lost = path.controller.connection.path_id
        for failover in waiting:
            if failover.path == lost:
                failover.cancelled += cancelled
                return
        failover = Failover(
            nqn=key[0],
            nsid=key[1],
            path=lost,
            cause=cause,
            last_completed=path.last_completion,
            given_up=now,
            cancelled=cancelled,
        )
        self.failovers.append(failover)
        waiting.append(failover)
