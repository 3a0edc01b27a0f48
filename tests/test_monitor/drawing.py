"""Histories drawn by hand: requests, states and polls, as the kernel would show them.

Requests are drawn, not counters: a disk knows when each of its outstanding
requests was issued, so its time fields grow as the kernel's do.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from nvmeof_exporter.model import (
    Controller,
    Event,
    EventKind,
    IoCounters,
    Namespace,
    NamespacePath,
    PathId,
    Snapshot,
    Subsystem,
)
from nvmeof_exporter.monitor.monitor import Monitor

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvmeof_exporter.monitor.expectations import Expectations
    from nvmeof_exporter.monitor.records import NamespaceRecord, Occurrence, SubsystemRecord
    from nvmeof_exporter.monitor.transitions import PathHistory

NQN = "nqn.2014-08.org.example:drawn"
SECTORS = 8
TICK = 0.01
WALL = 1_700_000_000.0


def path_id(number: int) -> PathId:
    return PathId("tcp", f"192.0.2.{number + 1}", "4420", host_iface=f"eth{number}")


def label(number: int) -> str:
    return str(path_id(number))


@dataclass
class Disk:
    """What one path did for one namespace; ``outstanding`` holds times of issue."""

    reads: int = 0
    sectors: int = 0
    waited: float = 0.0
    outstanding: list[float] = field(default_factory=list)
    failovers: int = 0
    size: int = SECTORS

    def end(self, now: float, count: int, *, sectors: int) -> None:
        for _ in range(count):
            self.waited += now - self.outstanding.pop(0)
        self.reads += count
        self.sectors += count * sectors

    def counters(self) -> IoCounters:
        return IoCounters(
            self.reads,
            0,
            self.sectors,
            round(self.waited * 1000),
            0,
            0,
            0,
            0,
            len(self.outstanding),
            0,
            0,
        )


@dataclass
class Port:
    """One controller; None as state: it cannot be read."""

    path: PathId
    name: str
    state: str | None = "live"
    cntlid: str = "1"
    resets: int = 0
    reconnects: int = 0
    present: bool = True
    ana: dict[str, str] = field(default_factory=dict)
    disks: dict[str, Disk] = field(default_factory=dict)
    readable: bool = True
    last_state: str = "live"


class History:
    """A subsystem with some paths and namespaces, and the monitor that watches it."""

    def __init__(  # noqa: PLR0913 - what a history differs by, by name
        self,
        *,
        paths: int = 2,
        namespaces: int = 1,
        diag: bool = False,
        interval: float = 0.1,
        dense: float = 0.02,
        ana: bool = False,
        expectations: Expectations | None = None,
    ) -> None:
        self.now = 1000.0
        self.wall_offset = WALL
        self.interval = interval
        self.dense = dense
        self.diag = diag
        self.heads = [str(number + 1) for number in range(namespaces)]
        self.head_io: IoCounters | None = None
        self.monitor = Monitor(0.5, expectations)
        self.found: list[Occurrence] = []
        self.events: list[Event] = []
        self.directory = True
        self.requeued: int | None = None
        self.failed: int | None = None
        self.ports = [
            Port(
                path_id(number),
                f"nvme{number}",
                ana=dict.fromkeys(self.heads, "optimized") if ana else {},
                disks={nsid: Disk() for nsid in self.heads},
            )
            for number in range(paths)
        ]
        self._next_poll = self.now
        self._pass(0)

    # what there is to see

    def snapshot(self) -> Snapshot:
        controllers = {p.name: self._controller(p) for p in self.ports if p.present}
        namespaces = tuple(self._namespace(nsid, controllers) for nsid in self.heads)
        subsystem = Subsystem(
            "nvme-subsys0",
            NQN,
            iopolicy="numa",
            controllers=tuple(controllers.values()),
            namespaces=tuple(n for n in namespaces if n.paths),
        )
        return Snapshot(
            self.now, self.now + self.wall_offset, (subsystem,) if self.directory else ()
        )

    def _controller(self, port: Port) -> Controller:
        return Controller(
            port.name,
            NQN,
            port.path,
            "deleting" if port.state == "deleting (no IO)" else port.state,
            port.last_state if port.state is None else port.state,
            cntlid=port.cntlid,
            resets=port.resets if self.diag else None,
            reconnects=port.reconnects if self.diag else None,
        )

    def _namespace(self, nsid: str, controllers: dict[str, Controller]) -> Namespace:
        return Namespace(
            NQN,
            nsid,
            f"nvme0n{nsid}",
            io=self.head_io,
            requeued=self.requeued,
            failed=self.failed,
            paths=tuple(
                NamespacePath(
                    f"nvme0c{port.name[4:]}n{nsid}",
                    controllers[port.name],
                    port.ana.get(nsid, ""),
                    port.disks[nsid].counters() if port.readable else None,
                    port.disks[nsid].failovers if self.diag and port.readable else None,
                )
                for port in self.ports
                if port.present and nsid in port.disks
            ),
        )

    # what was found

    @property
    def record(self) -> SubsystemRecord:
        return self.monitor.subsystems[NQN]

    def namespace(self, nsid: str = "1") -> NamespaceRecord:
        return self.monitor.namespaces[NQN, nsid]

    def path(self, number: int = 0) -> PathHistory:
        return self.monitor.paths[NQN, label(number)]

    def told(self, kind: str) -> list[dict[str, str | float]]:
        return [each.fields for each in self.found if each.kind == kind]

    # what happens

    def issue(self, path: int, count: int = 1, nsid: str = "1") -> None:
        self.ports[path].disks[nsid].outstanding += [self.now] * count

    def complete(self, path: int, count: int = 1, nsid: str = "1") -> None:
        self.ports[path].disks[nsid].end(self.now, count, sectors=SECTORS)

    def cancel(self, path: int, nsid: str = "1") -> int:
        """End everything on a path as a failover does: success, no sectors."""
        disk = self.ports[path].disks[nsid]
        count = len(disk.outstanding)
        disk.failovers += count
        disk.end(self.now, count, sectors=0)
        return count

    def say(self, kind: EventKind, device: str, source: str = "kmsg") -> None:
        self.events.append(Event(self.now, source, kind, device))

    def state(self, path: int, state: str | None) -> None:
        port = self.ports[path]
        if port.state is not None:
            port.last_state = port.state
        port.state = state

    def leave(self, path: int) -> None:
        """The controller vanishes, and its path disks with it."""
        port = self.ports[path]
        port.present = False
        port.disks = {nsid: Disk() for nsid in self.heads}

    def come(self, path: int, *, name: str = "", cntlid: str = "") -> None:
        """The path is connected anew."""
        port = self.ports[path]
        self.ports[path] = replace(
            port,
            present=True,
            state="live",
            name=name or port.name,
            cntlid=cntlid or port.cntlid,
            disks={nsid: Disk() for nsid in self.heads},
        )

    def flow(self, seconds: float, *paths: int, nsids: tuple[str, ...] = ()) -> None:
        """Let each path complete the one request it has every tick, and issue the next."""
        chosen = [(path, nsid) for path in paths for nsid in (nsids or self.heads)]
        for path, nsid in chosen:
            if not self.ports[path].disks[nsid].outstanding:
                self.issue(path, 1, nsid)

        def turn() -> None:
            for path, nsid in chosen:
                self.complete(path, 1, nsid)
                self.issue(path, 1, nsid)

        self._pass(seconds, turn)

    def drain(self) -> None:
        """Let everything complete that is on a usable path; nobody issues any more."""
        for number, port in enumerate(self.ports):
            for nsid, disk in port.disks.items():
                self.complete(number, len(disk.outstanding), nsid)

    def wait(self, seconds: float) -> None:
        """Let time pass in which no request ends."""
        self._pass(seconds)

    def lose(self, path: int, *, to: int | None = None, state: str = "connecting") -> None:
        """Give a path up: its requests are cancelled and go to another, or nowhere."""
        self.state(path, state)
        for nsid in list(self.ports[path].disks):
            count = self.cancel(path, nsid)
            if to is not None:
                self.issue(to, count, nsid)

    def poll(self) -> None:
        """Look now, whatever the time of the next poll."""
        news = self.monitor.observe(self.snapshot(), self.events)
        self.events = []
        self.found += news
        self._next_poll = self.now + (self.dense if self.monitor.attention else self.interval)

    def _pass(self, seconds: float, turn: Callable[[], None] | None = None) -> None:
        end = self.now + seconds
        tick = self.now + TICK if turn is not None else end
        while True:
            if self.now >= self._next_poll - 1e-9:
                self.poll()
            if self.now >= end - 1e-9:
                return
            self.now = min(tick, end, max(self._next_poll, self.now))
            if turn is not None and self.now >= tick - 1e-9:
                tick = self.now + TICK
                turn()
