"""Trouble that comes at a moment: clocks that jump, memory that is short, polls that fail."""

from __future__ import annotations

import errno
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from nvmeof_exporter import poller
from nvmeof_exporter.demo.load import Load
from nvmeof_exporter.exposition.collector import StateCollector
from nvmeof_exporter.exposition.published import Published, PublishedState
from tests.fixtures.node_files import NodeFiles
from tests.fixtures.serving import told
from tests.test_daemon.looping import looping
from tests.test_daemon.running import eventually
from tests.test_monitor.simulated import BOOTED, WALL, Setting, Watched

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nvmeof_exporter.model import Snapshot

POLLS = "nvmeof_exporter_poll_duration_seconds_count"
SUCCESS = 'nvmeof_exporter_collector_success{collector="nvme"}'


@pytest.fixture
def node(tmp_path: Path) -> NodeFiles:
    return NodeFiles.load("four-gateways", tmp_path / "sys")


def _told_of_a_failover(wall: Callable[[float], float]) -> dict[str, float]:
    """Tell of a failover that the wall clock, whatever it says, was there to see."""
    watched = Watched(Setting("7.3", "numa", Load(rate=50.0)))
    simulated = watched.node
    published = Published(PublishedState(watched.monitor, 0.1))
    for moment in range(100):
        if moment == 20:
            simulated.port_removed(watched.active)
        if moment == 60:
            simulated.port_restored(watched.other)
        simulated.advance(0.1)
        snapshot = simulated.snapshot(BOOTED + simulated.now, wall(simulated.now))
        with published.write() as state:
            watched.monitor.observe(snapshot, [])
            state.snapshot = snapshot
    return {
        series: value
        for series, value in told(StateCollector(published)).items()
        if "timestamp" not in series
    }


@settings(max_examples=10, deadline=None)
@given(steps=st.lists(st.tuples(st.floats(0, 10), st.floats(-1e9, 1e9)), min_size=1, max_size=3))
def test_a_wall_clock_that_jumps_changes_no_duration_and_no_count(
    steps: list[tuple[float, float]],
) -> None:
    def wall(now: float) -> float:
        return WALL + now + sum(step for moment, step in steps if moment <= now)

    assert _told_of_a_failover(wall) == _told_of_a_failover(lambda now: WALL + now)


def _fails_for_a_while(loop_poll: Callable[..., Snapshot], failure: Exception) -> tuple:  # type: ignore[type-arg]
    wanted = [True]

    def poll(monotonic: float, wall: float) -> Snapshot:
        if wanted[0]:
            raise failure
        return loop_poll(monotonic, wall)

    return wanted, poll


@pytest.mark.parametrize(
    "failure", [MemoryError(), OSError(errno.EMFILE, "Too many open files"), RecursionError()]
)
def test_polling_outlives_a_failure_that_passes(node: NodeFiles, failure: Exception) -> None:
    with looping(node, "--poll.interval=20ms") as loop, capture_logs() as lines:
        wanted, poll = _fails_for_a_while(loop.source.poll, failure)
        loop.source.poll = poll  # type: ignore[method-assign]
        eventually(lambda: loop.value(SUCCESS) == 0, "failing")
        wanted[0] = False
        eventually(lambda: loop.value(SUCCESS) == 1, "works again")
        polls = loop.value(POLLS) or 0
        eventually(lambda: (loop.value(POLLS) or 0) > polls, "polling")
    events = [line["event"] for line in lines]
    assert events.count("poll failed, tried again") == 1
    assert events.count("polls succeed again") == 1


def test_polls_that_never_succeed_again_end_the_process(
    node: NodeFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poller, "_MOST_FAILING_SECONDS", 0.1)
    with looping(node) as loop:
        loop.poller.stop()
    fails = MemoryError("for good")
    _, loop.source.poll = _fails_for_a_while(loop.source.poll, fails)  # type: ignore[method-assign]
    loop.poller._poll_or_complain(time.monotonic())
    with pytest.raises(MemoryError, match="for good"):
        loop.poller._poll_or_complain(time.monotonic() + 1)


def test_a_node_that_cannot_be_listed_is_a_failing_collector(node: NodeFiles) -> None:
    flags = ("--poll.rescan-interval=100ms", "--poll.interval=50ms")
    paths = 'nvmeof_subsystem_paths{nqn="nqn.2026-01.org.example:gateways"}'
    with looping(node, *flags) as loop, capture_logs() as lines:
        node.root.rename(node.root.with_name("elsewhere"))
        eventually(lambda: loop.value(SUCCESS) == 0, "failing")
        assert loop.value(paths) == 4
        node.root.with_name("elsewhere").rename(node.root)
        eventually(lambda: loop.value(SUCCESS) == 1, "works again")
    events = [line["event"] for line in lines]
    assert events.count("devices cannot be listed, those known are kept") == 1
    assert events.count("devices are listed again") == 1
