"""Scripts: built-in, from a file, and what is said of one that makes no sense."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.demo.devices import Timeouts
from nvmeof_exporter.demo.load import Load
from nvmeof_exporter.demo.nodes import demo_node
from nvmeof_exporter.demo.script import ACTIONS, Player, ScriptError
from nvmeof_exporter.demo.scripts import SCRIPTS, load_script
from nvmeof_exporter.demo.tree import Tree

if TYPE_CHECKING:
    from pathlib import Path

    from nvmeof_exporter.demo.simulation import Node

FILE = """
length: 20
node: {keep_alive_tmo: 0, ctrl_loss_tmo: -1, fast_io_fail_tmo: 5, reconnect_delay: 1}
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


def test_the_default_script_tells_a_lost_link_seconds_before_the_state_does() -> None:
    node = demo_node()
    player = Player(node, SCRIPTS["failovers"])
    path = node.connection("tcp:10.0.0.2:4420%h0")
    player.advance(61)
    assert path.controller is not None
    assert (path.netdev.carrier, path.controller.state) == (False, "live")
    player.advance(10)
    assert path.controller.state == "connecting"
    assert node.truth.failovers[-1].cause == "link_down"
    player.advance(9)
    assert (path.netdev.carrier, path.controller.state) == (True, "live")


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
    taken = [step for _ in range(1150) for step in player.advance(0.1)]
    # The last moment belongs to the next round.
    assert taken[: len(SCRIPTS["failovers"].steps)] == list(SCRIPTS["failovers"].steps)
    Player(coarse, SCRIPTS["failovers"]).advance(fine.now)
    assert fine.truth.pauses.keys() == coarse.truth.pauses.keys()
    assert [f.given_up for f in fine.truth.failovers] == pytest.approx(
        [f.given_up for f in coarse.truth.failovers], abs=0.2
    )


class TestTheScriptsOfOneFault:
    """What each shows while its fault lasts, and that all is well again at its end."""

    def played(self, name: str) -> tuple[Node, Player]:
        script = SCRIPTS[name]
        node = demo_node(timeouts=script.node.timeouts, io_timeout=script.node.io_timeout)
        for namespace in (n for subsystem in node.subsystems for n in subsystem.namespaces):
            node.set_load(namespace, Load(queue_depth=2, rate=5))  # an hour passes faster
        return node, Player(node, script)

    def states(self, node: Node) -> list[str]:
        """Of the array's two paths and the scratch subsystem's two."""
        return [c.state for s in node.subsystems for c in s.controllers]

    @pytest.mark.parametrize("name", [n for n in SCRIPTS if n != "failovers"])
    def test_nothing_is_lost_for_good_and_no_request_fails(self, name: str) -> None:
        node, player = self.played(name)
        player.advance(player.length - 0.1)
        assert self.states(node) == ["live"] * 4
        assert all(netdev.carrier for netdev in node.netdevs.values())
        pauses = [p for pauses in node.truth.pauses.values() for p in pauses]
        assert all(pause.failed == 0 for pause in pauses)

    def test_one_path_lost(self) -> None:
        node, player = self.played("one-path-lost")
        player.advance(250)
        assert self.states(node) == ["connecting", "live", "live", "live"]
        assert {failover.cause for failover in node.truth.failovers} == {"transport"}

    @pytest.mark.parametrize("name", ["all-paths-lost", "all-paths-lost-and-back"])
    def test_all_paths_lost(self, name: str) -> None:
        node, player = self.played(name)
        player.advance(70)
        assert self.states(node) == ["connecting", "connecting", "live", "live"]
        assert node.longest_wait(node.subsystems[0].namespaces[0]) > 49

    def test_all_paths_lost_for_an_hour_are_never_given_up(self) -> None:
        node, player = self.played("all-paths-lost")
        player.advance(3580)
        assert self.states(node) == ["connecting", "connecting", "live", "live"]

    def test_slow_failover(self) -> None:
        node, player = self.played("slow-failover")
        player.advance(60)
        durations = [failover.duration for failover in node.truth.failovers]
        assert durations
        assert all(duration is not None and 10 < duration < 16 for duration in durations)

    def test_silent_stall(self) -> None:
        node, player = self.played("silent-stall")
        for _ in range(59):
            player.advance(1)
            assert self.states(node) == ["live"] * 4
        assert node.longest_wait(node.subsystems[0].namespaces[0]) > 38
        player.advance(30)
        assert node.truth.failovers == []
        longest = max(pause.longest for pauses in node.truth.pauses.values() for pause in pauses)
        assert longest == pytest.approx(60, abs=1)

    def test_port_down(self, tmp_path: Path) -> None:
        node, player = self.played("port-down")
        with closing(Tree(node, tmp_path / "tree")) as tree:
            player.advance(30)
            tree.sync()
            port = tree.root / "sys/class/infiniband/mlx5_3/ports/1"
            assert (port / "state").read_text() == "1: DOWN\n"
        assert self.states(node) == ["live", "live", "live", "connecting"]

    def test_switch_down(self) -> None:
        node, player = self.played("switch-down")
        player.advance(40)
        assert self.states(node) == ["live", "connecting", "live", "connecting"]

    def test_policy_violation(self) -> None:
        node, player = self.played("policy-violation")
        player.advance(10)
        settings = {c.settings for s in node.snapshot(0, 0).subsystems for c in s.controllers}
        assert [(s.keep_alive_timeout, s.ctrl_loss_timeout) for s in settings] == [(60, 600)]


def test_a_file_is_a_script_too(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(FILE)
    node = demo_node()
    steps = Player(node, load_script(str(path))).advance(12)
    assert [step.say for step in steps] == ["the port goes", "two groups change"]
    assert node.connection("tcp:10.0.1.2:4420%h1").ana == {1: "optimized", 2: "inaccessible"}


def test_a_file_says_how_paths_are_connected(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(FILE)
    node = load_script(str(path)).node
    assert node.timeouts == Timeouts(0, reconnect_delay=1, ctrl_loss=None, fast_io_fail=5)
    assert node.io_timeout == 30


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
        ("length: 5\nsteps: []\nnode: {kato: 5}\n", "unknown field `kato`"),
        ("length: 5\nsteps: []\nnode: {ctrl_loss_tmo: -2}\n", "Expected `int` >= -1"),
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
