"""The states of every path: followed, told, and forgotten with the path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmeof_exporter.monitor.transitions import PathHistory

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nvmeof_exporter.model import Controller, Event, Namespace, NamespacePath, PathId
    from nvmeof_exporter.monitor.histogram import Histogram
    from nvmeof_exporter.monitor.look import Journal, Look
    from nvmeof_exporter.monitor.transitions import Transition

__all__ = ["PathWatch"]

#: After a change of state or ANA state, polls stay dense for this long (seconds).
_AFTERMATH_SECONDS = 2.0


class PathWatch:
    """Follows every path that is there or remembered.

    ``histories`` goes by (nqn, path label). One whose path is neither there nor
    remembered any more is dropped.
    """

    def __init__(self, journal: Journal) -> None:
        self.histories: dict[tuple[str, str], PathHistory] = {}
        self._journal = journal
        self._labels: dict[str, set[str]] = {}
        #: Those of the previous look: what is the same object now is unchanged.
        self._namespaces: dict[str, dict[str, Namespace]] = {}
        #: Which path a controller name stands for; names are used again.
        self._owners: dict[str, tuple[str, str]] = {}

    def pass_time(self, elapsed: float) -> None:
        """Count the time (seconds) since the previous look for the states it found."""
        for history in self.histories.values():
            history.pass_time(elapsed)

    def hear(self, events: Iterable[Event]) -> None:
        """Let each path's history count what was announced of its controller."""
        for event in events:
            owner = self._owners.get(event.device)
            history = self.histories.get(owner) if owner is not None else None
            if history is not None:
                history.announce(event)

    def observe(self, look: Look, remembered: Iterable[PathId], outages: Histogram) -> set[str]:
        """Follow the states of one subsystem's paths.

        Args:
            look: the newest.
            remembered: paths that there were.
            outages: takes the length in seconds of every outage that ended.

        Returns:
            The names of controllers that reconnected between two looks unseen.

        """
        present = {str(path): controller for path, controller in look.controllers.items()}
        labels = dict.fromkeys([*map(str, remembered), *present])
        renewed = set()
        for label in labels:
            controller = present.get(label)
            if controller is not None:
                self._owners[controller.name] = (look.nqn, label)
            history = self.histories.get((look.nqn, label))
            if history is None:
                self.histories[look.nqn, label] = PathHistory(controller, look.now)
                continue
            transition, outage = history.observe(controller, look.now, look.wall)
            if history.renewed and controller is not None:
                renewed.add(controller.name)
                self._journal.tell(
                    look,
                    "path reconnected unseen",
                    severe=True,
                    path=label,
                    controller=controller.name,
                )
            if outage is not None:
                outages.observe(outage)
            if transition is not None:
                self._tell(look, label, controller, transition)
        self._forget(look.nqn, self._labels.get(look.nqn, set()) - labels.keys())
        self._labels[look.nqn] = set(labels)
        self._observe_ana(look)
        return renewed

    def drop(self, nqn: str) -> None:
        """Forget every path of a subsystem."""
        self._forget(nqn, self._labels.pop(nqn, set()))
        self._namespaces.pop(nqn, None)

    def _forget(self, nqn: str, labels: set[str]) -> None:
        if not labels:
            return
        for label in labels:
            self.histories.pop((nqn, label), None)
        gone = {(nqn, label) for label in labels}
        self._owners = {name: key for name, key in self._owners.items() if key not in gone}

    def _tell(
        self, look: Look, label: str, controller: Controller | None, transition: Transition
    ) -> None:
        self._journal.alert(look.now + _AFTERMATH_SECONDS)
        self._journal.tell(
            look,
            "path state changed",
            severe=transition.after not in {"live", "new"},
            path=label,
            controller=controller.name if controller is not None else "",
            old=transition.old,
            new=transition.after,
            old_seconds=round(transition.duration, 3),
        )

    def _observe_ana(self, look: Look) -> None:
        before = self._namespaces.get(look.nqn, {})
        self._namespaces[look.nqn] = look.namespaces
        if before.keys() != look.namespaces.keys():
            for label in self._labels[look.nqn]:
                self.histories[look.nqn, label].keep_ana(look.namespaces)
        for nsid, namespace in look.namespaces.items():
            for path in _others(namespace, before.get(nsid)):
                label = str(path.controller.path)
                history = self.histories.get((look.nqn, label))
                old = history.observe_ana(nsid, path.ana_state) if history is not None else None
                if old is None:
                    continue
                self._journal.alert(look.now + _AFTERMATH_SECONDS)
                self._journal.tell(
                    look,
                    "ANA state changed",
                    nsid=nsid,
                    path=label,
                    controller=path.controller.name,
                    old=old,
                    new=path.ana_state or "",
                )


def _others(namespace: Namespace, before: Namespace | None) -> Sequence[NamespacePath]:
    """List the paths of a namespace that are other objects than before."""
    if namespace is before:
        return ()
    known = before.paths if before is not None else ()
    if len(known) != len(namespace.paths):
        return namespace.paths
    return [new for new, old in zip(namespace.paths, known, strict=True) if new is not old]
