"""The NVMe source: keeps the devices in step with ``/sys`` and makes snapshots of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmeof_exporter.model import HostIdentity, Snapshot, Subsystem
from nvmeof_exporter.sources import decode
from nvmeof_exporter.sources.devices import Devices
from nvmeof_exporter.sources.namespaces import NamespaceLabels, arrange
from nvmeof_exporter.sources.topology import scan

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nvmeof_exporter.model import Controller
    from nvmeof_exporter.sources.disks import DiskNode
    from nvmeof_exporter.sources.nodes import ControllerNode, SubsystemNode
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
        self._unsurveyed = True
        self._included: list[SubsystemNode] = []
        self._discovery_controllers = 0
        self._hosts: tuple[tuple[tuple[Controller, ...], ...], tuple[HostIdentity, ...]] = ((), ())
        self._settings_position = 0
        #: Whether the tree did not tell which devices there are: those known are kept.
        self.blind = False
        self.rescan()

    @property
    def stale(self) -> bool:
        """Whether a device stopped answering, so that a rescan is due soon."""
        return self._devices.stale

    @property
    def files(self) -> list[str]:
        """What is read at every poll, by path; without the files that are not there."""
        devices = self._devices
        paired = (
            *devices.path_counters,
            *devices.head_counters,
            *devices.states,
            *devices.ana_states,
        )
        return [attribute.path for attribute, _ in paired if not attribute.absent]

    def close(self) -> None:
        """Give back every descriptor."""
        self._devices.close()

    def rescan(self) -> bool:
        """Follow devices that came or went. Returns whether any did.

        A tree that cannot be listed whole says nothing of what is gone: see ``blind``.
        """
        unlisted = self._reader.directories_unlisted
        layout = scan(self._reader, self._sysfs)
        self.blind = self._reader.directories_unlisted != unlisted or not self._reader.names(
            self._sysfs
        )
        changed = not self.blind and self._devices.follow(layout)
        self._unsurveyed |= changed
        for parameter in (self._multipath, self._io_timeout):
            parameter.retry()
            if parameter.refresh():
                for controller in self._devices.controllers:
                    controller.change()
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
        self._refresh()
        self._refresh_some_settings()
        if self._unsurveyed or any(node.changes.dirty for node in self._devices.subsystems):
            self._survey()
        subsystems = self._labels.apply(s for node in self._included for s in self._build(node))
        return Snapshot(
            monotonic=monotonic,
            wall=wall,
            subsystems=subsystems,
            hosts=self._hosts_of(subsystems),
            multipath_enabled=self._multipath.value,
            discovery_controllers=self._discovery_controllers,
        )

    def _refresh(self) -> None:
        """Read what moves, counters before states: see ``DiskNode.counters``."""
        refresh, devices = self._reader.refresh, self._devices
        for disk in refresh(devices.path_counters):
            disk.move()
            if disk.failovers is not None:
                disk.failovers.refresh()
        for head in refresh(devices.head_counters):
            head.move()
        for controller in refresh(devices.states):
            controller.change_state()
        for disk in refresh(devices.ana_states):
            disk.move()

    def _survey(self) -> None:
        """Find out anew what names, types and addresses decide."""
        devices = self._devices
        self._unsurveyed = False
        if not all(controller.ordinal for controller in devices.controllers):
            devices.label_paths()
        self._included = [node for node in devices.subsystems if self._is_included(node)]
        self._discovery_controllers = sum(c.discovery for c in devices.controllers)
        for node in devices.subsystems:
            if node not in self._included:
                node.changes.dirty = False

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
            node.changes.dirty = False
            return self._build_orphans(node)
        if node.built is None or node.changes.dirty:
            node.built = self._assemble(node, node.nqn, node.controllers)
        elif node.changes.moved:
            node.built = _moved(node, node.built)
        node.changes.dirty = node.changes.moved = False
        return [node.built]

    def _build_orphans(self, node: SubsystemNode) -> list[Subsystem]:
        """Make one nameless subsystem per NQN of the controllers without a subsystem."""
        by_nqn: dict[str, list[ControllerNode]] = {}
        for controller in node.controllers:
            # Without an NQN (connecting for the first time) it is nobody's path yet.
            if controller.nqn and not controller.discovery and (self._pcie or controller.fabric):
                by_nqn.setdefault(controller.nqn, []).append(controller)
        return [self._assemble(node, nqn, some) for nqn, some in sorted(by_nqn.items())]

    def _assemble(
        self, node: SubsystemNode, nqn: str, controllers: list[ControllerNode]
    ) -> Subsystem:
        built = []
        disks: list[DiskNode] = []
        for controller in controllers:
            if controller.discovery:
                continue
            value = controller.build(nqn, self._io_timeout.value)
            built.append(value)
            for disk in controller.disks:
                disk.build(value)
                disks.append(disk)
        node.arranged = arrange(node.heads, disks)
        return Subsystem(
            name=node.directory.name,
            nqn=nqn,
            model=node.text("model"),
            serial=node.text("serial"),
            firmware=node.text("firmware_rev"),
            iopolicy=node.text("iopolicy"),
            multipath=self._has_multipath(node, disks),
            controllers=tuple(built),
            namespaces=tuple(arranged.build(nqn) for arranged in node.arranged),
        )

    def _has_multipath(self, node: SubsystemNode, disks: list[DiskNode]) -> bool:
        """Tell whether the kernel could move this subsystem's I/O from path to path.

        What is there decides: a head, or hidden path disks. Without either
        the module's parameter does, and plain disks where there is none.
        """
        if node.heads or any(disk.directory.hidden for disk in disks):
            return True
        enabled = self._multipath.last
        return not disks if enabled is None else enabled

    def _hosts_of(self, subsystems: Iterable[Subsystem]) -> tuple[HostIdentity, ...]:
        """List what the controllers present themselves as; found again when they change."""
        controllers = tuple([subsystem.controllers for subsystem in subsystems])
        if controllers != self._hosts[0]:
            self._hosts = (controllers, _hosts(controllers))
        return self._hosts[1]


def _moved(node: SubsystemNode, before: Subsystem) -> Subsystem:
    """Make a subsystem anew of which nothing but counters and ANA states of disks changed."""
    namespaces = list(before.namespaces)
    for index, arranged in enumerate(node.arranged):
        if arranged.moved:
            for disk in arranged.disks:
                if disk.moved and disk.built is not None:
                    disk.build(disk.built.controller)
            namespaces[index] = arranged.build(before.nqn)
    return Subsystem(
        name=before.name,
        nqn=before.nqn,
        model=before.model,
        serial=before.serial,
        firmware=before.firmware,
        iopolicy=before.iopolicy,
        multipath=before.multipath,
        controllers=before.controllers,
        namespaces=tuple(namespaces),
    )


def _hosts(controllers: Iterable[Iterable[Controller]]) -> tuple[HostIdentity, ...]:
    return tuple(
        sorted(
            {
                HostIdentity(controller.hostnqn, controller.hostid)
                for own in controllers
                for controller in own
                if controller.hostnqn or controller.hostid
            }
        )
    )
