"""Which paths there should be: configured, or remembered from what there was.

Pure: the file that keeps the memory over restarts is ``nvmeof_exporter.memory``'s.
Times here are wall-clock seconds, since they must mean something after a reboot.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from nvmeof_exporter.model import PathId

__all__ = ["Expectation", "Expectations", "KnownPath", "KnownSubsystem"]


@dataclass(slots=True)
class KnownPath:
    """A path this node has or had.

    ``retiring_since``: it is gone for a good reason (its successor took over,
    or the whole subsystem was disconnected on purpose); it is not expected any
    more and forgotten after a while.
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
        self, nqn: str, present: Collection[PathId], retiring: Collection[PathId], wall: float
    ) -> None:
        """Take which paths of a subsystem there are, and which are gone for good reason.

        Args:
            nqn: the subsystem.
            present: the paths the kernel shows.
            retiring: of all known ones, those that are not expected back.
            wall: now.

        """
        known = self.known.get(nqn)
        if known is None:
            if not present:
                return
            known = self.known[nqn] = KnownSubsystem()
        for path in present:
            entry = known.paths.get(path)
            if entry is None:
                entry = known.paths[path] = KnownPath(wall, wall)
                self.changed = True
            entry.last_seen = wall
        for path, entry in list(known.paths.items()):
            if path in retiring:
                if entry.retiring_since is None:
                    entry.retiring_since = wall
                    self.changed = True
                elif path not in present and wall - entry.retiring_since > self._expiry:
                    self._forget(known, path)
            elif entry.retiring_since is not None:
                entry.retiring_since = None
                self.changed = True
        staying = sum(known.paths[path].retiring_since is None for path in present)
        if staying > known.most:
            known.most = staying
            self.changed = True
        if not known.paths:
            del self.known[nqn]
            self.changed = True

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
