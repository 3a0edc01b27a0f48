"""From disks to namespaces: which paths lead to the same one, and how it is labelled."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from nvmeof_exporter.model import Namespace
from nvmeof_exporter.sources.devices import number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nvmeof_exporter.model import NamespacePath, Subsystem
    from nvmeof_exporter.sources.nodes import DiskNode

__all__ = ["NamespaceLabels", "namespaces_of"]


class _Group(NamedTuple):
    """What leads to one namespace: its head, if there is one, and its paths."""

    head: DiskNode | None
    members: list[tuple[DiskNode, NamespacePath]]

    def holds(self, disk: DiskNode) -> bool:
        """Whether a disk of the same NSID is a path to this namespace."""
        other = self.head if self.head is not None else self.members[0][0]
        return not other.wwid.last or not disk.wwid.last or other.wwid.last == disk.wwid.last


def namespaces_of(
    nqn: str, heads: list[DiskNode], paths: list[tuple[DiskNode, NamespacePath]]
) -> tuple[Namespace, ...]:
    """Put the paths under their heads by NSID (and WWID where one NSID has several heads).

    Paths without a head make a namespace of their own: plain disks, or a head
    that is gone already or not there yet. A disk whose NSID could never be
    read is left out until it can be: nothing true can be said of it.
    """
    by_nsid: dict[str, list[_Group]] = {}
    for head in heads:
        if head.nsid.last is not None:
            by_nsid.setdefault(head.nsid.last, []).append(_Group(head, []))
    for disk, path in paths:
        if disk.nsid.last is None:
            continue
        groups = by_nsid.setdefault(disk.nsid.last, [])
        group = next((g for g in groups if g.holds(disk)), None)
        if group is None:
            group = _Group(None, [])
            groups.append(group)
        group.members.append((disk, path))
    return tuple(
        _namespace(nqn, nsid, group)
        for nsid, groups in sorted(by_nsid.items(), key=lambda item: (number(item[0]), item[0]))
        for group in groups
    )


def _namespace(nqn: str, nsid: str, group: _Group) -> Namespace:
    head = group.head
    disks = [disk for disk, _ in group.members]
    if head is not None:
        disks.insert(0, head)
    return Namespace(
        nqn=nqn,
        nsid=nsid,
        device=head.directory.name if head is not None else "",
        wwid=next((disk.wwid.last for disk in disks if disk.wwid.last), ""),
        size_bytes=next((d.size.value for d in disks if d.size.value is not None), None),
        io=head.stat.value if head is not None else None,
        requeued=head.requeued.value if head is not None and head.requeued else None,
        failed=head.failed.value if head is not None and head.failed else None,
        paths=tuple(path for _, path in group.members),
    )


class NamespaceLabels:
    """Tells namespaces of one NQN and NSID that are different block devices apart.

    The first keeps the bare NSID, the next are ``1#2``, ``1#3``. A label once
    given stays with its block device, or its counters would seem to jump when
    another one goes.
    """

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], dict[str, int]] = {}

    def apply(self, subsystems: Iterable[Subsystem]) -> tuple[Subsystem, ...]:
        """Return the subsystems with a label of its own for each of their namespaces."""
        found = list(subsystems)
        devices: dict[tuple[str, str], list[str]] = {}
        for subsystem in found:
            for namespace in subsystem.namespaces:
                key = (namespace.nqn, namespace.nsid)
                devices.setdefault(key, []).append(_device(namespace))
        self._given = {
            key: _ordinals(self._given.get(key, {}), present) for key, present in devices.items()
        }
        return tuple(self._labelled(subsystem) for subsystem in found)

    def _labelled(self, subsystem: Subsystem) -> Subsystem:
        ordinals = [self._given[n.nqn, n.nsid][_device(n)] for n in subsystem.namespaces]
        if all(ordinal == 1 for ordinal in ordinals):
            return subsystem
        return replace(
            subsystem,
            namespaces=tuple(
                namespace
                if ordinal == 1
                else replace(namespace, nsid=f"{namespace.nsid}#{ordinal}")
                for namespace, ordinal in zip(subsystem.namespaces, ordinals, strict=True)
            ),
        )


def _device(namespace: Namespace) -> str:
    """Name the block device that stands for a namespace."""
    return namespace.device or next((path.disk for path in namespace.paths), "")


def _ordinals(given: dict[str, int], present: list[str]) -> dict[str, int]:
    kept = {device: given[device] for device in present if device in given}
    taken = set(kept.values())
    for device in present:
        if device not in kept:
            kept[device] = next(n for n in range(1, len(present) + 1) if n not in taken)
            taken.add(kept[device])
    return kept
