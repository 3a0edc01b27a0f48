"""The view of a node: what is known, what was seen, and what is not known."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from nvmeof_exporter import __version__
from nvmeof_exporter.policy import preset_policy
from nvmeof_exporter.view.build import Where
from nvmeof_exporter.view.live import LiveView
from nvmeof_exporter.view.model import NodeView, PathView, SubsystemView
from tests.fixtures.serving import Served
from tests.fixtures.viewing import (
    ARRAY,
    INSTANCE,
    LOST,
    SilentPath,
    served_node,
    unpacked,
    view_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

EXPECTED = Path(__file__).parent / "tcp-one-path-connecting.json"
WALL = 1_767_225_600.0


def subsystem_of(view: NodeView, nqn: str = ARRAY) -> SubsystemView:
    (found,) = (subsystem for subsystem in view.subsystems if subsystem.nqn == nqn)
    return found


def path_of(view: NodeView, label: str = LOST, nqn: str = ARRAY) -> PathView:
    (found,) = (path for path in subsystem_of(view, nqn).paths if path.path == label)
    return found


def test_the_whole_of_a_real_tree(tmp_path: Path) -> None:
    served = Served(unpacked("7.3", "tcp-one-path-connecting", tmp_path))
    served.poll()
    served.poll(1.0)
    text = msgspec.json.format(msgspec.json.encode(view_of(served, later=0.05))).decode()
    assert text + "\n" == EXPECTED.read_text().replace("VERSION", __version__)


@pytest.fixture(scope="module")
def moments(tmp_path_factory: pytest.TempPathFactory) -> dict[float, NodeView]:
    """Views of the same failover, by time."""
    path = SilentPath(tmp_path_factory.mktemp("node"))
    return {at: view_of(path.run_until(at)) for at in (2.0, 6.0, 12.0, 25.0)}


class TestAPathThatFallsSilent:
    def test_carries_io_first(self, moments: dict[float, NodeView]) -> None:
        path = path_of(moments[2.0])
        assert (path.state, path.carries_io, path.stalled_seconds) == ("live", True, 0.0)
        assert path.since is None  # it was live before anybody looked
        assert path.history is not None
        assert path.history.watched_since == WALL
        assert subsystem_of(moments[2.0]).failovers == ()

    def test_stalls_while_its_state_says_live(self, moments: dict[float, NodeView]) -> None:
        subsystem = subsystem_of(moments[6.0])
        path = path_of(moments[6.0])
        assert path.state == "live"
        assert path.stalled_seconds == pytest.approx(2.9, abs=0.1)
        assert subsystem.failover_in_progress
        assert [n.stalled_seconds for n in subsystem.namespaces] == [
            pytest.approx(2.9, abs=0.1),
            pytest.approx(2.9, abs=0.1),
        ]

    def test_is_left_for_the_other_one(self, moments: dict[float, NodeView]) -> None:
        subsystem = subsystem_of(moments[12.0])
        path = path_of(moments[12.0])
        assert (path.state, path.carries_io, path.usable) == ("connecting", False, False)
        assert path.since == WALL + 10.1
        assert path.conditions == {"unusable": 2}
        assert not subsystem.failover_in_progress
        assert subsystem.failovers is not None
        (failover,) = subsystem.failovers
        assert (failover.path, failover.cause) == (LOST, "unknown")
        assert failover.seconds == pytest.approx(7.0, abs=0.05)
        assert failover.start == pytest.approx(WALL + 3.05, abs=0.05)
        assert failover.phases.keys() == {"detection", "reroute"}
        assert [[p.path for p in n.paths if p.carries_io] for n in subsystem.namespaces] == [
            ["tcp:10.0.1.2:4420%h1"]
        ] * 2

    def test_takes_its_io_back(self, moments: dict[float, NodeView]) -> None:
        path = path_of(moments[25.0])
        assert (path.state, path.carries_io, path.since) == ("live", True, WALL + 17.2)
        failovers = subsystem_of(moments[25.0]).failovers
        assert failovers is not None
        assert failovers[0].phases["reconnect"] == pytest.approx(7.1, abs=0.05)
        assert failovers[0].phases["failback"] == pytest.approx(0, abs=0.05)

    def test_has_a_time_line(self, moments: dict[float, NodeView]) -> None:
        history = path_of(moments[25.0]).history
        assert history is not None
        assert history.timeline == (
            (WALL, "live"),
            (WALL + 10.1, "connecting"),
            (WALL + 17.2, "live"),
        )
        assert history.transitions == 2


@pytest.fixture
def view(tmp_path: Path) -> NodeView:
    served, node = served_node("four-gateways", tmp_path)
    while node.advance():
        served.poll(node.time)
    return view_of(served)


class TestAMissingPath:
    def test_is_shown_with_what_is_remembered(self, view: NodeView) -> None:
        path = path_of(view, "tcp:10.0.210.201:4420", "nqn.2026-01.org.example:gateways")
        assert (path.state, path.usable, path.controller) == ("missing", False, None)
        assert (path.transport, path.traddr, path.trsvcid) == ("tcp", "10.0.210.201", "4420")
        assert path.since is not None
        assert path.last_seen is not None
        assert path.last_seen < path.since
        assert path.settings is None

    def test_counts_as_expected_and_not_as_connected(self, view: NodeView) -> None:
        redundancy = view.subsystems[0].redundancy
        assert (redundancy.connected, redundancy.expected) == (3, 4)


def test_what_is_off_is_said_and_infinity_is_not(tmp_path: Path) -> None:
    served, _ = served_node("scoped-ipv6", tmp_path)
    (subsystem,) = view_of(served).subsystems
    settings = subsystem.paths[0].settings
    assert settings is not None
    assert settings.fast_io_fail_timeout_seconds == "off"
    assert settings.ctrl_loss_timeout_seconds == 600.0


def test_what_could_not_be_read_is_null(tmp_path: Path) -> None:
    served, _ = served_node("odd-texts", tmp_path)
    (subsystem,) = view_of(served).subsystems
    paths = {path.traddr: path for path in subsystem.paths}
    assert paths["10.0.3.2"].state is None
    assert paths["10.0.3.2"].usable is None
    assert paths["10.0.0.2"].raw_state == "fencing"
    (namespace,) = subsystem.namespaces
    assert namespace.conditions is None
    assert {path.usable for path in namespace.paths} == {None, False}


@pytest.mark.parametrize("pcie", [False, True], ids=["fabrics", "all"])
@pytest.mark.parametrize("name", ["odd-shapes", "odd-texts", "multipath-off", "names-lie"])
def test_it_survives_json(tmp_path: Path, name: str, pcie: bool) -> None:
    served, _ = served_node(name, tmp_path, pcie=pcie)
    view = view_of(served)
    assert msgspec.json.decode(msgspec.json.encode(view), type=NodeView) == view


def test_no_number_is_infinite(tmp_path: Path) -> None:
    def numbers(value: object) -> Iterator[float]:
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, (list, tuple)):
            for each in value:
                yield from numbers(each)
        elif isinstance(value, float):
            yield value

    served = Served(unpacked("6.1", "tcp-ana-mixed", tmp_path))
    served.poll()
    assert all(map(math.isfinite, numbers(msgspec.to_builtins(view_of(served)))))


def test_health_says_why_not(tmp_path: Path) -> None:
    served, _ = served_node("four-gateways", tmp_path)
    view = view_of(served, later=9.0, health=lambda: "polling has stopped")
    assert view.health is not None
    assert (view.health.healthy, view.health.problem) == (False, "polling has stopped")
    assert view.poll.age_seconds == 9.0
    assert view.time == view.poll.time + 9.0
    assert (view.source, view.instance) == ("exporter", INSTANCE)


def test_who_asks_at_once_shares_a_view_and_who_asks_later_gets_a_new_one(tmp_path: Path) -> None:
    served, _ = served_node("four-gateways", tmp_path)
    now = [1000.0]
    live = LiveView(served.published, Where("gpu1", "/sys"), lambda: None, lambda: now[0])
    first = live.view()
    now[0] += 0.2
    assert live.view() is first
    now[0] += 0.2
    assert live.view() is not first


def test_there_is_none_before_the_first_poll(tmp_path: Path) -> None:
    served = Served(str(tmp_path))
    assert LiveView(served.published, Where("gpu1", "/sys"), lambda: None).view() is None


def test_a_verdict_of_the_policy_is_as_new_as_the_rest(tmp_path: Path) -> None:
    served, node = served_node("scoped-ipv6", tmp_path)
    now = [1000.0]
    live = LiveView(served.published, Where("gpu1", "/sys"), lambda: None, lambda: now[0])
    statuses = []
    while True:
        view = live.view()
        assert view is not None
        statuses.append([violation.rule for violation in view.policy.violations])
        if not node.advance():
            break
        now[0] = 1000.0 + node.time
        served.poll(node.time)
    assert statuses == [["shared_fate"], ["redundancy"], ["shared_fate"]]
    with served.published.write() as state:
        state.policy = preset_policy("gpu-training")
    now[0] += 1
    view = live.view()
    assert view is not None
    assert view.policy.name == "gpu-training"
