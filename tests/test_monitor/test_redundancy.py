"""What the paths of one moment add up to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nvmeof_exporter.model import Controller, Namespace, NamespacePath, PathId, Subsystem
from nvmeof_exporter.monitor.redundancy import (
    CONDITIONS,
    LEVELS,
    condition_counts,
    conditions,
    level,
    usable_paths,
    worst_level,
)

LIVE = "live"
NO_ANA = ""


def path(number: int, state: str | None = LIVE, ana: str | None = "optimized") -> NamespacePath:
    identity = PathId("tcp", f"192.0.2.{number}")
    controller = Controller(f"nvme{number}", "nqn.x", identity, state, state or "")
    return NamespacePath(f"nvme0c{number}n1", controller, ana)


def namespace(*paths: NamespacePath, nsid: str = "1") -> Namespace:
    return Namespace("nqn.x", nsid, f"nvme0n{nsid}", paths=paths)


def subsystem(*namespaces: Namespace, multipath: bool = True) -> Subsystem:
    controllers = {p.controller.name: p.controller for n in namespaces for p in n.paths}
    return Subsystem(
        "nvme-subsys0",
        "nqn.x",
        multipath=multipath,
        controllers=tuple(controllers.values()),
        namespaces=namespaces,
    )


def redundancy(*namespaces: Namespace, complete: bool = True) -> str | None:
    return worst_level([subsystem(*namespaces)], complete=complete)


class TestTheConditionOfAPath:
    @pytest.mark.parametrize(
        ("state", "ana", "expected"),
        [
            ("live", "optimized", "optimized"),
            ("live", NO_ANA, "optimized"),
            ("live", "non-optimized", "non-optimized"),
            ("deleting", "optimized", "optimized"),
            ("live", "inaccessible", "standby"),
            ("live", "persistent-loss", "unusable"),
            ("live", "change", "unusable"),
            ("live", "unknown", "unusable"),
            ("connecting", "optimized", "unusable"),
            ("resetting", "inaccessible", "unusable"),
            ("dead", "optimized", "unusable"),
            ("unknown", "optimized", "unusable"),
        ],
    )
    def test_beside_a_usable_one(self, state: str, ana: str, expected: str) -> None:
        assert conditions(namespace(path(0), path(1, state, ana)))[1] == expected

    def test_is_no_standby_while_none_is_usable(self) -> None:
        assert conditions(namespace(path(0, ana="inaccessible"))) == ["unusable"]

    def test_takes_no_requests_while_deleting_without_io(self) -> None:
        deleting = path(0)
        controller = replace(deleting.controller, state="deleting", raw_state="deleting (no IO)")
        assert conditions(namespace(replace(deleting, controller=controller))) == ["unusable"]

    def test_of_which_nothing_could_be_read_is_not_counted(self) -> None:
        counts = condition_counts(namespace(path(0), path(1, None, None)))
        assert counts == {"optimized": 1, "non-optimized": 0, "standby": 0, "unusable": 0}
        assert tuple(counts) == CONDITIONS


class TestTheLevelOfANamespace:
    @pytest.mark.parametrize(
        ("usable", "standby", "complete", "expected"),
        [
            (2, 0, True, "redundant"),
            (1, 1, True, "redundant"),
            (1, 3, True, "redundant"),
            (2, 0, False, "degraded"),
            (1, 1, False, "degraded"),
            (1, 0, True, "at-risk"),
            (1, 0, False, "at-risk"),
            (0, 3, True, "lost"),
            (0, 0, False, "lost"),
        ],
    )
    def test_follows_the_contract(
        self, usable: int, standby: int, complete: bool, expected: str
    ) -> None:
        assert level(usable, standby, complete=complete) == expected
        assert expected in LEVELS


class TestTheLevelOfASubsystem:
    def test_is_that_of_its_worst_namespace(self) -> None:
        healthy = namespace(path(0), path(1))
        alone = namespace(path(0), nsid="2")
        assert redundancy(healthy, alone) == "at-risk"

    def test_of_four_gateways_with_three_standbys_is_redundant(self) -> None:
        standbys = [path(number, ana="inaccessible") for number in (1, 2, 3)]
        assert redundancy(namespace(path(0), *standbys)) == "redundant"

    def test_is_lost_for_a_namespace_whose_live_paths_are_all_inaccessible(self) -> None:
        other = namespace(path(0, "connecting"), path(1), nsid="2")
        dead = namespace(path(0, "connecting"), path(1, ana="inaccessible"))
        assert redundancy(dead, other) == "lost"

    def test_is_degraded_by_a_path_that_is_down(self) -> None:
        assert redundancy(namespace(path(0), path(1), path(2, "connecting"))) == "degraded"

    def test_is_not_degraded_by_a_superseded_path_that_is_down(self) -> None:
        down = subsystem(namespace(path(0), path(1), path(2, "connecting", "inaccessible")))
        found = worst_level([down], complete=True, superseded=frozenset({"nvme2"}))
        assert found == "redundant"

    def test_is_degraded_by_a_missing_path(self) -> None:
        assert redundancy(namespace(path(0), path(1)), complete=False) == "degraded"

    def test_is_not_told_without_native_multipath(self) -> None:
        plain = subsystem(namespace(path(0)), multipath=False)
        assert worst_level([plain], complete=True) is None

    def test_ignores_a_namespace_of_which_nothing_could_be_read(self) -> None:
        unread = namespace(path(0, None, None), nsid="2")
        assert redundancy(namespace(path(0), path(1)), unread) == "redundant"

    def test_is_not_told_where_the_only_path_that_may_be_usable_could_not_be_read(self) -> None:
        assert redundancy(namespace(path(0, "connecting"), path(1, None, None))) is None

    def test_is_not_told_where_a_second_path_could_not_be_read(self) -> None:
        assert redundancy(namespace(path(0), path(1, None, None))) is None
        assert redundancy(namespace(path(0), path(1), path(2, None, None))) == "redundant"

    def test_without_namespaces_is_that_of_its_controllers(self) -> None:
        controllers = tuple(path(number).controller for number in range(2))
        bare = Subsystem("nvme-subsys0", "nqn.x", controllers=controllers)
        assert worst_level([bare], complete=True) == "redundant"

    def test_without_any_controller_is_lost(self) -> None:
        assert worst_level([Subsystem("nvme-subsys0", "nqn.x")], complete=True) == "lost"

    def test_that_is_not_there_is_lost_while_it_is_expected_and_untold_else(self) -> None:
        assert worst_level([], complete=False) == "lost"
        assert worst_level([], complete=True) is None


def test_a_controller_counts_as_usable_when_it_serves_every_namespace_it_holds() -> None:
    whole = subsystem(
        namespace(path(0), path(1, ana="inaccessible")),
        namespace(path(0), path(1), nsid="2"),
    )
    assert [controller.name for controller in usable_paths(whole)] == ["nvme0"]
