from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.forget import run
from nvmeof_exporter.memory import Memory, RememberedPath, RememberedSubsystem, load, save
from nvmeof_exporter.model import PathId
from tests.test_memory.test_memory import locked_by_another

if TYPE_CHECKING:
    from pathlib import Path

OLD, NEW = "nqn.2024-01.org.example:old", "nqn.2024-01.org.example:new"


@dataclasses.dataclass(frozen=True)
class Config:
    path_state: str


def path(number: int) -> RememberedPath:
    return RememberedPath(PathId("tcp", f"10.0.0.{number}", "4420"), 1.0, 2.0)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """A state directory that remembers two paths of one subsystem and three of another."""
    remembered = Memory(
        subsystems={
            NEW: RememberedSubsystem(2, (path(1), path(2))),
            OLD: RememberedSubsystem(2, (path(1), path(2), path(3))),
        }
    )
    save(tmp_path, remembered)
    return Config(str(tmp_path))


def remembered(config: Config) -> dict[str, RememberedSubsystem]:
    return dict(load(config.path_state)[0].subsystems)


class TestForgetting:
    def test_a_subsystem_drops_all_of_its_paths_and_no_other(
        self, config: Config, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(config, OLD, None) == 0
        assert remembered(config) == {NEW: RememberedSubsystem(2, (path(1), path(2)))}
        assert capsys.readouterr().out.splitlines() == [
            *(f"forgot tcp:10.0.0.{number}:4420 of {OLD}" for number in (1, 2, 3)),
            "a running exporter follows within a few seconds",
        ]

    def test_a_path_drops_that_one(
        self, config: Config, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(config, NEW, "tcp:10.0.0.2:4420") == 0
        assert remembered(config)[NEW] == RememberedSubsystem(1, (path(1),))
        assert capsys.readouterr().out == (
            f"forgot tcp:10.0.0.2:4420 of {NEW}\na running exporter follows within a few seconds\n"
        )

    def test_one_of_more_paths_than_were_ever_held_at_once_keeps_their_number(
        self, config: Config
    ) -> None:
        assert run(config, OLD, "tcp:10.0.0.3:4420") == 0
        assert remembered(config)[OLD] == RememberedSubsystem(2, (path(1), path(2)))

    def test_the_last_path_forgets_the_subsystem(self, config: Config) -> None:
        assert run(config, NEW, "tcp:10.0.0.1:4420") == 0
        assert run(config, NEW, "tcp:10.0.0.2:4420") == 0
        assert set(remembered(config)) == {OLD}


class TestWhatIsNotRemembered:
    def test_a_subsystem_is_answered_with_those_that_are(
        self, config: Config, capsys: pytest.CaptureFixture[str]
    ) -> None:
        before = remembered(config)
        assert run(config, "nqn.typo", None) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line == (
            f"nvmeof-exporter: error: {config.path_state}: no subsystem nqn.typo is remembered; "
            f"there is {NEW}, {OLD}"
        )
        assert remembered(config) == before

    def test_a_path_is_answered_with_those_of_its_subsystem(
        self, config: Config, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(config, NEW, "tcp:10.0.0.3:4420") == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.endswith("there is tcp:10.0.0.1:4420, tcp:10.0.0.2:4420")

    def test_a_long_list_is_cut(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        many = tuple(path(number) for number in range(100))
        save(tmp_path, Memory(subsystems={NEW: RememberedSubsystem(2, many)}))
        assert run(Config(str(tmp_path)), NEW, "tcp:typo") == 2
        assert capsys.readouterr().err.endswith(" and 80 more\n")

    def test_a_name_with_control_characters_stays_one_line(
        self, config: Config, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(config, "nqn\n\x1b[31m\udcff", None) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert r"'nqn\n\x1b[31m\udcff'" in line

    def test_without_a_memory_there_is_nothing(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(Config(str(tmp_path)), NEW, None) == 2
        assert capsys.readouterr().err.endswith("there is nothing\n")
        assert list(tmp_path.iterdir()) == []

    def test_with_the_memory_switched_off_that_is_said(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(Config(""), NEW, None) == 2
        assert "--path.state is empty" in capsys.readouterr().err

    def test_because_the_file_was_corrupt_is_said(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "paths.json").write_bytes(b"?")
        assert run(Config(str(tmp_path)), NEW, None) == 2
        first, second = capsys.readouterr().err.splitlines()
        assert "paths.json: JSON is malformed" in first
        assert second.endswith("there is nothing")


def test_a_memory_that_cannot_be_written_is_a_failure(
    config: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with locked_by_another(tmp_path):
        assert run(config, NEW, None) == 1
    assert "paths.lock: locked by another process" in capsys.readouterr().err
    assert set(remembered(config)) == {NEW, OLD}
