"""What the newest snapshot shows, told: inventory, states, settings, I/O of each path.

Snapshots are immutable, so no lock is held meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nvmeof_exporter.exposition.hardware import add_path_link, add_shared_fate
from nvmeof_exporter.exposition.io import add_io
from nvmeof_exporter.model import ANA_STATES, PATH_STATES
from nvmeof_exporter.monitor.records import NamespaceRecord
from nvmeof_exporter.monitor.redundancy import (
    CONDITIONS,
    LEVELS,
    can_tell,
    condition_counts,
    usable_paths,
    worst_level,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nvmeof_exporter.exposition.sheet import Sheet
    from nvmeof_exporter.model import Controller, Namespace, NamespacePath, Snapshot, Subsystem
    from nvmeof_exporter.monitor.monitor import Monitor
    from nvmeof_exporter.surroundings import Surroundings

__all__ = ["Expected", "add_state"]


@dataclass(frozen=True, slots=True)
class Expected:
    """A copy of what the monitor expects, by nqn."""

    counts: Mapping[str, int | None]
    missing: Mapping[str, tuple[str, ...]]
    superseded: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, monitor: Monitor) -> Expected:
        """Copy it while the monitor cannot change."""
        nqns = monitor.missing.keys() | monitor.expectations.nqns()
        return cls(
            {nqn: monitor.expectations.expected(nqn) for nqn in sorted(nqns)},
            {nqn: tuple(labels) for nqn, labels in monitor.missing.items()},
            dict(monitor.superseded),
        )


def add_state(sheet: Sheet, snapshot: Snapshot, expected: Expected, around: Surroundings) -> None:
    """Add what a snapshot shows, and what of it was expected and is not there."""
    _inventory(sheet, snapshot, around)
    for nqn, subsystems in _by_nqn(snapshot, expected).items():
        _subsystem(sheet, nqn, subsystems, expected)
        add_shared_fate(sheet, nqn, subsystems, around)


def _by_nqn(snapshot: Snapshot, expected: Expected) -> dict[str, list[Subsystem]]:
    grouped: dict[str, list[Subsystem]] = {}
    for subsystem in snapshot.subsystems:
        grouped.setdefault(subsystem.nqn, []).append(subsystem)
    for nqn in expected.counts:
        grouped.setdefault(nqn, [])
    return grouped


def _inventory(sheet: Sheet, snapshot: Snapshot, around: Surroundings) -> None:
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
            _path_info(sheet, controller, around)
            add_path_link(sheet, controller, around)


def _path_info(sheet: Sheet, controller: Controller, around: Surroundings) -> None:
    path = controller.path
    port = around.port(controller)
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
            around.netdev(controller),
            port.rdma_device,
            port.rdma_port,
        ),
        1,
    )


def _subsystem(sheet: Sheet, nqn: str, subsystems: list[Subsystem], expected: Expected) -> None:
    controllers = [c for subsystem in subsystems for c in subsystem.controllers]
    sheet.add("nvmeof_subsystem_paths", (nqn,), len(controllers))
    usable = sum(len(usable_paths(subsystem)) for subsystem in subsystems)
    sheet.add("nvmeof_subsystem_paths_usable", (nqn,), usable)
    count = expected.counts.get(nqn)
    sheet.add_known("nvmeof_subsystem_paths_expected", (nqn,), count)
    superseded = expected.superseded.get(nqn, frozenset())
    staying = sum(controller.name not in superseded for controller in controllers)
    level = worst_level(
        subsystems,
        complete=count is None or staying >= count,
        superseded=superseded,
    )
    if level is not None:
        sheet.add_states("nvmeof_subsystem_redundancy", (nqn,), LEVELS, level)
    for controller in controllers:
        _path(sheet, controller)
    for label in expected.missing.get(nqn, ()):
        sheet.add_states("nvmeof_path_state", (nqn, label), PATH_STATES, "missing")
    for subsystem in subsystems:
        for namespace in subsystem.namespaces:
            _namespace(sheet, namespace)


def _path(sheet: Sheet, controller: Controller) -> None:
    nqn, label = controller.nqn, str(controller.path)
    if controller.state is not None:
        sheet.add_states("nvmeof_path_state", (nqn, label), PATH_STATES, controller.state)
    settings = controller.settings
    for name, value in (
        ("nvmeof_path_keep_alive_timeout_seconds", settings.keep_alive_timeout),
        ("nvmeof_path_ctrl_loss_timeout_seconds", settings.ctrl_loss_timeout),
        ("nvmeof_path_reconnect_delay_seconds", settings.reconnect_delay),
        ("nvmeof_path_fast_io_fail_timeout_seconds", settings.fast_io_fail_timeout),
        ("nvmeof_path_io_timeout_seconds", settings.io_timeout),
        ("nvmeof_path_queues", settings.queues),
    ):
        sheet.add_known(name, (nqn, label), value)


def _namespace(sheet: Sheet, namespace: Namespace) -> None:
    key = (namespace.nqn, namespace.nsid)
    for device in _devices(namespace):
        sheet.add("nvmeof_namespace_info", (*key, device, namespace.wwid), 1)
    sheet.add_known("nvmeof_namespace_size_bytes", key, namespace.size_bytes)
    if can_tell(namespace):
        counts = condition_counts(namespace)
        for condition in CONDITIONS:
            sheet.add("nvmeof_namespace_paths", (*key, condition), counts[condition])
    for path in namespace.paths:
        _namespace_path(sheet, namespace, path)


def _devices(namespace: Namespace) -> list[str]:
    """Name what applications open: the head, or the plain disks where there is none."""
    plain = [path.disk for path in namespace.paths if not path.hidden]
    return [namespace.device] if namespace.device or not plain else plain


def _namespace_path(sheet: Sheet, namespace: Namespace, path: NamespacePath) -> None:
    key = (namespace.nqn, namespace.nsid, str(path.controller.path))
    if path.ana_state:
        sheet.add_states("nvmeof_namespace_path_ana_state", key, ANA_STATES, path.ana_state)
    if path.known:
        sheet.add("nvmeof_namespace_path_usable", key, path.usable)
    if path.io is not None:
        totals = [getattr(path.io, name) for name in NamespaceRecord.FIELDS]
        add_io(sheet, "nvmeof_namespace_path", key, totals, path.io.in_flight)
