"""The NVMe source: keeps the devices in step with ``/sys`` and makes snapshots of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmeof_exporter.model import HostIdentity, Snapshot, Subsystem
from nvmeof_exporter.sources import decode
from nvmeof_exporter.sources.devices import Devices
from nvmeof_exporter.sources.namespaces import NamespaceLabels, namespaces_of
from nvmeof_exporter.sources.topology import scan

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nvmeof_exporter.model import NamespacePath
    from nvmeof_exporter.sources.nodes import ControllerNode, DiskNode, SubsystemNode
    from nvmeof_exporter.sources.reader import Reader

__all__ = ["NvmeSource"]

#: Settings of every device are read again within this many polls.
_SETTINGS_ROUND = 50


class NvmeSource:
    """Reads controllers, paths and namespaces.

    ``rescan`` follows devices that come and go; ``poll`` reads what moves.

    Args:
        reader: opens and reads the files.
        sysfs: where ``/sys`` is.
        pcie: include local PCIe drives.

    """

    def __init__(self, reader: Reader, sysfs: str, *, pcie: bool = False) -> None:
        self._reader = reader
        self._sysfs = sysfs.rstrip("/") or "/"
        self._pcie = pcie
        parameters = f"{self._sysfs}/module/nvme_core/parameters"
        self._multipath = reader.attribute(f"{parameters}/multipath", decode.flag, keep=False)
        self._io_timeout = reader.attribute(f"{parameters}/io_timeout", decode.seconds, keep=False)
        self._devices = Devices(reader)
        self._labels = NamespaceLabels()
        self._built: dict[int, Subsystem] = {}
        self._settings_position = 0
        self.rescan()

    @property
    def stale(self) -> bool:
        """Whether a device stopped answering, so that a rescan is due soon."""
        return self._devices.stale

    def close(self) -> None:
        """Give back every descriptor."""
        self._devices.close()
        self._built = {}

    def rescan(self) -> bool:
        """Follow devices that came or went. Returns whether any did."""
        for parameter in (self._multipath, self._io_timeout):
            parameter.retry()
            parameter.refresh()
        changed = self._devices.follow(scan(self._reader, self._sysfs))
        self._built = {}
        self._devices.retry_absent()
        for subsystem in self._devices.subsystems:
            subsystem.refresh_slow()
        for head in self._devices.heads:
            head.refresh_slow()
        self._devices.label_paths()
        return changed

    def refresh_settings(self) -> None:
        """Read every controller's identity and settings again, e.g. after a reconnect."""
        for controller in self._devices.controllers:
            controller.refresh_slow()

    def poll(self, monotonic: float, wall: float) -> Snapshot:
        """Read what moves and return one consistent view of it.

        Args:
            monotonic: now, in seconds, to measure with.
            wall: now, in seconds since the epoch, to tell.

        """
        devices = self._devices
        for disk in devices.paths:
            disk.refresh_counters()
        for head in devices.heads:
            head.refresh_counters()
        for controller in devices.controllers:
            controller.refresh_state()
        for disk in devices.paths:
            disk.refresh_ana_state()
        self._refresh_some_settings()
        if not all(controller.ordinal for controller in devices.controllers):
            devices.label_paths()
        included = [node for node in devices.subsystems if self._is_included(node)]
        subsystems = self._labels.apply(s for node in included for s in self._build(node))
        return Snapshot(
            monotonic=monotonic,
            wall=wall,
            subsystems=subsystems,
            hosts=_hosts(subsystems),
            multipath_enabled=self._multipath.value,
            discovery_controllers=sum(c.discovery for c in devices.controllers),
        )

    def _is_included(self, node: SubsystemNode) -> bool:
        return not node.discovery and (self._pcie or node.fabric)

    def _refresh_some_settings(self) -> None:
        """Read a share of the slow attributes, so that no poll pays for all of them."""
        controllers = self._devices.controllers
        for _ in range(-(-len(controllers) // _SETTINGS_ROUND)):
            controller = controllers[self._settings_position % len(controllers)]
            self._settings_position += 1
            controller.refresh_slow()
            for disk in controller.disks:
                disk.refresh_slow()

    def _build(self, node: SubsystemNode) -> list[Subsystem]:
        """Make the value objects of a subsystem, or take those of the last poll."""
        if not node.directory.path:
            return self._build_orphans(node)
        dirty = (
            node.dirty
            or any(c.dirty or any(d.dirty for d in c.disks) for c in node.controllers)
            or any(head.dirty for head in node.heads)
        )
        before = self._built.get(id(node))
        if before is not None and not dirty:
            return [before]
        built = self._assemble(node, node.nqn, node.controllers, before)
        self._built[id(node)] = built
        _clean(node)
        return [built]

    def _build_orphans(self, node: SubsystemNode) -> list[Subsystem]:
        """Make one nameless subsystem per NQN of the controllers without a subsystem."""
        by_nqn: dict[str, list[ControllerNode]] = {}
        for controller in node.controllers:
            # Without an NQN (connecting for the first time) it is nobody's path yet.
            if controller.nqn and not controller.discovery and (self._pcie or controller.fabric):
                by_nqn.setdefault(controller.nqn, []).append(controller)
        return [self._assemble(node, nqn, some, None) for nqn, some in sorted(by_nqn.items())]

    def _assemble(
        self,
        node: SubsystemNode,
        nqn: str,
        controllers: list[ControllerNode],
        before: Subsystem | None,
    ) -> Subsystem:
        built_before = {c.name: c for c in before.controllers} if before is not None else {}
        built = {}
        paths: list[tuple[DiskNode, NamespacePath]] = []
        for controller in controllers:
            if controller.discovery:
                continue
            value = built_before.get(controller.directory.name)
            if value is None or controller.dirty or node.dirty:
                value = controller.build(nqn, self._io_timeout.value)
            built[controller.directory.name] = value
            paths.extend((disk, disk.build(value)) for disk in controller.disks)
        return Subsystem(
            name=node.directory.name,
            nqn=nqn,
            model=node.text("model"),
            serial=node.text("serial"),
            firmware=node.text("firmware_rev"),
            iopolicy=node.text("iopolicy"),
            multipath=self._has_multipath(node, paths),
            controllers=tuple(built.values()),
            namespaces=namespaces_of(nqn, node.heads, paths),
        )

    def _has_multipath(
        self, node: SubsystemNode, paths: list[tuple[DiskNode, NamespacePath]]
    ) -> bool:
        """Tell whether the kernel could move this subsystem's I/O from path to path.

        What is there decides: a head, or hidden path disks. Without either
        the module's parameter does, and plain disks where there is none.
        """
        if node.heads or any(disk.directory.hidden for disk, _ in paths):
            return True
        enabled = self._multipath.last
        return not paths if enabled is None else enabled


def _hosts(subsystems: Iterable[Subsystem]) -> tuple[HostIdentity, ...]:
    return tuple(
        sorted(
            {
                HostIdentity(controller.hostnqn, controller.hostid)
                for subsystem in subsystems
                for controller in subsystem.controllers
                if controller.hostnqn or controller.hostid
            }
        )
    )


def _clean(node: SubsystemNode) -> None:
    node.dirty = False
    for controller in node.controllers:
        controller.dirty = False
        for disk in controller.disks:
            disk.dirty = False
    for head in node.heads:
        head.dirty = False
