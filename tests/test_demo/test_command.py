"""``nvmeof-exporter demo``, run as a person runs it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.demo.scripts import SCRIPTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.thorough

DEADLINE = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def demo(*flags: str, temporary: Path) -> Iterator[subprocess.Popen[str]]:
    """A demonstration that is over at the end, whatever happens."""
    with subprocess.Popen(
        [sys.executable, "-m", "nvmeof_exporter", "demo", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def metrics(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        content: bytes = answer.read()
        return content.decode()


def await_line(port: int, start: str) -> str:
    """Scrape until a sample starts so; the exporter may not listen yet."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        try:
            for line in metrics(port).splitlines():
                if line.startswith(start):
                    return line
        except OSError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"no sample {start} within {DEADLINE} s")


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_it_shows_a_failover_and_leaves_nothing_behind(
    tmp_path: Path, ending: signal.Signals
) -> None:
    port = free_port()
    script = tmp_path / "script.yaml"
    script.write_text(
        "length: 60\n"
        "steps: [{at: 1, say: the port goes, do: port-removed, to: ['tcp:10.0.0.2:4420%h0']}]\n"
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    nqn = "nqn.2026-01.org.example:array1"
    path = "tcp:10.0.0.2:4420%h0"
    sample = f'nvmeof_path_state{{nqn="{nqn}",path="{path}",state="connecting"}} 1'
    flags = (f"--web.listen-address=127.0.0.1:{port}", f"--demo.script={script}")
    with demo(*flags, temporary=temporary) as process:
        await_line(port, sample)
        process.send_signal(ending)
        output, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, errors
    assert f"http://127.0.0.1:{port}/metrics" in output
    assert "Stop with Ctrl-C" in output
    assert "00:01  the port goes" in output
    assert list(temporary.iterdir()) == []


def test_a_lost_link_is_heard_and_not_only_read(tmp_path: Path) -> None:
    port = free_port()
    script = tmp_path / "script.yaml"
    script.write_text("length: 60\nsteps: [{at: 1, say: x, do: link-down, to: [h0]}]\n")
    path = 'nqn="nqn.2026-01.org.example:array1",path="tcp:10.0.0.2:4420%h0"'
    flags = (f"--web.listen-address=127.0.0.1:{port}", f"--demo.script={script}")
    with demo(*flags, "--poll.slow-interval=10m", temporary=tmp_path):
        await_line(port, f"nvmeof_path_link_up{{{path}}} 0")
        await_line(port, 'nvmeof_failovers_total{cause="link_down"')


def test_nodes_of_different_names_are_different_hosts(tmp_path: Path) -> None:
    hosts = []
    for name in ("gpu1", "gpu2"):
        port = free_port()
        flags = (f"--web.listen-address=127.0.0.1:{port}", f"--demo.node={name}")
        with demo(*flags, "--demo.script=calm", temporary=tmp_path):
            hosts.append(await_line(port, "nvmeof_host_info{"))
    assert len(set(hosts)) == 2


def test_the_help_tells_what_each_script_does(tmp_path: Path) -> None:
    with demo("--help", temporary=tmp_path) as process:
        output, _ = process.communicate(timeout=DEADLINE)
    told = " ".join(output.split())
    for name, script in SCRIPTS.items():
        assert f"{name}: {script.about}" in told


@pytest.mark.parametrize(
    ("flag", "reason"),
    [
        ("--demo.speed=fast", "--demo.speed: 'fast': expected a number above 0, at most 100"),
        ("--demo.speed=0", "--demo.speed: '0': expected a number above 0, at most 100"),
        ("--demo.kernel=2.6", "--demo.kernel: '2.6': expected one of 6.1, 6.6, 6.12, 7.3"),
        (
            "--demo.script=no",
            f"--demo.script: no: neither a file nor one of {', '.join(SCRIPTS)}",
        ),
        ("--demo.keep=/proc/demo", "--demo.keep: No such file or directory"),
    ],
)
def test_a_flag_that_makes_no_sense_is_one_line_and_status_2(
    tmp_path: Path, flag: str, reason: str
) -> None:
    with demo(flag, temporary=tmp_path) as process:
        output, errors = process.communicate(timeout=DEADLINE)
    assert (process.returncode, output) == (2, "")
    assert errors == f"nvmeof-exporter: error: {reason}\n"
    assert list(tmp_path.iterdir()) == []


def test_a_step_that_cannot_be_taken_ends_it_with_a_reason(tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text("length: 5\nsteps: [{at: 0, say: x, do: link-down, to: [eth9]}]\n")
    flags = (f"--web.listen-address=127.0.0.1:{free_port()}", f"--demo.script={script}")
    with demo(*flags, temporary=tmp_path) as process:
        _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 1
    assert "nvmeof-exporter: error: link-down: the node has no 'eth9'" in errors
