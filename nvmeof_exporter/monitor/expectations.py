"""Which paths there should be: configured, or remembered from what there was.

Pure: the file that keeps the memory over restarts is ``nvmeof_exporter.memory``'s.
What it keeps has wall-clock seconds, since they must mean something after a reboot.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from nvmeof_exporter.model import PathId

__all__ = ["Expectation", "Expectations", "KnownPath", "KnownSubsystem"]


#: As many paths are remembered, on all subsystems together; beyond it those that
#: have been gone for longest are forgotten.
_MOST_PATHS = 4096


@dataclass(slots=True)
class KnownPath:
    """A path this node has or had.

    ``first_seen`` and ``last_seen`` are wall-clock seconds.

    ``retiring_since`` (monotonic seconds): it is gone for a good reason (its
    successor took over, or the whole subsystem was disconnected on purpose);
    it is not expected any more and forgotten after a while.
    """

    first_seen: float
    last_seen: float
    retiring_since: float | None = None


@dataclass(slots=True)
class KnownSubsystem:
    """The paths of one NQN, and the most that were ever there at once."""

    paths: dict[PathId, KnownPath] = field(default_factory=dict)
    most: int = 0


@dataclass(frozen=True, slots=True)
class Expectation:
    """A configured expectation: labels where paths are named, else only how many."""

    count: int
    labels: tuple[str, ...] = ()


class Expectations:
    """Learns paths, and says which are missing.

    Args:
        configured: by NQN; wins over what is remembered.
        expiry: seconds after which a retiring path is forgotten.
        known: what an earlier run remembered.

    """

    def __init__(
        self,
        configured: Mapping[str, Expectation] | None = None,
        expiry: float = 900.0,
        known: Mapping[str, KnownSubsystem] | None = None,
    ) -> None:
        self._configured = dict(configured or {})
        self._expiry = expiry
        self.known: dict[str, KnownSubsystem] = dict(known or {})
        self.changed = False

    def forget(self, nqn: str, path: PathId) -> None:
        """Drop a path from the memory; if it is still there, it is learned anew."""
        known = self.known.get(nqn)
        if known is not None and path in known.paths:
            self._forget(known, path)
            if not known.paths:
                del self.known[nqn]

    def configure(self, configured: Mapping[str, Expectation], expiry: float) -> None:
        """Take over a new configuration."""
        self._configured = dict(configured)
        self._expiry = expiry

    def nqns(self) -> set[str]:
        """Every NQN that is remembered or configured."""
        return set(self.known) | set(self._configured)

    def observe(
        self,
        nqn: str,
        present: Collection[PathId],
        retiring: Collection[PathId],
        *,
        wall: float,
        now: float,
    ) -> None:
        """Take which paths of a subsystem there are, and which are gone for good reason.

        Args:
            nqn: the subsystem.
            present: the paths the kernel shows.
            retiring: of all known ones, those that are not expected back.
            wall: now, in wall-clock seconds.
            now: the same in monotonic seconds.

        """
        known = self.known.get(nqn)
        if known is None:
            if not present:
                return
            known = self.known[nqn] = KnownSubsystem()
        self._learn(known, present, wall)
        for path in list(known.paths):
            self._retire(known, path, now, retiring=path in retiring, present=path in present)
        here = [entry for path, entry in known.paths.items() if path in present]
        staying = sum(entry.retiring_since is None for entry in here)
        if staying > known.most:
            known.most = staying
            self.changed = True
        if not known.paths:
            self.known.pop(nqn, None)

    def _learn(self, known: KnownSubsystem, present: Collection[PathId], wall: float) -> None:
        news = [path for path in present if path not in known.paths]
        for path in news:
            known.paths[path] = KnownPath(wall, wall)
        for path in present:
            known.paths[path].last_seen = wall
        if news:
            self.changed = True
            self._make_room()

    def _retire(
        self, known: KnownSubsystem, path: PathId, now: float, *, retiring: bool, present: bool
    ) -> None:
        """Let a path retire, come back, or be forgotten when its time is over."""
        entry = known.paths[path]
        if retiring != (entry.retiring_since is not None):
            entry.retiring_since = now if retiring else None
            self.changed = True
        elif retiring and not present and now - (entry.retiring_since or now) > self._expiry:
            self._forget(known, path)

    def _make_room(self) -> None:
        """Forget the paths that have been gone for longest when there are too many."""
        excess = sum(len(known.paths) for known in self.known.values()) - _MOST_PATHS
        if excess <= 0:
            return
        everything = [
            (entry.last_seen, nqn, path)
            for nqn, known in self.known.items()
            for path, entry in known.paths.items()
        ]
        for _, nqn, path in heapq.nsmallest(excess, everything, key=itemgetter(0)):
            self.forget(nqn, path)

    def first_seen(self, nqn: str, path: PathId) -> float | None:
        """When the path was first there, None when it is not known."""
        known = self.known.get(nqn)
        entry = known.paths.get(path) if known is not None else None
        return entry.first_seen if entry is not None else None

    def expected(self, nqn: str) -> int | None:
        """How many paths there should be, None when nothing is known of the subsystem."""
        configured = self._configured.get(nqn)
        if configured is not None:
            return configured.count
        known = self.known.get(nqn)
        if known is None:
            return None
        staying = sum(entry.retiring_since is None for entry in known.paths.values())
        return min(known.most, staying)

    def missing(self, nqn: str, present: Iterable[PathId]) -> list[str]:
        """Return the labels of paths that should be there and are not, sorted.

        Where paths are configured by name, exactly those; else the remembered ones.
        """
        here = set(present)
        labels = {str(path) for path in here}
        configured = self._configured.get(nqn)
        if configured is not None and configured.labels:
            return sorted(set(configured.labels) - labels)
        known = self.known.get(nqn)
        paths = known.paths if known is not None else {}
        return sorted({str(path) for path in paths if path not in here} - labels)

    def _forget(self, known: KnownSubsystem, path: PathId) -> None:
        del known.paths[path]
        known.most = min(known.most, len(known.paths))
        self.changed = True
