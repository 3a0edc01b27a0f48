"""The NVMe source: keeps the devices in step with ``/sys`` and makes snapshots of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nvmeof_exporter.model import (
    HostIdentity,
    Namespace,
    NamespacePath,
    Snapshot,
    Subsystem,
)
from nvmeof_exporter.sources import decode
from nvmeof_exporter.sources.nodes import ControllerNode, DiskNode, SubsystemNode
from nvmeof_exporter.sources.topology import Layout, scan

if TYPE_CHECKING:
    from collections.abc import Iterable

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
        self._layout = Layout()
        self._subsystems: list[SubsystemNode] = []
        self._controllers: list[ControllerNode] = []
        self._paths: list[DiskNode] = []
        self._heads: list[DiskNode] = []
        self._built: dict[int, Subsystem] = {}
        self._settings_position = 0
        self.rescan()

    @property
    def stale(self) -> bool:
        """Whether a device stopped answering, so that a rescan is due at once."""
        return any(controller.stale for controller in self._controllers)

    def close(self) -> None:
        """Give back every descriptor."""
        for subsystem in self._subsystems:
            subsystem.close()
        self._subsystems = []
        self._index()

    def rescan(self) -> bool:
        """Follow devices that came or went. Returns whether any did."""
        self._multipath.retry()
        self._multipath.refresh()
        self._io_timeout.retry()
        self._io_timeout.refresh()
        layout = scan(self._reader, self._sysfs)
        changed = layout != self._layout or self.stale
        if changed:
            self._follow(layout)
        for subsystem in self._subsystems:
            subsystem.retry_absent()
            subsystem.refresh_slow()
            for head in subsystem.heads:
                head.refresh_slow()
        self._label_paths()
        return changed

    def refresh_settings(self) -> None:
        """Read every controller's identity and settings again, e.g. after a reconnect."""
        for controller in self._controllers:
            controller.refresh_slow()

    def poll(self, monotonic: float, wall: float) -> Snapshot:
        """Read what moves and return one consistent view of it.

        Args:
            monotonic: now, in seconds, to measure with.
            wall: now, in seconds since the epoch, to tell.

        """
        for disk in self._paths:
            disk.refresh_counters()
        for head in self._heads:
            head.refresh_counters()
        for controller in self._controllers:
            controller.refresh_state()
        for disk in self._paths:
            disk.refresh_ana_state()
        self._refresh_some_settings()
        included = [node for node in self._subsystems if self._is_included(node)]
        subsystems = _label_namespaces([s for node in included for s in self._build(node)])
        return Snapshot(
            monotonic=monotonic,
            wall=wall,
            subsystems=subsystems,
            hosts=_hosts(subsystems),
            multipath_enabled=self._multipath.value,
            discovery_controllers=sum(c.discovery for c in self._controllers),
        )

    def _is_included(self, node: SubsystemNode) -> bool:
        return not node.discovery and (self._pcie or node.fabric)

    def _follow(self, layout: Layout) -> None:
        """Keep the nodes of devices that stayed, close the others, open new ones."""
        known = {node.directory: node for node in self._subsystems if not _is_stale(node)}
        followed = []
        for directory in layout.subsystems:
            node = known.pop(directory, None)
            followed.append(node or SubsystemNode(self._reader, directory))
        kept = {id(node) for node in followed}
        for old in self._subsystems:
            if id(old) not in kept:
                _inherit_ordinals(old, followed)
                old.close()
        self._layout = layout
        self._subsystems = followed
        self._index()

    def _index(self) -> None:
        self._controllers = [c for node in self._subsystems for c in node.controllers]
        self._paths = [disk for c in self._controllers for disk in c.disks]
        self._heads = [head for node in self._subsystems for head in node.heads]
        self._built = {}
        self._settings_position = 0

    def _refresh_some_settings(self) -> None:
        """Read a share of the slow attributes, so that no poll pays for all of them."""
        count = len(self._controllers)
        if not count:
            return
        relabel = False
        for _ in range(-(-count // _SETTINGS_ROUND)):
            controller = self._controllers[self._settings_position % count]
            self._settings_position += 1
            relabel |= controller.refresh_slow()
            for disk in controller.disks:
                disk.refresh_slow()
        if relabel:
            self._label_paths()

    def _label_paths(self) -> None:
        """Tell controllers with equal addresses under one NQN apart, in order of cntlid.

        An ordinal once given stays with its controller: a label must not move
        from one path to another because a reconnect brought a new cntlid.
        """
        groups: dict[tuple[str, object], list[ControllerNode]] = {}
        for subsystem in self._subsystems:
            for controller in subsystem.controllers:
                key = (subsystem.nqn or controller.subsysnqn.value or "", controller.identity)
                groups.setdefault(key, []).append(controller)
        for group in groups.values():
            taken: set[int] = set()
            waiting = []
            for controller in group:
                if controller.ordinal and controller.ordinal not in taken:
                    taken.add(controller.ordinal)
                else:
                    waiting.append(controller)
            for controller in sorted(waiting, key=_by_cntlid):
                controller.ordinal = next(n for n in range(1, len(group) + 1) if n not in taken)
                controller.dirty = True
                taken.add(controller.ordinal)

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
            if not controller.discovery and (self._pcie or controller.fabric):
                # Without an NQN (connecting for the first time) it is nobody's path yet.
                if controller.subsysnqn.value:
                    by_nqn.setdefault(controller.subsysnqn.value, []).append(controller)
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
        plain = bool(paths) and not node.heads and not any(d.directory.hidden for d, _ in paths)
        return Subsystem(
            name=node.directory.name,
            nqn=nqn,
            model=node.text("model"),
            serial=node.text("serial"),
            firmware=node.text("firmware_rev"),
            iopolicy=node.text("iopolicy"),
            multipath=not (plain and self._multipath.value is not True),
            controllers=tuple(built.values()),
            namespaces=_namespaces(nqn, node.heads, paths),
        )


def _namespaces(
    nqn: str, heads: list[DiskNode], paths: list[tuple[DiskNode, NamespacePath]]
) -> tuple[Namespace, ...]:
    """Put the paths under their heads by NSID (and WWID where one NSID has several heads).

    Paths without a head make a namespace of their own: plain disks, or a head
    that is gone already or not there yet. A disk whose NSID cannot be read is
    left out until it can be: nothing true can be said of it.
    """
    by_nsid: dict[str, list[tuple[DiskNode | None, list[tuple[DiskNode, NamespacePath]]]]] = {}
    for head in heads:
        if head.nsid.value is not None:
            by_nsid.setdefault(head.nsid.value, []).append((head, []))
    for disk, path in paths:
        if disk.nsid.value is None:
            continue
        candidates = by_nsid.setdefault(disk.nsid.value, [])
        match = next((c for c in candidates if _same_namespace(c, disk)), None)
        if match is None:
            match = (None, [])
            candidates.append(match)
        match[1].append((disk, path))
    return tuple(
        _namespace(nqn, nsid, head, members)
        for nsid, groups in sorted(by_nsid.items(), key=lambda item: _number(item[0]))
        for head, members in groups
    )


def _same_namespace(
    group: tuple[DiskNode | None, list[tuple[DiskNode, NamespacePath]]], disk: DiskNode
) -> bool:
    head, members = group
    other = head if head is not None else members[0][0]
    return not other.wwid.value or not disk.wwid.value or other.wwid.value == disk.wwid.value


def _namespace(
    nqn: str,
    nsid: str,
    head: DiskNode | None,
    members: list[tuple[DiskNode, NamespacePath]],
) -> Namespace:
    sizes = [disk.size.value for disk, _ in members if disk.size.value is not None]
    wwids = [disk.wwid.value for disk, _ in members if disk.wwid.value]
    return Namespace(
        nqn=nqn,
        nsid=nsid,
        device=head.directory.name if head is not None else "",
        wwid=(head.wwid.value if head is not None else None) or next(iter(wwids), ""),
        size_bytes=(
            head.size.value
            if head is not None and head.size.value is not None
            else next(iter(sizes), None)
        ),
        io=head.stat.value if head is not None else None,
        requeued=head.requeued.value if head is not None and head.requeued else None,
        failed=head.failed.value if head is not None and head.failed else None,
        paths=tuple(path for _, path in members),
    )


def _label_namespaces(subsystems: list[Subsystem]) -> tuple[Subsystem, ...]:
    """Tell namespaces of one NQN and NSID that are different block devices apart."""
    seen: dict[tuple[str, str], int] = {}
    labelled = []
    for subsystem in subsystems:
        namespaces = []
        for namespace in subsystem.namespaces:
            key = (namespace.nqn, namespace.nsid)
            seen[key] = seen.get(key, 0) + 1
            if seen[key] > 1:
                namespaces.append(replace(namespace, nsid=f"{namespace.nsid}#{seen[key]}"))
            else:
                namespaces.append(namespace)
        if all(a is b for a, b in zip(namespaces, subsystem.namespaces, strict=True)):
            labelled.append(subsystem)
        else:
            labelled.append(replace(subsystem, namespaces=tuple(namespaces)))
    return tuple(labelled)


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


def _is_stale(node: SubsystemNode) -> bool:
    return any(controller.stale for controller in node.controllers)


def _inherit_ordinals(old: SubsystemNode, followed: list[SubsystemNode]) -> None:
    """Hand the ordinals of controllers that stayed to their new nodes."""
    given = {(c.directory.path, c.directory.inode, c.identity): c.ordinal for c in old.controllers}
    for node in followed:
        for controller in node.controllers:
            directory = controller.directory
            key = (directory.path, directory.inode, controller.identity)
            if not controller.ordinal:
                controller.ordinal = given.get(key, 0)


def _clean(node: SubsystemNode) -> None:
    node.dirty = False
    for controller in node.controllers:
        controller.dirty = False
        for disk in controller.disks:
            disk.dirty = False
    for head in node.heads:
        head.dirty = False


def _by_cntlid(controller: ControllerNode) -> tuple[int, str]:
    return _number(controller.cntlid.value or ""), controller.directory.name


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() else 0
