"""A poll loop in a thread, over a node of files, with event sources and slow sources as wanted."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING

from nvmeof_exporter.config import load
from nvmeof_exporter.exposition.collector import StateCollector
from nvmeof_exporter.exposition.published import Published, PublishedState
from nvmeof_exporter.model import Event, EventKind
from nvmeof_exporter.monitor.monitor import Monitor
from nvmeof_exporter.poller import Poller
from nvmeof_exporter.remembering import MemoryKeeper
from nvmeof_exporter.slow import SlowSources, Sources
from nvmeof_exporter.sources.events import SourceBehind, SourceFailed, SourceUnavailable
from nvmeof_exporter.sources.interfaces import PathPorts
from nvmeof_exporter.sources.nvme import NvmeSource
from nvmeof_exporter.worker import Worker
from tests.fixtures.node_files import FaultyReader, NodeFiles
from tests.fixtures.serving import told
from tests.test_daemon.running import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nvmeof_exporter.model import Controller, Snapshot
    from nvmeof_exporter.sources.events import EventSource

__all__ = ["SLOW", "FakeSource", "Loop", "looping"]

#: Polls come by events only.
SLOW = ("--poll.interval=60s", "--poll.incident-interval=60s", "--poll.rescan-interval=1h")


class FakeSource:
    """An event source that is told what to announce."""

    name = "udev"

    def __init__(self) -> None:
        self._here, self._there = socket.socketpair()
        self._here.setblocking(False)
        self._pending: list[Event] = []
        self.attempts = 0
        self.failing = False
        self.behind = False
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
        with contextlib.suppress(BlockingIOError):
            self._here.recv(64)
        if self.failing:
            raise SourceFailed("the socket is dead")
        if self.behind:
            raise SourceBehind("messages were lost")
        heard, self._pending = self._pending, []
        return heard

    def close(self) -> None:
        self.closed = True
        self._here.close()
        self._there.close()

    def reopen(self) -> None:
        self.attempts += 1
        if self.failing:
            raise SourceUnavailable("the socket is still dead")
        self._here, self._there = socket.socketpair()
        self._here.setblocking(False)
        self.closed = False


class RecordingSource(NvmeSource):
    """The real source, which keeps every snapshot it made."""

    def __init__(self, reader: FaultyReader, sysfs: str) -> None:
        super().__init__(reader, sysfs)
        self.snapshots: list[Snapshot] = []

    def poll(self, monotonic: float, wall: float) -> Snapshot:
        self.snapshots.append(super().poll(monotonic, wall))
        return self.snapshots[-1]


class Loop:
    """A poller in a thread, over a node.

    Args:
        node: what is polled.
        flags: as on the command line.
        slow: the slow sources; without, files say what paths run over.
        heard: event sources beside ``events``.

    """

    def __init__(
        self,
        node: NodeFiles,
        *flags: str,
        slow: Sources | None = None,
        heard: tuple[EventSource, ...] = (),
    ) -> None:
        config = load([f"--path.sysfs={node.sysfs}", *flags], {})
        self.reader = FaultyReader()
        self.events = FakeSource()
        self.source = RecordingSource(self.reader, node.sysfs)
        self.worker = Worker(config.poll_slow_interval, config.poll_slow_deadline)
        sources = slow or Sources(PathPorts(FaultyReader(), node.sysfs))
        self.slow = SlowSources(self.worker, sources, self._controllers)
        monitor = Monitor(netdev_of=sources.paths.netdev_of)
        self.published = Published(PublishedState(monitor, 0.1, self.slow.surroundings))
        event_sources: list[EventSource] = [self.events, *heard]
        self.poller = Poller(
            config, self.source, self.reader, self.published, event_sources, MemoryKeeper("")
        )
        self.poller.inform(self.slow)
        self._wake, self._knock = socket.socketpair()
        self.poller.watch(self._wake, self.poller.stop)
        self._thread = threading.Thread(target=self.poller.run)
        self._thread.start()
        eventually(lambda: self.poller.ready() is None, "the first poll")

    def value(self, series: str) -> float | None:
        return self.told().get(series)

    def told(self) -> dict[str, float]:
        return told(StateCollector(self.published))

    def _controllers(self) -> list[Controller]:
        snapshot = self.published.snapshot
        return [c for s in snapshot.subsystems for c in s.controllers] if snapshot else []

    def end(self) -> None:
        self._knock.send(b"x")
        self._thread.join(10)
        assert not self._thread.is_alive()
        self.worker.stop()
        self.source.close()
        self.events.close()
        self._wake.close()
        self._knock.close()


@contextlib.contextmanager
def looping(
    node: NodeFiles,
    *flags: str,
    slow: Sources | None = None,
    heard: tuple[EventSource, ...] = (),
) -> Iterator[Loop]:
    loop = Loop(node, *flags, slow=slow, heard=heard)
    try:
        yield loop
    finally:
        loop.end()
