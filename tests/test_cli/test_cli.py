from __future__ import annotations

import logging
import subprocess
import sys
import types
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from nvmeof_exporter import __version__
from nvmeof_exporter.cli import _COMMANDS, main
from nvmeof_exporter.config.options import OPTIONS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

    from nvmeof_exporter.config import Config

_EVERY_COMMAND = ", ".join(_COMMANDS)


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for option in OPTIONS:
        monkeypatch.delenv(option.variable, raising=False)
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)


class _Calls(list[tuple[Any, ...]]):
    """Stands in for what the commands do: notes the arguments, answers a status."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status

    def run(self, *args: Any) -> int:
        self.append(args)
        return self.status


def _module(name: str, monkeypatch: pytest.MonkeyPatch, **names: object) -> None:
    module = types.ModuleType(name)
    vars(module).update(names)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> _Calls:
    calls = _Calls(status=3)
    _module("nvmeof_exporter.daemon", monkeypatch, serve=calls.run)
    return calls


@pytest.mark.parametrize("command", [[], ["serve"]])
def test_serve_is_what_runs_without_a_command_and_its_status_is_the_programs(
    command: list[str], served: _Calls
) -> None:
    assert main([*command, "--web.max-requests=7"]) == 3
    ((config,),) = served
    assert config.web_max_requests == 7


def test_the_environment_of_the_process_counts(
    served: _Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVMEOF_EXPORTER_LOG_LEVEL", "error")
    main([])
    assert served[0][0].log_level == "error"


def test_forget_gets_the_configuration_the_nqn_and_the_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = _Calls(status=0)
    _module("nvmeof_exporter.forget", monkeypatch, run=calls.run)
    assert main(["forget", "--path.state=/s", "nqn.a", "tcp:10.0.0.2:4420"]) == 0
    assert main(["forget", "nqn.a"]) == 0
    (config, *first), (_, *second) = calls
    assert config.path_state == "/s"
    assert (first, second) == (["nqn.a", "tcp:10.0.0.2:4420"], ["nqn.a", None])


def test_demo_gets_its_own_flags_and_a_configuration_that_stays_on_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = _Calls(status=0)

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--demo.speed", dest="speed")

    _module("nvmeof_exporter.demo.command", monkeypatch, add_arguments=add_arguments, run=calls.run)
    assert main(["demo", "--demo.speed=4", "--poll.interval=50ms"]) == 0
    ((args,),) = calls
    config: Config = args.config
    assert args.speed == "4"
    assert (config.poll_interval, config.path_state) == (0.05, "")
    assert [str(address) for address in config.web_listen_address] == ["127.0.0.1:10067"]


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["serv"],
         f'unknown command "serv", expected one of {_EVERY_COMMAND}; did you mean serve?'),
        (["xyzzy"], f'unknown command "xyzzy", expected one of {_EVERY_COMMAND}'),
        (["serve", "twice"], 'unexpected argument "twice"'),
        (["--poll.intervall=1s"],
         'unknown flag "--poll.intervall"; did you mean --poll.interval?'),
        (["--poll.interval=1"],
         '--poll.interval: found "1", expected a duration with a unit, such as 1ms or 1s'),
        (["forget"], "the following arguments are required: NQN"),
        (["--collector.pcie=yes"],
         "--collector.pcie/--no-collector.pcie: ignored explicit argument 'yes'"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_on_standard_error_and_status_2(
    argv: list[str], line: str, served: _Calls, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    assert capsys.readouterr() == ("", f"nvmeof-exporter: error: {line}\n")
    assert served == []


def test_a_checked_configuration_is_named_and_nothing_runs(
    tmp_path: Path, served: _Calls, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("poll: {interval: 1s}\n")
    assert main(["--config.check", "--config.file", str(file)]) == 0
    assert main(["--config.check"]) == 0
    assert capsys.readouterr() == (f"configuration OK: {file}\nconfiguration OK\n", "")
    assert served == []


def test_a_checked_configuration_that_is_bad_ends_in_its_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("poll: {intervall: 1s}\n")
    assert main(["--config.check", "--config.file", str(file)]) == 2
    assert capsys.readouterr().err == (
        f'nvmeof-exporter: error: {file}:1: unknown key "poll.intervall"; '
        "did you mean poll.interval?\n"
    )


def test_help_names_every_flag_with_its_variable_and_default(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for option in OPTIONS:
        assert option.flag in text
        assert f"[{option.variable}]" in text
    assert "(default: :10067)" in text


def _run(*argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nvmeof_exporter", *argv]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_package_runs_as_a_module_and_tells_its_version() -> None:
    done = _run("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"nvmeof-exporter {__version__} (Python ")


def test_the_process_ends_with_status_2_and_one_line() -> None:
    done = _run("--web.listen-address=1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        'nvmeof-exporter: error: --web.listen-address: found "1", '
        "expected :PORT, HOST:PORT or [IPV6]:PORT\n"
    )


@pytest.mark.parametrize("argv", [["--version"], ["--help"], ["--config.check"]])
def test_what_ends_at_once_does_not_load_what_serving_needs(argv: list[str]) -> None:
    program = (
        "import sys; from nvmeof_exporter.cli import main; main(sys.argv[1:]);"
        "print(sorted({'cheroot', 'prometheus_client', 'pyudev', 'yaml'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *argv], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
