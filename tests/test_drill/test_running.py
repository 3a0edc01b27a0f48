"""That a drill runs is told for as long as it does."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.drill.running import AlreadyRunning, RunningMark, is_running
from tests.fixtures.node_files import NodeFiles
from tests.test_daemon.looping import looping
from tests.test_daemon.running import eventually

if TYPE_CHECKING:
    from pathlib import Path

_HOLD = """
import sys
from nvmeof_exporter.drill.running import RunningMark
mark = RunningMark(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def test_none_runs_where_there_was_none(tmp_path: Path) -> None:
    assert is_running(str(tmp_path)) is False


def test_nobody_knows_without_a_state_directory() -> None:
    assert is_running("") is None


def test_one_runs_until_it_is_over_and_leaves_nothing(tmp_path: Path) -> None:
    with closing(RunningMark(str(tmp_path))):
        assert is_running(str(tmp_path)) is True
        assert is_running(str(tmp_path)) is True
    assert is_running(str(tmp_path)) is False
    assert list(tmp_path.iterdir()) == []


def test_a_second_one_is_refused(tmp_path: Path) -> None:
    with (
        closing(RunningMark(str(tmp_path))),
        pytest.raises(AlreadyRunning, match="another drill runs on this node"),
    ):
        RunningMark(str(tmp_path))


def test_one_that_was_killed_runs_no_more(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert is_running(str(tmp_path)) is True
        other.kill()
    assert is_running(str(tmp_path)) is False
    with closing(RunningMark(str(tmp_path))):
        assert is_running(str(tmp_path)) is True


def test_the_exporter_tells_it_for_as_long_as_the_drill_runs(tmp_path: Path) -> None:
    node = NodeFiles.load("four-gateways", tmp_path / "sys")
    state = tmp_path / "state"
    state.mkdir()
    flags = (f"--path.state={state}", "--poll.rescan-interval=100ms")
    with looping(node, *flags) as loop:
        eventually(lambda: loop.value("nvmeof_drill_running") == 0, "none runs")
        with closing(RunningMark(str(state))):
            eventually(lambda: loop.value("nvmeof_drill_running") == 1, "one runs")
        eventually(lambda: loop.value("nvmeof_drill_running") == 0, "it is over")


def test_the_exporter_tells_nothing_without_a_state_directory(tmp_path: Path) -> None:
    with looping(NodeFiles.load("four-gateways", tmp_path / "sys")) as loop:
        assert loop.value("nvmeof_exporter_poll_overruns_total") == 0
        assert loop.value("nvmeof_drill_running") is None
