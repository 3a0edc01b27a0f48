"""``show`` beside the demonstration: a silent path, seen from two processes in real time."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.test_daemon.running import eventually, run_to_the_end
from tests.test_demo.test_command import demo, free_port

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.thorough

LOST = "tcp:10.0.0.2:4420%h0"
SCRIPT = f"""
length: 120
node: {{keep_alive_tmo: 6, reconnect_delay: 1}}
steps:
  - {{at: 1, say: silence, do: black-hole, to: ["{LOST}"]}}
  - {{at: 10, say: well again, do: heal, to: ["{LOST}"]}}
"""


def test_a_silent_path_from_the_first_second_to_the_last(tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT)
    port = free_port()
    url = f"--url=http://127.0.0.1:{port}"
    seen = ""

    def shows(pattern: str) -> bool:
        nonlocal seen
        seen = run_to_the_end("show", url).stdout
        return re.search(pattern, seen, re.MULTILINE) is not None

    flags = (f"--web.listen-address=127.0.0.1:{port}", f"--demo.script={script}")
    with demo(*flags, temporary=tmp_path):
        eventually(lambda: shows(r"^  I/O of namespace 1(, 2)? stands still, for "), seen)
        row = rf"^  {re.escape(LOST)}  live .*  stalled \d"
        assert re.search(row, seen, re.MULTILINE), seen
        eventually(lambda: shows(rf"^  last failover \S+ ago off {LOST} \(keep_alive\): "), seen)
        eventually(lambda: shows(r"^    detection .*, failback "), seen)
        events = json.loads(run_to_the_end("show", url, "--events", "-ojson").stdout)["events"]
    (failover,) = [event for event in events if event["kind"] == "failover"]
    assert (failover["path"], failover["cause"]) == (LOST, "keep_alive")
    assert failover["seconds"] > 5
    assert {event["kind"] for event in events} == {
        "path state changed",
        "I/O paused",
        "failover",
        "failback",
    }
