"""The nodes that are measured: trees of the demonstration's simulator, with counters moving."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nvmeof_exporter.demo.load import Load
from nvmeof_exporter.demo.nodes import SIZES, sized_node
from nvmeof_exporter.demo.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nvmeof_exporter.demo.nodes import Size

__all__ = ["POLL_SECONDS", "Stage"]

#: Time between two polls, the exporter's default.
POLL_SECONDS = 0.1

#: On every namespace, so that each has moved at every poll: two requests in each interval.
_LOAD = Load(queue_depth=1, rate=20)


class Stage:
    """A node of one size and its tree, which moves when it is told to."""

    def __init__(self, size: str) -> None:
        self.size: Size = SIZES[size]
        self.node = sized_node(size, load=_LOAD)
        self.tree = Tree(self.node)
        self.step()

    @property
    def namespace_paths(self) -> int:
        """How many there are."""
        return self.size.subsystems * self.size.paths * self.size.namespaces

    @property
    def root(self) -> Path:
        """Where ``sys`` and ``proc`` are."""
        return self.tree.root

    def step(self) -> None:
        """Let one poll interval pass."""
        self.node.advance(POLL_SECONDS)
        self.tree.sync()
        self.node.drain_events()

    def close(self) -> None:
        """Remove the tree."""
        self.tree.close()

    @contextmanager
    def moving(self) -> Iterator[None]:
        """Let it move in real time, in a thread of this process."""
        ending = threading.Event()

        def move() -> None:
            while not ending.wait(POLL_SECONDS):
                self.step()

        mover = threading.Thread(target=move, name="mover")
        mover.start()
        try:
            yield
        finally:
            ending.set()
            mover.join()
