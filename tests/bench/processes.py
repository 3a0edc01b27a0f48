"""A server under measurement: its processor time, its memory, and its answers."""

from __future__ import annotations

import gzip
import http.client
import socket
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Process", "free_port", "samples_in"]

_ANSWER_SECONDS = 60.0
_NANOSECONDS = 1e-9


class Process:
    """A server on a loopback port.

    Args:
        command: what to run; it listens on ``port``.
        port: the port.
        log: where its standard error goes.

    """

    def __init__(self, command: Sequence[str], port: int, log: Path) -> None:
        self._port = port
        self.started = time.perf_counter()
        with log.open("wb") as file:
            self._process = subprocess.Popen(command, stdout=file, stderr=file)

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(_ANSWER_SECONDS)

    def wait_for(self, name: str) -> float:
        """Wait until a metric is served; returns the seconds since the start."""
        deadline = time.monotonic() + _ANSWER_SECONDS
        while time.monotonic() < deadline:
            try:
                if f"\n{name}" in self.get().decode():
                    return time.perf_counter() - self.started
            except OSError:
                pass
            if self._process.poll() is not None:
                break
            time.sleep(0.01)
        raise RuntimeError(f"{self._process.args!r} serves no {name}")

    def get(self, accept: str = "", *, compressed: bool = False) -> bytes:
        """Scrape once, as Prometheus does over a new connection; returns the plain text."""
        headers = {"Accept-Encoding": "gzip" if compressed else "identity"}
        if accept:
            headers["Accept"] = accept
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_ANSWER_SECONDS)
        with closing(connection):
            connection.request("GET", "/metrics", headers=headers)
            body = connection.getresponse().read()
        return gzip.decompress(body) if compressed else body

    @property
    def processor_seconds(self) -> float:
        """Processor time of all its threads, also of those that ended, to the nanosecond.

        Source: Documentation/scheduler/sched-stats.rst, ``/proc/<pid>/schedstat``.
        """
        tasks = Path(f"/proc/{self._process.pid}/task").iterdir()
        return sum(
            int((task / "schedstat").read_text().split()[0]) * _NANOSECONDS for task in tasks
        )

    @property
    def resident_bytes(self) -> int:
        """Resident memory at this moment."""
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("the process is gone")


def free_port() -> int:
    """Return a loopback port that was free a moment ago."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def samples_in(text: bytes) -> int:
    """Count the samples of an exposition."""
    return sum(not line.startswith(b"#") for line in text.splitlines())
