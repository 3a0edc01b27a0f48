"""fio, and what its log says of the latency that the application itself has measured."""

from __future__ import annotations

import heapq
import signal
import subprocess
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["Load", "LoadSettings", "SlowRequest"]

_KEPT = 40  # slowest requests that a record tells of
_CLOCK_MONOTONIC = 1


@dataclass(frozen=True)
class LoadSettings:
    """``pattern`` is fio's ``rw``; ``think_ms`` lets the emulated processors breathe."""

    pattern: str = "randread"
    depth: int = 1
    think_ms: int = 2


@dataclass(frozen=True, order=True)
class SlowRequest:
    """One request as fio has timed it: seconds, ``start`` and ``end`` on the monotonic clock."""

    seconds: float
    start: float
    end: float
    disk: str


class Load:
    """A running fio, one job per disk, with a log of every single request's latency."""

    def __init__(self, disks: Sequence[str], settings: LoadSettings, directory: Path) -> None:
        self._disks = disks
        self._directory = directory
        self.output = directory / "fio.log"
        with self.output.open("w") as log:
            self._process = subprocess.Popen(
                self._command(settings), stdout=log, stderr=log, cwd=directory
            )

    def stop(self) -> list[SlowRequest]:
        """End fio and return its slowest requests, the worst first.

        Raises LookupError when fio has logged no request at all.
        """
        self._process.send_signal(signal.SIGINT)
        self._process.wait(30)
        slowest: list[SlowRequest] = []
        total = 0
        for number, disk in enumerate(self._disks, 1):
            count, slow = _parse(self._directory / f"request_lat.{number}.log", disk)
            total += count
            slowest += slow
        if not total:
            raise LookupError(f"fio did nothing: {self.output.read_text()[-2000:]}")
        return sorted(slowest, reverse=True)[:_KEPT]

    @property
    def running(self) -> bool:
        """Whether fio still runs; it ends by itself when its requests fail."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End fio at once, without its logs."""
        self._process.kill()

    def _command(self, settings: LoadSettings) -> list[str]:
        options: dict[str, Any] = {
            "ioengine": "libaio",
            "direct": 1,
            "rw": settings.pattern,
            "bs": "4k",
            "size": "32m",
            "iodepth": settings.depth,
            "iodepth_batch_submit": settings.depth,
            "thinktime": f"{settings.think_ms}ms",
            "thinktime_blocks": settings.depth,
            "time_based": 1,
            "runtime": 3600,
            "thread": 1,
            "norandommap": 1,
            "randrepeat": 0,
            "disable_slat": 1,
            "disable_clat": 1,
            "write_lat_log": "request",
            "log_avg_msec": 0,
            "log_alternate_epoch": 1,
            "log_alternate_epoch_clock_id": _CLOCK_MONOTONIC,
        }
        command = ["fio", *(f"--{name}={value}" for name, value in options.items())]
        for disk in self._disks:
            command += [f"--name={disk}", f"--filename=/dev/{disk}"]
        return command


def _parse(log: Path, disk: str) -> tuple[int, list[SlowRequest]]:
    """How many requests ``log`` tells of, and the slow ones.

    Each line is: end in ms, latency in ns, direction, size, offset (fio's manual, "Log file
    formats").
    """
    if not log.exists():
        return 0, []
    requests = []
    with log.open() as lines:
        for line in lines:
            end, latency, _ = line.split(",", 2)
            requests.append((int(latency) / 1e9, int(end) / 1e3))
    log.unlink()
    worst = heapq.nlargest(_KEPT, requests)
    return len(requests), [SlowRequest(t, end - t, end, disk) for t, end in worst]


def as_json(requests: list[SlowRequest]) -> list[dict[str, Any]]:
    """For the host: plain values instead of objects."""
    return [asdict(request) for request in requests]
