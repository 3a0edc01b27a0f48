"""From disks to namespaces: which paths lead to the same one, and how it is labelled."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from nvmeof_exporter.model import Namespace
from nvmeof_exporter.sources.devices import number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nvmeof_exporter.model import Subsystem
    from nvmeof_exporter.sources.disks import DiskNode

__all__ = ["Arranged", "NamespaceLabels", "arrange"]


class Arranged(NamedTuple):
    """What leads to one namespace: its head, if there is one, and its disks."""

    nsid: str
    head: DiskNode | None
    disks: list[DiskNode]

    def holds(self, disk: DiskNode) -> bool:
        """Whether a disk of the same NSID is a path to this namespace."""
        other = self.head if self.head is not None else self.disks[0]
        return not other.wwid.last or not disk.wwid.last or other.wwid.last == disk.wwid.last

    @property
    def moved(self) -> bool:
        """Whether what was built of it is out of date."""
        head = self.head
        return (head is not None and head.moved) or any(disk.moved for disk in self.disks)

    def build(self, nqn: str) -> Namespace:
        """Make the value object; those of its disks must be made."""
        head = self.head
        disks = self.disks if head is None else [head, *self.disks]
        if head is not None:
            head.moved = False
        return Namespace(
            nqn=nqn,
            nsid=self.nsid,
            device=head.directory.name if head is not None else "",
            wwid=next((disk.wwid.last for disk in disks if disk.wwid.last), ""),
            size_bytes=next((d.size.value for d in disks if d.size.value is not None), None),
            io=head.stat.value if head is not None else None,
            requeued=head.requeued.value if head is not None and head.requeued else None,
            failed=head.failed.value if head is not None and head.failed else None,
            paths=tuple([disk.built for disk in self.disks if disk.built is not None]),
        )


def arrange(heads: Iterable[DiskNode], disks: Iterable[DiskNode]) -> tuple[Arranged, ...]:
    """Put the paths under their heads by NSID (and WWID where one NSID has several heads).

    Paths without a head make a namespace of their own: plain disks, or a head
    that is gone already or not there yet. A disk whose NSID could never be
    read is left out until it can be: nothing true can be said of it.
    """
    by_nsid: dict[str, list[Arranged]] = {}
    for head in heads:
        if (nsid := head.nsid.last) is not None:
            by_nsid.setdefault(nsid, []).append(Arranged(nsid, head, []))
    for disk in disks:
        if (nsid := disk.nsid.last) is None:
            continue
        known = by_nsid.setdefault(nsid, [])
        own = next((arranged for arranged in known if arranged.holds(disk)), None)
        if own is None:
            own = Arranged(nsid, None, [])
            known.append(own)
        own.disks.append(disk)
    return tuple(
        arranged
        for _, known in sorted(by_nsid.items(), key=lambda item: (number(item[0]), item[0]))
        for arranged in known
    )


class NamespaceLabels:
    """Tells namespaces of one NQN and NSID that are different block devices apart.

    The first keeps the bare NSID, the next are ``1#2``, ``1#3``. A label once
    given stays with its block device, or its counters would seem to jump when
    another one goes.
    """

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], dict[str, int]] = {}
        self._seen: list[tuple[str, str, str]] | None = None

    def apply(self, subsystems: Iterable[Subsystem]) -> tuple[Subsystem, ...]:
        """Return the subsystems with a label of its own for each of their namespaces."""
        found = list(subsystems)
        seen = [(n.nqn, n.nsid, _device(n)) for subsystem in found for n in subsystem.namespaces]
        if seen != self._seen:
            self._seen = seen
            self._give(seen)
        if all(given == 1 for devices in self._given.values() for given in devices.values()):
            return tuple(found)
        return tuple(self._labelled(subsystem) for subsystem in found)

    def _give(self, seen: Iterable[tuple[str, str, str]]) -> None:
        devices: dict[tuple[str, str], list[str]] = {}
        for nqn, nsid, device in seen:
            devices.setdefault((nqn, nsid), []).append(device)
        self._given = {
            key: _ordinals(self._given.get(key, {}), present) for key, present in devices.items()
        }

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
