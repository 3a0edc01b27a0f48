"""Everything a view is made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nvmeof_exporter.view.policy import judge

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvmeof_exporter.exposition.state import Expected
    from nvmeof_exporter.model import Controller, Namespace, NamespacePath, Snapshot
    from nvmeof_exporter.policy import Facts, Policy
    from nvmeof_exporter.surroundings import Surroundings
    from nvmeof_exporter.view.history import History, NamespacePast, PathPast
    from nvmeof_exporter.view.model import PolicyView

__all__ = ["Moment"]

#: A path is among those that I/O goes over when its newest completion is at most this much
#: (seconds) older than the namespace's.
_CARRIER_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Moment:
    """A snapshot and what is known besides; nothing of it changes any more.

    ``watched``: somebody has followed the node, so that what ``history`` does not hold did
    not happen. Else it only holds what can be told at once. ``judge`` holds facts against
    the policy.
    """

    snapshot: Snapshot
    expected: Expected
    around: Surroundings
    policy: Policy
    history: History
    watched: bool
    judge: Callable[[Facts, Policy], PolicyView] = judge

    def wall(self, monotonic: float) -> float:
        """Say when that was by the wall clock of now, to the millisecond."""
        return round(self.snapshot.wall - (self.snapshot.monotonic - monotonic), 3)

    def path_past(self, nqn: str, label: str) -> PathPast | None:
        """What is known of a path's past, None when nobody watched it."""
        return self.history.paths.get((nqn, label)) if self.watched else None

    def namespace_past(self, namespace: Namespace) -> NamespacePast | None:
        """What is known of a namespace's past."""
        return self.history.namespaces.get((namespace.nqn, namespace.nsid))

    def stalled(self, namespace: Namespace) -> float | None:
        """How long (seconds) the namespace's I/O has stood still, None when nobody can tell."""
        past = self.namespace_past(namespace)
        if past is None or past.stalled is None or not self.watched:
            return None
        return round(past.stalled, 3)

    def path_stalled(self, namespace: Namespace, controller: Controller) -> float | None:
        """How long (seconds) its requests on one path have, None when nobody watched."""
        past = self.namespace_past(namespace)
        if past is None or not self.watched:
            return None
        return round(past.path_stalled.get(str(controller.path), 0.0), 3)

    def last_io(self, namespace: Namespace, controller: Controller | None = None) -> float | None:
        """When (wall clock) a request last completed, on one path or on any."""
        last = self.history.last_io.get((namespace.nqn, namespace.nsid), {})
        if controller is None:
            newest = max(last.values(), default=None)
        else:
            newest = last.get(str(controller.path))
        return self.wall(newest) if newest is not None else None

    def carries_io(self, namespace: Namespace, path: NamespacePath) -> bool | None:
        """Whether the newest requests went over a path that still takes some.

        None where that cannot be told: counters that are not read, or no I/O in the short
        time between two looks.
        """
        last = self.history.last_io.get((namespace.nqn, namespace.nsid), {})
        if path.io is None or not (last or self.watched):
            return None
        own = last.get(str(path.controller.path))
        return own is not None and path.usable and max(last.values()) - own <= _CARRIER_SECONDS
