"""Scripts: built-in, from a file, and what is said of one that makes no sense."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.demo.nodes import demo_node
from nvmeof_exporter.demo.script import ACTIONS, SCRIPTS, Player, ScriptError, load_script

if TYPE_CHECKING:
    from pathlib import Path

FILE = """
length: 20
steps:
  - {at: 1, say: the port goes, do: port-removed, to: ["tcp:10.0.0.2:4420%h0"]}
  - at: 10
    say: two groups change
    do: ana
    to: ["tcp:10.0.0.2:4420%h0", "tcp:10.0.1.2:4420%h1"]
    group: 2
    state: inaccessible
"""


@pytest.mark.parametrize("kernel", ["6.1", "7.3"])
def test_the_default_script_ends_well_and_can_begin_anew(kernel: str) -> None:
    node = demo_node(kernel)
    player = Player(node, SCRIPTS["failovers"])
    for _ in range(3):
        player.advance(player.length)
        states = {c.state for s in node.subsystems for c in s.controllers}
        assert states == {"live"}
        assert len([c for s in node.subsystems for c in s.controllers]) == 4
    assert all(pause.failed == 0 for pauses in node.truth.pauses.values() for pause in pauses)


def test_the_default_script_shows_a_real_pause_within_its_first_minute() -> None:
    node = demo_node()
    Player(node, SCRIPTS["failovers"]).advance(60)
    longest = max(p.longest for pauses in node.truth.pauses.values() for p in pauses)
    assert longest > 4
    assert {failover.cause for failover in node.truth.failovers} >= {
        "transport",
        "ana",
        "keep_alive",
    }


def test_the_default_script_brings_a_path_back_under_another_number() -> None:
    node = demo_node()
    names = []
    player = Player(node, SCRIPTS["failovers"])
    for _ in range(2):
        controller = node.connection("tcp:10.0.1.2:4420%h1").controller
        assert controller is not None
        names.append(controller.name)
        player.advance(player.length)
    assert len(set(names)) == 2


def test_steps_are_taken_at_their_time_however_time_is_cut() -> None:
    fine, coarse = demo_node(), demo_node()
    player = Player(fine, SCRIPTS["failovers"])
    taken = [step for _ in range(900) for step in player.advance(0.1)]
    # The last moment belongs to the next round.
    assert taken[: len(SCRIPTS["failovers"].steps)] == list(SCRIPTS["failovers"].steps)
    Player(coarse, SCRIPTS["failovers"]).advance(fine.now)
    assert fine.truth.pauses.keys() == coarse.truth.pauses.keys()
    assert [f.given_up for f in fine.truth.failovers] == pytest.approx(
        [f.given_up for f in coarse.truth.failovers], abs=0.2
    )


def test_a_file_is_a_script_too(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(FILE)
    node = demo_node()
    steps = Player(node, load_script(str(path))).advance(12)
    assert [step.say for step in steps] == ["the port goes", "two groups change"]
    assert node.connection("tcp:10.0.1.2:4420%h1").ana == {1: "optimized", 2: "inaccessible"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("length: 5\nsteps: []\n", "there are no steps"),
        ("length: 5\n", "missing required field `steps`"),
        ("length: 5\nsteps: [{at: 1, say: x, do: explode}]\n", "step 1: 'explode': expected"),
        ("length: 5\nsteps: [{at: 6, say: x}]\n", "step 1: at 6: expected order of time"),
        (
            "length: 5\nsteps: [{at: 2, say: x}, {at: 1, say: y}]\n",
            "step 2: at 1: expected order of time",
        ),
        ("length: 5\nsteps: [{at: soon, say: x}]\n", "Expected `float`, got `str`"),
        ("length: 5\nstep: []\n", "unknown field `step`"),
        ("length: [\n", "while parsing"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_one_line(
    tmp_path: Path, content: str, reason: str
) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(content)
    with pytest.raises(ScriptError) as caught:
        load_script(str(path))
    assert str(caught.value).startswith(f"{path}: ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_script_nobody_has_is_refused() -> None:
    with pytest.raises(ScriptError, match="nothing: neither a file nor one of failovers, calm"):
        load_script("nothing")


def test_a_step_on_what_the_node_has_not_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text("length: 5\nsteps: [{at: 0, say: x, do: link-down, to: [eth9]}]\n")
    with pytest.raises(ScriptError, match="link-down: the node has no 'eth9'"):
        Player(demo_node(), load_script(str(path))).advance(1)


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_every_action_can_befall_the_demonstration_node(tmp_path: Path, action: str) -> None:
    target = {
        "link-down": "h1",
        "link-up": "h1",
        "disable": "nqn.2026-01.org.example:array1/2",
        "enable": "nqn.2026-01.org.example:array1/2",
    }.get(action, "tcp:10.0.1.2:4420%h1")
    path = tmp_path / "script.yaml"
    step = f'{{at: 0, say: x, do: {action}, to: ["{target}"], state: change}}'
    path.write_text(f"length: 5\nsteps: [{step}]\n")
    (taken,) = Player(demo_node(), load_script(str(path))).advance(1)
    assert taken.do == action
