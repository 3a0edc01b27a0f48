"""What happened lately: numbered, bounded, and told from where one left off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter.exposition.published import Published, PublishedState
from nvmeof_exporter.monitor.chronicle import Chronicle
from nvmeof_exporter.monitor.monitor import Monitor
from nvmeof_exporter.monitor.records import Occurrence
from nvmeof_exporter.view.events import events_view
from tests.fixtures.viewing import ARRAY, LOST, SilentPath, served_node, view_of

if TYPE_CHECKING:
    from pathlib import Path

    from nvmeof_exporter.view.events import EventsView

WALL = 1_767_225_600.0


@pytest.fixture(scope="module")
def failed_over(tmp_path_factory: pytest.TempPathFactory) -> Published:
    return SilentPath(tmp_path_factory.mktemp("node")).run_until(25).published


def plain(view: EventsView) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(event) for event in view.events]


def test_a_failover_is_told_with_its_phases_and_cause(failed_over: Published) -> None:
    about = pytest.approx
    assert plain(events_view(failed_over, None, 100)) == [
        {
            "id": 1,
            "time": WALL + 10.1,
            "kind": "path state changed",
            "severe": True,
            "nqn": ARRAY,
            "path": LOST,
            "controller": "nvme0",
            "old": "live",
            "new": "connecting",
            "old_seconds": 10.1,
        },
        *(
            {
                "id": number,
                "time": WALL + 10.1,
                "kind": "I/O paused",
                "severe": True,
                "nqn": ARRAY,
                "nsid": nsid,
                "outcome": "resumed",
                "seconds": about(7.0, abs=0.05),
                "start": about(WALL + 3.05, abs=0.05),
                "end": about(WALL + 10.05, abs=0.05),
            }
            for number, nsid in ((2, "1"), (3, "2"))
        ),
        {
            "id": 4,
            "time": WALL + 10.5,
            "kind": "failover",
            "severe": True,
            "nqn": ARRAY,
            "path": LOST,
            "cause": "unknown",
            "seconds": about(7.0, abs=0.05),
            "phases": {
                "detection": about(7.0, abs=0.05),
                "reroute": about(0.0, abs=0.05),
            },
            "start": about(WALL + 3.05, abs=0.05),
            "end": about(WALL + 10.05, abs=0.05),
        },
        {
            "id": 5,
            "time": WALL + 17.2,
            "kind": "path state changed",
            "severe": False,
            "nqn": ARRAY,
            "path": LOST,
            "controller": "nvme0",
            "old": "connecting",
            "new": "live",
            "old_seconds": 7.1,
        },
        {
            "id": 6,
            "time": WALL + 17.2,
            "kind": "failback",
            "severe": False,
            "nqn": ARRAY,
            "path": LOST,
            "phases": {
                "reconnect": about(7.1, abs=0.05),
                "failback": about(0.0, abs=0.05),
            },
        },
    ]


def test_the_newest_are_told_to_who_has_seen_none(failed_over: Published) -> None:
    view = events_view(failed_over, None, 2)
    assert [event.id for event in view.events] == [5, 6]
    assert (view.newest, view.forgotten, view.more) == (6, 0, True)


def test_the_next_are_told_to_who_has_seen_some(failed_over: Published) -> None:
    first = events_view(failed_over, 2, 3)
    assert [event.id for event in first.events] == [3, 4, 5]
    assert first.more
    rest = events_view(failed_over, 5, 3)
    assert [event.id for event in rest.events] == [6]
    assert not rest.more


def test_nothing_is_told_to_who_has_seen_all(failed_over: Published) -> None:
    view = events_view(failed_over, 6, 100)
    assert (view.events, view.forgotten, view.more) == ((), 0, False)


def test_of_a_number_that_is_not_reached_nothing_is_forgotten(failed_over: Published) -> None:
    view = events_view(failed_over, 1000, 100)
    assert (view.events, view.newest, view.forgotten) == ((), 6, 0)


def test_every_run_has_a_name_of_its_own() -> None:
    views = [events_view(Published(PublishedState(Monitor(), 0.1)), None, 1) for _ in range(2)]
    assert views[0].instance != views[1].instance


def occurrence(number: int, kind: str) -> Occurrence:
    return Occurrence(WALL + number, kind, "nqn.x", {"path": "tcp:192.0.2.1"}, number=number)


def test_thousands_of_changes_push_no_failover_out() -> None:
    chronicle = Chronicle()
    chronicle.extend([occurrence(1, "failover")])
    chronicle.extend(occurrence(n, "ANA state changed") for n in range(2, 5000))
    assert [one.number for one in chronicle] == [1, *range(4500, 5000)]
    assert (len(chronicle), chronicle.newest) == (501, 4999)


@given(
    kinds=st.lists(st.sampled_from(["failover", "path state changed"]), max_size=1200),
    since=st.none() | st.integers(0, 1300),
    limit=st.integers(1, 1000),
)
def test_whatever_happened_the_answer_adds_up(
    kinds: list[str], since: int | None, limit: int
) -> None:
    state = PublishedState(Monitor(), 0.1)
    state.monitor.occurrences.extend(occurrence(n, kind) for n, kind in enumerate(kinds, 1))
    view = events_view(Published(state), since, limit)
    told = [event.id for event in view.events]
    assert told == sorted(set(told))
    assert len(told) <= limit
    assert all((since or 0) < number <= len(kinds) == view.newest for number in told)
    asked_for = max(len(kinds) - (since or 0), 0)
    assert 0 <= view.forgotten <= max(asked_for - min(asked_for, 500), 0)
    assert view.more or len(told) + view.forgotten == asked_for


def test_a_reconnect_that_nobody_saw_is_told_when_it_is_found(tmp_path: Path) -> None:
    served, node = served_node("unseen-reconnect", tmp_path)
    node.advance()
    served.source.refresh_settings()
    served.poll(60)
    (event,) = events_view(served.published, None, 100).events
    assert (event.kind, event.path) == ("path reconnected unseen", "tcp:198.51.100.10:4420")
    (path, other) = view_of(served).subsystems[0].paths
    assert (path.state, path.since, other.since) == ("live", WALL + 60, None)
