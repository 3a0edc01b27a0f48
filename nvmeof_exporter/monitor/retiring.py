"""Which paths are gone for good reason, so that nobody need wait for them.

Two such reasons: a successor took over (a gateway was replaced), or the whole
subsystem was disconnected on purpose (a volume was detached). Losing a path in
any other way, also by disconnecting it alone, leaves it expected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nvmeof_exporter.model import Controller, PathId
    from nvmeof_exporter.monitor.expectations import KnownSubsystem
    from nvmeof_exporter.monitor.look import Look
    from nvmeof_exporter.monitor.transitions import PathHistory

__all__ = ["Retirement"]

#: Controllers that leave within this time (seconds) of each other leave together.
_TOGETHER_SECONDS = 5.0


class Retirement:
    """Finds the retiring paths of every subsystem.

    Args:
        known: what an earlier run remembered, by NQN. Where all paths were retiring the
            subsystem had been disconnected: superseded ones leave others behind.

    """

    def __init__(self, known: Mapping[str, KnownSubsystem]) -> None:
        self._superseded: dict[str, set[PathId]] = {}
        self._disconnected: set[str] = set()
        for nqn, subsystem in known.items():
            retiring = {p for p, e in subsystem.paths.items() if e.retiring_since is not None}
            if retiring and len(retiring) == len(subsystem.paths):
                self._disconnected.add(nqn)
            elif retiring:
                self._superseded[nqn] = retiring

    def observe(
        self,
        look: Look,
        known: KnownSubsystem | None,
        histories: Mapping[tuple[str, str], PathHistory],
    ) -> set[PathId]:
        """Return the retiring paths of one subsystem.

        Args:
            look: the newest.
            known: what is remembered of its paths.
            histories: of all paths, by (nqn, path label).

        """
        if known is None:
            self.drop(look.nqn)
            return set()
        superseded = self._find_superseded(look, known, histories)
        if superseded:
            self._superseded[look.nqn] = superseded
        else:
            self._superseded.pop(look.nqn, None)
        if look.controllers:
            self._disconnected.discard(look.nqn)
        elif _left_on_purpose(look, known, histories):
            self._disconnected.add(look.nqn)
        return set(known.paths) if look.nqn in self._disconnected else set(superseded)

    def drop(self, nqn: str) -> None:
        """Forget a subsystem."""
        self._superseded.pop(nqn, None)
        self._disconnected.discard(nqn)

    def _find_superseded(
        self,
        look: Look,
        known: KnownSubsystem,
        histories: Mapping[tuple[str, str], PathHistory],
    ) -> set[PathId]:
        """Find the paths whose successors took over.

        Such a path was inaccessible in every namespace when it was lost, while
        a *younger* path carries on: a gateway was replaced, not lost. It stays
        superseded until it is live again.
        """
        down = [path for path in known.paths if not _is_live(look.controllers.get(path))]
        if not down:
            return set()
        already = self._superseded.get(look.nqn, set())
        usable = {p.controller.path for n in look.namespaces.values() for p in n.paths if p.usable}
        youngest = max(
            (known.paths[path].first_seen for path in usable if path in known.paths), default=None
        )
        superseded = set()
        for path in down:
            history = histories.get((look.nqn, str(path)))
            replaced = youngest is not None and youngest > known.paths[path].first_seen
            if path in already or (replaced and _inaccessible(history)):
                superseded.add(path)
        return superseded


def _is_live(controller: Controller | None) -> bool:
    return controller is not None and controller.state == "live"


def _inaccessible(history: PathHistory | None) -> bool:
    if history is None or not history.ana:
        return False
    return all(state == "inaccessible" for state in history.ana.values())


def _left_on_purpose(
    look: Look, known: KnownSubsystem, histories: Mapping[tuple[str, str], PathHistory]
) -> bool:
    """Whether the last controllers of a subsystem were disconnected while they were live.

    Others may have been down already: whoever disconnects what still works has
    no use for them either.
    """
    found = [histories.get((look.nqn, str(path))) for path in known.paths]
    left = [(history.since, history.left_on_purpose) for history in found if history is not None]
    if not left:
        return False
    last = max(since for since, _ in left)
    return any(on_purpose and last - since <= _TOGETHER_SECONDS for since, on_purpose in left)
