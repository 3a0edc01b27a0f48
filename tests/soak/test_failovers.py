"""Days of failovers, paths that come and go: memory and series return to where they were."""

from __future__ import annotations

import gc
import re
import sys
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.demo.load import Load
from nvmeof_exporter.exposition.collector import StateCollector
from nvmeof_exporter.exposition.published import Published, PublishedState
from nvmeof_exporter.model import PathId
from nvmeof_exporter.monitor import chronicle
from tests.fixtures.serving import told
from tests.soak.amount import amount
from tests.test_monitor.simulated import NQN, WALL, Setting, Watched

if TYPE_CHECKING:
    from nvmeof_exporter.demo.devices import Connection

pytestmark = [pytest.mark.timeout(0), pytest.mark.thorough]

FAILOVERS = amount(100, 1_000_000)

#: The beginning brings what stays: histories that fill, caches, interned texts.
WARMING_UP = 400

VISITORS_BEFORE = 20
OWN_MODULES = ("nvmeof_exporter.monitor", "nvmeof_exporter.exposition", "nvmeof_exporter.model")

#: Growth allowed, in all, whatever the number of failovers (blocks of memory).
MOST_GROWTH = 500


class Days:
    """A node of one subsystem whose paths fail and come back, seen at few polls each time."""

    def __init__(self) -> None:
        self.watched = Watched(Setting("7.3", "numa", Load(rate=20.0)))
        self.published = Published(PublishedState(self.watched.monitor, 0.1))
        self.collector = StateCollector(self.published)
        self._polls(10)

    def _polls(self, number: int, apart: float = 0.25) -> None:
        node, monitor = self.watched.node, self.watched.monitor
        for _ in range(number):
            node.advance(apart)
            snapshot = node.snapshot(self.watched.newest, WALL + node.now)
            node.drain_events()
            with self.published.write() as state:
                monitor.observe(snapshot, [])
                state.snapshot = snapshot

    def fail_over(self) -> None:
        """Lose the path that carries the I/O, and get it back."""
        node = self.watched.node
        active = self.watched.active
        node.port_removed(active)
        self._polls(3)
        node.port_restored(active)
        self._polls(6)
        # The simulation's own book, kept for tests that ask it.
        node.truth.pauses.clear()
        node.truth.failovers.clear()

    def visit(self, number: int) -> None:
        """Let a path come, under an address nobody had before, and go for good."""
        node = self.watched.node
        netdev = next(iter(node.netdevs.values()))
        visitor: Connection = node.add_path(
            node.subsystems[0],
            PathId("tcp", f"10.9.{number // 250 % 250}.{number % 250}", "4420"),
            netdev,
            ana={1: "optimized"},
        )
        self._polls(3)
        node.disconnect(visitor)
        self._polls(3)
        self.watched.monitor.expectations.forget(NQN, visitor.path_id)
        self._polls(1)
        node.subsystems[0].connections.remove(visitor)

    def rest(self) -> None:
        """Let what is kept for an hour be forgotten."""
        self.watched.node.set_load(self.watched.node.subsystems[0].namespaces[0], None)
        self._polls(400, apart=10.0)

    def series(self) -> set[str]:
        """Return the series, whatever controller IDs the kernel gave last."""
        return {re.sub(r'cntlid="\d+"', "", one) for one in told(self.collector)}


def _blocks() -> int:
    """Return how many blocks of memory Python has in use, after what can be freed was."""
    gc.collect()
    return sys.getallocatedblocks()


def test_after_any_number_of_failovers_memory_and_series_are_what_they_were() -> None:
    days = Days()
    for _ in range(WARMING_UP):
        days.fail_over()
    series, before = days.series(), _blocks()
    for _ in range(FAILOVERS):
        days.fail_over()
    assert days.series() == series
    assert _blocks() - before < MOST_GROWTH
    record = days.watched.record
    assert sum(record.failovers.values()) == FAILOVERS + WARMING_UP
    assert record.durations.count == FAILOVERS + WARMING_UP


def _own_objects() -> int:
    """Return how many objects of the exporter there are: the simulation keeps some of its own."""
    gc.collect()
    return sum(str(type(one).__module__).startswith(OWN_MODULES) for one in gc.get_objects())


def test_after_any_number_of_visitors_objects_and_series_are_what_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chronicle, "_KEPT", 10)  # full after the first visitors
    days = Days()
    for number in range(VISITORS_BEFORE):
        days.visit(number)
    days.rest()
    series, before = days.series(), _own_objects()
    for number in range(VISITORS_BEFORE, VISITORS_BEFORE + amount(60, 20_000)):
        days.visit(number)
    days.rest()
    assert days.series() == series
    assert _own_objects() <= before + 10
