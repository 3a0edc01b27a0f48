"""The exporter as a user runs it: a process with flags, log lines and a port."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

from tests.fixtures.serving import samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Exporter", "eventually", "fetch", "run_to_the_end", "running"]

#: Nothing here takes longer, on a machine that has other things to do (seconds).
PATIENCE = 30.0

_COMMAND = (sys.executable, "-m", "nvmeof_exporter")


def _environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith("NVMEOF_EXPORTER_")}


def eventually(condition: Callable[[], bool], what: str = "") -> None:
    """Wait until a condition holds; fail when it never does."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"never happened: {what or condition}"
        time.sleep(0.02)


def fetch(url: str) -> str:
    """Ask a server of this machine for a page."""
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:  # noqa: S310 - http, made here
        return str(answer.read(), "utf-8")


def run_to_the_end(*flags: str) -> subprocess.CompletedProcess[str]:
    """Run a command that ends by itself."""
    return subprocess.run(
        [*_COMMAND, *flags],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env=_environment(),
    )


class Exporter:
    """A running exporter on a free port of the loopback interface; ``command`` runs it."""

    def __init__(self, *flags: str, command: tuple[str, ...] = _COMMAND) -> None:
        self.process = subprocess.Popen(
            [*command, *flags, "--web.listen-address=127.0.0.1:0"],
            stderr=subprocess.PIPE,
            text=True,
            env=_environment(),
        )
        self.lines: list[str] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self.url = ""

    def await_listening(self) -> None:
        """Wait for the first poll and learn the port."""
        self.await_line("listening")
        address = re.search(r"address=(\S+)", self.line("listening"))
        assert address is not None
        self.url = f"http://{address[1]}"
        eventually(lambda: self.status("/-/ready") == 200, "ready")

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    def said(self, text: str) -> list[str]:
        """Return the log lines that hold a text."""
        return [line for line in self.lines if text in line]

    def line(self, text: str) -> str:
        """Return the one line that holds a text."""
        (line,) = self.said(text)
        return line

    def await_line(self, text: str) -> None:
        """Wait for a log line."""
        eventually(lambda: bool(self.said(text)) or self.process.poll() is not None, f"log: {text}")
        assert self.said(text), "\n".join(self.lines)

    def get(self, path: str) -> str:
        """Ask for a page."""
        return fetch(self.url + path)

    def status(self, path: str) -> int:
        """Ask for a page, for its status."""
        try:
            fetch(self.url + path)
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        return 200

    def samples(self) -> dict[str, float]:
        """Scrape."""
        return samples(self.get("/metrics"))

    def await_sample(self, series: str, value: float) -> None:
        """Scrape until a series has a value."""
        eventually(lambda: self.samples().get(series) == value, f"{series} {value:g}")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end; return its exit status."""
        self.process.send_signal(number)
        status = self.process.wait(PATIENCE)
        self._listener.join(PATIENCE)
        return status


@contextlib.contextmanager
def running(*flags: str) -> Iterator[Exporter]:
    """Run an exporter that is gone at the end, whatever happens."""
    exporter = Exporter(*flags)
    try:
        exporter.await_listening()
        yield exporter
    finally:
        if exporter.process.poll() is None:
            exporter.process.kill()
        exporter.process.wait()
        exporter._listener.join(PATIENCE)
        assert exporter.process.stderr is not None
        exporter.process.stderr.close()
