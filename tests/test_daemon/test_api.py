"""The API of a running exporter, and the log lines that tell of the same."""

from __future__ import annotations

import json
import os
import shlex
from typing import TYPE_CHECKING

from tests.fixtures.node_files import NodeFiles
from tests.test_daemon.running import running

if TYPE_CHECKING:
    from pathlib import Path

FAST_RESCAN = "--poll.rescan-interval=100ms"


def test_a_log_line_holds_what_the_event_holds(tmp_path: Path) -> None:
    node = NodeFiles.load("scoped-ipv6", tmp_path / "sys")
    with running(f"--path.sysfs={node.sysfs}", FAST_RESCAN) as exporter:
        node.advance()
        exporter.await_line("path state changed")
        line = dict(word.split("=", 1) for word in shlex.split(exporter.line("path state changed")))
        (event,) = json.loads(exporter.get("/api/v1/events"))["events"]
    assert line.pop("ts")
    assert line.pop("level") == ("warning" if event["severe"] else "info")
    assert line.pop("msg") == event["kind"]
    assert line == {name: str(event[name]) for name in line}
    assert event.keys() - line.keys() == {"time", "kind", "severe"}


def test_the_status_names_the_node_the_tree_and_the_run(tmp_path: Path) -> None:
    node = NodeFiles.load("four-gateways", tmp_path / "sys")
    runs = set()
    for _ in range(2):
        with running(f"--path.sysfs={node.sysfs}") as exporter:
            status = json.loads(exporter.get("/api/v1/status"))
            events = json.loads(exporter.get("/api/v1/events"))
        assert (status["node"], status["sysfs"]) == (os.uname().nodename, node.sysfs)
        assert status["health"]["healthy"]
        assert status["instance"] == events["instance"]
        runs.add(status["instance"])
    assert len(runs) == 2
