"""From the newest finished state to metric families.

A scrape comes through here and touches no file: everything was read before.
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from prometheus_client.core import Metric as Family
from prometheus_client.utils import floatToGoString

from nvmeof_exporter import __version__
from nvmeof_exporter.exposition.metrics import METRICS
from nvmeof_exporter.model import ANA_STATES, PATH_STATES
from nvmeof_exporter.monitor.records import NamespaceRecord, SubsystemRecord
from nvmeof_exporter.monitor.redundancy import (
    CONDITIONS,
    LEVELS,
    can_tell,
    condition_counts,
    usable_paths,
    worst_level,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nvmeof_exporter.exposition.published import Published, PublishedState
    from nvmeof_exporter.model import Controller, IoCounters, Namespace, NamespacePath, Subsystem
    from nvmeof_exporter.monitor.histogram import Histogram
    from nvmeof_exporter.monitor.monitor import Monitor

__all__ = ["StateCollector"]

_SECTOR_BYTES = 512
_MILLISECOND = 0.001

#: ``Metric`` knows no type "info" that keeps its name in the classic text format.
_TYPES = {"info": "gauge"}


def _bound(value: float) -> str:
    """Write a bucket's upper bound as Prometheus does."""
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]


class _Sheet:
    """Families in the order of the table, filled sample by sample."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}

    def add(self, name: str, labels: Iterable[str], value: float) -> None:
        """Add one sample of a gauge, counter or info."""
        family = self._family(name)
        family.add_sample(name, dict(zip(METRICS[name].labels, labels, strict=True)), value)

    def add_histogram(self, name: str, labels: Iterable[str], histogram: Histogram) -> None:
        """Add the samples of one histogram."""
        family = self._family(name)
        own = dict(zip(METRICS[name].labels, labels, strict=True))
        counts = histogram.cumulative()
        for bound, count in zip((*histogram.bounds, float("inf")), counts, strict=True):
            family.add_sample(f"{name}_bucket", {**own, "le": _bound(bound)}, count)
        family.add_sample(f"{name}_count", own, counts[-1])
        family.add_sample(f"{name}_sum", own, histogram.sum)

    def families(self) -> Iterator[Family]:
        """Yield the families that have samples, in the order of the table."""
        for name in METRICS:
            family = self._families.get(name)
            if family is not None:
                yield family

    def _family(self, name: str) -> Family:
        family = self._families.get(name)
        if family is None:
            metric = METRICS[name]
            bare = name.removesuffix("_total") if metric.kind == "counter" else name
            family = Family(bare, metric.help, _TYPES.get(metric.kind, metric.kind))
            self._families[name] = family
        return family


class StateCollector:
    """Gives prometheus_client the families of the newest finished state."""

    def __init__(self, published: Published) -> None:
        self._published = published

    def collect(self) -> Iterator[Family]:
        """Yield every family; the state cannot change while they are made."""
        sheet = _Sheet()
        with self._published.read() as state:
            _exporter(sheet, state)
            if state.snapshot is not None:
                _inventory(sheet, state)
                for nqn, subsystems in _by_nqn(state).items():
                    _subsystem(sheet, state.monitor, nqn, subsystems)
                _histories(sheet, state.monitor)
            process = list(state.process_families)
        yield from sheet.families()
        yield from process


def _by_nqn(state: PublishedState) -> dict[str, list[Subsystem]]:
    grouped: dict[str, list[Subsystem]] = {}
    if state.snapshot is not None:
        for subsystem in state.snapshot.subsystems:
            grouped.setdefault(subsystem.nqn, []).append(subsystem)
    for nqn in state.monitor.expectations.nqns():
        grouped.setdefault(nqn, [])
    return grouped


def _inventory(sheet: _Sheet, state: PublishedState) -> None:
    snapshot = state.snapshot
    if snapshot is None:
        return
    for host in snapshot.hosts:
        sheet.add("nvmeof_host_info", (host.hostnqn, host.hostid), 1)
    if snapshot.multipath_enabled is not None:
        sheet.add("nvmeof_kernel_multipath_enabled", (), snapshot.multipath_enabled)
    sheet.add("nvmeof_discovery_controllers", (), snapshot.discovery_controllers)
    for subsystem in snapshot.subsystems:
        if subsystem.name:
            sheet.add(
                "nvmeof_subsystem_info",
                (
                    subsystem.nqn,
                    subsystem.name,
                    subsystem.model,
                    subsystem.serial,
                    subsystem.firmware,
                    subsystem.iopolicy,
                ),
                1,
            )
        for controller in subsystem.controllers:
            _path_info(sheet, controller, state.netdev_of(controller))


def _path_info(sheet: _Sheet, controller: Controller, netdev: str) -> None:
    path = controller.path
    sheet.add(
        "nvmeof_path_info",
        (
            controller.nqn,
            str(path),
            controller.name,
            path.transport,
            path.traddr,
            path.trsvcid,
            path.host_traddr,
            path.host_iface,
            controller.src_addr,
            controller.cntlid,
            netdev,
            "",
            "",
        ),
        1,
    )


def _subsystem(sheet: _Sheet, monitor: Monitor, nqn: str, subsystems: list[Subsystem]) -> None:
    controllers = [c for subsystem in subsystems for c in subsystem.controllers]
    sheet.add("nvmeof_subsystem_paths", (nqn,), len(controllers))
    usable = sum(len(usable_paths(subsystem)) for subsystem in subsystems)
    sheet.add("nvmeof_subsystem_paths_usable", (nqn,), usable)
    expected = monitor.expectations.expected(nqn)
    if expected is not None:
        sheet.add("nvmeof_subsystem_paths_expected", (nqn,), expected)
    missing = monitor.missing.get(nqn, [])
    superseded = monitor.superseded.get(nqn, frozenset())
    staying = sum(controller.name not in superseded for controller in controllers)
    level = worst_level(
        subsystems,
        complete=expected is None or staying >= expected,
        superseded=superseded,
    )
    if level is not None:
        for name in LEVELS:
            sheet.add("nvmeof_subsystem_redundancy", (nqn, name), level == name)
    for controller in controllers:
        _path(sheet, controller)
    for label in missing:
        for name in PATH_STATES:
            sheet.add("nvmeof_path_state", (nqn, label, name), name == "missing")
    for subsystem in subsystems:
        for namespace in subsystem.namespaces:
            _namespace(sheet, namespace, monitor.namespaces.get((nqn, namespace.nsid)))


def _path(sheet: _Sheet, controller: Controller) -> None:
    nqn, label = controller.nqn, str(controller.path)
    if controller.state is not None:
        for state in PATH_STATES:
            sheet.add("nvmeof_path_state", (nqn, label, state), controller.state == state)
    settings = controller.settings
    for name, value in (
        ("nvmeof_path_keep_alive_timeout_seconds", settings.keep_alive_timeout),
        ("nvmeof_path_ctrl_loss_timeout_seconds", settings.ctrl_loss_timeout),
        ("nvmeof_path_reconnect_delay_seconds", settings.reconnect_delay),
        ("nvmeof_path_fast_io_fail_timeout_seconds", settings.fast_io_fail_timeout),
        ("nvmeof_path_io_timeout_seconds", settings.io_timeout),
        ("nvmeof_path_queues", settings.queues),
    ):
        if value is not None:
            sheet.add(name, (nqn, label), value)


def _namespace(sheet: _Sheet, namespace: Namespace, record: NamespaceRecord | None) -> None:
    key = (namespace.nqn, namespace.nsid)
    for device in _devices(namespace):
        sheet.add("nvmeof_namespace_info", (*key, device, namespace.wwid), 1)
    if namespace.size_bytes is not None:
        sheet.add("nvmeof_namespace_size_bytes", key, namespace.size_bytes)
    if can_tell(namespace):
        counts = condition_counts(namespace)
        for condition in CONDITIONS:
            sheet.add("nvmeof_namespace_paths", (*key, condition), counts[condition])
    for path in namespace.paths:
        _namespace_path(sheet, namespace, path)
    if record is not None:
        _namespace_record(sheet, namespace, record)


def _devices(namespace: Namespace) -> list[str]:
    """Name what applications open: the head, or the plain disks where there is none."""
    plain = [path.disk for path in namespace.paths if not path.hidden]
    return [namespace.device] if namespace.device or not plain else plain


def _namespace_record(sheet: _Sheet, namespace: Namespace, record: NamespaceRecord) -> None:
    key = (namespace.nqn, namespace.nsid)
    if record.io is not None:
        names = NamespaceRecord.FIELDS
        in_flight = sum(path.io.in_flight for path in namespace.paths if path.io is not None)
        _io(sheet, "nvmeof_namespace", key, dict(zip(names, record.io, strict=True)), in_flight)
    sheet.add("nvmeof_namespace_io_stalled_seconds", key, record.stalled)
    for label, seconds in record.path_stalled.items():
        sheet.add("nvmeof_namespace_path_io_stalled_seconds", (*key, label), seconds)
    if record.requeued is not None:
        sheet.add("nvmeof_namespace_io_requeued_total", key, record.requeued)
    if record.failed is not None:
        sheet.add("nvmeof_namespace_io_failed_total", key, record.failed)


def _namespace_path(sheet: _Sheet, namespace: Namespace, path: NamespacePath) -> None:
    key = (namespace.nqn, namespace.nsid, str(path.controller.path))
    if path.ana_state:
        for state in ANA_STATES:
            sheet.add("nvmeof_namespace_path_ana_state", (*key, state), path.ana_state == state)
    if path.known:
        sheet.add("nvmeof_namespace_path_usable", key, path.usable)
    if path.io is not None:
        _io(sheet, "nvmeof_namespace_path", key, _published(path.io), path.io.in_flight)


def _published(io: IoCounters) -> dict[str, int]:
    return {name: getattr(io, name) for name in NamespaceRecord.FIELDS}


def _io(
    sheet: _Sheet, prefix: str, key: tuple[str, ...], io: dict[str, int], in_flight: int
) -> None:
    sheet.add(f"{prefix}_reads_completed_total", key, io["reads"])
    sheet.add(f"{prefix}_writes_completed_total", key, io["writes"])
    sheet.add(f"{prefix}_read_bytes_total", key, io["read_sectors"] * _SECTOR_BYTES)
    sheet.add(f"{prefix}_written_bytes_total", key, io["write_sectors"] * _SECTOR_BYTES)
    sheet.add(f"{prefix}_read_time_seconds_total", key, io["read_ms"] * _MILLISECOND)
    sheet.add(f"{prefix}_write_time_seconds_total", key, io["write_ms"] * _MILLISECOND)
    sheet.add(f"{prefix}_io_now", key, in_flight)


def _histories(sheet: _Sheet, monitor: Monitor) -> None:
    """Add what changed over time, also of paths that are gone but remembered."""
    _path_histories(sheet, monitor)
    for nqn, record in sorted(monitor.subsystems.items()):
        _subsystem_record(sheet, nqn, record)


def _path_histories(sheet: _Sheet, monitor: Monitor) -> None:
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


def _subsystem_record(sheet: _Sheet, nqn: str, record: SubsystemRecord) -> None:
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


def _exporter(sheet: _Sheet, state: PublishedState) -> None:
    sheet.add("nvmeof_exporter_build_info", (__version__, platform.python_version()), 1)
    sheet.add("nvmeof_exporter_poll_interval_seconds", (), state.poll_interval)
    sheet.add_histogram("nvmeof_exporter_poll_duration_seconds", (), state.poll_durations)
    if state.snapshot is not None:
        sheet.add("nvmeof_exporter_last_poll_timestamp_seconds", (), state.snapshot.wall)
    sheet.add("nvmeof_exporter_poll_overruns_total", (), state.overruns)
    for name, status in state.collectors.items():
        sheet.add("nvmeof_exporter_collector_success", (name,), status.success)
        sheet.add("nvmeof_exporter_collector_duration_seconds", (name,), status.seconds)
        sheet.add("nvmeof_exporter_read_errors_total", (name,), status.errors)
    for source, count in state.events.items():
        sheet.add("nvmeof_exporter_events_total", (source,), count)
    if state.scrape_seconds is not None:
        sheet.add("nvmeof_exporter_scrape_duration_seconds", (), state.scrape_seconds)
