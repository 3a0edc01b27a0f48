"""Which NVMe devices there are and how they belong together.

Relations come from links and parent directories only. The numbers in names
relate nothing: ``nvme0n1`` may sit under controller ``nvme1``, and the ``C`` of
``nvmeScCnM`` is a cntlid on some kernels and an instance on others. The *shape*
of a name tells what kind of device a directory is.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nvmeof_exporter.sources.reader import Reader

__all__ = ["ControllerDirectory", "DiskDirectory", "Layout", "SubsystemDirectory", "scan"]

_SUBSYSTEM = re.compile(r"nvme-subsys\d+", re.ASCII)
_CONTROLLER = re.compile(r"nvme\d+", re.ASCII)
_HEAD_OR_PLAIN_DISK = re.compile(r"nvme\d+n\d+", re.ASCII)
_PATH_DISK = re.compile(r"nvme\d+c\d+n\d+", re.ASCII)
_NUMBERS = re.compile(r"(\d+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class DiskDirectory:
    """A block device. ``inode`` tells a device from its successor of the same name."""

    name: str
    path: str
    inode: int
    hidden: bool


@dataclass(frozen=True, slots=True)
class ControllerDirectory:
    """A controller and the disks whose parent it is."""

    name: str
    path: str
    inode: int
    disks: tuple[DiskDirectory, ...]


@dataclass(frozen=True, slots=True)
class SubsystemDirectory:
    """A subsystem, its head disks, and its controllers (``name`` and ``path`` are ``""``: none)."""

    name: str
    path: str
    inode: int
    controllers: tuple[ControllerDirectory, ...]
    heads: tuple[DiskDirectory, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """All NVMe devices of a ``/sys`` tree, in a stable order."""

    subsystems: tuple[SubsystemDirectory, ...] = ()

    def directories(self) -> set[str]:
        """Return the paths of all devices."""
        found: set[str] = set()
        for subsystem in self.subsystems:
            found.add(subsystem.path)
            found.update(head.path for head in subsystem.heads)
            for controller in subsystem.controllers:
                found.add(controller.path)
                found.update(disk.path for disk in controller.disks)
        return found - {""}


def scan(reader: Reader, sysfs: str) -> Layout:
    """List the NVMe devices below ``sysfs``; a device that vanishes meanwhile is left out.

    A controller's name is unique in the kernel: one that is seen twice (in a
    copy whose links became directories) is listed once.
    """
    subsystems = []
    placed: set[str] = set()
    base = f"{sysfs}/class/nvme-subsystem"
    for name in sorted(filter(_SUBSYSTEM.fullmatch, reader.names(base)), key=_natural):
        subsystem = _subsystem(reader, name, os.path.realpath(f"{base}/{name}"), placed)
        if subsystem is not None:
            subsystems.append(subsystem)
    orphans = _controllers(reader, f"{sysfs}/class/nvme", placed)
    if orphans:
        # Seen while connecting on old kernels: no subsystem links to them yet.
        subsystems.append(SubsystemDirectory("", "", 0, orphans, ()))
    return Layout(tuple(subsystems))


def _subsystem(reader: Reader, name: str, path: str, placed: set[str]) -> SubsystemDirectory | None:
    inode = _inode(reader, path)
    if inode is None:
        return None
    heads = []
    for entry in sorted(reader.names(path), key=_natural):
        if _HEAD_OR_PLAIN_DISK.fullmatch(entry):
            head = _disk(reader, f"{path}/{entry}", entry)
            if head is not None:
                heads.append(head)
    controllers = _controllers(reader, path, placed)
    return SubsystemDirectory(name, path, inode, controllers, tuple(heads))


def _controllers(reader: Reader, base: str, placed: set[str]) -> tuple[ControllerDirectory, ...]:
    """Find the controllers in a directory, or linked from there; adds them to ``placed``."""
    found = []
    for name in sorted(reader.names(base), key=_natural):
        if _CONTROLLER.fullmatch(name) and name not in placed:
            controller = _controller(reader, name, os.path.realpath(f"{base}/{name}"))
            if controller is not None:
                found.append(controller)
                placed.add(name)
    return tuple(found)


def _controller(reader: Reader, name: str, path: str) -> ControllerDirectory | None:
    inode = _inode(reader, path)
    if inode is None:
        return None
    disks = []
    for entry in sorted(reader.names(path), key=_natural):
        if _PATH_DISK.fullmatch(entry) or _HEAD_OR_PLAIN_DISK.fullmatch(entry):
            disk = _disk(reader, f"{path}/{entry}", entry)
            if disk is not None:
                disks.append(disk)
    return ControllerDirectory(name, path, inode, tuple(disks))


def _disk(reader: Reader, path: str, name: str) -> DiskDirectory | None:
    inode = _inode(reader, path)
    if inode is None:
        return None
    return DiskDirectory(name, path, inode, hidden=_PATH_DISK.fullmatch(name) is not None)


def _inode(reader: Reader, path: str) -> int | None:
    """Return the inode of a directory, None where there is none."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno != errno.ELOOP:  # a link to itself leads nowhere
            reader.unlisted(path, error)
        return None
    return found.st_ino if stat.S_ISDIR(found.st_mode) else None


def _natural(name: str) -> list[tuple[int, str]]:
    """Order ``nvme2`` before ``nvme10``."""
    parts = _NUMBERS.split(name)
    return [(int(part) if index % 2 else -1, part) for index, part in enumerate(parts)]
