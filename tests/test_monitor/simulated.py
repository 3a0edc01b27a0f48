"""The monitor over the make-believe node, whose own book says what applications felt."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from nvmeof_exporter.demo.devices import Timeouts
from nvmeof_exporter.demo.simulation import Node
from nvmeof_exporter.model import PathId
from nvmeof_exporter.monitor.monitor import Monitor

if TYPE_CHECKING:
    from nvmeof_exporter.demo.devices import Connection
    from nvmeof_exporter.demo.load import Load
    from nvmeof_exporter.model import Controller, Event, Snapshot
    from nvmeof_exporter.monitor.records import Occurrence, SubsystemRecord

NQN = "nqn.2014-08.org.example:simulated"

#: The node's time begins at 0; the machine's clocks do not.
BOOTED = 100.0
WALL = 1_700_000_000.0

#: Seconds between polls, and while something is wrong.
INTERVAL, DENSE, JITTER = 0.1, 0.02, 0.01


@dataclass(frozen=True)
class Setting:
    """A node of one subsystem with some paths."""

    kernel: str
    policy: str
    load: Load | None
    namespaces: int = 1
    timeouts: Timeouts = field(default_factory=lambda: Timeouts(keep_alive=2, reconnect_delay=1))
    seed: int = 1
    paths: int = 2


class Watched:
    """A node in virtual time, and a monitor that polls it as the daemon would."""

    def __init__(self, setting: Setting) -> None:
        self._chance = random.Random(setting.seed)
        self.node = Node(setting.kernel, setting.seed)
        netdevs = [self.node.add_netdev(f"eth{n}", f"10.0.{n}.1") for n in range(setting.paths)]
        subsystem = self.node.add_subsystem(NQN, iopolicy=setting.policy)
        namespaces = [
            self.node.add_namespace(subsystem, number + 1) for number in range(setting.namespaces)
        ]
        self.paths = [
            self.node.add_path(
                subsystem,
                PathId("tcp", f"10.0.{number}.2", "4420"),
                netdev,
                timeouts=setting.timeouts,
                ana={1: "optimized"},
            )
            for number, netdev in enumerate(netdevs)
        ]
        for namespace in namespaces:
            self.node.set_load(namespace, setting.load)
        addresses = {netdev.address: netdev.name for netdev in netdevs}

        def netdev_of(controller: Controller) -> str:
            return addresses.get(controller.src_addr, "")

        self.monitor = Monitor(netdev_of=netdev_of)
        self.monitor.log_readable = True
        self.found: list[Occurrence] = []
        self.seen: list[tuple[Snapshot, list[Event]]] = []

    def run(self, seconds: float, *, keep: bool = False) -> None:
        """Let time pass, with polls; ``keep`` what they saw."""
        end = self.node.now + seconds
        while self.node.now < end:
            interval = DENSE if self.monitor.attention else INTERVAL
            self.node.advance(interval + self._chance.random() * JITTER)
            snapshot = self.node.snapshot(BOOTED + self.node.now, WALL + self.node.now)
            events = [replace(e, time=e.time + BOOTED) for e in self.node.drain_events()]
            if keep:
                self.seen.append((snapshot, events))
            self.found += self.monitor.observe(snapshot, events)

    @property
    def newest(self) -> float:
        """When the node was last looked at, on the monitor's monotonic clock."""
        return BOOTED + self.node.now

    @property
    def active(self) -> Connection:
        """The path that the first namespace's I/O goes over."""
        current = self.node.subsystems[0].namespaces[0].current
        if current is None:
            return self.paths[0]
        return current.controller.connection

    @property
    def other(self) -> Connection:
        """A path that is not the active one."""
        return next(path for path in self.paths if path is not self.active)

    @property
    def record(self) -> SubsystemRecord:
        return self.monitor.subsystems[NQN]

    def told(self, kind: str) -> list[dict[str, str | float]]:
        return [each.fields for each in self.found if each.kind == kind]

    @property
    def longest_wait(self) -> float:
        """The longest that any application waited for one request, in seconds."""
        pauses = [p for found in self.node.truth.pauses.values() for p in found]
        return max((pause.longest for pause in pauses), default=0.0)
