from __future__ import annotations

import contextlib
import io
import json
import logging
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter.logs import configure

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()  # else configure would close pytest's own
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def _without_time(line: str) -> str:
    time, _, rest = line.partition(" ")
    assert time.startswith("ts=2")
    assert time.endswith("Z")
    return rest


def test_a_line_has_time_level_message_and_then_the_fields_in_order(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure("info", "logfmt")
    structlog.get_logger().info("path lost", path="tcp:10.0.0.2:4420", after=5.5, again=False)
    assert _without_time(capsys.readouterr().err) == (
        'level=info msg="path lost" path=tcp:10.0.0.2:4420 after=5.5 again=false\n'
    )


def test_json_has_the_same_keys_in_the_same_order(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", "json")
    structlog.get_logger().warning("path lost", zone=1, area={"a": 2})
    line = json.loads(capsys.readouterr().err)
    assert list(line) == ["ts", "level", "msg", "zone", "area"]
    assert (line["level"], line["msg"], line["area"]) == ("warning", "path lost", {"a": 2})


def test_lines_below_the_level_are_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    configure("warning", "logfmt")
    structlog.get_logger().info("not this")
    structlog.get_logger().error("but this")
    assert _without_time(capsys.readouterr().err) == 'level=error msg="but this"\n'


def test_a_logger_made_before_the_configuration_follows_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = structlog.get_logger()
    configure("error", "logfmt")
    log.info("dropped")
    configure("info", "logfmt")
    log.info("kept")
    assert _without_time(capsys.readouterr().err) == "level=info msg=kept\n"


@pytest.mark.parametrize("form", ["logfmt", "json"])
def test_an_exception_stays_in_its_line(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", form)
    try:
        int("first\nsecond")
    except ValueError:
        structlog.get_logger().exception("read failed")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "ValueError: invalid literal" in lines[0]


@given(st.text(), st.text())
def test_whatever_a_field_holds_the_line_is_one_printable_line(key: str, value: str) -> None:
    configure("info", "logfmt")
    with contextlib.redirect_stderr(io.StringIO()) as stream:
        structlog.get_logger().info("seen", **{f"k{key}": value})
    assert stream.getvalue().endswith("\n")
    assert stream.getvalue()[:-1].isprintable()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("", '""'),
        (None, ""),
        ("a b", '"a b"'),
        ('a"b', r'"a\"b"'),
        ("a=b", '"a=b"'),
        ("a\\b", r'"a\\b"'),
        ("\x1b[2J", r'"\u001b[2J"'),
        ("\udcff", r'"\udcff"'),
        ("größe", "größe"),
    ],
)
def test_a_value_is_quoted_where_it_could_be_misread(
    value: str | None, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure("info", "logfmt")
    structlog.get_logger().info("seen", v=value)
    assert _without_time(capsys.readouterr().err) == f"level=info msg=seen v={shown}\n"


def test_what_libraries_log_comes_out_the_same_way(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", "logfmt")
    logging.getLogger("some.library").warning("odd %s", "thing")
    logging.getLogger("some.library").debug("dropped")
    assert _without_time(capsys.readouterr().err) == (
        'level=warning msg="odd thing" logger=some.library\n'
    )


class _Broken(io.StringIO):
    def write(self, _: str) -> int:
        raise BrokenPipeError


@pytest.mark.parametrize("stream", [_Broken(), None])
def test_a_broken_standard_error_costs_the_line_only(
    stream: io.StringIO | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure("info", "logfmt")
    monkeypatch.setattr(sys, "stderr", stream)
    structlog.get_logger().info("nobody hears this")


def test_a_closed_standard_error_costs_the_line_only(monkeypatch: pytest.MonkeyPatch) -> None:
    configure("info", "logfmt")
    stream = io.StringIO()
    stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    structlog.get_logger().info("nobody hears this")


def test_a_process_whose_reader_has_gone_lives_on() -> None:
    program = (
        "import sys, structlog; from nvmeof_exporter.logs import configure;"
        "configure('info', 'logfmt'); log = structlog.get_logger(); sys.stdin.read();"
        "[log.info('x' * 5000) for _ in range(100)]; print('alive')"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        process.stderr.close()
        assert process.stdin is not None
        process.stdin.close()
        assert process.stdout is not None
        assert process.stdout.read() == "alive\n"
    assert process.returncode in {0, 120}  # 120: Python could not flush standard error at exit
