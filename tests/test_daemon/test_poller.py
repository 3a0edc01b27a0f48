from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from nvmeof_exporter import poller
from nvmeof_exporter.model import Event, EventKind
from tests.fixtures.node_files import NodeFiles
from tests.test_daemon.looping import SLOW, Loop, looping
from tests.test_daemon.running import eventually

if TYPE_CHECKING:
    from pathlib import Path

POLLS = "nvmeof_exporter_poll_duration_seconds_count"
EVENTS = 'nvmeof_exporter_events_total{source="udev"}'
SUCCESS = 'nvmeof_exporter_collector_success{collector="udev"}'
PATHS = 'nvmeof_subsystem_paths{nqn="nqn.2026-01.org.example:gateways"}'


@pytest.fixture
def node(tmp_path: Path) -> NodeFiles:
    return NodeFiles.load("four-gateways", tmp_path / "sys")


def test_a_source_that_fails_is_dropped_and_polling_goes_on(node: NodeFiles) -> None:
    with looping(node) as loop:
        assert loop.value(SUCCESS) == 1
        loop.events.fail()
        eventually(lambda: loop.value(SUCCESS) == 0, "dropped")
        assert loop.events.closed
        polls = loop.value(POLLS) or 0
        eventually(lambda: (loop.value(POLLS) or 0) > polls + 2, "polling")
        assert loop.poller.health() is None
        assert loop.value('nvmeof_exporter_collector_success{collector="nvme"}') == 1


def test_a_source_that_failed_is_opened_again_and_what_was_missed_looked_for(
    node: NodeFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poller, "_REOPEN_SECONDS", 0.05)
    with looping(node, "--poll.rescan-interval=100ms") as loop, capture_logs() as lines:
        loop.events.fail()
        eventually(lambda: loop.events.attempts >= 2, "tried again")
        assert loop.value(SUCCESS) == 0
        loop.events.failing = False
        eventually(lambda: loop.value(SUCCESS) == 1, "works again")
        heard = loop.value(EVENTS) or 0
        loop.events.announce(EventKind.ERROR_RECOVERY)
        eventually(lambda: loop.value(EVENTS) == heard + 1, "heard")
    assert [line["event"] for line in lines if line.get("collector") == "udev"] == [
        "event source failed",
        "event source works again",
    ]


@pytest.mark.parametrize("defect", [ZeroDivisionError(), OSError(9, "Bad file descriptor")])
def test_a_source_with_a_defect_ends_no_poll(node: NodeFiles, defect: Exception) -> None:
    def fail() -> list[Event]:
        raise defect

    with looping(node) as loop:
        loop.events.read = fail  # type: ignore[method-assign]
        loop.events.announce(EventKind.RECONNECTED)
        eventually(lambda: loop.value(SUCCESS) == 0, "dropped")
        polls = loop.value(POLLS) or 0
        eventually(lambda: (loop.value(POLLS) or 0) > polls + 2, "polling")


def test_a_source_whose_descriptor_was_lost_ends_no_poll(node: NodeFiles) -> None:
    with looping(node, "--poll.rescan-interval=100ms") as loop:
        loop.events._here.close()
        eventually(lambda: loop.value(SUCCESS) == 0, "dropped")
        polls = loop.value(POLLS) or 0
        eventually(lambda: (loop.value(POLLS) or 0) > polls + 2, "polling")


def test_a_source_that_is_behind_is_read_again_at_rescans_until_it_works(node: NodeFiles) -> None:
    with looping(node, "--poll.rescan-interval=1s") as loop, capture_logs() as lines:
        loop.events.behind = True
        eventually(lambda: loop.value(SUCCESS) == 0, "read though nothing arrived")
        loop.events.behind = False
        eventually(lambda: loop.value(SUCCESS) == 1, "read again")
        assert not loop.events.closed
    told = [
        (line["event"], line.get("reason")) for line in lines if line.get("collector") == "udev"
    ]
    assert told == [
        ("event source is behind, tried again", "messages were lost"),
        ("event source works again", None),
    ]


def test_an_event_wakes_the_poller_and_is_counted(node: NodeFiles) -> None:
    with looping(node, *SLOW) as loop:
        assert loop.value(POLLS) == 1
        loop.events.announce(EventKind.ERROR_RECOVERY, EventKind.RECONNECTED)
        eventually(lambda: loop.value(EVENTS) == 2, "counted")
        eventually(lambda: (loop.value(POLLS) or 0) >= 2, "polled")


def test_an_event_of_the_topology_is_followed_at_once(node: NodeFiles) -> None:
    with looping(node, "--poll.rescan-interval=1h") as loop:
        assert loop.value(PATHS) == 4
        node.apply("remove nvme1")
        loop.events.announce(EventKind.CONTROLLER_REMOVED)
        eventually(lambda: loop.value(PATHS) == 3, "followed")


def test_a_lost_event_is_made_up_for_by_the_next_rescan(node: NodeFiles) -> None:
    with looping(node, "--poll.rescan-interval=100ms") as loop:
        node.apply("remove nvme1")
        eventually(lambda: loop.value(PATHS) == 3, "followed")


def test_a_reconnect_brings_the_settings_along(node: NodeFiles) -> None:
    with looping(node, *SLOW) as loop:
        node.apply("set nvme4 kato=77")
        loop.events.announce(EventKind.RECONNECTED)
        label = '{nqn="nqn.2026-01.org.example:gateways",path="tcp:10.0.210.204:4420"}'
        series = f"nvmeof_path_keep_alive_timeout_seconds{label}"
        eventually(lambda: loop.value(series) == 77, "read again")


def test_an_incident_makes_polls_dense_for_a_while(node: NodeFiles) -> None:
    interval = "nvmeof_exporter_poll_interval_seconds"
    with looping(node, "--poll.interval=200ms") as loop:
        assert loop.value(interval) == pytest.approx(0.2)
        node.apply("set nvme1 state=connecting")
        eventually(lambda: loop.value(interval) == pytest.approx(0.02), "dense")
        eventually(lambda: loop.value(interval) == pytest.approx(0.2), "calm")


def test_polling_that_has_stopped_is_told(node: NodeFiles) -> None:
    loop = Loop(node)
    loop.end()
    assert loop.poller.health() is None
    assert loop.poller._last_poll is not None
    loop.poller._last_poll -= 6.0
    reason = loop.poller.health()
    assert reason is not None
    assert "stopped" in reason
