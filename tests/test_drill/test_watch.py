"""What a drill sees of the paths, over the demonstration's make-believe node."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.demo.load import Load
from nvmeof_exporter.demo.nodes import array_node
from nvmeof_exporter.demo.tree import Tree
from nvmeof_exporter.drill.phases import Course, Do, Observation, Phase, Plan
from nvmeof_exporter.drill.watch import Watch
from tests.fixtures.node_files import FaultyReader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nvmeof_exporter.demo.devices import Connection
    from nvmeof_exporter.drill.watch import PathsSeen

NQN = "nqn.2026-01.org.example:array1"
A, B = "tcp:10.0.0.2:4420", "tcp:10.0.1.2:4420"


class Stage:
    """A node whose time passes as told, and a watch on one of its namespaces."""

    def __init__(self, root: Path) -> None:
        self.node = array_node(load=Load())
        self.tree = Tree(self.node, root)
        self.watch = Watch(
            FaultyReader(),
            self.tree.sysfs,
            [(NQN, "1")],
            clock=lambda: (self.node.now, 1e9 + self.node.now),
        )

    def connection(self, path: str) -> Connection:
        return self.node.connection(path)

    def close(self) -> None:
        self.watch.close()
        self.tree.close()

    def live(self, seconds: float) -> PathsSeen:
        """Let time pass, looking every 50 ms; returns what was seen last."""
        seen = self.watch.look()
        for _ in range(max(round(seconds / 0.05), 1)):
            self.node.advance(0.05)
            self.tree.sync()
            seen = self.watch.look()
        return seen


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with closing(Stage(tmp_path / "node")) as made:
        yield made


def states(stage: Stage, path: str) -> list[str]:
    return [span.state for span in stage.watch.spans if span.path == path]


def test_a_well_node_has_its_paths_usable_and_io_on_one_under_numa(stage: Stage) -> None:
    seen = stage.live(1)
    assert seen.usable == seen.preferred == {A, B}
    assert seen.carrying == {A}
    assert seen.changes == 0
    assert seen.states == {A: "live optimized", B: "live optimized"}


def test_a_silent_path_is_followed_until_it_carries_io_again(stage: Stage) -> None:
    stage.live(2)
    stage.node.black_hole(stage.connection(A))
    seen = stage.live(20)
    assert (set(seen.usable), set(seen.carrying)) == ({B}, {B})
    assert seen.changes > 0
    stage.node.heal(stage.connection(A))
    seen = stage.live(20)
    assert seen.usable == {A, B}
    assert states(stage, A)[0] == states(stage, A)[-1] == "live optimized"
    assert "connecting optimized" in states(stage, A)
    assert states(stage, B) == ["live optimized"]
    assert [one.kind for one in stage.watch.occurrences if one.severe][-1] == "failover"


def test_a_path_that_is_not_preferred_is_told_from_one_that_is(stage: Stage) -> None:
    stage.live(1)
    stage.node.set_ana(stage.connection(B), 1, "non-optimized")
    seen = stage.live(1)
    assert (set(seen.usable), set(seen.preferred)) == ({A, B}, {A})
    assert states(stage, B) == ["live optimized", "live non-optimized"]


def test_a_path_that_is_gone_is_missing(stage: Stage) -> None:
    stage.live(1)
    stage.node.disconnect(stage.connection(A))
    seen = stage.live(3)
    assert seen.usable == {B}
    assert states(stage, A)[-1] == "missing"


def test_settings_are_those_of_the_subsystem_watched(stage: Stage) -> None:
    settings = stage.watch.settings()
    assert list(settings) == [A, B]
    assert (settings[A]["keep_alive_timeout"], settings[A]["iopolicy"]) == (5.0, "numa")
    assert settings[A]["fast_io_fail_timeout"] == "off"


def test_a_whole_drill_on_a_node_whose_path_falls_silent(stage: Stage) -> None:
    """The course is led by what the watch sees; the node does what it is told."""
    course = Course(Plan(baseline=5, hold=5, settle=1, limit=60), 0.0)
    namespace = stage.node.subsystems[0].namespaces[0]
    path = stage.connection(A)
    done = []
    longest = 0.0
    while course.phase is not Phase.OVER and stage.node.now < 300:
        seen = stage.live(0.05)
        waits = stage.node.longest_wait(namespace)
        longest = max(longest, waits)
        observation = Observation(
            stage.node.now, 1, waits, seen.usable, seen.preferred, seen.carrying, seen.changes
        )
        do = course.observe(observation)
        if do is Do.TRIGGER:
            stage.node.black_hole(path)
        elif do is Do.RESTORE:
            stage.node.heal(path)
        if do is not None:
            done.append(do)
    assert done == [Do.TRIGGER, Do.RESTORE, Do.END]
    assert (course.lost, course.problems) == ({A}, [])
    assert course.resumed is not None
    assert course.back is not None
    # A keep-alive time-out of 5 s: more than that, less than one and a half.
    assert 5 < longest < 7.6
