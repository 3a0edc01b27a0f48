"""What the paths do meanwhile, seen as the exporter sees it: its own source and monitor."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import TYPE_CHECKING, NamedTuple

from nvmeof_exporter.monitor.monitor import Monitor
from nvmeof_exporter.sources.events import SourceBehind, SourceFailed
from nvmeof_exporter.sources.nvme import NvmeSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from nvmeof_exporter.model import Controller, Event, Namespace, NamespacePath, Snapshot
    from nvmeof_exporter.monitor.records import Occurrence
    from nvmeof_exporter.sources.events import EventSource
    from nvmeof_exporter.sources.reader import Reader

__all__ = ["PathsSeen", "Span", "Watch"]

#: Devices that came or went are looked for this often (seconds).
_RESCAN_SECONDS = 1.0

_MISSING = "missing"


class Span(NamedTuple):
    """A path's state since ``start`` (monotonic seconds), until the next span of the same path."""

    start: float
    path: str
    state: str


class PathsSeen(NamedTuple):
    """The paths at one moment, by label: see ``phases.Observation``. ``states`` are for people."""

    usable: frozenset[str]
    preferred: frozenset[str]
    carrying: frozenset[str]
    changes: int
    states: dict[str, str]


class Watch:
    """Follows the paths of some namespaces.

    Args:
        reader: reads the files.
        sysfs: where ``/sys`` is.
        namespaces: (nqn, nsid) of what is watched.
        events: what announces things, such as the kernel log; each may fail and is then
            dropped.
        clock: monotonic and wall-clock seconds.

    Attributes:
        spans: the states of each path, in the order they were entered.
        occurrences: what the monitor told.

    """

    def __init__(
        self,
        reader: Reader,
        sysfs: str,
        namespaces: Iterable[tuple[str, str]],
        events: Iterable[EventSource] = (),
        clock: Callable[[], tuple[float, float]] = lambda: (time.monotonic(), time.time()),
    ) -> None:
        self.spans: list[Span] = []
        self.occurrences: list[Occurrence] = []
        self._source = NvmeSource(reader, sysfs)
        self._namespaces = frozenset(namespaces)
        self._nqns = frozenset(nqn for nqn, _ in self._namespaces)
        self._events = list(events)
        self._clock = clock
        self._monitor = Monitor()
        self._monitor.log_readable = any(source.name == "kmsg" for source in self._events)
        self._rescanned: float | None = None
        self._sectors: dict[str, int] = {}
        self._states: dict[str, str] = {}

    @property
    def attention(self) -> bool:
        """Whether something is going on, so that it is worth while to look more often."""
        return self._monitor.attention

    def close(self) -> None:
        """Give back every descriptor."""
        self._source.close()
        for source in self._events:
            source.close()

    def look(self) -> PathsSeen:
        """Look at everything once."""
        now, wall = self._clock()
        if self._rescanned is None or now - self._rescanned >= _RESCAN_SECONDS:
            self._source.rescan()
            self._rescanned = now
        snapshot = self._source.poll(now, wall)
        news = self._monitor.observe(snapshot, list(self._hear()))
        self.occurrences += [one for one in news if one.nqn in self._nqns]
        return self._seen(snapshot)

    def settings(self) -> dict[str, dict[str, float | str | None]]:
        """The settings of each path that is there now, by label: seconds, ``"off"`` for never."""
        self._source.refresh_settings()
        snapshot = self._source.poll(*self._clock())
        found: dict[str, dict[str, float | str | None]] = {}
        for subsystem in snapshot.subsystems:
            if subsystem.nqn in self._nqns:
                for controller in subsystem.controllers:
                    own = dataclasses.asdict(controller.settings)
                    own = {
                        name: "off" if value == math.inf else value for name, value in own.items()
                    }
                    found[self._label(controller)] = {**own, "iopolicy": subsystem.iopolicy}
        return found

    def _hear(self) -> Iterator[Event]:
        for source in list(self._events):
            yield from self._read(source)

    def _read(self, source: EventSource) -> list[Event]:
        try:
            return source.read()
        except SourceBehind:
            return []
        except SourceFailed:
            self._events.remove(source)
            source.close()
            self._monitor.log_readable = any(left.name == "kmsg" for left in self._events)
            return []

    def _seen(self, snapshot: Snapshot) -> PathsSeen:
        usable: dict[str, bool] = {}
        preferred: dict[str, bool] = {}
        carrying: set[str] = set()
        states: dict[str, list[str]] = {}
        for path in self._paths(snapshot):
            label = self._label(path.controller)
            usable[label] = usable.get(label, True) and path.usable
            preferred[label] = preferred.get(label, True) and path.optimized
            states.setdefault(label, [path.controller.state or "unknown"])
            if path.ana_state and path.ana_state not in states[label]:
                states[label].append(path.ana_state)
            if self._has_moved(label, path):
                carrying.add(label)
        self._follow(snapshot, states)
        return PathsSeen(
            frozenset(label for label, holds in usable.items() if holds),
            frozenset(label for label, holds in preferred.items() if holds),
            frozenset(carrying),
            self._changes(),
            dict(self._states),
        )

    def _paths(self, snapshot: Snapshot) -> Iterator[NamespacePath]:
        for namespace in _namespaces(snapshot):
            if (namespace.nqn, namespace.nsid) in self._namespaces:
                yield from namespace.paths

    def _has_moved(self, label: str, path: NamespacePath) -> bool:
        """Whether data went over a path since the last look: cancelled requests move none."""
        if path.io is None:
            return False
        key = f"{label} {path.disk}"
        sectors = path.io.read_sectors + path.io.write_sectors
        before = self._sectors.get(key)
        self._sectors[key] = sectors
        return before is not None and sectors > before

    def _follow(self, snapshot: Snapshot, states: dict[str, list[str]]) -> None:
        """Keep the states: also of controllers without a namespace, and of those that are gone."""
        for subsystem in snapshot.subsystems:
            if subsystem.nqn in self._nqns:
                for controller in subsystem.controllers:
                    label = self._label(controller)
                    states.setdefault(label, [controller.state or "unknown"])
        now = {label: " ".join(words) for label, words in states.items()}
        for label in self._states.keys() - now.keys():
            now[label] = _MISSING
        for label, state in sorted(now.items()):
            if self._states.get(label) != state:
                self.spans.append(Span(snapshot.monotonic, label, state))
        self._states = now

    def _changes(self) -> int:
        return sum(
            sum(history.transitions.values())
            + sum(history.ana_transitions.values())
            + history.resets
            for (nqn, _), history in self._monitor.paths.items()
            if nqn in self._nqns
        )

    def _label(self, controller: Controller) -> str:
        """Name a path; where there are several subsystems, with the one it belongs to."""
        label = str(controller.path)
        return label if len(self._nqns) == 1 else f"{controller.nqn} {label}"


def _namespaces(snapshot: Snapshot) -> Iterator[Namespace]:
    for subsystem in snapshot.subsystems:
        yield from subsystem.namespaces
