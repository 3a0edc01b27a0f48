"""One look at one subsystem NQN, and the book in which is written what it brings to light."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nvmeof_exporter.monitor.records import Occurrence

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nvmeof_exporter.model import Controller, Namespace, PathId, Snapshot, Subsystem

__all__ = ["Journal", "Look"]


@dataclass(frozen=True, slots=True)
class Look:
    """What the newest snapshot shows of one NQN, all its subsystem directories together.

    ``before`` and ``now`` are the monotonic seconds of the previous and of this
    snapshot, ``wall`` is this one's wall-clock time. ``namespaces`` go by ``nsid`` label.
    """

    nqn: str
    before: float
    now: float
    wall: float
    controllers: dict[PathId, Controller]
    namespaces: dict[str, Namespace]

    @classmethod
    def at(
        cls, nqn: str, subsystems: Iterable[Subsystem], snapshot: Snapshot, before: float
    ) -> Look:
        """Take what a snapshot shows in all directories of one NQN."""
        own = tuple(subsystems)
        return cls(
            nqn,
            before,
            snapshot.monotonic,
            snapshot.wall,
            {c.path: c for subsystem in own for c in subsystem.controllers},
            {n.nsid: n for subsystem in own for n in subsystem.namespaces},
        )

    def wall_at(self, monotonic: float) -> float:
        """Say when that was by the wall clock of now, however it was set meanwhile."""
        return self.wall - (self.now - monotonic)


class Journal:
    """Collects what happened during one look at the node, and how long to look closely."""

    def __init__(self) -> None:
        self._news: list[Occurrence] = []
        self._told = 0
        self._alert_until = 0.0

    def tell(
        self,
        look: Look,
        kind: str,
        *,
        severe: bool = False,
        span: tuple[float, float] | None = None,
        **fields: str | float,
    ) -> None:
        """Write down something that happened to the subsystem of ``look``.

        ``span`` is when it began and ended (monotonic seconds), if it lasted.
        """
        self._told += 1
        start, end = map(look.wall_at, span) if span is not None else (None, None)
        self._news.append(
            Occurrence(look.wall, kind, look.nqn, fields, severe, self._told, start, end)
        )

    def take(self) -> list[Occurrence]:
        """Return what was written down since the last time, oldest first."""
        news, self._news = self._news, []
        return news

    def alert(self, until: float) -> None:
        """Ask for dense polling until a time (monotonic seconds)."""
        self._alert_until = max(self._alert_until, until)

    def is_alert(self, now: float) -> bool:
        """Whether dense polling was asked for."""
        return now < self._alert_until
