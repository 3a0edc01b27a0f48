"""What the monitor knows that a snapshot does not show, copied while it stands still.

The copy is small and quickly made: the next poll waits meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nvmeof_exporter.model import PathId
    from nvmeof_exporter.monitor.monitor import Monitor
    from nvmeof_exporter.monitor.records import ToldFailover

__all__ = ["History", "NamespacePast", "PathPast", "SubsystemPast"]


@dataclass(frozen=True, slots=True)
class PathPast:
    """One path over time. ``changed`` is a wall-clock time, the others are monotonic seconds."""

    watched: float
    changed: float | None
    transitions: int
    resets: int
    reconnect_attempts: int
    errors: dict[str, int]
    timeline: tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True)
class NamespacePast:
    """One namespace over time. ``path_stalled`` is by path label; all are seconds.

    ``stalled`` is None while I/O may wait since before anybody watched.
    """

    stalled: float | None
    path_stalled: Mapping[str, float]
    io: tuple[int, ...] | None
    requeued: int | None
    failed: int | None


@dataclass(frozen=True, slots=True)
class SubsystemPast:
    """One NQN over time. ``failovers`` are the newest, oldest first."""

    failing_over: bool
    failovers: tuple[ToldFailover, ...]


@dataclass(frozen=True, slots=True)
class History:
    """Pasts by (nqn, path label), by (nqn, nsid label) and by nqn.

    ``last_io`` is when a request last completed (monotonic seconds), by (nqn, nsid label)
    and path label. ``remembered`` is when each known path was last there (wall-clock
    seconds), by nqn.
    """

    paths: Mapping[tuple[str, str], PathPast]
    namespaces: Mapping[tuple[str, str], NamespacePast]
    subsystems: Mapping[str, SubsystemPast]
    last_io: Mapping[tuple[str, str], Mapping[str, float]]
    remembered: Mapping[str, Mapping[PathId, float]]

    @classmethod
    def of(cls, monitor: Monitor) -> History:
        """Copy it while the monitor cannot change."""
        return cls(
            {
                key: PathPast(
                    history.watched,
                    history.last_transition,
                    sum(history.transitions.values()),
                    history.resets,
                    history.reconnect_attempts,
                    dict(history.errors),
                    tuple(history.timeline),
                )
                for key, history in monitor.paths.items()
            },
            {
                key: NamespacePast(
                    record.stalled,
                    record.path_stalled,
                    tuple(record.io) if record.io is not None else None,
                    record.requeued,
                    record.failed,
                )
                for key, record in monitor.namespaces.items()
            },
            {
                nqn: SubsystemPast(record.in_progress, tuple(record.newest))
                for nqn, record in monitor.subsystems.items()
            },
            {key: monitor.last_io(*key) for key in monitor.namespaces},
            {
                nqn: {path: entry.last_seen for path, entry in known.paths.items()}
                for nqn, known in monitor.expectations.known.items()
            },
        )
