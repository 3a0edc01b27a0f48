"""What the monitor keeps, told: what changed over time, also between two scrapes.

Its records change with every poll: the published state is locked meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmeof_exporter.exposition.io import add_io

if TYPE_CHECKING:
    from nvmeof_exporter.exposition.sheet import Sheet
    from nvmeof_exporter.model import Namespace, Snapshot
    from nvmeof_exporter.monitor.monitor import Monitor
    from nvmeof_exporter.monitor.records import NamespaceRecord, SubsystemRecord

__all__ = ["add_histories"]


def add_histories(sheet: Sheet, snapshot: Snapshot, monitor: Monitor) -> None:
    """Add what changed over time, also of paths that are gone but remembered."""
    for subsystem in snapshot.subsystems:
        for namespace in subsystem.namespaces:
            record = monitor.namespaces.get((namespace.nqn, namespace.nsid))
            if record is not None:
                _namespace_record(sheet, namespace, record)
    _path_histories(sheet, monitor)
    for nqn, totals in sorted(monitor.subsystems.items()):
        _subsystem_record(sheet, nqn, totals)


def _path_histories(sheet: Sheet, monitor: Monitor) -> None:
    for (nqn, label), history in sorted(monitor.paths.items()):
        for to, count in history.transitions.items():
            sheet.add("nvmeof_path_transitions_total", (nqn, label, to), count)
        for state, seconds in history.seconds.items():
            sheet.add("nvmeof_path_state_seconds_total", (nqn, label, state), seconds)
        if history.last_transition is not None:
            sheet.add(
                "nvmeof_path_last_transition_timestamp_seconds",
                (nqn, label),
                history.last_transition,
            )
        for to, count in history.ana_transitions.items():
            sheet.add("nvmeof_path_ana_transitions_total", (nqn, label, to), count)
        sheet.add("nvmeof_path_resets_total", (nqn, label), history.resets)
        sheet.add("nvmeof_path_reconnect_attempts_total", (nqn, label), history.reconnect_attempts)
        for cause, count in history.errors.items():
            sheet.add("nvmeof_path_errors_total", (nqn, label, cause), count)


def _subsystem_record(sheet: Sheet, nqn: str, record: SubsystemRecord) -> None:
    sheet.add_histogram("nvmeof_path_outage_seconds", (nqn,), record.outages)
    sheet.add_histogram("nvmeof_failover_duration_seconds", (nqn,), record.durations)
    for phase, histogram in record.phases.items():
        sheet.add_histogram("nvmeof_failover_phase_seconds", (nqn, phase), histogram)
    sheet.add_histogram("nvmeof_namespace_io_stall_duration_seconds", (nqn,), record.pauses)
    for (label, cause), count in sorted(record.failovers.items()):
        sheet.add("nvmeof_failovers_total", (nqn, label, cause), count)
    for label, count in sorted(record.failbacks.items()):
        sheet.add("nvmeof_failbacks_total", (nqn, label), count)
    if record.last_duration is not None and record.last_timestamp is not None:
        sheet.add("nvmeof_failover_last_duration_seconds", (nqn,), record.last_duration)
        sheet.add("nvmeof_failover_last_timestamp_seconds", (nqn,), record.last_timestamp)
    sheet.add("nvmeof_failover_in_progress", (nqn,), record.in_progress)


def _namespace_record(sheet: Sheet, namespace: Namespace, record: NamespaceRecord) -> None:
    key = (namespace.nqn, namespace.nsid)
    if record.io is not None:
        in_flight = sum(path.io.in_flight for path in namespace.paths if path.io is not None)
        add_io(sheet, "nvmeof_namespace", key, record.io, in_flight)
    sheet.add("nvmeof_namespace_io_stalled_seconds", key, record.stalled)
    for label, seconds in record.path_stalled.items():
        sheet.add("nvmeof_namespace_path_io_stalled_seconds", (*key, label), seconds)
    sheet.add_known("nvmeof_namespace_io_requeued_total", key, record.requeued)
    sheet.add_known("nvmeof_namespace_io_failed_total", key, record.failed)
