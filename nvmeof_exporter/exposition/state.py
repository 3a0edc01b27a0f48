"""What the newest snapshot shows, told: inventory, states, settings, I/O of each path.

Snapshots are immutable, so no lock is held meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from nvmeof_exporter.exposition.hardware import add_path_link, add_shared_fate
from nvmeof_exporter.exposition.io import add_io
from nvmeof_exporter.model import ANA_STATES, PATH_STATES
from nvmeof_exporter.monitor.records import published_of
from nvmeof_exporter.monitor.redundancy import (
    CONDITIONS,
    LEVELS,
    can_tell,
    condition_counts,
    level_of,
    usable_paths,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nvmeof_exporter.exposition.sheet import Sheet
    from nvmeof_exporter.hardware import PathPort
    from nvmeof_exporter.model import (
        Controller,
        IoCounters,
        Namespace,
        NamespacePath,
        Snapshot,
        Subsystem,
    )
    from nvmeof_exporter.monitor.monitor import Monitor
    from nvmeof_exporter.surroundings import Surroundings

__all__ = ["Expected", "Standing", "add_state"]


class Standing(NamedTuple):
    """Of a subsystem all but its counters: what redundancy and shared fate are made of."""

    controllers: tuple[Controller, ...]
    multipath: bool
    namespaces: tuple[tuple[object, ...], ...]


def _standing(subsystem: Subsystem) -> Standing:
    return Standing(
        subsystem.controllers,
        subsystem.multipath,
        tuple(
            tuple(
                [(p.controller, p.ana_state, p.last_ana_state, p.disk, p.hidden) for p in n.paths]
            )
            for n in subsystem.namespaces
        ),
    )


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
        standings = [_standing(subsystem) for subsystem in subsystems]
        _subsystem(sheet, nqn, subsystems, standings, expected)
        add_shared_fate(sheet, nqn, subsystems, standings, around)


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
            netdev, port = around.netdev(controller), around.port(controller)
            sheet.part(
                ("path info", controller.name),
                (controller, netdev, port),
                _path_info,
                controller,
                netdev,
                port,
            )
            add_path_link(sheet, controller, around)


def _path_info(sheet: Sheet, controller: Controller, netdev: str, port: PathPort) -> None:
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
            port.rdma_device,
            port.rdma_port,
        ),
        1,
    )


def _subsystem(
    sheet: Sheet,
    nqn: str,
    subsystems: list[Subsystem],
    standings: list[Standing],
    expected: Expected,
) -> None:
    count = expected.counts.get(nqn)
    superseded = expected.superseded.get(nqn, frozenset())
    sheet.part(
        ("subsystem", nqn),
        (*standings, count, superseded),
        _paths_of_subsystem,
        nqn,
        subsystems,
        count,
        superseded,
    )
    for subsystem in subsystems:
        for controller in subsystem.controllers:
            sheet.part(("path", controller.name), (controller,), _path, controller)
    for label in expected.missing.get(nqn, ()):
        sheet.add_states("nvmeof_path_state", (nqn, label), PATH_STATES, "missing")
    for subsystem, standing in zip(subsystems, standings, strict=True):
        for namespace, paths in zip(subsystem.namespaces, standing.namespaces, strict=True):
            sheet.part(
                ("namespace", nqn, namespace.nsid),
                (namespace.device, namespace.wwid, namespace.size_bytes, paths),
                _namespace,
                namespace,
            )
            for path in namespace.paths:
                if path.io is not None:
                    _path_io(sheet, namespace, path, path.io)


def _paths_of_subsystem(
    sheet: Sheet,
    nqn: str,
    subsystems: list[Subsystem],
    count: int | None,
    superseded: frozenset[str],
) -> None:
    controllers = [c for subsystem in subsystems for c in subsystem.controllers]
    sheet.add("nvmeof_subsystem_paths", (nqn,), len(controllers))
    usable = sum(len(usable_paths(subsystem)) for subsystem in subsystems)
    sheet.add("nvmeof_subsystem_paths_usable", (nqn,), usable)
    sheet.add_known("nvmeof_subsystem_paths_expected", (nqn,), count)
    level = level_of(subsystems, count, superseded)
    if level is not None:
        sheet.add_states("nvmeof_subsystem_redundancy", (nqn,), LEVELS, level)


def _path(sheet: Sheet, controller: Controller) -> None:
    key = (controller.nqn, str(controller.path))
    if controller.state is not None:
        sheet.add_states("nvmeof_path_state", key, PATH_STATES, controller.state)
    settings = controller.settings
    sheet.add_alike(
        key,
        (
            ("nvmeof_path_keep_alive_timeout_seconds", settings.keep_alive_timeout),
            ("nvmeof_path_ctrl_loss_timeout_seconds", settings.ctrl_loss_timeout),
            ("nvmeof_path_reconnect_delay_seconds", settings.reconnect_delay),
            ("nvmeof_path_fast_io_fail_timeout_seconds", settings.fast_io_fail_timeout),
            ("nvmeof_path_io_timeout_seconds", settings.io_timeout),
            ("nvmeof_path_queues", settings.queues),
        ),
    )


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
        own = (*key, str(path.controller.path))
        if path.ana_state:
            sheet.add_states("nvmeof_namespace_path_ana_state", own, ANA_STATES, path.ana_state)
        if path.known:
            sheet.add("nvmeof_namespace_path_usable", own, path.usable)


def _devices(namespace: Namespace) -> list[str]:
    """Name what applications open: the head, or the plain disks where there is none."""
    plain = [path.disk for path in namespace.paths if not path.hidden]
    return [namespace.device] if namespace.device or not plain else plain


def _path_io(sheet: Sheet, namespace: Namespace, path: NamespacePath, io: IoCounters) -> None:
    key = (namespace.nqn, namespace.nsid, str(path.controller.path))
    sheet.part(("path I/O", *key), io, _add_path_io, key, io)


def _add_path_io(sheet: Sheet, key: tuple[str, ...], io: IoCounters) -> None:
    add_io(sheet, "nvmeof_namespace_path", key, published_of(io), io.in_flight)
