"""Follows devices that come and go: one node each, kept for as long as its device stays.

A node holds descriptors, what was last known of its device, and the ordinals
that make labels unique; all of it must outlive changes among its neighbours.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from nvmeof_exporter.sources.disks import DiskNode
from nvmeof_exporter.sources.nodes import ControllerNode, SubsystemNode
from nvmeof_exporter.sources.topology import Layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvmeof_exporter.sources.reader import Attribute, Reader
    from nvmeof_exporter.sources.topology import (
        ControllerDirectory,
        DiskDirectory,
        SubsystemDirectory,
    )

__all__ = ["Devices", "number"]

_Node: TypeAlias = "SubsystemNode | ControllerNode | DiskNode"
_N = TypeVar("_N", SubsystemNode, ControllerNode, DiskNode)

#: A device: its place, and what tells it from its successor in the same place.
_Key: TypeAlias = "tuple[str, int]"


class Devices:
    """The nodes of all devices of the newest layout.

    ``controllers`` and ``heads`` are the same nodes as those in ``subsystems``, in one
    list each. What is read at every poll is paired with its node: ``path_counters``,
    ``head_counters``, ``states`` and ``ana_states``.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._layout = Layout()
        self._nodes: dict[_Key, _Node] = {}
        self.subsystems: list[SubsystemNode] = []
        self.controllers: list[ControllerNode] = []
        self.heads: list[DiskNode] = []
        self.path_counters: list[tuple[Attribute[Any], DiskNode]] = []
        self.head_counters: list[tuple[Attribute[Any], DiskNode]] = []
        self.states: list[tuple[Attribute[Any], ControllerNode]] = []
        self.ana_states: list[tuple[Attribute[Any], DiskNode]] = []

    @property
    def stale(self) -> bool:
        """Whether a device stopped answering, so that it may have gone."""
        return any(c.stale for c in self.controllers) or any(head.gone for head in self.heads)

    def follow(self, layout: Layout) -> bool:
        """Keep the nodes of devices that stayed, close the others, open new ones.

        Returns whether any came or went. A device that does not answer is
        opened anew, should it still be there.
        """
        changed = layout != self._layout
        if not changed and not self.stale:
            return False
        before, self._nodes = self._nodes, {}
        self.subsystems = [self._subsystem(before, d) for d in layout.subsystems]
        for node in before.values():
            node.close()
        self._reader.forget(self._layout.directories() - layout.directories())
        self._layout = layout
        self.controllers = [c for s in self.subsystems for c in s.controllers]
        self.heads = [head for s in self.subsystems for head in s.heads]
        paths = [disk for c in self.controllers for disk in c.disks]
        self.path_counters = [(counter, disk) for disk in paths for counter in disk.counters]
        self.head_counters = [(counter, head) for head in self.heads for counter in head.counters]
        self.states = [(controller.state, controller) for controller in self.controllers]
        self.ana_states = [(d.ana_state, d) for d in paths if d.ana_state is not None]
        return changed

    def close(self) -> None:
        """Give back every descriptor."""
        self.follow(Layout())

    def retry_absent(self) -> None:
        """Look again for files that were absent."""
        for node in self._nodes.values():
            node.retry_absent()

    def label_paths(self) -> None:
        """Tell controllers apart whose labels would be equal under one NQN, in order of cntlid.

        An ordinal once given stays with its controller: a label must not move
        from one path to another because a reconnect brought a new cntlid.
        """
        by_nqn: dict[str, list[ControllerNode]] = {}
        for subsystem in self.subsystems:
            for controller in subsystem.controllers:
                by_nqn.setdefault(subsystem.nqn or controller.nqn, []).append(controller)
        for controllers in by_nqn.values():
            _give_ordinals(controllers)

    def _subsystem(self, before: dict[_Key, _Node], directory: SubsystemDirectory) -> SubsystemNode:
        node = self._node(
            SubsystemNode, before, directory, lambda: SubsystemNode(self._reader, directory)
        )
        node.changes.dirty = True
        node.directory = directory
        node.controllers = [self._controller(before, c) for c in directory.controllers]
        node.heads = [self._disk(before, head, head=True) for head in directory.heads]
        for controller in node.controllers:
            controller.changes = node.changes
        for disk in (*node.heads, *(d for c in node.controllers for d in c.disks)):
            disk.changes = node.changes
        return node

    def _controller(
        self, before: dict[_Key, _Node], directory: ControllerDirectory
    ) -> ControllerNode:
        node = self._node(
            ControllerNode, before, directory, lambda: ControllerNode(self._reader, directory)
        )
        node.directory = directory
        node.disks = [self._disk(before, disk, head=False) for disk in directory.disks]
        return node

    def _disk(self, before: dict[_Key, _Node], directory: DiskDirectory, *, head: bool) -> DiskNode:
        return self._node(
            DiskNode, before, directory, lambda: DiskNode(self._reader, directory, head=head)
        )

    def _node(
        self,
        kind: type[_N],
        before: dict[_Key, _Node],
        directory: SubsystemDirectory | ControllerDirectory | DiskDirectory,
        make: Callable[[], _N],
    ) -> _N:
        key = (directory.path, directory.inode)
        known = before.get(key)
        if isinstance(known, kind) and not _has_stopped(known):
            del before[key]
            node = known
        else:
            node = make()
        self._nodes[key] = node
        return node


def _has_stopped(node: _Node) -> bool:
    """Whether a node's device may be another one by now, for it does not answer."""
    if isinstance(node, ControllerNode):
        return node.state.gone
    return isinstance(node, DiskNode) and node.gone


def _give_ordinals(controllers: list[ControllerNode]) -> None:
    labels: set[str] = set()
    waiting = []
    for controller in controllers:
        label = _label(controller, controller.ordinal)
        if controller.ordinal and label not in labels:
            labels.add(label)
        else:
            waiting.append(controller)
    for controller in sorted(waiting, key=_by_cntlid):
        ordinal = 1
        while (label := _label(controller, ordinal)) in labels:
            ordinal += 1
        controller.ordinal = ordinal
        controller.change()
        labels.add(label)


def _label(controller: ControllerNode, ordinal: int) -> str:
    return str(replace(controller.identity, ordinal=ordinal))


def _by_cntlid(controller: ControllerNode) -> tuple[int, str]:
    return number(controller.cntlid.value or ""), controller.directory.name


def number(text: str) -> int:
    """Return the number that a text is, 0 when it is none; for ordering."""
    return int(text) if text.isascii() and text.isdecimal() else 0
