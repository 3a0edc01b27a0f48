"""The exporter under strace: what it asks of the kernel, and answers that the kernel never gave."""

from __future__ import annotations

import contextlib
import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from tests.test_daemon.running import Exporter, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Call", "calls", "straced"]

_CALL = re.compile(r"^\d+ +(?:<\.\.\. )?(?P<name>\w+)\((?P<arguments>.*)\) += (?P<result>.*)$")


class Call(NamedTuple):
    """One line of the trace that is a whole call."""

    name: str
    arguments: str
    result: str

    @property
    def path(self) -> str:
        """The first text among the arguments."""
        found = re.search(r'"((?:[^"\\]|\\.)*)"', self.arguments)
        return found[1] if found else ""


def calls(trace: Path) -> list[Call]:
    """Return the calls of a trace; those of threads interrupted by others are put together."""
    begun: dict[str, str] = {}
    found = []
    for line in trace.read_text(encoding="utf-8", errors="replace").splitlines():
        thread, _, text = line.partition(" ")
        text = text.strip()
        if text.endswith("<unfinished ...>"):
            begun[thread] = text.removesuffix("<unfinished ...>")
            continue
        resumed = re.match(r"<\.\.\. \w+ resumed>", text)
        if resumed is not None:
            text = begun.pop(thread, "") + text[resumed.end() :]
        match = _CALL.match(f"{thread} {text}")
        if match is not None:
            found.append(Call(match["name"], match["arguments"], match["result"]))
    return found


@contextlib.contextmanager
def straced(trace: Path, options: tuple[str, ...], *flags: str) -> Iterator[Exporter]:
    """Run an exporter under strace with some of its options, gone at the end."""
    # The tracer is a grandchild: signals go to the exporter itself.
    strace = ("strace", "-D", "--follow-forks", "--seccomp-bpf", "-o", str(trace), *options)
    exporter = Exporter(*flags, command=(*strace, sys.executable, "-m", "nvmeof_exporter"))
    try:
        exporter.await_listening()
        yield exporter
    finally:
        if exporter.process.poll() is None:
            exporter.stop()
        # Process numbers are padded to a width.
        last = re.compile(rf"^{exporter.process.pid} +\+\+\+ exited with 0", re.MULTILINE)
        eventually(
            lambda: last.search(trace.read_text(errors="replace")) is not None,
            "the end of the trace",
        )
        assert exporter.process.stderr is not None
        exporter.process.stderr.close()
