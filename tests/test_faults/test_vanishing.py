"""Devices that vanish in the middle of a reading, at every single step of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fixtures.node_files import FaultyReader, NodeFiles
from tests.fixtures.serving import Served
from tests.soak.amount import amount

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


#: Every so many steps: the soak takes each.
STRIDE = max(7 - amount(0, 6), 1)


class Interrupting(FaultyReader):
    """Lets something happen before one of its steps."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0
        self.happens_at = -1
        self.happening: Callable[[], None] = _nothing

    def _step(self) -> None:
        self.steps += 1
        if self.steps == self.happens_at:
            self.happening()

    def names(self, directory: str) -> list[str]:
        self._step()
        return super().names(directory)

    def open(self, path: str) -> int:
        self._step()
        return super().open(path)

    def read(self, descriptor: int, size: int, offset: int) -> bytes:
        self._step()
        return super().read(descriptor, size, offset)


def _nothing() -> None:
    pass


def _node(tmp_path: Path, number: int) -> NodeFiles:
    return NodeFiles.load("four-gateways", tmp_path / f"sys{number}")


def _series(served: Served) -> set[str]:
    return {s for s in served.samples() if s.startswith("nvmeof_") and "_exporter_" not in s}


@pytest.mark.parametrize("happening", ["remove nvme1", "unlink nvme1", "remove nvme-subsys3"])
def test_whenever_a_device_goes_the_next_reading_is_right(tmp_path: Path, happening: str) -> None:
    node = _node(tmp_path, 0)
    whole = Served(node.sysfs, Interrupting())
    whole.poll(0)
    assert isinstance(whole.reader, Interrupting)
    first = whole.reader.steps
    whole.poll(1)
    steps = whole.reader.steps - first
    node.apply(happening)
    whole.poll(2)
    whole.poll(3)
    right = _series(whole)
    assert steps > 50
    for step in range(1, steps + 1, STRIDE):
        node = _node(tmp_path, step)
        reader = Interrupting()
        served = Served(node.sysfs, reader)
        served.poll(0)
        reader.happening = lambda node=node: node.apply(happening)  # type: ignore[misc]
        reader.happens_at = reader.steps + step
        served.poll(1)
        served.samples()
        served.poll(2)
        served.poll(3)
        assert _series(served) == right, f"at step {step}"
        served.source.close()


def test_whenever_a_device_goes_while_it_is_found_the_next_reading_is_right(
    tmp_path: Path,
) -> None:
    whole = Served(_node(tmp_path, 0).sysfs, Interrupting())
    assert isinstance(whole.reader, Interrupting)
    whole.poll(0)
    steps = whole.reader.steps
    for step in range(1, steps + 1, STRIDE):
        node = _node(tmp_path, step)
        reader = Interrupting()
        reader.happening = lambda node=node: node.apply("remove nvme2")  # type: ignore[misc]
        reader.happens_at = step
        served = Served(node.sysfs, reader)
        served.poll(0)
        served.samples()
        served.poll(1)
        gone = [c.name for s in served.poll(2).subsystems for c in s.controllers]
        assert gone == ["nvme1", "nvme3", "nvme4"], f"at step {step}"
        served.source.close()
