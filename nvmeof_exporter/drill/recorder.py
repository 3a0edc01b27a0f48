"""Records every I/O of the load: how long it took, what failed, and how long nothing was done.

A *pause* is what the exporter means by it: from the last request that was done, or from
when one was first wanted after idleness, to the next one that is done. It is told of all
workers together and of each by itself. Times are seconds on the monotonic clock.
"""

from __future__ import annotations

import errno
import math
import threading
from dataclasses import dataclass, field
from typing import NamedTuple

from nvmeof_exporter.drill.latencies import Latencies

__all__ = ["KINDS", "SLOTS_PER_SECOND", "Failure", "Pause", "Recorder", "Sample", "Slot"]

#: What a request can be; ``name`` is one that makes, renames or removes a file or directory.
KINDS = ("read", "write", "sync", "name")

#: The timeline's resolution.
SLOTS_PER_SECOND = 10

#: Pauses and errors that are kept one by one; the rest is counted.
_KEPT = 10_000


class Pause(NamedTuple):
    """A time in which nothing was done though something was wanted.

    ``worker`` is ``""`` for all of them together. ``failed``: it ended with an error.
    """

    start: float
    end: float
    worker: str = ""
    failed: bool = False

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return self.end - self.start


class Failure(NamedTuple):
    """A request that failed."""

    time: float
    worker: str
    kind: str
    error: str


class Sample(NamedTuple):
    """Totals up to ``time``, and for how long (seconds) nothing has been done then."""

    time: float
    read_bytes: int
    written_bytes: int
    done: int
    failed: int
    stalled: float

    @property
    def bytes(self) -> int:
        """Bytes moved either way."""
        return self.read_bytes + self.written_bytes


@dataclass(slots=True)
class Slot:
    """What was done in a tenth of a second; ``worst`` is the greatest latency of it."""

    read_bytes: int = 0
    written_bytes: int = 0
    done: int = 0
    failed: int = 0
    worst: float = 0.0


@dataclass(slots=True)
class _Progress:
    """Since when something is wanted, and when something was last done."""

    name: str
    outstanding: int = 0
    wanted: float = 0.0
    done: float = 0.0

    def begin(self, now: float) -> None:
        if not self.outstanding:
            self.wanted = now
        self.outstanding += 1

    def end(self, now: float, *, failed: bool) -> Pause | None:
        """Return the time that nothing was done until now, None where that was idle."""
        pause = Pause(self.since, now, self.name, failed)
        self.outstanding -= 1
        self.done = max(self.done, now)
        return pause

    @property
    def since(self) -> float:
        return max(self.wanted, self.done)

    def stalled(self, now: float) -> float:
        return max(now - self.since, 0.0) if self.outstanding else 0.0


@dataclass(slots=True)
class _Worker:
    progress: _Progress
    longest: float = 0.0
    failed: int = 0


@dataclass(slots=True)
class Recorder:
    """Takes down what the workers do; any thread may ask.

    Args:
        start: when the record begins.
        threshold: pauses at least this long (seconds) are kept.

    """

    start: float
    threshold: float = 0.1
    latencies: dict[str, Latencies] = field(
        default_factory=lambda: {kind: Latencies() for kind in KINDS}
    )
    pauses: list[Pause] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    failed: int = 0
    slots: list[Slot] = field(default_factory=list)
    workers: dict[str, _Worker] = field(default_factory=dict)
    _all: _Progress = field(default_factory=lambda: _Progress(""))
    _totals: Slot = field(default_factory=Slot)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, worker: str, now: float) -> None:
        """Note that a worker has asked for something."""
        with self._lock:
            if worker not in self.workers:
                self.workers[worker] = _Worker(_Progress(worker))
            self.workers[worker].progress.begin(now)
            self._all.begin(now)

    def end(
        self,
        worker: str,
        kind: str,
        begun: float,
        now: float,
        moved: int,
        error: int = 0,
    ) -> None:
        """Note that it has ended.

        Args:
            worker: who had asked.
            kind: one of KINDS.
            begun: when it was asked for, as ``begin`` was told.
            now: when it ended.
            moved: how many bytes it moved.
            error: errno, 0 where it was done.

        """
        with self._lock:
            own = self.workers[worker]
            own.longest = max(own.longest, now - own.progress.since)
            for progress in (self._all, own.progress):
                self._keep(progress.end(now, failed=bool(error)))
            if error:
                own.failed += 1
                self.failed += 1
                if len(self.failures) < _KEPT:
                    name = errno.errorcode.get(error, str(error))
                    self.failures.append(Failure(now, worker, kind, name))
            else:
                self.latencies[kind].add(now - begun)
            for slot in (self._slot(now), self._totals):
                _count(slot, kind, moved, now - begun, failed=bool(error))

    def sample(self, now: float) -> Sample:
        """Tell the totals as of now."""
        with self._lock:
            totals = self._totals
            return Sample(
                now,
                totals.read_bytes,
                totals.written_bytes,
                totals.done,
                self.failed,
                self._all.stalled(now),
            )

    def ongoing(self, now: float) -> list[Pause]:
        """Return the pauses that have not ended yet, as if they did now."""
        with self._lock:
            progresses = [self._all, *(worker.progress for worker in self.workers.values())]
            return [
                Pause(progress.since, now, progress.name)
                for progress in progresses
                if progress.stalled(now) >= self.threshold
            ]

    def longest(self, begun: float, ended: float, now: float, *, whole: bool) -> float:
        """Tell the longest pause, in seconds, that began before one moment and ended after another.

        Args:
            begun: what had not begun by then does not count.
            ended: what had ended by then does not count.
            now: pauses that go on are taken to end then.
            whole: of all workers together, else of whichever worker waited longest.

        Returns:
            0 where none was as long as the threshold.

        """
        with self._lock:
            kept = list(self.pauses)
        return max(
            (
                pause.seconds
                for pause in kept + self.ongoing(now)
                if pause.start < begun and pause.end > ended and whole is not bool(pause.worker)
            ),
            default=0.0,
        )

    def waits(self, now: float) -> float:
        """Tell for how long (seconds) the worker that waits longest has waited."""
        with self._lock:
            return max(
                (worker.progress.stalled(now) for worker in self.workers.values()), default=0.0
            )

    def total(self, first: int, last: int) -> Slot:
        """Add up some slots, from the first to before the last; ``worst`` is the worst of them."""
        total = Slot()
        with self._lock:
            for slot in self.slots[first:last]:
                total.read_bytes += slot.read_bytes
                total.written_bytes += slot.written_bytes
                total.done += slot.done
                total.failed += slot.failed
                total.worst = max(total.worst, slot.worst)
        return total

    def moved(self, start: float, end: float) -> float:
        """Bytes moved in the slots that lie whole between two moments, per second; 0 for none."""
        first = max(math.ceil((start - self.start) * SLOTS_PER_SECOND), 0)
        last = max(math.floor((end - self.start) * SLOTS_PER_SECOND), 0)
        if last <= first:
            return 0.0
        total = self.total(first, last)
        moved = total.read_bytes + total.written_bytes
        return moved * SLOTS_PER_SECOND / (last - first)

    def _keep(self, pause: Pause | None) -> None:
        if pause is not None and pause.seconds >= self.threshold and len(self.pauses) < _KEPT:
            self.pauses.append(pause)

    def _slot(self, now: float) -> Slot:
        index = max(int((now - self.start) * SLOTS_PER_SECOND), 0)
        while len(self.slots) <= index:
            self.slots.append(Slot())
        return self.slots[index]


def _count(slot: Slot, kind: str, moved: int, seconds: float, *, failed: bool) -> None:
    if failed:
        slot.failed += 1
    else:
        slot.done += 1
    if kind == "read":
        slot.read_bytes += moved
    elif kind == "write":
        slot.written_bytes += moved
    slot.worst = max(slot.worst, seconds)
