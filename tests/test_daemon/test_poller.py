from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.config import load
from nvmeof_exporter.exposition.collector import StateCollector
from nvmeof_exporter.exposition.published import Published, PublishedState
from nvmeof_exporter.model import Event, EventKind
from nvmeof_exporter.monitor.monitor import Monitor
from nvmeof_exporter.poller import Poller
from nvmeof_exporter.remembering import MemoryKeeper
from nvmeof_exporter.sources.events import SourceFailed
from nvmeof_exporter.sources.nvme import NvmeSource
from tests.fixtures.node_files import FaultyReader, NodeFiles
from tests.fixtures.serving import told
from tests.test_daemon.running import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class FakeSource:
    """An event source that is told what to announce."""

    name = "udev"

    def __init__(self) -> None:
        self._here, self._there = socket.socketpair()
        self._pending: list[Event] = []
        self.failing = False
        self.closed = False

    def fileno(self) -> int:
        return self._here.fileno()

    def announce(self, *kinds: EventKind) -> None:
        self._pending.extend(Event(time.monotonic(), self.name, kind, "nvme0") for kind in kinds)
        self._there.send(b"x")

    def fail(self) -> None:
        self.failing = True
        self._there.send(b"x")

    def read(self) -> list[Event]:
        self._here.recv(64)
        if self.failing:
            raise SourceFailed("the socket is dead")
        heard, self._pending = self._pending, []
        return heard

    def close(self) -> None:
        self.closed = True
        self._here.close()
        self._there.close()


class Loop:
    """A poller in a thread, over a node."""

    def __init__(self, node: NodeFiles, *flags: str) -> None:
        config = load([f"--path.sysfs={node.sysfs}", *flags], {})
        self.reader = FaultyReader()
        self.events = FakeSource()
        self.source = NvmeSource(self.reader, node.sysfs)
        self.published = Published(PublishedState(Monitor(), 0.1, lambda _: ""))
        self.poller = Poller(
            config, self.source, self.reader, self.published, [self.events], MemoryKeeper("")
        )
        self._wake, self._knock = socket.socketpair()
        self.poller.watch(self._wake, self.poller.stop)
        self._thread = threading.Thread(target=self.poller.run)
        self._thread.start()
        eventually(lambda: self.poller.ready() is None, "the first poll")

    def value(self, series: str) -> float | None:
        return told(StateCollector(self.published)).get(series)

    def end(self) -> None:
        self._knock.send(b"x")
        self._thread.join(10)
        assert not self._thread.is_alive()
        self.source.close()
        self.events.close()
        self._wake.close()
        self._knock.close()


@contextlib.contextmanager
def looping(node: NodeFiles, *flags: str) -> Iterator[Loop]:
    loop = Loop(node, *flags)
    try:
        yield loop
    finally:
        loop.end()


SLOW = ("--poll.interval=60s", "--poll.incident-interval=60s", "--poll.rescan-interval=1h")
POLLS = "nvmeof_exporter_poll_duration_seconds_count"
EVENTS = 'nvmeof_exporter_events_total{source="udev"}'
SUCCESS = 'nvmeof_exporter_collector_success{collector="udev"}'
PATHS = 'nvmeof_subsystem_paths{nqn="nqn.2026-01.org.example:gateways"}'


@pytest.fixture
def node(tmp_path: Path) -> NodeFiles:
    return NodeFiles.load("four-gateways", tmp_path / "sys")


def test_a_source_that_fails_is_dropped_and_polling_goes_on(node: NodeFiles) -> None:
    with looping(node) as loop:
        assert loop.value(SUCCESS) == 1
        loop.events.fail()
        eventually(lambda: loop.value(SUCCESS) == 0, "dropped")
        assert loop.events.closed
        polls = loop.value(POLLS) or 0
        eventually(lambda: (loop.value(POLLS) or 0) > polls + 2, "polling")
        assert loop.poller.health() is None
        assert loop.value('nvmeof_exporter_collector_success{collector="nvme"}') == 1


def test_an_event_wakes_the_poller_and_is_counted(node: NodeFiles) -> None:
    with looping(node, *SLOW) as loop:
        assert loop.value(POLLS) == 1
        loop.events.announce(EventKind.ERROR_RECOVERY, EventKind.RECONNECTED)
        eventually(lambda: loop.value(EVENTS) == 2, "counted")
        eventually(lambda: (loop.value(POLLS) or 0) >= 2, "polled")


def test_an_event_of_the_topology_is_followed_at_once(node: NodeFiles) -> None:
    with looping(node, "--poll.rescan-interval=1h") as loop:
        assert loop.value(PATHS) == 4
        node.apply("remove nvme1")
        loop.events.announce(EventKind.CONTROLLER_REMOVED)
        eventually(lambda: loop.value(PATHS) == 3, "followed")


def test_a_lost_event_is_made_up_for_by_the_next_rescan(node: NodeFiles) -> None:
    with looping(node, "--poll.rescan-interval=100ms") as loop:
        node.apply("remove nvme1")
        eventually(lambda: loop.value(PATHS) == 3, "followed")


def test_a_reconnect_brings_the_settings_along(node: NodeFiles) -> None:
    with looping(node, *SLOW) as loop:
        node.apply("set nvme4 kato=77")
        loop.events.announce(EventKind.RECONNECTED)
        label = '{nqn="nqn.2026-01.org.example:gateways",path="tcp:10.0.210.204:4420"}'
        series = f"nvmeof_path_keep_alive_timeout_seconds{label}"
        eventually(lambda: loop.value(series) == 77, "read again")


def test_an_incident_makes_polls_dense_for_a_while(node: NodeFiles) -> None:
    interval = "nvmeof_exporter_poll_interval_seconds"
    with looping(node, "--poll.interval=200ms") as loop:
        assert loop.value(interval) == pytest.approx(0.2)
        node.apply("set nvme1 state=connecting")
        eventually(lambda: loop.value(interval) == pytest.approx(0.02), "dense")
        eventually(lambda: loop.value(interval) == pytest.approx(0.2), "calm")


def test_polling_that_has_stopped_is_told(node: NodeFiles) -> None:
    loop = Loop(node)
    loop.end()
    assert loop.poller.health() is None
    assert loop.poller._last_poll is not None
    loop.poller._last_poll -= 6.0
    reason = loop.poller.health()
    assert reason is not None
    assert "stopped" in reason
