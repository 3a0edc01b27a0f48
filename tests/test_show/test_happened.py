"""Events as people read them, whole."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.exposition.published import Published, PublishedState
from nvmeof_exporter.monitor.monitor import Monitor
from nvmeof_exporter.monitor.records import Occurrence
from nvmeof_exporter.show.happened import events_text
from nvmeof_exporter.show.node import Layout
from nvmeof_exporter.show.table import Paint
from nvmeof_exporter.view.events import events_view
from tests.fixtures.viewing import SilentPath

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PLAIN = Layout(Paint(colours=False))


@pytest.fixture(autouse=True)
def _time_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "CET-1")
        time.tzset()
        yield
    time.tzset()


def test_a_failover_from_beginning_to_end(tmp_path: Path) -> None:
    published = SilentPath(tmp_path).run_until(25).published
    view = events_view(published, None, 100)
    assert (
        events_text(view, "http://127.0.0.1:10067", PLAIN)
        == """\
events of http://127.0.0.1:10067
2026-01-01 01:00:10.100  nqn.2026-01.org.example:array1
  path state changed: tcp:10.0.0.2:4420%h0 from live to connecting after 10.10 s
2026-01-01 01:00:10.100  nqn.2026-01.org.example:array1
  I/O paused: namespace 1, 7.02 s, resumed
2026-01-01 01:00:10.100  nqn.2026-01.org.example:array1
  I/O paused: namespace 2, 7.00 s, resumed
2026-01-01 01:00:10.500  nqn.2026-01.org.example:array1
  failover: tcp:10.0.0.2:4420%h0, 7.02 s (detection 7.02 s, reroute 0 ms), cause unknown
2026-01-01 01:00:17.200  nqn.2026-01.org.example:array1
  path state changed: tcp:10.0.0.2:4420%h0 from connecting to live after 7.10 s
2026-01-01 01:00:17.200  nqn.2026-01.org.example:array1
  failback: tcp:10.0.0.2:4420%h0 (reconnect 7.10 s, failback 0 ms)
"""
    )


def told(*occurrences: Occurrence, layout: Layout = PLAIN) -> list[str]:
    state = PublishedState(Monitor(), 0.1)
    state.monitor.occurrences.extend(occurrences)
    return events_text(events_view(Published(state), None, 100), "X", layout).splitlines()[1:]


def test_nothing_is_said_too() -> None:
    assert told() == ["nothing has happened since it was started"]


def test_several_paths_and_namespaces_are_named() -> None:
    both = Occurrence(
        1_767_225_600.9996,
        "failover",
        "nqn.x",
        {"path": "a", "also": "b c", "cause": "link_down"},
        severe=True,
        number=1,
    )
    ana = Occurrence(
        1_767_225_601.0,
        "ANA state changed",
        "nqn.x",
        {"nsid": "3", "path": "a", "controller": "nvme0", "old": "optimized", "new": "change"},
        number=2,
    )
    assert told(both, ana) == [
        "2026-01-01 01:00:01.000  nqn.x",
        "  failover: a, b, c, cause link_down",
        "2026-01-01 01:00:01.000  nqn.x",
        "  ANA state changed: namespace 3 on a from optimized to change",
    ]


def test_names_that_mean_harm_do_none_and_lines_fit() -> None:
    hostile = Occurrence(
        1_767_225_600.0,
        "failover",
        "nqn.\033[2J",
        {"path": "\x9bm " * 30, "cause": "ana"},
        number=1,
    )
    lines = told(hostile, layout=PLAIN._replace(columns=60))
    assert lines[0] == r"2026-01-01 01:00:00.000  nqn.\x1b[2J"
    assert all(line.isprintable() and len(line) <= 60 for line in lines)
