"""``nvmeof-exporter show`` as people run it: terminals, pipes, exporters that are not there."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
import structlog
import yaml

from nvmeof_exporter.cli import main
from nvmeof_exporter.view.model import NodeView
from tests.fixtures.descriptors import readable
from tests.fixtures.node_files import NodeFiles
from tests.fixtures.viewing import unpacked
from tests.test_daemon.running import running

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.thorough

PATIENCE = 30.0
FAST_RESCAN = "--poll.rescan-interval=100ms"
COMMAND = (sys.executable, "-m", "nvmeof_exporter", "show")
NQN = "nqn.2026-01.org.example:eight"
SECOND = "tcp:[fe80::12:3456%enp2s0]:4420%enp2s0"

#: Modules come from where only root may read, perhaps; what ``show`` reads does not.
AS_NOBODY = """
import os, sys
import nvmeof_exporter.logs
import nvmeof_exporter.show.command
from nvmeof_exporter.cli import main
from tests.fixtures.descriptors import readable

if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
sys.exit(main(sys.argv[1:]))
"""

#: Names as somebody at the other end of the cable might choose them.
HOSTILE = (
    "parameter multipath=Y\n"
    r"subsystem nvme-subsys0 subsysnqn=nqn.2026-01.org.example:\\x1b]0;x\\x07\\x1b[2J "
    r"model:=\\xc2\\x9b31mred\\xe2\\x80\\xae iopolicy=numa"
    "\n"
    "controller nvme0 in nvme-subsys0 transport=tcp state=live cntlid=1 "
    r"address=traddr=10.0.0.2\\x1b[31m,trsvcid=4420"
    "\n"
    "path nvme0c0n1 of nvme0 nsid=1 ana_state=optimized\n"
    r"head nvme0n1 in nvme-subsys0 nsid=1 wwid=\\x1b[5m"
    "\n"
)


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture
def node(tmp_path: Path) -> NodeFiles:
    return NodeFiles.load("scoped-ipv6", tmp_path / "sys")


def environment(**changes: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("NVMEOF_EXPORTER_")}
    return {**kept, "TZ": "UTC", "TERM": "xterm", **changes}


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def shown(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    assert main(["show", *flags]) == 0
    output, errors = capsys.readouterr()
    assert errors == ""
    return output


def refused(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    assert main(["show", *flags]) == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.count("\n") == 1
    return errors.removeprefix("nvmeof-exporter: error: ").rstrip("\n")


class TestWithoutAnExporter:
    def test_the_tree_is_read(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        sysfs = unpacked("7.3", "tcp-ana-mixed", tmp_path)
        assert (
            shown(capsys, f"--path.sysfs={sysfs}")
            == f"""\
{os.uname().nodename}: read from {sysfs}, without history

nqn.2014-08.org.nvmexpress:lab-4
  Lab Array, numa, nvme-subsys0
  AT-RISK: one path is left of namespace 2 (tcp:10.0.2.2:4420), and I/O stops when it fails; not \
usable: tcp:10.0.1.2:4420 is change (ANA)
  PATH               STATE  ANA                           I/O  CONTROLLER
  tcp:10.0.1.2:4420  live   1 change, 1 inaccessible      ?    nvme0
  tcp:10.0.2.2:4420  live   1 non-optimized, 1 optimized  ?    nvme1
  NAMESPACE  DEVICE   SIZE      USABLE  STANDBY  UNUSABLE  I/O OVER
  1          nvme0n2  67.11 MB  1       1        0         ?
  2          nvme0n1  83.89 MB  1       0        1         ?

policy conservative: 1 critical, 15 ok; nvmeof-exporter check tells which
"""
        )

    def test_an_older_kernel_is_read_as_well(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        sysfs = unpacked("6.1", "rdma-healthy", tmp_path)
        text = shown(capsys, f"--path.sysfs={sysfs}")
        assert "\n  REDUNDANT: any one path may fail and I/O goes on\n" in text

    def test_nothing_connected_is_said(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        sysfs = unpacked("7.3", "nothing-connected", tmp_path)
        assert shown(capsys, f"--path.sysfs={sysfs}").splitlines()[1:] == [
            "",
            "no NVMe over Fabrics subsystem is connected",
            "",
            "policy conservative: nothing to judge",
        ]

    def test_local_drives_are_shown_where_asked_for(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        sysfs = unpacked("7.3", "pcie-single-and-shared", tmp_path)
        assert "pcie:" not in shown(capsys, f"--path.sysfs={sysfs}")
        assert "pcie:" in shown(capsys, f"--path.sysfs={sysfs}", "--collector.pcie")

    def test_what_only_a_watcher_knows_is_null(
        self, node: NodeFiles, capsys: pytest.CaptureFixture[str]
    ) -> None:
        text = shown(capsys, f"--path.sysfs={node.sysfs}", "-ojson")
        view = msgspec.json.decode(text, type=NodeView)
        assert (view.source, view.instance, view.health) == ("sysfs", None, None)
        (subsystem,) = view.subsystems
        assert subsystem.failovers is None
        assert subsystem.failover_in_progress is None
        for path in subsystem.paths:
            assert (path.since, path.history, path.stalled_seconds) == (None, None, None)
            assert path.carries_io is None

    def test_of_this_machine_it_says_who_was_asked(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        port = closed_port()
        first = shown(capsys, f"--web.listen-address=:{port}").splitlines()[0]
        assert first == (
            f"{os.uname().nodename}: read from /sys, without history "
            f"(no exporter answers at http://127.0.0.1:{port}: connection refused)"
        )

    def test_nobody_is_asked_where_the_url_is_empty(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        first = shown(capsys, "--url=").splitlines()[0]
        assert first == f"{os.uname().nodename}: read from /sys, without history"

    def test_any_user_may(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            Path(directory).chmod(0o755)
            node = NodeFiles.load("scoped-ipv6", Path(directory) / "sys")
            done = subprocess.run(
                [sys.executable, "-c", AS_NOBODY, "show", f"--path.sysfs={node.sysfs}"],
                capture_output=True,
                text=True,
                check=False,
                env=environment(),
                timeout=PATIENCE,
            )
        assert (done.returncode, done.stderr) == (0, "")
        assert f"\n{NQN}\n" in done.stdout

    def test_events_are_not_known(
        self, node: NodeFiles, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert refused(capsys, f"--path.sysfs={node.sysfs}", "--events") == (
            "events are known to a running exporter only, and none is asked: --url names one"
        )


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    node = NodeFiles.load("scoped-ipv6", tmp_path_factory.mktemp("node") / "sys")
    with running(f"--path.sysfs={node.sysfs}", FAST_RESCAN) as exporter:
        node.advance()
        exporter.await_line("path state changed")
        yield exporter.url


class TestWithAnExporter:
    def test_its_history_is_shown(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        text = shown(capsys, f"--url={url}")
        head, *lines = text.splitlines()
        assert re.fullmatch(rf"\S+: exporter \S+ at {re.escape(url)} of /\S+/sys, polled .*", head)
        assert f"I/O stops when it fails; not usable: {SECOND} is connecting" in text
        (row,) = (line for line in lines if line.startswith(f"  {SECOND}  connecting"))
        assert re.search(r"connecting  \d+s ", row)

    def test_its_events_are_shown(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        lines = shown(capsys, f"--url={url}", "--events").splitlines()
        assert lines[0] == f"events of {url}"
        assert re.fullmatch(rf"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{{3}}  {NQN}", lines[1])
        assert re.fullmatch(
            rf"  path state changed: {re.escape(SECOND)} from live to connecting after .*", lines[2]
        )

    def test_machines_get_the_same(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        as_json = json.loads(shown(capsys, f"--url={url}", "-o", "json"))
        as_yaml = yaml.safe_load(shown(capsys, f"--url={url}", "-o", "yaml"))
        for view in (as_json, as_yaml):
            (subsystem,) = view["subsystems"]
            assert subsystem["nqn"] == NQN
            assert subsystem["paths"][1]["history"]["timeline"][-1][1] == "connecting"
            assert view["source"] == "exporter"
        events = json.loads(shown(capsys, f"--url={url}", "-o", "json", "--events=1"))
        assert [event["new"] for event in events["events"]] == ["connecting"]
        events = yaml.safe_load(shown(capsys, f"--url={url}", "-o", "yaml", "--events=1"))
        assert [event["new"] for event in events["events"]] == ["connecting"]

    def test_watching_into_a_pipe_goes_on_until_nobody_reads(self, url: str) -> None:
        with subprocess.Popen(
            [*COMMAND, f"--url={url}", "-ojson", "--watch=100ms"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            for _ in range(3):
                assert json.loads(process.stdout.readline())["source"] == "exporter"
            process.stdout.close()
            assert process.wait(PATIENCE) == 0
            assert process.stderr.read() == b""

    def test_watching_without_a_screen_writes_one_after_the_other(self, url: str) -> None:
        with terminal(f"--url={url}", "--watch=0.1", rows=12, columns=50, TERM="dumb") as screen:
            screen.await_text("tells which\r\n\r\n", times=2)
            screen.process.send_signal(signal.SIGINT)
            assert screen.end() == 0
        assert "\033" not in screen.text

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_watching_on_a_terminal_leaves_it_as_it_was(
        self, url: str, number: signal.Signals
    ) -> None:
        with terminal(f"--url={url}", "--watch=0.1", rows=12, columns=50) as screen:
            screen.await_text("AT-RISK", times=2)
            screen.process.send_signal(number)
            assert screen.end() == 0
        entered, *pictures = screen.text.split("\033[H")
        assert entered == "\033[?1049h\033[?25l\033[?7l"
        assert pictures[-1].endswith("\033[J\033[?7h\033[?25h\033[?1049l")
        first = re.sub(r"\033\[[0-9;]*[mKJ]", "", pictures[0]).split("\r\n")
        assert len(first) == 12
        assert re.fullmatch(r"\(\d+ more lines\)", first[-1])

    def test_colours_are_for_terminals_that_want_them(self, url: str) -> None:
        for changes, coloured in (
            ({}, True),
            ({"NO_COLOR": "1"}, False),
            ({"TERM": "dumb"}, False),
        ):
            with terminal(f"--url={url}", rows=50, columns=100, **changes) as screen:
                assert screen.end() == 0
            assert ("\033[33m" in screen.text) is coloured
            assert ("\033" in screen.text) is coloured


class TestAnExporterThatDoesNotAnswer:
    def test_is_one_line_when_it_was_named(self, capsys: pytest.CaptureFixture[str]) -> None:
        url = f"http://127.0.0.1:{closed_port()}"
        for extra in ((), ("--events",), ("--watch",)):
            assert refused(capsys, f"--url={url}", *extra) == (
                f"no exporter answers at {url}: connection refused"
            )

    @pytest.mark.parametrize(
        ("answer", "told"),
        [
            (
                b"",
                "no exporter answers at URL: remote end closed connection without response",
            ),
            (b"SSH-2.0-x\r\n", "no exporter answers at URL: that is not HTTP (BadStatusLine)"),
            (
                b"HTTP/1.0 404 Not Found\r\n\r\nthere is\x1b[2J nothing\nhere",
                'URL/api/v1/status answers 404 Not Found: "there is\\u001b[2J nothing"',
            ),
            (
                b"HTTP/1.0 503 \x1b[2Jnope\r\n\r\n",
                r"URL/api/v1/status answers 503 \x1b[2Jnope",
            ),
            (
                b"HTTP/1.0 200 OK\r\n\r\n<html>",
                "URL answers something else than a view: JSON is malformed: invalid character "
                "(byte 0)",
            ),
            (
                b'HTTP/1.0 200 OK\r\n\r\n{"format":2}',
                "URL is of a newer version: format 2, expected 1",
            ),
            (
                b'HTTP/1.0 200 OK\r\n\r\n{"format":1}',
                "URL answers something else than a view: Object missing required field `version`",
            ),
            (
                b'HTTP/1.0 200 OK\r\n\r\n{"format":"\xff"}',
                None,
            ),
        ],
    )
    def test_whatever_else_answers_is_one_line(
        self, answer: bytes, told: str | None, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with answering(answer) as url:
            line = refused(capsys, f"--url={url}")
        assert line.isprintable()
        assert told is None or line == told.replace("URL", url)

    def test_is_passed_over_when_it_was_not_named(self, capsys: pytest.CaptureFixture[str]) -> None:
        with answering(b"SSH-2.0-x\r\n") as url:
            port = url.rpartition(":")[2]
            text = shown(capsys, f"--web.listen-address=127.0.0.1:{port}")
        assert text.splitlines()[0].endswith(
            f"(no exporter answers at {url}: that is not HTTP (BadStatusLine))"
        )

    def test_is_waited_for_while_it_is_watched(self, node: NodeFiles) -> None:
        with (
            running(f"--path.sysfs={node.sysfs}") as exporter,
            terminal(f"--url={exporter.url}", "--watch=0.1", rows=30, columns=100) as screen,
        ):
            screen.await_text("UNUSABLE")
            exporter.stop()
            screen.await_text("connection refused; trying again")
            screen.process.send_signal(signal.SIGINT)
            assert screen.end() == 0


@pytest.fixture
def sysfs(tmp_path: Path) -> str:
    return NodeFiles(HOSTILE, tmp_path / "sys").sysfs


class TestNamesThatMeanHarm:
    @pytest.mark.parametrize("output", ["text", "wide", "json", "yaml"])
    def test_reach_no_terminal_as_they_are(
        self, sysfs: str, output: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        text = shown(capsys, f"--path.sysfs={sysfs}", "-o", output)
        assert "[2J" in text
        assert all(line.isprintable() for line in text.splitlines())

    @pytest.mark.parametrize("output", ["json", "yaml"])
    def test_reach_programs_as_they_are(
        self, sysfs: str, output: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        text = shown(capsys, f"--path.sysfs={sysfs}", "-o", output)
        view = json.loads(text) if output == "json" else yaml.safe_load(text)
        assert view["subsystems"][0]["nqn"] == "nqn.2026-01.org.example:\x1b]0;x\x07\x1b[2J"
        assert view["subsystems"][0]["model"] == "\x9b31mred\u202e"


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--watch=soon"], '--watch: "soon": expected seconds, or a duration such as 100ms, '),
        (["--watch=0"], '--watch: "0": expected from 100ms to 1h'),
        (["--watch=nan"], '--watch: "nan": expected from 100ms to 1h'),
        (["--events=0"], '--events: "0": expected a number from 1 to 1000'),
        (["--events=many"], '--events: "many": expected a number from 1 to 1000'),
        (["--events=" + "9" * 5000], '--events: "999'),
        (["--url=ftp://x"], '--url: "ftp://x": expected a URL such as http://127.0.0.1:10067'),
        (["--url=127.0.0.1"], '--url: "127.0.0.1": expected a URL such as http://127.0.0.1:10067'),
        (["--url=http://x:99999"], '--url: "http://x:99999": expected a port from 1 to 65535'),
        (["--url=http://x/?a"], '--url: "http://x/?a": expected a URL without ? and #'),
        (["--url=http://a b"], '--url: "http://a b": expected a URL such as'),
        (["--url=http://x/\nHost: y"], '--url: "http://x/\\nHost: y": expected a URL such as'),
        (["--url=http://[::1"], '--url: "http://[::1": '),
        (["-oxml"], "-o/--output: invalid choice: 'xml'"),
        (["--path.sysfs=/nonexistent"], "--path.sysfs: '/nonexistent' is no directory"),
        (["one"], 'unexpected argument "one"'),
    ],
)
def test_a_flag_that_makes_no_sense_is_one_line(
    flags: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, *flags).startswith(line)


def test_a_pipe_that_is_closed_early_is_no_error(node: NodeFiles) -> None:
    for reader in ("true", "head -1"):
        flags = f"--path.sysfs={node.sysfs} -o wide"
        done = subprocess.run(
            ["bash", "-c", f"{' '.join(COMMAND)} {flags} | {reader}; echo ${{PIPESTATUS[0]}}"],
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
            timeout=PATIENCE,
        )
        assert done.stderr == ""
        assert done.stdout.splitlines()[-1] == "0"


@pytest.mark.parametrize(
    ("redirection", "line"),
    [
        (">/dev/full", "standard output: No space left on device"),
        (">&-", "standard output is closed"),
    ],
)
def test_output_that_cannot_be_written_is_one_line(
    node: NodeFiles, redirection: str, line: str
) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{' '.join(COMMAND)} --path.sysfs={node.sysfs} {redirection}"],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stderr) == (2, f"nvmeof-exporter: error: {line}\n")


def test_a_terminal_that_knows_no_unicode_gets_question_marks(tmp_path: Path) -> None:
    node = NodeFiles.load("odd-texts", tmp_path / "sys")
    done = subprocess.run(
        [*COMMAND, f"--path.sysfs={node.sysfs}"],
        capture_output=True,
        check=False,
        env=environment(PYTHONIOENCODING="ascii"),
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b'Caf? "X"' in done.stdout


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A server that gives one answer to everybody, whatever the question."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    client.recv(65536)
                    client.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


class Screen:
    """A terminal with ``show`` on it, and all that was ever written there."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self.text = ""
        self._master = master

    def await_text(self, text: str, times: int = 1) -> None:
        """Read on until a text came so often."""
        end = time.monotonic() + PATIENCE
        while self.text.count(text) < times:
            assert self._read(), f"ended without {text!r}: {self.text[-500:]!r}"
            assert time.monotonic() < end, f"never came: {text!r} in {self.text[-500:]!r}"

    def end(self) -> int:
        """Read to the end; returns the exit status."""
        while self._read():
            pass
        return self.process.wait(PATIENCE)

    def _read(self) -> bool:
        assert readable([self._master], PATIENCE), f"nothing more came: {self.text[-500:]!r}"
        try:
            data = os.read(self._master, 65536)
        except OSError:  # EIO: the last program on it has ended
            return False
        self.text += data.decode()
        return bool(data)


@contextmanager
def terminal(*flags: str, rows: int, columns: int, **changes: str) -> Iterator[Screen]:
    """Run ``show`` on a terminal of that size."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    variables = {k: v for k, v in environment(**changes).items() if k not in {"COLUMNS", "LINES"}}
    with subprocess.Popen(
        [*COMMAND, *flags],
        stdout=slave,
        stderr=slave,
        stdin=slave,
        env=variables,
        start_new_session=True,
    ) as process:
        os.close(slave)
        try:
            yield Screen(process, master)
        finally:
            process.kill()
            os.close(master)
