from __future__ import annotations

import argparse
import json
import os
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.check import add_arguments, refuse, run
from nvmeof_exporter.config import ConfigError, ExpectedSubsystem
from nvmeof_exporter.demo.devices import Timeouts
from nvmeof_exporter.demo.nodes import array_node, demo_node
from nvmeof_exporter.demo.tree import Tree
from nvmeof_exporter.memory import FILE_NAME, Memory, RememberedPath, RememberedSubsystem, save
from nvmeof_exporter.model import PathId
from nvmeof_exporter.sources.lldp import LldpUnavailable
from tests.fixtures.node_files import NodeFiles
from tests.test_policy.looks import policy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nvmeof_exporter.policy import Policy

ARRAY = "nqn.2026-01.org.example:array1"


@dataclass(frozen=True)
class Config:
    path_sysfs: str
    path_state: str = ""
    expected: tuple[ExpectedSubsystem, ...] = ()
    policy: Policy | None = None

    def collects(self, name: str) -> bool:
        return False  # a tree that is not this machine's


def check(config: Config, *arguments: str) -> int:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return run(parser.parse_args(arguments), config)


def violated(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """What was found of the array, by violated rule, as JSON tells it."""
    return {
        finding["rule"]: finding["found"]
        for finding in json.loads(capsys.readouterr().out)["findings"]
        if finding["nqn"] == ARRAY and finding["verdict"] == "violated"
    }


@pytest.fixture
def sysfs(tmp_path: Path) -> Iterator[str]:
    """The demonstration's node."""
    with closing(Tree(demo_node(), tmp_path / "demo")) as tree:
        yield tree.sysfs


@pytest.fixture
def slow_keep_alive(tmp_path: Path) -> Iterator[str]:
    """Two paths that were given a keep-alive of a minute."""
    node = array_node(timeouts=Timeouts(keep_alive=60))
    with closing(Tree(node, tmp_path / "slow")) as tree:
        yield tree.sysfs


class TestStatus:
    def test_a_node_with_nothing_to_say_against_it_is_ok(
        self, sysfs: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert check(Config(sysfs)) == 0
        last = capsys.readouterr().out.splitlines()[-1]
        assert last.startswith("policy conservative: ")
        assert "warning" not in last

    def test_a_setting_outside_the_policy_is_a_warning(
        self, slow_keep_alive: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert check(Config(slow_keep_alive)) == 1
        assert (
            "  warning   keep_alive        1m on tcp:10.0.0.2:4420, tcp:10.0.1.2:4420; "
            "wanted: at most 30s\n"
        ) in capsys.readouterr().out

    def test_a_namespace_that_nobody_can_reach_is_critical(self, tmp_path: Path) -> None:
        node = NodeFiles.load("only-path-lost", tmp_path)
        assert check(Config(node.sysfs)) == 1  # one path where more are wanted
        node.place("nvme0").joinpath("state").write_text("connecting\n")
        assert check(Config(node.sysfs)) == 2

    def test_a_node_without_fabrics_cannot_be_judged(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "class").mkdir()
        assert check(Config(str(tmp_path)), "--output=plugin") == 3
        assert capsys.readouterr().out.startswith("NVMEOF UNKNOWN - no NVMe over Fabrics")


class TestExpectations:
    def test_an_expected_subsystem_that_is_not_there_is_lost(
        self, sysfs: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert check(Config(sysfs, expected=(ExpectedSubsystem("nqn.gone", 2),))) == 2
        assert "lost, no path is connected" in capsys.readouterr().out

    def test_fewer_paths_than_expected_are_too_few_before_a_training_run(
        self, sysfs: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        config = Config(sysfs, expected=(ExpectedSubsystem(ARRAY, 3),))
        check(config, "--preset=gpu-training", "-ojson")
        assert violated(capsys)["redundancy"] == "degraded"

    def test_a_remembered_path_counts_without_configuration(
        self, sysfs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        paths = tuple(
            RememberedPath(PathId("tcp", f"10.0.{number}.2", "4420", "", f"h{number}"), 1.0, 2.0)
            for number in range(3)
        )
        save(tmp_path, Memory(subsystems={ARRAY: RememberedSubsystem(3, paths)}))
        check(Config(sysfs, str(tmp_path)), "--preset=gpu-training", "-ojson")
        assert violated(capsys)["redundancy"] == "degraded"

    def test_a_remembered_local_drive_is_not_asked_for(self, sysfs: str, tmp_path: Path) -> None:
        drive = RememberedPath(PathId("pcie", "0000:01:00.0"), 1.0, 2.0)
        save(tmp_path, Memory(subsystems={"nqn.drive": RememberedSubsystem(1, (drive,))}))
        assert check(Config(sysfs, str(tmp_path))) == 0

    @pytest.mark.parametrize("content", ["", "{", '{"version": 99, "subsystems": {}}'])
    def test_a_memory_that_is_of_no_use_stays_as_it_is(
        self, sysfs: str, tmp_path: Path, content: str
    ) -> None:
        state = tmp_path / "state"
        state.mkdir()
        (state / FILE_NAME).write_text(content)
        assert check(Config(sysfs, str(state))) == 0
        assert [entry.name for entry in state.iterdir()] == [FILE_NAME]
        assert (state / FILE_NAME).read_text() == content


class TestPreset:
    def test_the_flag_wins_over_the_files_preset(
        self, slow_keep_alive: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        config = Config(slow_keep_alive, policy=policy("policy: {preset: vast}"))
        check(config)
        assert "policy vast: " in capsys.readouterr().out
        check(config, "--preset=gpu-training")
        assert "policy gpu-training: " in capsys.readouterr().out

    def test_the_files_rules_stay(
        self, slow_keep_alive: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        config = Config(slow_keep_alive, policy=policy("policy: {rules: {keep_alive: off}}"))
        check(config, "--preset=gpu-training", "-ojson")
        assert "keep_alive" not in violated(capsys)

    def test_an_unknown_one_is_refused(self, sysfs: str) -> None:
        with pytest.raises(ConfigError, match=r"^--preset: found \"x\", expected one of "):
            check(Config(sysfs), "--preset=x")


def test_what_paths_share_is_read_from_files(
    sysfs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    check(Config(sysfs), "-ojson")
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert {f["nqn"]: f["found"] for f in findings if f["rule"] == "shared_fate"} == {
        ARRAY: "2 netdev, 2 target_address",
        "nqn.2026-01.org.example:scratch": "2 netdev, 2 target_address",
    }


@dataclass(frozen=True)
class ThisMachine(Config):
    def collects(self, name: str) -> bool:
        return True


class TestSwitches:
    ASKED = "policy: {rules: {shared_fate: {all_of: [switch]}}}"

    def test_lldpd_is_asked_where_a_rule_wants_to_know(
        self, sysfs: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("nvmeof_exporter.survey._interfaces", lambda *_: None)
        monkeypatch.setattr(
            "nvmeof_exporter.survey.switches", lambda: dict.fromkeys(("h0", "h1"), "one")
        )
        assert check(ThisMachine(sysfs, policy=policy(self.ASKED)), "-ojson") == 1
        assert violated(capsys)["shared_fate"] == "1 switch"

    def test_it_is_left_alone_otherwise(self, sysfs: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("nvmeof_exporter.survey._interfaces", lambda *_: None)
        monkeypatch.setattr("nvmeof_exporter.survey.switches", None)
        assert check(ThisMachine(sysfs)) == 0

    def test_without_one_switches_are_not_judged(
        self, sysfs: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def unavailable() -> dict[str, str]:
            raise LldpUnavailable("not installed")

        monkeypatch.setattr("nvmeof_exporter.survey._interfaces", lambda *_: None)
        monkeypatch.setattr("nvmeof_exporter.survey.switches", unavailable)
        assert check(ThisMachine(sysfs, policy=policy(self.ASKED))) == 0
        assert "  unknown   shared_fate       not known\n" in capsys.readouterr().out


def test_a_tree_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^--path\.sysfs: '/nonexistent' is no directory$"):
        check(Config("/nonexistent"))


def test_a_file_that_cannot_be_read_costs_its_own_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = NodeFiles.load("against-policy", tmp_path)
    (node.place("nvme0") / "kato").unlink()
    check(Config(node.sysfs))
    out = capsys.readouterr().out
    assert "  unknown   keep_alive        the kernel shows none on 1 path\n" in out
    assert "  warning   keep_alive        off on tcp:10.0.1.2:4420; wanted: at most 30s\n" in out


class TestColour:
    @pytest.mark.parametrize(
        ("terminal", "environment", "coloured"),
        [
            (True, {}, True),
            (True, {"NO_COLOR": "1"}, False),
            (True, {"NO_COLOR": ""}, True),
            (True, {"TERM": "dumb"}, False),
            (False, {}, False),
        ],
    )
    def test_only_a_terminal_that_may_have_it_gets_it(
        self,
        sysfs: str,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        terminal: bool,
        environment: dict[str, str],
        coloured: bool,
    ) -> None:
        monkeypatch.setattr("sys.stdout.isatty", lambda: terminal, raising=False)
        for name in ("NO_COLOR", "TERM"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        check(Config(sysfs))
        assert ("\033[" in capsys.readouterr().out) is coloured


class TestBadInputAsPlugin:
    @pytest.mark.parametrize(
        "arguments",
        [["-o", "plugin"], ["-oplugin"], ["--output=plugin"], ["--output", "plugin", "--x"]],
    )
    def test_it_is_unknown_on_standard_output(
        self, arguments: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert refuse(ConfigError('unknown flag "--x"'), arguments) == 3
        assert capsys.readouterr().out == 'NVMEOF UNKNOWN - unknown flag "--x"\n'

    @pytest.mark.parametrize("arguments", [[], ["-o", "json"], ["plugin"], ["--preset=plugin"]])
    def test_elsewhere_it_stays_an_error(self, arguments: list[str]) -> None:
        error = ConfigError("bad")
        with pytest.raises(ConfigError) as raised:
            refuse(error, arguments)
        assert raised.value is error


def test_what_is_no_sysfs_is_not_called_empty(tmp_path: Path) -> None:
    expected = f"^--path.sysfs: '{tmp_path}' is no sysfs: it has no directory class$"
    with pytest.raises(ConfigError, match=expected):
        check(Config(str(tmp_path)))


@pytest.mark.parametrize("name", ["class/nvme", "class/nvme-subsystem"])
def test_a_class_that_cannot_be_listed_is_not_called_empty(tmp_path: Path, name: str) -> None:
    # A file in its place fails as a closed directory does, for root as well.
    (tmp_path / "class").mkdir()
    (tmp_path / name).touch()
    with pytest.raises(ConfigError) as refused:
        check(Config(str(tmp_path)))
    assert str(refused.value) == (
        "--path.sysfs: which subsystems are connected cannot be told: "
        f"'{tmp_path / name}' is unreadable: Not a directory"
    )


def test_nothing_is_written_anywhere(sysfs: str, tmp_path: Path) -> None:
    before = {(root, *files) for root, _, files in os.walk(tmp_path)}
    check(Config(sysfs, str(tmp_path / "state")))
    assert {(root, *files) for root, _, files in os.walk(tmp_path)} == before
