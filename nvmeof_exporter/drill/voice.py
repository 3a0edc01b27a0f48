"""What whoever runs a drill sees meanwhile, and at its end."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from nvmeof_exporter.drill.sizes import size_of
from nvmeof_exporter.terminal import obeys, printable

if TYPE_CHECKING:
    from nvmeof_exporter.drill.recorder import Sample
    from nvmeof_exporter.drill.report import Report

__all__ = ["Terminal", "summary"]

#: A stall is told from here on (seconds).
_LEAST_STALL = 0.1

#: How often a line is written where there is no terminal to rewrite one on (seconds).
_QUIET_SECONDS = 10.0


class Terminal:
    """Tells on standard error: standard output is for the verdict."""

    def __init__(self) -> None:
        self._rewrites = obeys(sys.stderr, os.environ)
        self._before: Sample | None = None
        self._told = float("-inf")
        self._phase = ""
        self._open = False

    def say(self, text: str) -> None:
        """Tell something that happened or is due."""
        self._write(f"{text}\n", ends=True)

    def progress(self, phase: str, since: float, sample: Sample, states: dict[str, str]) -> None:
        """Tell how things are: rewritten on a terminal, else at most every few seconds."""
        before, self._before = self._before, sample
        if (
            not self._rewrites
            and phase == self._phase
            and sample.time - self._told < _QUIET_SECONDS
        ):
            return
        self._phase, self._told = phase, sample.time
        rate = 0.0
        if before is not None and sample.time > before.time:
            rate = (sample.bytes - before.bytes) / (sample.time - before.time)
        parts = [f"{phase} {since:.0f} s", f"{size_of(rate)}/s"]
        if sample.stalled >= _LEAST_STALL:
            parts.append(f"STALLED {sample.stalled:.1f} s")
        if sample.failed:
            parts.append(f"{sample.failed} failed")
        parts += [f"{path} {state}" for path, state in states.items()]
        line = printable("  ".join(parts))
        if self._rewrites:
            self._write(f"\r\033[K{line}", ends=False)
        else:
            self._write(f"{line}\n", ends=True)

    def _write(self, text: str, *, ends: bool) -> None:
        if ends and self._open:
            text = f"\n{text}"
        self._open = not ends
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            return  # nobody listens any more; what was begun is put right all the same


def summary(report: Report) -> str:
    """The verdict, objective by objective."""
    width = max((len(one.objective) for one in report.objectives), default=0)
    lines = [
        f"{one.verdict:<10}  {one.objective:<{width}}  {one.found}; wanted: {one.wanted}"
        for one in report.objectives
    ]
    lines += [f"problem: {text}" for text in report.problems]
    lines += [f"remark: {text}" for text in report.remarks]
    lines.append(f"{report.verdict}: {report.scenario} of {report.name}")
    return "".join(f"{printable(line)}\n" for line in lines)
