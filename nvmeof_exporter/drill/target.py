"""What a drill runs on: found out, and refused where it is not what it should be.

A directory must lie on a file system whose disks are namespaces over NVMe over Fabrics,
whatever is stacked between (partitions, LVM, MD). A device is written over: it must be a
whole, blank namespace that nobody uses, and be named twice.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nvmeof_exporter.drill.findings import os_reason
from nvmeof_exporter.drill.mounts import mounts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nvmeof_exporter.drill.mounts import Mount
    from nvmeof_exporter.model import Namespace, Snapshot

__all__ = [
    "BLANK_BYTES",
    "Machine",
    "Refused",
    "Target",
    "claim_device",
    "find_device",
    "find_directory",
]

#: So much of a device's beginning and end must be zeros: every signature lies there.
BLANK_BYTES = 1 << 20

#: What stays free on a file system, whatever the load needs.
_RESERVE_SHARE = 0.05


class Refused(Exception):  # noqa: N818 - a decision, no mistake of ours
    """The drill does not run on this; the text names it and says why."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where the load goes.

    ``disks`` are the kernel's names of the namespaces below, ``namespaces`` their (nqn, nsid).
    ``file_system`` is ``""`` for a device; ``bytes`` what there is room for.
    """

    path: str
    disks: tuple[str, ...]
    namespaces: tuple[tuple[str, str], ...]
    file_system: str
    bytes: int
    remarks: tuple[str, ...] = ()

    @property
    def is_device(self) -> bool:
        """Whether it is a raw device."""
        return not self.file_system


@dataclass(frozen=True, slots=True)
class Machine:
    """Where the machine tells of itself."""

    sysfs: str
    procfs: str
    snapshot: Snapshot


def find_directory(machine: Machine, path: str, wanted_bytes: int) -> Target:
    """Find out what a directory lies on.

    Args:
        machine: this one.
        path: the directory, which must exist.
        wanted_bytes: what the load will write.

    Raises:
        Refused: it is no such directory, lies on something else, or has too little space.

    """
    try:
        found = os.stat(path)
        space = os.statvfs(path)
        mounts = mounts_of(machine.procfs)
    except OSError as error:
        raise Refused(f"{path}: {os_reason(error)}") from error
    if not stat.S_ISDIR(found.st_mode):
        raise Refused(f"{path}: expected a directory")
    number = f"{os.major(found.st_dev)}:{os.minor(found.st_dev)}"
    mount = _mount_of(mounts, number, os.path.realpath(path))
    if mount is None:
        raise Refused(f"{path}: no mount tells what it lies on")
    if mount.read_only:
        raise Refused(f"{path}: {mount.point} is mounted read-only")
    disks = tuple(sorted(set(_disks(machine.sysfs, _block_number(mount)))))
    if not disks:
        raise Refused(f"{path} lies on {mount.fstype} ({mount.source}), which is on no disk here")
    namespaces, remarks = _namespaces(machine.snapshot, path, disks)
    room = int(space.f_bavail * space.f_frsize - space.f_blocks * space.f_frsize * _RESERVE_SHARE)
    if room < wanted_bytes:
        raise Refused(
            f"{path}: the drill needs {wanted_bytes >> 20} MiB and there is room for "
            f"{max(room, 0) >> 20} MiB, of which 5 % of the file system stay free"
        )
    return Target(path, disks, _labels(namespaces), mount.fstype, room, remarks)


def find_device(machine: Machine, path: str, again: str, wanted_bytes: int) -> Target:
    """Find out whether a device may be written over.

    Args:
        machine: this one.
        path: the device.
        again: the same, named a second time.
        wanted_bytes: the span that the load will use.

    Raises:
        Refused: it is not named twice, not what it should be, or used by something.

    """
    if not again or os.path.realpath(again) != os.path.realpath(path):
        raise Refused(f"{path} would be written over: name it a second time with --destroy {path}")
    try:
        found = os.stat(path)
        mounts = mounts_of(machine.procfs)
    except OSError as error:
        raise Refused(f"{path}: {os_reason(error)}") from error
    if not stat.S_ISBLK(found.st_mode):
        raise Refused(f"{path}: expected a block device")
    number = f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"
    directory = os.path.realpath(f"{machine.sysfs}/dev/block/{number}")
    _refuse_used(path, directory, number, mounts)
    disk = os.path.basename(directory)
    namespaces, remarks = _namespaces(machine.snapshot, path, (disk,))
    size = namespaces[0].size_bytes or 0
    if size < wanted_bytes + 2 * BLANK_BYTES:
        raise Refused(
            f"{path}: the drill needs {wanted_bytes + 2 * BLANK_BYTES >> 20} MiB and it has "
            f"{size >> 20} MiB"
        )
    return Target(path, (disk,), _labels(namespaces), "", size - 2 * BLANK_BYTES, remarks)


def claim_device(path: str) -> int:
    """Open a device that nobody else uses, and keep it so until the descriptor is closed.

    Returns the descriptor. Raises Refused where it is in use, or not blank.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC)
    except OSError as error:
        reason = "it is in use" if error.errno == errno.EBUSY else os_reason(error)
        raise Refused(f"{path}: {reason}") from error
    try:
        _refuse_written(path, descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _refuse_written(path: str, descriptor: int) -> None:
    try:
        end = os.lseek(descriptor, 0, os.SEEK_END)
        for offset in (0, max(end - BLANK_BYTES, 0)):
            if any(os.pread(descriptor, BLANK_BYTES, offset)):
                raise Refused(
                    f"{path} is not blank: its first and last MiB are not all zeros, so "
                    "somebody may need it"
                )
    except OSError as error:
        raise Refused(f"{path}: {os_reason(error)}") from error


def _refuse_used(path: str, directory: str, number: str, mounts: list[Mount]) -> None:
    """Refuse a device that has parts, users or a mount. Raises Refused."""
    if not os.path.isdir(directory):
        raise Refused(f"{path}: the kernel does not tell of such a disk")
    if os.path.exists(f"{directory}/partition"):
        raise Refused(f"{path} is a partition: expected a whole namespace")
    for mount in mounts:
        if mount.number == number or os.path.realpath(mount.source) == os.path.realpath(path):
            raise Refused(f"{path} is mounted at {mount.point}")
    parts = [name for name in _names(directory) if os.path.exists(f"{directory}/{name}/partition")]
    if parts:
        raise Refused(f"{path} is partitioned ({', '.join(parts)})")
    holders = _names(f"{directory}/holders")
    if holders:
        raise Refused(f"{path} is used by {', '.join(holders)}")


def _mount_of(mounts: list[Mount], number: str, path: str) -> Mount | None:
    """Find the mount that a path is on: the device's where it has one, else the nearest above."""
    own = [mount for mount in mounts if mount.number == number]
    above = [
        mount
        for mount in own or mounts
        if path == mount.point or path.startswith(mount.point.rstrip("/") + "/")
    ]
    # The newest of several on the same point hides the others.
    return max(reversed(above), key=lambda mount: len(mount.point), default=None)


def _block_number(mount: Mount) -> str:
    """Tell the device of a file system; some, as btrfs, show a number of their own."""
    if not mount.number.startswith("0:") or not mount.source.startswith("/"):
        return mount.number
    try:
        device = os.stat(mount.source)
    except OSError:
        return mount.number
    if not stat.S_ISBLK(device.st_mode):
        return mount.number
    return f"{os.major(device.st_rdev)}:{os.minor(device.st_rdev)}"


def _disks(sysfs: str, number: str) -> Iterator[str]:
    """Name the disks at the bottom of a block device: through partitions and what is stacked."""
    directory = os.path.realpath(f"{sysfs}/dev/block/{number}")
    if not os.path.isdir(directory):
        return
    if os.path.exists(f"{directory}/partition"):
        directory = os.path.dirname(directory)
    yield from _below(directory, frozenset())


def _below(directory: str, seen: frozenset[str]) -> Iterator[str]:
    slaves = _names(f"{directory}/slaves")
    if not slaves:
        yield os.path.basename(directory)
    for name in slaves:
        slave = os.path.realpath(f"{directory}/slaves/{name}")
        if os.path.exists(f"{slave}/partition"):
            slave = os.path.dirname(slave)
        if slave not in seen:
            yield from _below(slave, seen | {directory})


def _namespaces(
    snapshot: Snapshot, path: str, disks: tuple[str, ...]
) -> tuple[tuple[Namespace, ...], tuple[str, ...]]:
    """Find the namespaces of disks, and what there is to remark. Raises Refused."""
    known: dict[str, Namespace] = {}
    plain: set[str] = set()
    for subsystem in snapshot.subsystems:
        for namespace in subsystem.namespaces:
            if namespace.device:
                known[namespace.device] = namespace
            for own in namespace.paths:
                if not own.hidden:
                    known[own.disk] = namespace
                    plain.add(own.disk)
    for disk in disks:
        if disk not in known:
            raise Refused(
                f"{path} lies on {disk}, which is no namespace over NVMe over Fabrics: "
                "there is nothing to fail over"
            )
    remarks = tuple(
        f"{disk} is a path of its own: native multipath is off, and nothing fails over"
        for disk in disks
        if disk in plain
    )
    return tuple(known[disk] for disk in disks), remarks


def _labels(namespaces: tuple[Namespace, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((namespace.nqn, namespace.nsid) for namespace in namespaces)


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []
