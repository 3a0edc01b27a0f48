from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from tests.test_daemon.running import run_to_the_end

if TYPE_CHECKING:
    from pathlib import Path


def refused(*flags: str) -> str:
    """The one line that a run ends with."""
    ended = run_to_the_end(*flags)
    assert (ended.returncode, ended.stdout) == (2, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith("nvmeof-exporter: error: ")
    return line


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--poll.intervall=1s"], "--poll.interval"),
        (["--web.listen-address=nonsense"], "--web.listen-address"),
        (["--web.listen-address=127.0.0.1:70000"], "--web.listen-address"),
        (["--web.listen-address=203.0.113.9:0"], "203.0.113.9"),
        (["--path.sysfs=/dev/null"], "--path.sysfs"),
        (["--path.sysfs=/no/such/place"], "--path.sysfs"),
        (["--config.file=/no/such/file"], "/no/such/file"),
        (["--config.file=/"], "/"),
        (["--collector.rdma.device-include=mlx5["], "--collector.rdma.device-include"),
        (["--collector.rdma.device-exclude=("], "--collector.rdma.device-exclude"),
        (["--collector.links=some"], "--collector.links"),
        (["servee"], "serve"),
    ],
)
def test_one_line_says_what_is_wrong(flags: list[str], said: str, tmp_path: Path) -> None:
    if not any("sysfs" in flag for flag in flags):
        flags = [*flags, f"--path.sysfs={tmp_path}"]
    assert said in refused(*flags)


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused(f"--path.sysfs={tmp_path}", f"--web.listen-address=127.0.0.1:{port}")
    assert f"127.0.0.1:{port}" in line
    assert "in use" in line


def test_an_unknown_key_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("log:\n  level: info\n  colour: red\n")
    assert f"{file}:3" in refused(f"--config.file={file}", f"--path.sysfs={tmp_path}")
