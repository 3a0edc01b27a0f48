"""What a poll and a scrape may cost: counted in calls, which no machine's load changes.

Seconds are measured by ``make bench``. A call is a function of ours or of C; the frames of
comprehensions are left out, as Python 3.12 and later make none. A figure that is off by more
than the tolerance is a change of cost, in either direction: find out why, and record it.
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.demo.load import Load
from nvmeof_exporter.demo.nodes import sized_node
from nvmeof_exporter.demo.tree import Tree
from nvmeof_exporter.exposition.collector import StateCollector
from nvmeof_exporter.exposition.published import Published, PublishedState
from nvmeof_exporter.exposition.renderings import Renderings
from nvmeof_exporter.monitor.monitor import Monitor
from nvmeof_exporter.sources.nvme import NvmeSource
from nvmeof_exporter.sources.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType

_TOLERANCE = 0.15

#: Of small figures, this many calls.
_FEW = 5

#: Calls on the node of 128 namespace paths, by what is done.
_BUDGET = {
    "poll, counters of every namespace moved": 7700,
    "poll, nothing moved": 2200,
    "first scrape": 69000,
    "scrape, counters of every namespace moved": 8400,
    "scrape of the same state": 10,
}

_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


def _calls(what: Callable[[], object]) -> int:
    """Count the calls that a function makes."""
    count = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        if event == "c_call" or (event == "call" and frame.f_code.co_name not in _COMPREHENSIONS):
            count += 1

    before = sys.getprofile()
    collecting = gc.isenabled()
    gc.disable()  # what it ends would be counted
    sys.setprofile(note)
    try:
        what()
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()
    return count


class _Exporter:
    """The parts that poll and render, over a node that moves when it is told to."""

    def __init__(self, directory: Path) -> None:
        self._node = sized_node("gpu-node", load=Load(queue_depth=1, rate=20))
        self._tree = Tree(self._node, directory / "demo")
        self._source = NvmeSource(Reader(), self._tree.sysfs)
        self._published = Published(PublishedState(Monitor(), 0.1))
        self._renderings = Renderings(
            StateCollector(self._published), lambda: self._published.snapshot
        )
        self._seconds = 1_000.0

    def move(self) -> None:
        self._node.advance(0.1)
        self._tree.sync()

    def poll(self) -> None:
        self._seconds += 0.1
        snapshot = self._source.poll(self._seconds, self._seconds)
        with self._published.write() as state:
            state.monitor.observe(snapshot)
            state.snapshot = snapshot

    def scrape(self) -> None:
        self._renderings.render(openmetrics=True, compressed=True)


def test_polls_and_scrapes_keep_their_budget(tmp_path: Path) -> None:
    exporter = _Exporter(tmp_path)
    for _ in range(5):
        exporter.move()
        exporter.poll()
    spent = {"first scrape": _calls(exporter.scrape)}
    spent["scrape of the same state"] = _calls(exporter.scrape)
    exporter.move()
    spent["poll, counters of every namespace moved"] = _calls(exporter.poll)
    spent["scrape, counters of every namespace moved"] = _calls(exporter.scrape)
    exporter.poll()
    spent["poll, nothing moved"] = _calls(exporter.poll)
    assert spent == pytest.approx(_BUDGET, rel=_TOLERANCE, abs=_FEW)
