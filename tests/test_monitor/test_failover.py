"""Failovers: I/O that left one path for another, once each, and came back."""

from __future__ import annotations

import pytest

from nvmeof_exporter.monitor.failover import Failover
from tests.test_monitor.drawing import History, label, path_id

NEAR = 0.05


def failovers(history: History) -> list[dict[str, str | float]]:
    return history.told("failover")


class TestAFailover:
    @pytest.mark.parametrize("diag", [False, True])
    def test_lasts_from_the_last_io_on_the_lost_path_to_the_first_elsewhere(
        self, diag: bool
    ) -> None:
        history = History(diag=diag)
        history.flow(2.03, 0)
        history.wait(4)
        history.lose(0, to=1)
        history.flow(1, 1)
        (told,) = failovers(history)
        assert told["path"] == label(0)
        assert told["seconds"] == pytest.approx(4.01, abs=NEAR)
        assert history.record.last_duration == pytest.approx(4.01, abs=NEAR)

    def test_has_phases_that_add_up_to_it(self) -> None:
        """On 6.1 a path stays ``resetting`` for seconds before its I/O moves."""
        history = History()
        history.flow(2.03, 0)
        history.wait(3)
        history.state(0, "resetting")
        history.wait(4)
        history.lose(0, to=1)
        history.flow(1, 1)
        (told,) = failovers(history)
        assert told["detection_seconds"] == pytest.approx(3, abs=NEAR)
        assert told["reroute_seconds"] == pytest.approx(4.01, abs=NEAR)
        assert told["seconds"] == pytest.approx(7.01, abs=NEAR)

    def test_is_in_progress_until_io_goes_on_elsewhere(self) -> None:
        history = History()
        history.flow(1, 0)
        history.wait(3)
        history.state(0, "resetting")
        history.wait(1)
        assert history.record.in_progress
        history.lose(0, to=1)
        history.flow(1, 1)
        assert not history.record.in_progress

    def test_within_one_poll_interval_takes_no_longer_than_it(self) -> None:
        history = History()
        history.flow(2.03, 0)
        history.lose(0, to=1)
        history.flow(1, 1)
        (told,) = failovers(history)
        assert 0 <= float(told["seconds"]) <= 0.1

    def test_that_caught_no_request_lasts_as_long_as_the_next_one_takes_elsewhere(self) -> None:
        """The application was busy with something else when the path was lost."""
        history = History()
        history.flow(2.03, 0)
        history.drain()
        history.wait(0.09)
        history.state(0, "connecting")
        history.wait(0.08)
        history.flow(1, 1)
        (told,) = failovers(history)
        assert told["path"] == label(0)
        assert float(told["seconds"]) == pytest.approx(0.01, abs=0.005)

    def test_that_caught_no_request_lasts_from_the_first_that_found_no_path(self) -> None:
        """Both paths turn inaccessible between two requests; the next one is parked."""
        history = History(ana=True)
        history.requeued = 0
        history.flow(2.03, 0)
        history.drain()
        history.wait(0.15)
        for port in history.ports:
            port.ana["1"] = "inaccessible"
        history.wait(0.1)
        history.requeued = 1
        history.wait(3)
        history.ports[1].ana["1"] = "optimized"
        history.flow(1, 1)
        (told,) = failovers(history)
        assert told["path"] == label(0)
        assert told["seconds"] == pytest.approx(3.01, abs=NEAR)

    def test_of_a_path_that_is_back_at_the_next_look_is_one_where_requests_went_elsewhere(
        self,
    ) -> None:
        """A reset by the administrator takes milliseconds."""
        history = History()
        history.flow(2.03, 0)
        history.lose(0, to=1, state="resetting")
        history.poll()
        history.wait(0.005)
        history.complete(1)
        history.state(0, "live")
        history.issue(0)
        history.wait(0.005)
        history.complete(0)
        history.flow(1, 0)
        (told,) = failovers(history)
        assert told["path"] == label(0)
        assert 0 <= float(told["seconds"]) < NEAR
        assert history.record.failbacks == {label(0): 1}
        assert history.record.phases["reconnect"].sum < NEAR
        assert history.record.phases["failback"].sum < NEAR

    def test_of_a_path_that_goes_at_once_is_one_too(self) -> None:
        """``ctrl_loss_tmo`` or a disconnect: the directory and all counters vanish."""
        history = History()
        history.flow(2.03, 0)
        history.issue(1, history.cancel(0))
        history.leave(0)
        history.flow(1, 1)
        (told,) = failovers(history)
        assert told["path"] == label(0)
        assert 0 <= float(told["seconds"]) <= 0.15

    def test_of_several_namespaces_is_one(self) -> None:
        history = History(namespaces=4)
        history.flow(2.03, 0)
        history.wait(3)
        history.lose(0, to=1)
        history.flow(1, 1)
        assert [told["seconds"] for told in failovers(history)] == [pytest.approx(3.01, abs=NEAR)]
        assert history.record.durations.count == 1

    def test_lasts_until_the_last_namespace_goes_on(self) -> None:
        history = History(namespaces=2)
        history.flow(2.03, 0)
        history.wait(3)
        history.lose(0, to=1)
        history.flow(2, 1, nsids=("1",))
        assert failovers(history) == []
        history.flow(1, 1)
        assert [told["seconds"] for told in failovers(history)] == [pytest.approx(5.01, abs=NEAR)]

    def test_of_two_paths_lost_at_once_is_one_that_counts_for_each(self) -> None:
        history = History(paths=3)
        history.flow(2.03, 0, 1)
        history.wait(3)
        history.lose(0, to=2)
        history.lose(1, to=2)
        history.flow(1, 2)
        (told,) = failovers(history)
        assert {told["path"], told["also"]} == {label(0), label(1)}
        assert told["seconds"] == pytest.approx(3.01, abs=NEAR)
        assert history.record.failovers == {(label(n), "unknown"): 1 for n in range(2)}
        assert history.record.durations.count == 1

    def test_of_paths_given_up_one_after_the_other_lasts_from_the_first_to_the_last(self) -> None:
        """The lost path's requests go to another silent one first."""
        history = History(paths=3)
        history.flow(2.03, 0, 1)
        history.wait(3)
        history.lose(0, to=1)
        history.wait(1)
        history.lose(1, to=2)
        history.flow(1, 2)
        (told,) = failovers(history)
        assert told["seconds"] == pytest.approx(4.01, abs=NEAR)
        assert history.record.failovers == {(label(n), "unknown"): 1 for n in range(2)}

    def test_lasts_until_a_path_that_is_given_up_later_has_given_up_its_own(self) -> None:
        """The first path's requests go on at once; those caught on the second wait longer."""
        history = History(paths=3)
        history.flow(2.03, 0, 1)
        history.wait(3)
        history.lose(0, to=2)
        history.flow(0.25, 2)
        history.lose(1, to=2)
        history.flow(1, 2)
        (told,) = failovers(history)
        assert told["path"] == label(1)
        assert told["seconds"] == pytest.approx(3.26, abs=NEAR)

    def test_of_every_path_counts_for_those_that_io_does_not_go_on_over(self) -> None:
        history = History()
        history.flow(2.03, 0, 1)
        history.lose(0)
        history.lose(1)
        history.wait(3)
        history.state(0, "live")
        history.flow(2, 0)
        (told,) = failovers(history)
        assert told["path"] == label(1)
        assert told["seconds"] == pytest.approx(3.01, abs=NEAR)
        assert history.record.failovers == {(label(1), "unknown"): 1}

    def test_does_not_become_two_by_flapping(self) -> None:
        history = History()
        history.flow(2.03, 0)
        history.wait(3)
        history.lose(0, to=1)
        for state in ("live", "resetting", "live", "connecting"):
            history.wait(0.05)
            history.state(0, state)
        history.flow(2, 1)
        assert len(failovers(history)) == 1

    def test_that_comes_after_a_failback_is_another(self) -> None:
        history = History()
        for _ in range(2):
            history.flow(2, 0)
            history.lose(0, to=1)
            history.flow(2, 1)
            history.drain()
            history.state(0, "live")
        assert len(failovers(history)) == 2
        assert history.record.failovers == {(label(0), "unknown"): 2}

    def test_under_round_robin_is_timed_by_the_requests_caught_on_the_lost_path(self) -> None:
        history = History()
        history.flow(2.03, 0, 1)
        history.flow(4, 1)
        history.lose(0, to=1)
        history.flow(1, 1)
        (told,) = failovers(history)
        assert told["path"] == label(0)
        assert told["seconds"] == pytest.approx(4.01, abs=NEAR)


class TestNoFailover:
    def test_is_losing_a_path_that_carries_nothing(self) -> None:
        history = History()
        history.flow(3, 0)
        history.lose(1)
        history.flow(3, 0)
        assert failovers(history) == []
        assert history.record.failovers == {}

    def test_is_losing_the_only_path(self) -> None:
        history = History(paths=1)
        history.flow(2, 0)
        history.wait(3)
        history.lose(0)
        history.wait(3)
        history.state(0, "live")
        history.flow(2, 0)
        assert failovers(history) == []
        assert history.record.durations.count == 0
        assert history.record.outages.count == 1

    def test_is_in_progress_with_no_path_to_go_to(self) -> None:
        history = History(paths=1)
        history.flow(2, 0)
        history.lose(0)
        history.wait(3)
        assert not history.record.in_progress

    def test_is_losing_every_path_and_going_on_over_all_of_them(self) -> None:
        history = History()
        history.flow(2, 0, 1)
        history.lose(0)
        history.lose(1)
        history.wait(3)
        history.state(0, "live")
        history.state(1, "live")
        history.flow(2, 0, 1)
        assert failovers(history) == []
        assert history.record.failovers == {}
        assert history.record.failbacks == {}

    def test_is_losing_every_path_and_coming_back_on_the_same(self) -> None:
        history = History()
        history.flow(2, 0)
        history.wait(3)
        history.state(1, "connecting")
        history.lose(0)
        history.wait(3)
        history.state(0, "live")
        history.flow(2, 0)
        assert failovers(history) == []
        assert len(history.told("I/O paused")) == 1

    def test_is_losing_every_path_for_good(self) -> None:
        history = History()
        history.flow(2, 0)
        history.lose(0)
        history.state(1, "connecting")
        history.wait(5)
        history.leave(0)
        history.leave(1)
        history.wait(5)
        assert failovers(history) == []
        assert not history.record.in_progress

    def test_is_a_path_that_comes_back_before_it_gave_its_requests_up(self) -> None:
        history = History()
        history.flow(2, 0)
        history.state(0, "resetting")
        history.wait(0.1)
        history.state(0, "live")
        history.flow(2, 0)
        assert failovers(history) == []


class TestAnIdleFailover:
    def test_is_counted_and_not_timed(self) -> None:
        history = History()
        history.flow(2, 0)
        history.drain()
        history.wait(10)
        history.state(0, "connecting")
        history.wait(5)
        (told,) = failovers(history)
        assert "seconds" not in told
        assert history.record.failovers == {(label(0), "unknown"): 1}
        assert history.record.durations.count == 0
        assert history.record.last_duration is None

    def test_is_told_once_however_often_the_path_flaps_before_it_carries_io_again(self) -> None:
        history = History()
        history.flow(2, 0)
        history.drain()
        for _ in range(5):
            history.wait(5)
            history.state(0, "connecting")
            history.wait(5)
            history.state(0, "live")
        assert len(failovers(history)) == 1


class TestAFailback:
    def lost(self) -> History:
        history = History()
        history.flow(2.03, 0)
        history.wait(2)
        history.lose(0, to=1)
        history.flow(4, 1)
        return history

    def test_is_counted_when_io_is_on_the_path_again(self) -> None:
        history = self.lost()
        history.state(0, "live")
        history.flow(3, 1)
        assert history.told("failback") == []
        history.drain()
        history.flow(1, 0)
        (told,) = history.told("failback")
        assert told == {
            "path": label(0),
            "reconnect_seconds": pytest.approx(4, abs=NEAR),
            "failback_seconds": pytest.approx(3, abs=NEAR),
        }
        assert history.record.failbacks == {label(0): 1}

    def test_has_its_phases_timed_from_the_end_of_the_failover(self) -> None:
        history = self.lost()
        history.state(0, "live")
        history.flow(3, 1)
        history.drain()
        history.flow(1, 0)
        assert history.record.phases["reconnect"].sum == pytest.approx(4, abs=0.1)
        assert history.record.phases["failback"].sum == pytest.approx(3, abs=0.1)

    def test_after_an_idle_failover_is_counted_and_not_timed(self) -> None:
        history = History()
        history.flow(2, 0)
        history.drain()
        history.wait(5)
        history.state(0, "connecting")
        history.wait(5)
        history.state(0, "live")
        history.flow(1, 0)
        assert history.record.failbacks == {label(0): 1}
        assert history.record.phases["failback"].count == 0


class TestTheRecordOfAFailover:
    def test_never_has_a_negative_part(self) -> None:
        backwards = Failover(path_id(0), lost_at=5.0, start=10.0, end=9.0)
        assert (backwards.duration, backwards.detection, backwards.reroute) == (0, 0, 0)

    def test_without_io_has_no_duration(self) -> None:
        idle = Failover(path_id(0), lost_at=5.0)
        assert (idle.duration, idle.detection, idle.reroute) == (None, 0, 0)
