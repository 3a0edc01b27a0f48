"""Devices that come and go: numbers, path disks, heads, and what a removal takes with it.

Source: drivers/nvme/host/core.c (``nvme_init_subsystem``, ``nvme_scan_ns``,
``nvme_ns_remove``).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from nvmeof_exporter.demo.counters import DiskCounters
from nvmeof_exporter.demo.devices import Connection, Controller, Namespace, Path, Subsystem

if TYPE_CHECKING:
    from nvmeof_exporter.demo.agenda import Agenda
    from nvmeof_exporter.demo.announcer import Announcer
    from nvmeof_exporter.demo.traffic import Traffic

__all__ = ["Inventory"]


class Inventory:
    """The subsystems, and the devices that the host has of them now."""

    def __init__(self, agenda: Agenda, traffic: Traffic, announcer: Announcer) -> None:
        self._agenda = agenda
        self._traffic = traffic
        self._announcer = announcer
        self._minors = itertools.count()
        self.subsystems: list[Subsystem] = []

    def connect(
        self, connection: Connection, instance: int | None = None, *, renumber: bool = False
    ) -> Controller:
        """Make a new controller for a path.

        Args:
            connection: the path.
            instance: its number; None: the lowest that is free.
            renumber: pass over the number that the path had last.

        Raises:
            ValueError: the path has one, its target does not answer, or the number is taken.

        """
        if connection.controller is not None or not connection.answering:
            raise ValueError(f"{connection.path_id} cannot be connected now")
        taken = self._instances()
        if instance in taken:
            raise ValueError(f"nvme{instance} is taken")
        if renumber and connection.last_instance is not None:
            taken.add(connection.last_instance)
        number = _lowest_free(taken) if instance is None else instance
        subsystem = connection.subsystem
        if subsystem.instance is None:
            subsystem.instance = number
        controller = Controller(connection, number, subsystem.next_cntlid, self._agenda.now)
        subsystem.next_cntlid += 1
        connection.controller = controller
        connection.last_instance = number
        self._announcer.added(controller)
        self.scan(controller)
        self._announcer.connected(controller)
        return controller

    def scan_live(self, subsystem: Subsystem) -> None:
        """Let the live controllers of a subsystem find what its target has now."""
        for controller in subsystem.controllers:
            if controller.state == "live":
                self.scan(controller)

    def scan(self, controller: Controller) -> None:
        """Bring a controller's path disks in line with the target's namespaces."""
        known = {path.namespace: path for path in controller.paths}
        for namespace in controller.subsystem.namespaces:
            path = known.get(namespace)
            if namespace.enabled and path is None:
                self._add_path_disk(controller, namespace)
            elif path is not None and not namespace.enabled:
                self._drop_path_disk(path)

    def _add_path_disk(self, controller: Controller, namespace: Namespace) -> None:
        subsystem = namespace.subsystem
        appears = namespace.head is None
        if appears:
            # The application may hold the old disk open, and its number with it.
            taken = {n.head for n in subsystem.namespaces} | {namespace.last_head}
            namespace.head = _lowest_free({n - 1 for n in taken if n is not None}) + 1
            namespace.counters = DiskCounters()
            namespace.requeued = namespace.failed = 0
        path = Path(
            controller=controller,
            namespace=namespace,
            disk=f"nvme{subsystem.instance}c{controller.instance}n{namespace.head}",
            ana_state=controller.connection.ana[namespace.group],
            minor=next(self._minors),
        )
        if appears:
            namespace.minor = next(self._minors)
        controller.paths.append(path)
        namespace.paths.append(path)
        self._traffic.reroute(namespace)
        if appears:
            self._announcer.disk_changed(namespace)
            self._traffic.wake(namespace)

    def _drop_path_disk(self, path: Path) -> None:
        namespace = path.namespace
        path.controller.paths.remove(path)
        namespace.paths.remove(path)
        namespace.routes = None
        if namespace.current is path:
            namespace.current = None
        if not namespace.paths:
            self._announcer.disk_changed(namespace)
            namespace.last_head, namespace.head = namespace.head, None
            self._traffic.fail_parked(namespace)
        self._traffic.fail_path(path)

    def remove(self, controller: Controller, cause: str) -> None:
        """Remove a controller, its path disks, and heads that have no other."""
        subsystem = controller.subsystem
        controller.state = "deleting (no IO)"
        for path in list(controller.paths):
            path.namespace.routes = None
            self._traffic.evacuate(path, cause)
            self._drop_path_disk(path)
        controller.connection.controller = None
        self._announcer.removed(controller)
        self.forget_if_unused(subsystem)

    def forget_if_unused(self, subsystem: Subsystem) -> None:
        """Remove a subsystem that has no controllers and that nobody holds open."""
        if not subsystem.controllers and not _held_open(subsystem):
            subsystem.instance = None

    def _instances(self) -> set[int]:
        """Return the numbers taken: a subsystem keeps that of its first controller."""
        taken = {s.instance for s in self.subsystems if s.instance is not None}
        taken.update(c.instance for s in self.subsystems for c in s.controllers)
        return taken


def _held_open(subsystem: Subsystem) -> bool:
    """Whether an application holds a disk open, and so the subsystem with it."""
    return any(n.application is not None and n.application.load for n in subsystem.namespaces)


def _lowest_free(taken: set[int]) -> int:
    return next(n for n in itertools.count() if n not in taken)
