"""Pauses of a namespace: I/O that is wanted and does not move."""

from __future__ import annotations

import pytest

from nvmeof_exporter.model import EventKind, IoCounters
from nvmeof_exporter.monitor.monitor import Monitor
from tests.test_monitor.drawing import History

NEAR = 0.05


def seconds(history: History) -> list[float]:
    return [float(fields["seconds"]) for fields in history.told("I/O paused")]


class TestAPause:
    def test_lasts_from_the_last_true_completion_to_the_next(self) -> None:
        history = History()
        history.flow(2.03, 0)
        history.wait(3)
        history.flow(1, 0)
        assert seconds(history) == [pytest.approx(3.01, abs=NEAR)]

    def test_begins_when_io_is_first_wanted_after_idleness(self) -> None:
        history = History()
        history.flow(1, 0)
        history.drain()
        history.wait(20)
        history.issue(0)
        history.wait(2)
        history.flow(1, 0)
        assert seconds(history) == [pytest.approx(2.01, abs=NEAR)]

    def test_shorter_than_the_threshold_is_not_told(self) -> None:
        history = History()
        history.flow(1, 0)
        history.wait(0.4)
        history.flow(1, 0)
        assert seconds(history) == []
        assert history.record.pauses.count == 0

    def test_is_shown_while_it_lasts_and_not_after(self) -> None:
        history = History()
        history.flow(1, 0)
        history.wait(2)
        assert history.namespace().stalled == pytest.approx(2, abs=0.15)
        history.flow(1, 0)
        assert history.namespace().stalled == 0

    def test_is_no_pause_when_nobody_wants_anything(self) -> None:
        history = History()
        history.flow(1, 0)
        history.drain()
        history.wait(3600 * 0.01)
        assert history.namespace().stalled == 0
        history.flow(1, 0)
        assert seconds(history) == []

    def test_is_no_pause_when_an_application_ends_and_the_disk_is_disconnected(self) -> None:
        history = History()
        history.flow(2.03, 0, 1)
        history.drain()
        history.wait(0.1)
        for path in (0, 1):
            history.state(path, "deleting (no IO)")
        history.wait(0.6)
        for path in (0, 1):
            history.leave(path)
        history.wait(2)
        assert seconds(history) == []

    @pytest.mark.parametrize("diag", [False, True])
    def test_is_not_ended_by_the_completion_of_cancelled_requests(self, diag: bool) -> None:
        history = History(paths=1, diag=diag)
        history.flow(1.02, 0)
        history.wait(4)
        history.lose(0)
        history.wait(5)
        assert seconds(history) == []
        assert history.namespace().stalled == pytest.approx(9, abs=0.2)

    @pytest.mark.parametrize("diag", [False, True])
    def test_goes_on_while_requests_are_parked_and_in_flight_nowhere(self, diag: bool) -> None:
        history = History(paths=1, diag=diag)
        history.flow(1.02, 0)
        history.wait(4)
        history.lose(0)
        history.wait(20)
        history.state(0, "live")
        history.flow(1, 0)
        assert seconds(history) == [pytest.approx(24.02, abs=NEAR)]

    def test_is_dated_by_the_cancelled_requests_when_the_polls_were_lost(self) -> None:
        history = History(paths=1, interval=2.0)
        history.flow(4.5, 0)  # the newest look was half a second ago
        history.wait(6)
        history.lose(0)
        history.wait(4.4)
        history.state(0, "live")
        history.flow(3, 0)
        assert seconds(history) == [pytest.approx(10.4, abs=0.1)]


class TestEveryPathInaccessible:
    """All ANA groups: one request each is *completed* at the change, nothing is in flight."""

    def history(self, *, diag: bool) -> History:
        history = History(ana=True, diag=diag)
        history.flow(2.03, 0)
        for port in history.ports:
            port.ana["1"] = "inaccessible"
        history.cancel(0)
        return history

    @pytest.mark.parametrize("diag", [False, True])
    def test_is_a_pause_until_one_is_usable_again(self, diag: bool) -> None:
        history = self.history(diag=diag)
        history.wait(5)
        history.ports[1].ana["1"] = "optimized"
        history.flow(1, 1)
        assert seconds(history) == [pytest.approx(5.01, abs=NEAR)]

    def test_is_confirmed_by_the_kernel_log(self) -> None:
        history = History(ana=True)
        history.flow(1, 0)
        history.drain()
        history.wait(2)
        for port in history.ports:
            port.ana["1"] = "inaccessible"
        history.wait(30)
        assert history.namespace().stalled == 0
        history.say(EventKind.REQUEUED, "nvme0n1")
        history.wait(3)
        assert history.namespace().stalled == pytest.approx(3, abs=0.15)

    def test_is_confirmed_by_the_kernels_own_count(self) -> None:
        history = History(ana=True, diag=True)
        history.requeued = 7
        history.flow(1, 0)
        history.drain()
        history.wait(2)
        for port in history.ports:
            port.ana["1"] = "inaccessible"
        history.wait(30)
        history.requeued = 8
        history.wait(3)
        assert history.namespace().stalled == pytest.approx(3, abs=0.15)


class TestTheEnd:
    def parked(self) -> History:
        history = History(paths=1)
        history.flow(1.02, 0)
        history.lose(0)
        history.wait(6)
        return history

    def test_by_failure_is_counted_as_such(self) -> None:
        history = self.parked()
        history.say(EventKind.FAILED, "nvme0n1")
        history.wait(1)
        (told,) = history.told("I/O paused")
        assert told["outcome"] == "failed"
        assert told["seconds"] == pytest.approx(6, abs=0.15)

    def test_by_the_kernels_count_of_failed_io_is_counted_as_such(self) -> None:
        history = History(paths=1, diag=True)
        history.failed = 0
        history.flow(1.02, 0)
        history.lose(0)
        history.wait(6)
        history.failed = 3
        history.wait(1)
        assert [told["outcome"] for told in history.told("I/O paused")] == ["failed"]

    def test_with_the_head_is_counted_as_such(self) -> None:
        history = self.parked()
        history.leave(0)
        history.wait(1)
        (told,) = history.told("I/O paused")
        assert told["outcome"] == "gone"
        assert (history.monitor.namespaces, history.record.pauses.count) == ({}, 1)


class TestTheHeadsInFlightCount:
    """Kernels 6.5 to 6.9 leak it."""

    def test_proves_nothing_by_itself(self) -> None:
        history = History()
        history.head_io = IoCounters(0, 0, 0, 0, 0, 0, 0, 0, 100, 1_300_544, 0)
        history.wait(60)
        assert history.namespace().stalled == 0
        assert not history.monitor.attention


class TestAPathStall:
    def test_is_told_of_the_path_while_the_namespace_goes_on(self) -> None:
        """Under round-robin the requests caught on a silent path wait, the others do not."""
        history = History()
        history.flow(1, 0, 1)
        history.flow(3, 1)
        stalled = history.namespace().path_stalled
        names = sorted(stalled)
        assert stalled[names[0]] == pytest.approx(3, abs=0.15)
        assert stalled[names[1]] == 0
        assert history.namespace().stalled == 0
        assert history.record.in_progress

    def test_is_over_when_the_path_moves_again(self) -> None:
        history = History()
        history.flow(1, 0, 1)
        history.flow(3, 1)
        history.flow(1, 0, 1)
        assert set(history.namespace().path_stalled.values()) == {0}
        assert not history.record.in_progress

    def test_turns_polling_dense_before_the_threshold(self) -> None:
        history = History()
        history.flow(1, 0, 1)
        assert not history.monitor.attention
        history.flow(0.35, 1)
        assert history.monitor.attention


def test_a_slow_but_moving_device_does_not_pause() -> None:
    history = History()
    for _ in range(100):
        history.issue(0, 4)
        history.wait(0.3)
        history.complete(0, 4)
    assert seconds(history) == []
    assert history.told("failover") == []


def test_a_device_whose_every_single_request_takes_longer_than_the_threshold_does_pause() -> None:
    history = History()
    for _ in range(5):
        history.issue(0)
        history.wait(0.8)
        history.complete(0)
        history.wait(0.01)
    history.wait(0.1)
    # The first was seen before anything had ever completed.
    assert seconds(history) == [pytest.approx(0.8, abs=NEAR)] * 5


def test_a_stat_that_cannot_be_read_for_some_polls_is_no_pause() -> None:
    history = History()
    history.flow(1, 0)
    history.ports[0].readable = False
    history.flow(0.3, 0)
    history.ports[0].readable = True
    history.flow(1, 0)
    assert seconds(history) == []


def test_of_a_path_whose_stat_stays_unreadable_nothing_is_said() -> None:
    """Requests were in flight when it last could be read; whether they move, nobody knows."""
    history = History()
    history.flow(1, 0)
    history.issue(0)
    history.wait(0.1)
    history.ports[0].readable = False
    history.flow(4, 0)
    assert history.namespace().stalled == 0
    assert not any(history.namespace().path_stalled.values())
    history.ports[0].readable = True
    history.flow(1, 0)
    assert seconds(history) == []


class TestRequestsOfAControllerStuckInDeleting:
    """Its disks are gone, its requests are not: only the head still shows them."""

    def stuck(self) -> History:
        history = History()
        history.head_io = IoCounters(*[0] * 11)._replace(reads=500)
        history.flow(1.03, 0)
        history.head_io = history.head_io._replace(in_flight=1)
        history.wait(2)
        history.state(0, "deleting (no IO)")
        history.leave(0)
        return history

    def test_go_on_waiting(self) -> None:
        history = self.stuck()
        history.wait(10)
        assert history.namespace().stalled == pytest.approx(12, abs=0.2)
        history.flow(1, 1)
        assert seconds(history) == [pytest.approx(12, abs=0.2)]

    def test_wait_no_more_once_the_head_has_none(self) -> None:
        history = self.stuck()
        history.head_io = IoCounters(*[0] * 11)._replace(reads=500)
        history.wait(3)
        assert history.namespace().stalled == 0

    def test_are_not_believed_for_ever_since_some_kernels_leak_the_count(self) -> None:
        history = self.stuck()
        history.wait(70)
        assert history.namespace().stalled == 0


class TestAnExporterThatStartsWhileNoPathIsUsable:
    @pytest.fixture
    def history(self) -> History:
        history = History(paths=1)
        history.requeued = 7
        history.flow(1, 0)
        history.lose(0)
        history.monitor = Monitor(0.5, None)
        history.wait(5)
        return history

    def test_does_not_know_whether_io_waits_from_before(self, history: History) -> None:
        assert history.namespace().stalled is None

    def test_knows_of_what_is_turned_away_since(self, history: History) -> None:
        history.requeued = 8
        history.wait(3)
        assert history.namespace().stalled == pytest.approx(3, abs=0.15)

    def test_knows_again_once_a_path_is_usable(self, history: History) -> None:
        history.state(0, "live")
        history.wait(1)
        assert history.namespace().stalled == 0
