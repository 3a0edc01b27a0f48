"""The exporter under test as a process of its own, and what it serves."""

from __future__ import annotations

import math
import subprocess
import sys
import time
import urllib.request
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from tests.kernel.guest.load import USUAL_PRIORITY
from tests.kernel.guest.waiting import await_

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

__all__ = ["Exporter", "Sample", "Scrape"]

_ADDRESS = "127.0.0.1:10067"

Sample = tuple[str, "frozenset[tuple[str, str]]"]


class Scrape:
    """The samples of one answer, by name and label set.

    With ``about`` only those whose line has this text: parsing is slow under emulation.
    """

    def __init__(self, text: str, about: str = "") -> None:
        text = "".join(line for line in text.splitlines(keepends=True) if about in line)
        self.samples: dict[Sample, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                key = (sample.name, frozenset(sample.labels.items()))
                if key in self.samples:
                    raise ValueError(f"served twice: {sample.name}{sample.labels}")
                self.samples[key] = sample.value

    def matching(self, name: str, **labels: str) -> Iterator[tuple[dict[str, str], float]]:
        """Label sets and values of ``name`` that have at least these ``labels``."""
        wanted = labels.items()
        for (sample, present), value in self.samples.items():
            if sample == name and wanted <= present:
                yield dict(present), value

    def value(self, name: str, **labels: str) -> float | None:
        """The only value that matches, or None; raises LookupError when several do."""
        values = [value for _, value in self.matching(name, **labels)]
        if len(values) > 1:
            raise LookupError(f"{name}{labels}: {len(values)} series match")
        return values[0] if values else None


class Exporter:
    """``python -m nvmeof_exporter serve`` with its log and its memory in ``directory``.

    With ``record``, everything that its monitor is shown goes to ``polls.jsonl`` there.
    """

    def __init__(self, directory: Path, *, record: bool = False) -> None:
        self._log = log = directory / "exporter.log"
        command = [*USUAL_PRIORITY, sys.executable, "-m"]
        if record:
            command += ["tests.kernel.guest.recorder", str(directory / "polls.jsonl")]
        else:
            command += ["nvmeof_exporter", "serve"]
        command += [f"--web.listen-address={_ADDRESS}", f"--path.state={directory / 'state'}"]
        with log.open("a") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            self.start_seconds = self._await_answer()
        except BaseException:
            self._process.kill()
            raise

    def _await_answer(self) -> float:
        # Its modules are read from the host, and the guest's clock leaps meanwhile: no
        # deadline in here would mean anything. The host has one for the whole run.
        return await_(self._answers, math.inf, f"the exporter to answer ({self._log})")

    def scrape(self, about: str = "") -> Scrape:
        """What the exporter serves now, all or lines with ``about``; raises OSError, ValueError."""
        with urllib.request.urlopen(f"http://{_ADDRESS}/metrics", timeout=20) as answer:
            return Scrape(answer.read().decode(), about)

    def scrape_after(self, moment: float) -> Scrape:
        """A scrape that shows a look at the machine begun after ``moment`` (wall clock)."""
        clock = "nvmeof_exporter_last_poll_timestamp_seconds"
        self.await_(
            lambda scrape: (scrape.value(clock) or 0) > moment, 10, "a later poll", about=clock
        )
        return self.scrape()

    def await_(
        self, condition: Callable[[Scrape], bool], seconds: float, what: str, about: str = ""
    ) -> Scrape:
        """The first scrape (of lines with ``about``) for which ``condition`` holds, in time."""
        newest = Scrape("")

        def holds() -> bool:
            nonlocal newest
            newest = self.scrape(about)
            return condition(newest)

        await_(holds, seconds, f"exporter: {what}")
        return newest

    def await_value(self, name: str, value: float, seconds: float = 10, **labels: str) -> Scrape:
        """The first scrape in which ``name`` with ``labels`` is ``value``."""
        return self.await_(
            lambda scrape: scrape.value(name, **labels) == value,
            seconds,
            f"{name}{_text(labels)} = {value}",
            about=name,
        )

    def stop(self) -> int:
        """Ask it to end and return its exit status."""
        self._process.terminate()
        return self._process.wait(20)

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            ending = self._log.read_text(errors="replace")[-4000:]
            raise RuntimeError(f"the exporter ended by itself: {ending}")
        try:
            self.scrape()
        except OSError:
            time.sleep(0.2)
            return False
        return True


def _text(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"
