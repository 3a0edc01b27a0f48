"""Bad input: one line that names the place, what was found and what is expected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter.config import ConfigError, load
from nvmeof_exporter.config.errors import quoted
from nvmeof_exporter.config.file import parse_file

if TYPE_CHECKING:
    from pathlib import Path


def _refusal(argv: list[str], environ: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as refusal:
        load(argv, environ or {})
    return str(refusal.value)


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (
            ["--poll.interval=100"],
            '--poll.interval: found "100", expected a duration with a unit, such as 100ms or 100s',
        ),
        (
            ["--poll.interval=5ms"],
            '--poll.interval: found "5ms", expected a duration from 10ms to 60s',
        ),
        (
            ["--poll.incident-interval=200ms"],
            "--poll.incident-interval: found 200ms, expected at most the poll.interval of 100ms",
        ),
        (
            ["--stall.threshold=soon"],
            '--stall.threshold: found "soon", expected a duration such as '
            "100ms, 1.5s, 5s, 1m30s or 2h",
        ),
        (
            ["--web.listen-address=10067"],
            '--web.listen-address: found "10067", expected :PORT, HOST:PORT or [IPV6]:PORT',
        ),
        (
            ["--web.listen-address=:1", "--web.listen-address=:1"],
            '--web.listen-address: ":1" is given twice',
        ),
        (
            ["--web.max-requests=0"],
            '--web.max-requests: found "0", expected a whole number from 1 to 1000',
        ),
        (
            ["--web.telemetry-path=metrics"],
            '--web.telemetry-path: found "metrics", expected a URL path such as /metrics',
        ),
        (["--path.sysfs="], '--path.sysfs: found "", expected a path'),
        (["--collector.links=al"],
         '--collector.links: found "al", expected one of paths, all, off'),
        (["--collector.rdma.device-include=mlx5["],
         '--collector.rdma.device-include: found "mlx5[", expected a regular expression '
         "(unterminated character set at position 4)"),
        (["--collector.rdma.device-exclude=*"],
         '--collector.rdma.device-exclude: found "*", expected a regular expression '
         "(nothing to repeat at position 0)"),
        (["--poll.slow-deadline=0s"],
         '--poll.slow-deadline: found "0s", expected a duration from 10ms to 1m'),
        (
            ["--log.level=loud"],
            '--log.level: found "loud", expected one of debug, info, warning, error',
        ),
        (["--log.format=xml"], '--log.format: found "xml", expected one of logfmt, json'),
        (["--log.level=a\nb"], r'--log.level: found "a\nb", expected one of debug, info, '
         "warning, error"),
        (["--pol.interval=1s"], 'unknown flag "--pol.interval"; did you mean --poll.interval?'),
        (["--no-collector.pci"],
         'unknown flag "--no-collector.pci"; did you mean --no-collector.pcie?'),
        (["--xyzzy"], 'unknown flag "--xyzzy"'),
        (["--poll.int=1s"], 'unknown flag "--poll.int"; did you mean --poll.interval?'),
        (["--poll.interval"], "--poll.interval: expected one argument"),
        (["extra"], 'unexpected argument "extra"'),
        (["--config.file=/nonexistent.yaml"],
         "/nonexistent.yaml: cannot be read: No such file or directory"),
        (["--config.file=/"], "/: cannot be read: Is a directory"),
    ],
)  # fmt: skip
def test_a_bad_flag_is_told_in_one_line(argv: list[str], line: str) -> None:
    assert _refusal(argv) == line


@pytest.mark.parametrize(
    ("environ", "line"),
    [
        (
            {"NVMEOF_EXPORTER_POLL_INTERVAL": "1"},
            'NVMEOF_EXPORTER_POLL_INTERVAL: found "1", expected a duration with a unit, '
            "such as 1ms or 1s",
        ),
        (
            {"NVMEOF_EXPORTER_COLLECTOR_PCIE": ""},
            'NVMEOF_EXPORTER_COLLECTOR_PCIE: found "", expected true or false',
        ),
        (
            {"NVMEOF_EXPORTER_WEB_LISTEN_ADDRESS": ":1,"},
            'NVMEOF_EXPORTER_WEB_LISTEN_ADDRESS: found "", expected :PORT, HOST:PORT '
            "or [IPV6]:PORT",
        ),
    ],
)
def test_a_bad_variable_is_told_in_one_line(environ: dict[str, str], line: str) -> None:
    assert _refusal([], environ) == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("poll:\n  intervall: 1s\n",
         ':2: unknown key "poll.intervall"; did you mean poll.interval?'),
        ("pol:\n  interval: 1s\n", ':1: unknown key "pol"; did you mean poll?'),
        ("web: {listen-adress: ':1'}\n",
         ':1: unknown key "web.listen-adress"; did you mean web.listen-address?'),
        ("poll:\n  interval: 100\n",
         ':2: poll.interval: found "100", expected a duration with a unit, such as 100ms or 100s'),
        ("poll:\n  interval: [1s]\n", ":2: poll.interval: found a list, expected one value"),
        ("poll:\n  interval: {a: 1s}\n",
         ":2: poll.interval: found a mapping, expected one value"),
        ("poll:\n  interval:\n", ":2: poll.interval: found nothing, expected one value"),
        ("poll: 1s\n", ':1: poll: found "1s", expected a mapping of settings'),
        ("poll: [1s]\n", ":1: poll: found a list, expected a mapping of settings"),
        ("- a\n", ":1: found a list, expected a mapping of settings"),
        ("collector:\n  rdma: [x]\n", ":2: collector.rdma: found a list, expected one value"),
        ("collector:\n  rdma: maybe\n",
         ':2: collector.rdma: found "maybe", expected true or false'),
        ("collector:\n  rdma:\n    device-include: '('\n",
         ':3: collector.rdma.device-include: found "(", expected a regular expression '
         "(missing ), unterminated subpattern at position 0)"),
        ("just text\n", ':1: found "just text", expected a mapping of settings'),
        ("web:\n  listen-address: []\n",
         ":2: web.listen-address: found an empty list, expected at least one value"),
        ("web:\n  listen-address: {a: b}\n",
         ":2: web.listen-address: found a mapping, expected a list or one value"),
        ("web:\n  listen-address:\n    - ':1'\n    - [x]\n",
         ":4: web.listen-address[1]: found a list, expected a value"),
        ("log:\n  level: info\n  level: debug\n",
         ':3: "log.level" is given twice, first in line 2'),
        ("log: {level: info}\nweb: {}\nlog: {format: json}\n",
         ':3: "log" is given twice, first in line 1'),
        ("log: {level: info}\nlog.level: debug\n",
         ":2: log.level is given twice, as a dotted key and in its section"),
        ("config:\n  file: x\n",
         ":2: config.file cannot be set in the configuration file"),
        ("? [a]\n: b\n", ":1: found a list, expected a word as key"),
        ("a: b: c\n", ":1: is no valid YAML: mapping values are not allowed here"),
        ("web: [\n",
         ":2: is no valid YAML: expected the node content, but found '<stream end>'"),
        ("a: 1\n---\nb: 2\n", ":2: is no valid YAML: but found another document"),
        ("web: *x\n", ":1: is no valid YAML: found undefined alias 'x'"),
        ("[" * 5000, ": is nested too deeply"),
        ("web: \x07\n",
         ": is no valid YAML: unacceptable character #x0007: special characters are not allowed"),
        ("expected: x\n", ':1: expected: found "x", expected a list of subsystems'),
        ("expected: [x]\n",
         ':1: expected[0]: found "x", expected a mapping with nqn and either paths or count'),
        ("expected:\n- count: 2\n", ":2: expected[0]: nqn is missing"),
        ("expected:\n- nqn: a\n", ":2: expected[0]: expected either paths or count"),
        ("expected:\n- {nqn: a, count: 1, paths: ['tcp:a']}\n",
         ":2: expected[0]: expected either paths or count"),
        ("expected:\n- nqn: a\n  path: ['tcp:a']\n",
         ':3: unknown key "expected[0].path"; did you mean paths?'),
        ("expected:\n- nqn: a\n  count: two\n",
         ':3: expected[0].count: found "two", expected a whole number from 1 to 4096'),
        ("expected:\n- nqn: ''\n  count: 1\n",
         ':2: expected[0].nqn: found "", expected a subsystem NQN of 1 to 223 bytes'),
        ("expected:\n- nqn: a\n  paths: [10.0.0.2]\n",
         ':3: expected[0].paths[0]: found "10.0.0.2", expected a path such as tcp:10.0.0.2:4420'),
        ("expected:\n- nqn: a\n  paths: ['tcp:a', 'tcp:a']\n",
         ':3: expected[0].paths[1]: "tcp:a" is given twice'),
        ("expected:\n- nqn: a\n  paths: []\n", ":3: expected[0].paths: expected 1 to 4096 paths"),
        ("expected:\n- {nqn: a, count: 1}\n- {nqn: a, count: 2}\n",
         ':3: expected[1]: "a" is given twice'),
    ],
)  # fmt: skip
def test_a_bad_file_is_told_in_one_line(text: str, line: str, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    assert _refusal(["--config.file", str(file)]) == f"{file}{line}"


def test_a_file_that_is_no_text_is_told_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_bytes(b"web: \xff\xfe\n")
    line = _refusal(["--config.file", str(file)])
    assert line.startswith(f"{file}: is no valid YAML: ")
    assert line.isprintable()


def test_a_file_of_absurd_size_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_bytes(b"#" * (1 << 20) + b"#")
    assert _refusal(["--config.file", str(file)]) == f"{file}: is larger than 1 MiB"


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode()))
def test_any_bytes_are_a_configuration_or_refused(data: bytes) -> None:
    try:
        parse_file(data, "c.yaml")
    except ConfigError as error:
        assert str(error).startswith("c.yaml")


@given(st.text())
def test_quoted_input_is_one_printable_bounded_line(text: str) -> None:
    shown = quoted(text)
    assert shown.isprintable()
    assert len(shown) <= 12 * 82  # every character escaped as a surrogate pair
