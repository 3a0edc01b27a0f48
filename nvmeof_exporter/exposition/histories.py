"""What the monitor keeps, told: what changed over time, also between two scrapes.

Its records change with every poll. They are copied while the published state is locked,
and written after.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from nvmeof_exporter.exposition.io import add_io

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nvmeof_exporter.exposition.sheet import Sheet
    from nvmeof_exporter.model import Namespace, Snapshot
    from nvmeof_exporter.monitor.histogram import Observed
    from nvmeof_exporter.monitor.monitor import Monitor
    from nvmeof_exporter.monitor.records import NamespaceRecord, SubsystemRecord
    from nvmeof_exporter.monitor.transitions import PathHistory

__all__ = ["Histories", "add_histories"]


class _NamespaceTotals(NamedTuple):
    """A NamespaceRecord at one moment."""

    io: Sequence[int] | None
    stalled: float | None
    path_stalled: Mapping[str, float]
    requeued: int | None
    failed: int | None


class _PathTotals(NamedTuple):
    """A PathHistory at one moment, but for the time it spent in each state."""

    transitions: dict[str, int]
    last_transition: float | None
    ana_transitions: dict[str, int]
    resets: int
    reconnect_attempts: int
    errors: dict[str, int]


class _SubsystemTotals(NamedTuple):
    """A SubsystemRecord at one moment."""

    outages: Observed
    durations: Observed
    phases: tuple[tuple[str, Observed], ...]
    pauses: Observed
    failovers: dict[tuple[str, str], int]
    failbacks: dict[str, int]
    last_duration: float | None
    last_timestamp: float | None
    in_progress: bool


@dataclass(frozen=True, slots=True)
class Histories:
    """A copy of what the monitor keeps, by the keys of its own."""

    namespaces: Mapping[tuple[str, str], _NamespaceTotals]
    paths: Mapping[tuple[str, str], tuple[_PathTotals, dict[str, float]]]
    subsystems: Mapping[str, _SubsystemTotals]

    @classmethod
    def of(cls, monitor: Monitor) -> Histories:
        """Copy it while the monitor cannot change."""
        return cls(
            {key: _namespace(record) for key, record in monitor.namespaces.items()},
            {key: (_path(h), h.seconds.copy()) for key, h in monitor.paths.items()},
            {nqn: _subsystem(record) for nqn, record in monitor.subsystems.items()},
        )


def _namespace(record: NamespaceRecord) -> _NamespaceTotals:
    # The record makes a new list and a new dictionary each time: no need to copy them.
    return _NamespaceTotals(
        record.io, record.stalled, record.path_stalled, record.requeued, record.failed
    )


def _path(history: PathHistory) -> _PathTotals:
    return _PathTotals(
        history.transitions.copy(),
        history.last_transition,
        history.ana_transitions.copy(),
        history.resets,
        history.reconnect_attempts,
        history.errors.copy(),
    )


def _subsystem(record: SubsystemRecord) -> _SubsystemTotals:
    return _SubsystemTotals(
        record.outages.observed(),
        record.durations.observed(),
        tuple((phase, histogram.observed()) for phase, histogram in record.phases.items()),
        record.pauses.observed(),
        record.failovers.copy(),
        record.failbacks.copy(),
        record.last_duration,
        record.last_timestamp,
        record.in_progress,
    )


def add_histories(sheet: Sheet, snapshot: Snapshot, histories: Histories) -> None:
    """Add what changed over time, also of paths that are gone but remembered."""
    for subsystem in snapshot.subsystems:
        for namespace in subsystem.namespaces:
            totals = histories.namespaces.get((namespace.nqn, namespace.nsid))
            if totals is not None:
                _add_namespace(sheet, namespace, totals)
    for (nqn, label), (history, seconds) in sorted(histories.paths.items()):
        sheet.part(("history", nqn, label), history, _add_history, nqn, label, history)
        for state, spent in seconds.items():
            sheet.add("nvmeof_path_state_seconds_total", (nqn, label, state), spent)
    for nqn, record in sorted(histories.subsystems.items()):
        sheet.part(("failovers", nqn), record, _add_subsystem, nqn, record)


def _add_history(sheet: Sheet, nqn: str, label: str, history: _PathTotals) -> None:
    for to, count in history.transitions.items():
        sheet.add("nvmeof_path_transitions_total", (nqn, label, to), count)
    for to, count in history.ana_transitions.items():
        sheet.add("nvmeof_path_ana_transitions_total", (nqn, label, to), count)
    for cause, count in history.errors.items():
        sheet.add("nvmeof_path_errors_total", (nqn, label, cause), count)
    sheet.add_alike(
        (nqn, label),
        (
            ("nvmeof_path_last_transition_timestamp_seconds", history.last_transition),
            ("nvmeof_path_resets_total", history.resets),
            ("nvmeof_path_reconnect_attempts_total", history.reconnect_attempts),
        ),
    )


def _add_subsystem(sheet: Sheet, nqn: str, totals: _SubsystemTotals) -> None:
    sheet.add_histogram("nvmeof_path_outage_seconds", (nqn,), totals.outages)
    sheet.add_histogram("nvmeof_failover_duration_seconds", (nqn,), totals.durations)
    for phase, observed in totals.phases:
        sheet.add_histogram("nvmeof_failover_phase_seconds", (nqn, phase), observed)
    sheet.add_histogram("nvmeof_namespace_io_stall_duration_seconds", (nqn,), totals.pauses)
    for (label, cause), count in sorted(totals.failovers.items()):
        sheet.add("nvmeof_failovers_total", (nqn, label, cause), count)
    for label, count in sorted(totals.failbacks.items()):
        sheet.add("nvmeof_failbacks_total", (nqn, label), count)
    if totals.last_duration is not None and totals.last_timestamp is not None:
        sheet.add("nvmeof_failover_last_duration_seconds", (nqn,), totals.last_duration)
        sheet.add("nvmeof_failover_last_timestamp_seconds", (nqn,), totals.last_timestamp)
    sheet.add("nvmeof_failover_in_progress", (nqn,), totals.in_progress)


def _add_namespace(sheet: Sheet, namespace: Namespace, totals: _NamespaceTotals) -> None:
    key = (namespace.nqn, namespace.nsid)
    if totals.io is not None:
        in_flight = sum(path.io.in_flight for path in namespace.paths if path.io is not None)
        made_of = (tuple(totals.io), in_flight)
        sheet.part(("I/O", *key), made_of, add_io, "nvmeof_namespace", key, *made_of)
    stalls = (totals.stalled, tuple(totals.path_stalled.items()), totals.requeued, totals.failed)
    sheet.part(("stalls", *key), stalls, _add_stalls, key, totals)


def _add_stalls(sheet: Sheet, key: tuple[str, str], totals: _NamespaceTotals) -> None:
    for label, seconds in totals.path_stalled.items():
        sheet.add("nvmeof_namespace_path_io_stalled_seconds", (*key, label), seconds)
    sheet.add_alike(
        key,
        (
            ("nvmeof_namespace_io_stalled_seconds", totals.stalled),
            ("nvmeof_namespace_io_requeued_total", totals.requeued),
            ("nvmeof_namespace_io_failed_total", totals.failed),
        ),
    )
