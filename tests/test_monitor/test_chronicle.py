"""What the monitor keeps for whoever asks later: numbers, times, the last hour of each path."""

from __future__ import annotations

from nvmeof_exporter.model import Controller, PathId
from nvmeof_exporter.monitor.failover import Failback, Failover
from nvmeof_exporter.monitor.look import Journal, Look
from nvmeof_exporter.monitor.records import SubsystemRecord
from nvmeof_exporter.monitor.transitions import PathHistory

A, B = PathId("tcp", "192.0.2.1"), PathId("tcp", "192.0.2.2")
WALL = 1_700_000_000.0


def look(now: float, wall: float) -> Look:
    return Look("nqn.x", now - 0.1, now, wall, {}, {})


def controller(state: str) -> Controller:
    return Controller("nvme0", "nqn.x", A, state, state)


def test_what_happened_is_numbered_in_order() -> None:
    journal = Journal()
    for now in (1.0, 2.0):
        journal.tell(look(now, WALL + now), "failover", path="a")
        journal.tell(look(now, WALL + now), "failback", path="a")
    assert [(one.number, one.kind) for one in journal.take()] == [
        (1, "failover"),
        (2, "failback"),
        (3, "failover"),
        (4, "failback"),
    ]


def test_what_lasted_has_a_beginning_and_an_end_by_the_clock_of_now() -> None:
    journal = Journal()
    journal.tell(look(100.0, WALL), "I/O paused", span=(92.5, 99.5), nsid="1")
    (told,) = journal.take()
    assert (told.start, told.end) == (WALL - 7.5, WALL - 0.5)


class TestTheTimeLineOfAPath:
    def test_begins_when_it_was_first_seen(self) -> None:
        history = PathHistory(controller("live"), 10.0)
        history.observe(controller("live"), 10.1, WALL)
        assert (history.watched, list(history.timeline)) == (10.0, [(10.0, "live")])

    def test_holds_every_change_of_the_last_hour(self) -> None:
        history = PathHistory(controller("live"), 0.0)
        for now, state in ((10.0, "connecting"), (20.0, "live"), (1000.0, None), (3500.0, "live")):
            history.observe(controller(state) if state else None, now, WALL + now)
        assert list(history.timeline) == [
            (0.0, "live"),
            (10.0, "connecting"),
            (20.0, "live"),
            (1000.0, "missing"),
            (3500.0, "live"),
        ]

    def test_keeps_of_what_is_older_only_how_the_hour_began(self) -> None:
        history = PathHistory(controller("live"), 0.0)
        for now, state in ((10.0, "connecting"), (20.0, "live"), (4000.0, "resetting")):
            history.observe(controller(state), now, WALL + now)
        assert list(history.timeline) == [(20.0, "live"), (4000.0, "resetting")]

    def test_is_bounded_however_a_path_flaps(self) -> None:
        history = PathHistory(controller("live"), 0.0)
        for step in range(5000):
            history.observe(controller(("connecting", "live")[step % 2]), step * 0.1, WALL)
        assert len(history.timeline) == 360
        assert history.timeline[-1] == (499.90000000000003, "live")


class TestTheNewestFailovers:
    def test_are_kept_with_all_that_is_known(self) -> None:
        record = SubsystemRecord()
        failover = Failover(A, lost_at=95.0, start=90.0, end=96.5)
        record.count_failover({"a": "ana", "b": "ana"}, failover, wall=WALL, now=100.0)
        (told,) = record.newest
        assert (told.wall, told.path, told.also, told.cause) == (WALL, "a", ("b",), "ana")
        assert (told.start, told.duration) == (WALL - 10.0, 6.5)
        assert (told.detection, told.reroute) == (5.0, 1.5)
        assert (told.reconnect, told.failback) == (None, None)

    def test_learn_of_the_return(self) -> None:
        record = SubsystemRecord()
        for path in ("a", "b"):
            record.count_failover({path: "ana"}, Failover(A, 95.0, 90.0, 96.5), wall=WALL, now=100)
        record.count_failback("a", Failback(A, reconnect=3.0, failback=0.5))
        assert [(one.path, one.reconnect, one.failback) for one in record.newest] == [
            ("a", 3.0, 0.5),
            ("b", None, None),
        ]

    def test_have_no_duration_where_no_io_took_part(self) -> None:
        record = SubsystemRecord()
        record.count_failover({"a": "removed"}, Failover(A, lost_at=95.0), wall=WALL, now=100.0)
        record.count_failback("a", Failback(A))
        (told,) = record.newest
        assert (told.start, told.duration, told.reconnect) == (None, None, None)

    def test_are_the_last_ten(self) -> None:
        record = SubsystemRecord()
        for number in range(30):
            record.count_failover({"a": "ana"}, Failover(B, 95.0), wall=WALL + number, now=100.0)
        assert [one.wall - WALL for one in record.newest] == list(range(20, 30))
