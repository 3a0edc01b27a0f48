"""Redundancy in a sentence, on nodes that are small enough to judge at a glance."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvmeof_exporter.model import (
    Controller,
    Namespace,
    NamespacePath,
    PathId,
    PathSettings,
    Subsystem,
)
from nvmeof_exporter.monitor.expectations import Expectation
from nvmeof_exporter.view.model import PathView, SettingsView
from nvmeof_exporter.view.verdict import verdict
from tests.fixtures.node_files import NodeFiles
from tests.fixtures.serving import Served
from tests.fixtures.viewing import served_node, view_of

GATEWAYS = "nqn.2026-01.org.example:gateways"


def told(name: str, tmp_path: Path, steps: int = 0) -> dict[str, tuple[str | None, str]]:
    """Level and sentence by the last part of each NQN, after some steps of the node."""
    served, node = served_node(name, tmp_path)
    for _ in range(steps):
        assert node.advance()
        served.poll(node.time)
    return {
        subsystem.nqn.rpartition(":")[2]: (subsystem.redundancy.level, subsystem.redundancy.verdict)
        for subsystem in view_of(served).subsystems
    }


def test_standbys_make_redundant(tmp_path: Path) -> None:
    assert told("four-gateways", tmp_path) == {
        "gateways": (
            "redundant",
            "any one path may fail and I/O goes on, once the target opens another",
        )
    }


def test_one_that_never_had_more_says_so(tmp_path: Path) -> None:
    assert told("only-path-lost", tmp_path) == {
        "single": ("at-risk", "it has one path and never had more, and I/O stops when that fails")
    }


def test_a_path_that_went_is_named(tmp_path: Path) -> None:
    path = "tcp:[fe80::12:3456%enp2s0]:4420%enp2s0"
    assert told("scoped-ipv6", tmp_path, steps=1) == {
        "eight": (
            "at-risk",
            "one path is left (tcp:[fe80::12:3456%enp1s0]:4421%enp1s0), and I/O stops when it "
            f"fails; not usable: {path} is connecting",
        )
    }


def test_namespaces_are_named_where_only_some_are_lost(tmp_path: Path) -> None:
    paths = ", ".join(f"tcp:10.0.210.20{n}:4420 is inaccessible (ANA)" for n in (2, 3, 4))
    assert told("four-gateways", tmp_path, steps=2) == {
        "gateways": (
            "lost",
            "no path can carry I/O of namespace 1, and it waits for one: "
            f"{paths}, tcp:10.0.210.201:4420 is missing",
        )
    }


@pytest.mark.parametrize(
    ("name", "nqn", "level", "sentence"),
    [
        ("multipath-off", "plain", None, "redundancy cannot be told: native multipath is off"),
        ("odd-shapes", "private", "at-risk", "I/O has one path only, and stops when that fails"),
        (
            "subsystem-without-controllers",
            "volume-1",
            "lost",
            "no path can carry I/O, and it fails",
        ),
    ],
)
def test_what_is_odd_is_said_plainly(
    tmp_path: Path, name: str, nqn: str, level: str | None, sentence: str
) -> None:
    assert told(name, tmp_path)[nqn] == (level, sentence)


def test_too_little_that_could_be_read_is_no_verdict(tmp_path: Path) -> None:
    served, _ = served_node("odd-texts", tmp_path)
    (subsystem,) = view_of(served).subsystems
    assert subsystem.redundancy.level is None
    assert subsystem.redundancy.verdict == "redundancy cannot be told: too little could be read"


def test_fewer_than_configured_are_counted(tmp_path: Path) -> None:
    served, _ = served_node("four-gateways", tmp_path)
    served.monitor.expectations.configure({GATEWAYS: Expectation(6)}, 900)
    served.poll(1)
    (subsystem,) = view_of(served).subsystems
    assert subsystem.redundancy.level == "degraded"
    assert subsystem.redundancy.verdict == (
        "one more path may fail and I/O goes on, once the target opens another: "
        "4 of 6 expected paths are there"
    )


def test_of_many_paths_at_fault_some_are_named(tmp_path: Path) -> None:
    served, _ = served_node("four-gateways", tmp_path)
    labels = tuple(f"tcp:10.0.9.{number}:4420" for number in range(1, 8))
    served.monitor.expectations.configure({GATEWAYS: Expectation(7, labels)}, 900)
    served.poll(1)
    (subsystem,) = view_of(served).subsystems
    missing = ", ".join(f"{label} is missing" for label in labels[:4])
    assert subsystem.redundancy.verdict == (
        "one more path may fail and I/O goes on, once the target opens another: "
        f"{missing} and 3 more"
    )


def test_a_path_that_could_not_be_read_may_be_the_second(tmp_path: Path) -> None:
    node = NodeFiles.load("scoped-ipv6", tmp_path)
    states = sorted(Path(node.sysfs).glob("class/nvme/nvme*/state"))
    assert len(states) == 2
    target = states[1].resolve()
    target.unlink()
    target.mkdir()  # fails to be read, for root as well
    served = Served(node.sysfs)
    served.poll()
    (subsystem,) = view_of(served).subsystems
    (unread,) = (path.path for path in subsystem.paths if path.state is None)
    assert subsystem.redundancy.level is None
    assert subsystem.redundancy.verdict == (
        f"at least one path carries I/O: the state of {unread} could not be read"
    )


def one_path(state: str, fast_io_fail: float | None, since: float | None) -> str:
    """What is said at 100 s of a node with one path, which is not usable."""
    settings = PathSettings(fast_io_fail_timeout=fast_io_fail)
    path = PathId("tcp", "10.0.0.2", "4420")
    word = state.partition(" ")[0]
    controller = Controller("nvme0", "nqn.x", path, word, raw_state=state, settings=settings)
    ways = (NamespacePath("nvme0c0n1", controller),)
    namespace = Namespace("nqn.x", "1", "nvme0n1", paths=ways)
    subsystem = Subsystem("s", "nqn.x", controllers=(controller,), namespaces=(namespace,))
    shown = PathView(
        path=str(path),
        state=word,
        raw_state=state,
        controller="nvme0",
        since=since,
        settings=SettingsView(
            keep_alive_timeout_seconds=None,
            ctrl_loss_timeout_seconds=None,
            reconnect_delay_seconds=None,
            fast_io_fail_timeout_seconds=fast_io_fail,
            io_timeout_seconds=None,
            queues=None,
        ),
    )
    return verdict("lost", [subsystem], [shown], 1, now=100.0, watched=since is not None)


@pytest.mark.parametrize(
    ("state", "fast_io_fail", "since", "then"),
    [
        ("resetting", None, None, "it waits for one"),
        ("connecting", None, None, "it waits for one"),
        ("connecting", 30.0, 80.0, "it waits for one"),
        ("connecting", 10.0, 80.0, "it fails"),
        (
            "connecting",
            10.0,
            None,
            "whether it waits for one or fails is not known (fast_io_fail_tmo)",
        ),
        ("deleting (no IO)", None, None, "it fails"),
        ("dead", None, None, "it fails"),
    ],
)
def test_io_waits_only_for_a_connection_that_may_come_back(
    state: str, fast_io_fail: float | None, since: float | None, then: str
) -> None:
    assert one_path(state, fast_io_fail, since) == (
        f"no path can carry I/O, and {then}: tcp:10.0.0.2:4420 is {state}"
    )
