"""Which NVMe devices there are and how they belong together.

Relations come from links and parent directories only. The numbers in names
relate nothing: ``nvme0n1`` may sit under controller ``nvme1``, and the ``C`` of
``nvmeScCnM`` is a cntlid on some kernels and an instance on others. The *shape*
of a name tells what kind of device a directory is.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nvmeof_exporter.sources.reader import Reader

__all__ = ["ControllerDirectory", "DiskDirectory", "Layout", "SubsystemDirectory", "scan"]

_CONTROLLER = re.compile(r"nvme\d+")
_HEAD_OR_PLAIN_DISK = re.compile(r"nvme\d+n\d+")
_PATH_DISK = re.compile(r"nvme\d+c\d+n\d+")


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


def scan(reader: Reader, sysfs: str) -> Layout:
    """List the NVMe devices below ``sysfs``; a device that vanishes meanwhile is left out."""
    subsystems = []
    placed: set[str] = set()
    base = f"{sysfs}/class/nvme-subsystem"
    for name in sorted(reader.names(base), key=_natural):
        subsystem = _subsystem(reader, name, os.path.realpath(f"{base}/{name}"))
        if subsystem is not None:
            subsystems.append(subsystem)
            placed.update(controller.path for controller in subsystem.controllers)
    orphans = _orphans(reader, f"{sysfs}/class/nvme", placed)
    if orphans:
        subsystems.append(SubsystemDirectory("", "", 0, orphans, ()))
    return Layout(tuple(subsystems))


def _subsystem(reader: Reader, name: str, path: str) -> SubsystemDirectory | None:
    inode = _inode(path)
    if inode is None:
        return None
    controllers = []
    heads = []
    for entry in sorted(reader.names(path), key=_natural):
        if _CONTROLLER.fullmatch(entry):
            controller = _controller(reader, entry, os.path.realpath(f"{path}/{entry}"))
            if controller is not None:
                controllers.append(controller)
        elif _HEAD_OR_PLAIN_DISK.fullmatch(entry):
            head = _disk(f"{path}/{entry}", entry)
            if head is not None:
                heads.append(head)
    return SubsystemDirectory(name, path, inode, tuple(controllers), tuple(heads))


def _orphans(reader: Reader, base: str, placed: set[str]) -> tuple[ControllerDirectory, ...]:
    """Find the controllers that no subsystem links to (seen while connecting on old kernels)."""
    orphans = []
    for name in sorted(reader.names(base), key=_natural):
        path = os.path.realpath(f"{base}/{name}")
        if _CONTROLLER.fullmatch(name) and path not in placed:
            controller = _controller(reader, name, path)
            if controller is not None:
                orphans.append(controller)
    return tuple(orphans)


def _controller(reader: Reader, name: str, path: str) -> ControllerDirectory | None:
    inode = _inode(path)
    if inode is None:
        return None
    disks = []
    for entry in sorted(reader.names(path), key=_natural):
        if _PATH_DISK.fullmatch(entry) or _HEAD_OR_PLAIN_DISK.fullmatch(entry):
            disk = _disk(f"{path}/{entry}", entry)
            if disk is not None:
                disks.append(disk)
    return ControllerDirectory(name, path, inode, tuple(disks))


def _disk(path: str, name: str) -> DiskDirectory | None:
    inode = _inode(path)
    if inode is None:
        return None
    return DiskDirectory(name, path, inode, hidden=_PATH_DISK.fullmatch(name) is not None)


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


def _natural(name: str) -> list[tuple[int, str]]:
    """Order ``nvme2`` before ``nvme10``."""
    return [(int(part) if part.isdigit() else -1, part) for part in re.split(r"(\d+)", name)]
