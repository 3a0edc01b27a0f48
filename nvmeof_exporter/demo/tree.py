"""A ``/sys`` and a ``/proc`` on disk, kept in step with a make-believe node.

The layout is the kernel's: devices below ``devices/virtual``, relations as
links. Only what changed is written, in the kernel's order: states before
counters, so that a cancelled request is never seen beside an older state.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from nvmeof_exporter.demo import attributes, host_files
from nvmeof_exporter.demo.files import Directory, link, make
from nvmeof_exporter.demo.host_tree import HostTree
from nvmeof_exporter.demo.shown import ShownDevice, ShownDisk

if TYPE_CHECKING:
    from nvmeof_exporter.demo import devices
    from nvmeof_exporter.demo.simulation import Node

__all__ = ["Tree"]

_PREFIX = "nvmeof-exporter-demo-"

#: Files that are rewritten many times a second belong in memory, not on a disk.
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  # mkdtemp makes a private directory below it

_CTL = "devices/virtual/nvme-fabrics/ctl"
_SUBSYSTEMS = "devices/virtual/nvme-subsystem"


class Tree:
    """The files of a node; ``sync`` brings them up to date.

    Args:
        node: what they show.
        directory: where ``sys`` and ``proc`` are made, absent or empty; kept at
            the end. None: a temporary directory, removed by ``close``.

    Raises:
        FileExistsError: the directory has something in it.
        OSError: it cannot be written.

    """

    def __init__(self, node: Node, directory: Path | None = None) -> None:
        self._node = node
        self._temporary = directory is None
        self.root = directory or Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_memory()))
        self.root.mkdir(parents=True, exist_ok=True)
        if any(self.root.iterdir()):
            raise FileExistsError(f"{self.root}: the directory is not empty")
        self._sys = self.root / "sys"
        self._workshop = self.root / "workshop"
        self._subsystems: dict[devices.Subsystem, ShownDevice] = {}
        self._controllers: dict[devices.Controller, ShownDevice] = {}
        self._paths: dict[devices.Path, ShownDisk] = {}
        self._heads: dict[devices.Namespace, ShownDisk] = {}
        self._diskstats = make(self.root / "proc/diskstats", b"")
        make(self.root / "proc/version", host_files.version(node))
        self._host = HostTree(node, self._sys, self._workshop)
        self._make_classes()
        self.sync()

    @property
    def sysfs(self) -> str:
        """Where ``/sys`` is."""
        return str(self._sys)

    @property
    def procfs(self) -> str:
        """Where ``/proc`` is."""
        return str(self.root / "proc")

    def close(self) -> None:
        """Remove the files, where their place was not asked for."""
        if self._temporary:
            shutil.rmtree(self.root, ignore_errors=True)

    def sync(self) -> None:
        """Show the node as it is now."""
        self._host.sync()  # the carrier is lost before a controller can know of it
        self._remove_gone()
        self._make_new()
        self._write_states()
        self._write_counters()

    # Once

    def _make_classes(self) -> None:
        for name in ("block", "class/nvme", "class/nvme-subsystem", _CTL, _SUBSYSTEMS):
            (self._sys / name).mkdir(parents=True)
        make(self._sys / _CTL / "uevent", b"")
        link(self._sys / "class/nvme-fabrics/ctl", f"../../{_CTL}")

    # What comes and goes

    def _remove_gone(self) -> None:
        node = self._node
        present = {c for s in node.subsystems for c in s.controllers}
        paths = {path for controller in present for path in controller.paths}
        gone_heads = [
            namespace
            for namespace, disk in self._heads.items()
            if namespace.head is None or namespace.minor != disk.minor
        ]
        for namespace in gone_heads:
            self._heads.pop(namespace).vanish()
        for path in self._paths.keys() - paths:
            self._paths.pop(path).vanish()
            if (head := self._heads.get(path.namespace)) is not None:
                (head.directory.path / "multipath" / path.disk).unlink(missing_ok=True)
        for controller in self._controllers.keys() - present:
            shown = self._subsystems[controller.subsystem]
            (shown.directory.path / controller.name).unlink()
            self._controllers.pop(controller).vanish()
        for subsystem in [s for s in self._subsystems if s.instance is None]:
            self._subsystems.pop(subsystem).vanish()

    def _make_new(self) -> None:
        present = [s for s in self._node.subsystems if s.instance is not None]
        for subsystem in [s for s in present if s not in self._subsystems]:
            self._make_subsystem(subsystem)
        controllers = [c for s in present for c in s.controllers]
        for controller in [c for c in controllers if c not in self._controllers]:
            self._make_controller(controller)
        for path in [p for c in controllers for p in c.paths if p not in self._paths]:
            self._make_path(path)
        heads = [n for s in present for n in s.namespaces if n.head is not None]
        for namespace in [n for n in heads if n not in self._heads]:
            self._make_head(namespace)

    def _make_subsystem(self, subsystem: devices.Subsystem) -> None:
        place = f"{_SUBSYSTEMS}/{subsystem.name}"
        files = attributes.subsystem_files(subsystem)
        directory = self._directory(place, files, subsystem="../../../../class/nvme-subsystem")
        named = link(self._sys / "class/nvme-subsystem" / subsystem.name, f"../../{place}")
        self._subsystems[subsystem] = ShownDevice(directory, named)

    def _make_controller(self, controller: devices.Controller) -> None:
        name = controller.name
        place = f"{_CTL}/{name}"
        files = attributes.controller_files(self._node, controller)
        directory = self._directory(
            place, files, device="../../ctl", subsystem="../../../../../class/nvme"
        )
        named = link(self._sys / "class/nvme" / name, f"../../{place}")
        self._controllers[controller] = ShownDevice(directory, named)
        subsystem = self._subsystems[controller.subsystem]
        link(subsystem.directory.path / name, f"../../nvme-fabrics/ctl/{name}")

    def _make_path(self, path: devices.Path) -> None:
        controller = path.controller.name
        place = f"{_CTL}/{controller}/{path.disk}"
        files = attributes.path_files(self._node, path)
        directory = self._directory(
            place, files, device=f"../../{controller}", subsystem="../../../../../../class/block"
        )
        named = link(self._sys / "block" / path.disk, f"../{place}")
        self._paths[path] = ShownDisk(directory, named, path.minor)
        if (head := self._heads.get(path.namespace)) is not None:
            self._link_to_head(head, path)

    def _make_head(self, namespace: devices.Namespace) -> None:
        subsystem = namespace.subsystem.name
        place = f"{_SUBSYSTEMS}/{subsystem}/{namespace.disk}"
        files = attributes.head_files(self._node, namespace)
        directory = self._directory(
            place, files, device=f"../../{subsystem}", subsystem="../../../../../class/block"
        )
        named = link(self._sys / "block" / namespace.disk, f"../{place}")
        head = self._heads[namespace] = ShownDisk(directory, named, namespace.minor)
        for path in namespace.paths:
            self._link_to_head(head, path)

    def _link_to_head(self, head: ShownDisk, path: devices.Path) -> None:
        if self._node.kernel.multipath_links:
            place = head.directory.path / "multipath" / path.disk
            link(place, f"../../../../nvme-fabrics/ctl/{path.controller.name}/{path.disk}")

    def _directory(self, place: str, files: dict[str, bytes], **links: str) -> Directory:
        return Directory(self._sys / place, self._workshop, files, links)

    # What moves

    def _write_states(self) -> None:
        node = self._node
        for controller, device in self._controllers.items():
            moving = (
                controller.state,
                controller.connected,
                controller.cntlid,
                controller.reconnects,
                controller.resets,
            )
            if device.moved(moving):
                device.directory.write(attributes.controller_moving(node, controller))
        for path, disk in self._paths.items():
            chosen = path.namespace.current is path
            if disk.moved((path.ana_state, path.failovers, path.controller.in_flight, chosen)):
                disk.directory.write(attributes.path_states(node, path))
        for namespace, disk in self._heads.items():
            if disk.moved((namespace.requeued, namespace.failed)):
                disk.directory.write(attributes.head_diag(node, namespace))

    def _write_counters(self) -> None:
        now = self._node.now
        for path, disk in self._paths.items():
            disk.count(path.counters, now)
        for namespace, disk in self._heads.items():
            disk.count(namespace.counters, now)
        disks = sorted((*self._paths.values(), *self._heads.values()), key=_minor)
        self._diskstats.write(b"".join(disk.line for disk in disks))


def _memory() -> str | None:
    """Return where temporary files live in memory; None: where the user or Python says."""
    if "TMPDIR" in os.environ or not os.access(_SHARED_MEMORY, os.W_OK | os.X_OK):
        return None
    return _SHARED_MEMORY


def _minor(disk: ShownDisk) -> int:
    return disk.minor
