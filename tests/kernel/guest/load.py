"""Applications, and what their own clocks say of how long their requests took."""

from __future__ import annotations

import heapq
import json
import math
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tests.kernel.guest.probe import KEPT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = [
    "USUAL_PRIORITY",
    "Fio",
    "Load",
    "LoadSettings",
    "Probe",
    "SlowRequest",
    "as_json",
    "start",
    "warm_up",
]

#: Undoes what ``run.py`` gives itself, for what it starts.
USUAL_PRIORITY = ("nice", "--adjustment=20")

_CLOCK_MONOTONIC = 1

_Timed = tuple[float, float, bool]  # a request: seconds, end (monotonic), whether it failed


@dataclass(frozen=True)
class LoadSettings:
    """What an application does: ``pattern`` is fio's ``rw``, ``depth`` its ``iodepth``.

    It works for ``think_ms`` of its own after every ``burst`` requests.
    ``fails``: its requests will fail, which fio does not time: the probe runs instead.
    """

    pattern: str = "randread"
    depth: int = 1
    think_ms: int = 1
    burst: int = 1
    fails: bool = False


@dataclass(frozen=True, order=True)
class SlowRequest:
    """One request as its application has timed it.

    Seconds; ``start`` and ``end`` on the monotonic clock.
    """

    seconds: float
    start: float
    end: float
    disk: str
    failed: bool = False


class Load(ABC):
    """A running application that works on ``disks`` and leaves its log in ``directory``."""

    def __init__(self, command: list[str], disks: Sequence[str], directory: Path) -> None:
        self._disks = disks
        self._directory = directory
        self.output = directory / "load.log"
        with self.output.open("w") as log:
            self._process = subprocess.Popen(
                [*USUAL_PRIORITY, *command], stdout=log, stderr=log, cwd=directory
            )

    def stop(self, since: float = 0.0, until: float = math.inf) -> list[SlowRequest]:
        """End the application and return the slowest requests of each disk, the worst first.

        Only those that began before ``until`` and ended after ``since`` (monotonic seconds).
        Raises LookupError when it has timed no request then.
        """
        if self.running:
            self._process.send_signal(signal.SIGINT)
        self._process.wait(30)
        slowest = [
            SlowRequest(seconds, end - seconds, end, disk, failed)
            for disk, timed in self._timed().items()
            for seconds, end, failed in heapq.nlargest(
                KEPT, (each for each in timed if each[1] > since and each[1] - each[0] < until)
            )
        ]
        if not slowest:
            raise LookupError(f"the load did nothing: {self.output.read_text()[-2000:]}")
        return sorted(slowest, reverse=True)

    @property
    def running(self) -> bool:
        """Whether it still runs; it ends by itself when its requests fail."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End it at once, without its logs."""
        self._process.kill()

    @abstractmethod
    def _timed(self) -> dict[str, list[_Timed]]:
        """What it has timed, by disk, once it has ended."""


class Fio(Load):
    """fio, one job per disk, with a log of every single request's latency."""

    def __init__(self, disks: Sequence[str], settings: LoadSettings, directory: Path) -> None:
        super().__init__(_fio_command(disks, settings), disks, directory)

    def _timed(self) -> dict[str, list[_Timed]]:
        logs = {
            disk: self._directory / f"request_lat.{number}.log"
            for number, disk in enumerate(self._disks, 1)
        }
        found = {disk: _timed_by_fio(log) for disk, log in logs.items() if log.exists()}
        for disk in found:
            logs[disk].unlink()
        return found


class Probe(Load):
    """The probe (``probe.py``) on the first disk."""

    def __init__(self, disks: Sequence[str], settings: LoadSettings, directory: Path) -> None:
        self._times = directory / "probe.json"
        command = [sys.executable, "-m", "tests.kernel.guest.probe"]
        command += [disks[0], settings.pattern, str(self._times)]
        super().__init__(command, disks, directory)

    def _timed(self) -> dict[str, list[_Timed]]:
        if not self._times.exists():
            return {}
        timed = json.loads(self._times.read_text())
        return {self._disks[0]: [(seconds, end, failed) for seconds, end, failed in timed]}


def start(disks: Sequence[str], settings: LoadSettings, directory: Path) -> Load:
    """Start the application that ``settings`` ask for."""
    if settings.fails:
        return Probe(disks, settings, directory)
    return Fio(disks, settings, directory)


def warm_up(directory: Path) -> None:
    """Have fio read from the host what it needs, on a file of its own, before time matters."""
    settings = LoadSettings("randrw", depth=32, burst=32)
    command = [
        *_fio_command([], settings),
        "--direct=0",
        "--size=1m",
        "--time_based=0",
        "--name=warm-up",
    ]
    subprocess.run(command, cwd=directory, stdout=subprocess.DEVNULL, check=True)
    for file in (*directory.glob("warm-up*"), *directory.glob("request_*.log")):
        file.unlink()


def _fio_command(disks: Sequence[str], settings: LoadSettings) -> list[str]:
    options: dict[str, Any] = {
        "ioengine": "libaio",
        "direct": 1,
        "rw": settings.pattern,
        "bs": "4k",
        "size": "32m",
        "iodepth": settings.depth,
        "iodepth_batch_submit": settings.depth,
        "thinktime": f"{settings.think_ms}ms",
        "thinktime_blocks": settings.burst,
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
    for disk in disks:
        command += [f"--name={disk}", f"--filename=/dev/{disk}"]
    return command


def _timed_by_fio(log: Path) -> list[_Timed]:
    """The requests that ``log`` tells of.

    Each line is: end in ms, latency in ns, direction, size, offset (fio's manual, "Log file
    formats").
    """
    with log.open() as lines:
        fields = (line.split(",", 2) for line in lines)
        return [(int(latency) / 1e9, int(end) / 1e3, False) for end, latency, _ in fields]


def as_json(requests: list[SlowRequest]) -> list[dict[str, Any]]:
    """For the host: plain values instead of objects."""
    return [asdict(request) for request in requests]
