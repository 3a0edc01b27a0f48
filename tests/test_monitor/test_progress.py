"""Completions of one path: which are true, and how long the requests had waited."""

from __future__ import annotations

import pytest

from nvmeof_exporter.model import Controller, IoCounters, NamespacePath, PathId
from nvmeof_exporter.monitor.progress import PathProgress, Step

CONTROLLER = Controller("nvme0", "nqn.x", PathId("tcp", "192.0.2.1"), "live", "live")
POLL = 0.1


def counters(
    reads: int, in_flight: int = 0, *, sectors: int | None = None, read_ms: int = 0
) -> IoCounters:
    moved = reads * 8 if sectors is None else sectors
    return IoCounters(reads, 0, moved, read_ms, 0, 0, 0, 0, in_flight, 0, 0)


class Watched:
    """One path, looked at every 0.1 s."""

    def __init__(self) -> None:
        self.progress = PathProgress()
        self.now = 10.0
        self.given_up_at: float | None = None

    def look(
        self,
        io: IoCounters | None,
        *,
        state: str = "live",
        ana: str = "",
        failovers: int | None = None,
        disk: str = "nvme0c0n1",
        renewed: bool = False,
    ) -> Step:
        before, self.now = self.now, self.now + POLL
        controller = Controller("nvme0", "nqn.x", CONTROLLER.path, state, state)
        path = NamespacePath(disk, controller, ana, io, failovers)
        return self.progress.observe(
            path, before, self.now, renewed=renewed, given_up_at=self.given_up_at
        )


@pytest.fixture
def watched() -> Watched:
    made = Watched()
    made.look(counters(100))
    return made


class TestWithoutTheKernelsCount:
    def test_what_ends_while_the_path_is_usable_throughout_is_true(self, watched: Watched) -> None:
        step = watched.look(counters(103))
        assert (step.true, step.cancelled) == (3, 0)

    def test_what_ends_while_the_controller_leaves_live_is_cancelled(
        self, watched: Watched
    ) -> None:
        watched.look(counters(100, in_flight=3))
        step = watched.look(counters(103, sectors=800), state="resetting")
        assert (step.true, step.cancelled, step.lost) == (0, 3, True)

    def test_what_ends_while_ana_turns_inaccessible_is_cancelled(self) -> None:
        watched = Watched()
        watched.look(counters(100, in_flight=1), ana="optimized")
        step = watched.look(counters(101, sectors=800), ana="inaccessible")
        assert (step.true, step.cancelled, step.lost) == (0, 1, True)

    def test_what_moves_no_sector_is_cancelled_even_on_a_path_that_looks_well(
        self, watched: Watched
    ) -> None:
        watched.look(counters(100, in_flight=2))
        step = watched.look(counters(102, sectors=800))
        assert (step.true, step.cancelled) == (0, 2)

    def test_with_requests_of_one_size_the_sectors_tell_how_many_were_true(
        self, watched: Watched
    ) -> None:
        for reads in range(110, 200, 10):
            watched.look(counters(reads))
        step = watched.look(counters(197, sectors=195 * 8), state="resetting")
        assert (step.true, step.cancelled) == (5, 2)

    def test_what_was_in_flight_before_an_unseen_reconnect_cannot_have_survived_it(
        self, watched: Watched
    ) -> None:
        watched.look(counters(100, in_flight=4))
        step = watched.look(counters(110, sectors=810), renewed=True)
        assert step.cancelled == 4


class TestWithTheKernelsCount:
    def test_exactly_the_counted_ones_are_cancelled(self) -> None:
        watched = Watched()
        watched.look(counters(100, in_flight=3), failovers=7)
        step = watched.look(counters(105), failovers=9)
        assert (step.true, step.cancelled) == (3, 2)

    def test_a_count_that_runs_ahead_waits_for_its_completions(self) -> None:
        watched = Watched()
        watched.look(counters(100, in_flight=2), failovers=0)
        watched.look(counters(100, in_flight=2), failovers=2)
        step = watched.look(counters(102), failovers=2)
        assert (step.true, step.cancelled) == (0, 2)

    def test_a_count_that_root_set_to_zero_counts_from_there(self) -> None:
        watched = Watched()
        watched.look(counters(100, in_flight=1), failovers=50)
        step = watched.look(counters(101), failovers=1)
        assert (step.true, step.cancelled) == (0, 1)

    def test_completions_after_a_long_time_are_not_charged_with_an_old_count(self) -> None:
        watched = Watched()
        watched.look(counters(100, in_flight=1), failovers=0)
        watched.look(counters(100, in_flight=1), failovers=1)
        for _ in range(12):
            watched.look(counters(100, in_flight=1), failovers=1)
        assert watched.look(counters(101), failovers=1).true == 1


def test_requests_that_leave_a_lost_path_uncounted_were_given_up(watched: Watched) -> None:
    for _ in range(10):
        watched.look(counters(100, in_flight=32))
    step = watched.look(counters(100), state="connecting")
    assert (step.true, step.cancelled) == (0, 32)
    assert step.wait == pytest.approx(1.0, abs=POLL)


class TestTheWait:
    def test_of_a_lone_request_is_what_the_time_fields_grew_by(self, watched: Watched) -> None:
        watched.look(counters(101, in_flight=1, read_ms=10))
        for _ in range(30):
            watched.look(counters(101, in_flight=1, read_ms=10))
        step = watched.look(counters(102, read_ms=3060, sectors=808), state="resetting")
        assert step.wait == pytest.approx(3.05, abs=0.001)

    def test_is_never_longer_than_requests_can_have_been_out(self, watched: Watched) -> None:
        watched.look(counters(100, in_flight=1))
        step = watched.look(counters(101, read_ms=999_999))
        assert step.wait is not None
        assert 0 <= step.wait <= 2 * POLL + 0.001

    def test_lies_beyond_the_mean_where_requests_were_issued_at_different_times(
        self, watched: Watched
    ) -> None:
        watched.look(counters(100, in_flight=1))  # issued between 10.1 and 10.2
        for _ in range(20):
            watched.look(counters(100, in_flight=1))
        watched.look(counters(100, in_flight=2))  # two seconds later another
        step = watched.look(counters(102, read_ms=2300), state="resetting")
        assert step.wait is not None
        assert 2.05 < step.wait < 2.35

    def test_is_what_the_time_fields_say_whatever_the_pace_before_let_expect(
        self, watched: Watched
    ) -> None:
        """Requests stopped early in an interval in which as many ended as in the one before."""
        watched.look(counters(150, read_ms=50))
        watched.look(counters(200, in_flight=1, read_ms=100))
        for _ in range(20):
            watched.look(counters(200, in_flight=1, read_ms=100))
        step = watched.look(counters(201, sectors=1600, read_ms=2240), state="resetting")
        assert step.wait == pytest.approx(2.14, abs=0.001)

    def test_of_requests_that_waited_for_the_driver_counts_though_none_saw_them(
        self, watched: Watched
    ) -> None:
        """``stat`` has in flight what the driver took; with a full queue others wait for it."""
        watched.look(counters(132, in_flight=31))
        for _ in range(30):
            watched.look(counters(132, in_flight=31))
        step = watched.look(counters(164, sectors=1056, read_ms=32 * 3080), state="resetting")
        assert step.cancelled == 32
        assert step.wait == pytest.approx(3.08, abs=0.03)

    def test_of_a_burst_is_not_spread_over_time_in_which_it_was_complete(
        self, watched: Watched
    ) -> None:
        for reads in range(132, 400, 32):
            watched.look(counters(reads))
        watched.look(counters(420, in_flight=32))
        for _ in range(30):
            watched.look(counters(420, in_flight=32))
        # Each waited until 5 ms after it was seen, on the average.
        step = watched.look(counters(452, sectors=3360, read_ms=32 * 3055), state="resetting")
        assert step.wait == pytest.approx(3.055, abs=0.006)

    def test_of_requests_given_up_across_two_polls_ends_at_the_poll_between(
        self, watched: Watched
    ) -> None:
        watched.look(counters(100, in_flight=4))
        for _ in range(20):
            watched.look(counters(100, in_flight=4))
        first = watched.look(
            counters(102, in_flight=2, sectors=800, read_ms=4000), state="resetting"
        )
        between = watched.now
        second = watched.look(counters(104, sectors=800, read_ms=8000), state="resetting")
        assert (first.cancelled, second.cancelled) == (2, 2)
        assert first.ended == second.ended == between


class TestALossThatTheKernelAnnounces:
    """Sizes differ, so that nobody knows which of the requests of its interval were true."""

    @pytest.fixture
    def mixed(self, watched: Watched) -> Watched:
        for reads in (110, 120, 130):
            watched.look(counters(reads, sectors=8 * reads + reads % 7))
        return watched

    def test_is_dated_by_the_announcement(self, mixed: Watched) -> None:
        mixed.given_up_at = mixed.now + 0.09
        step = mixed.look(counters(139, sectors=1200), state="resetting")
        assert step.ended == pytest.approx(mixed.given_up_at)

    def test_of_another_time_is_dated_within_the_interval(self, mixed: Watched) -> None:
        mixed.given_up_at = mixed.now - 0.01
        step = mixed.look(counters(139, sectors=1200), state="resetting")
        assert step.ended == pytest.approx(mixed.now - POLL)

    def test_caught_nothing_that_had_waited_long_where_none_was_out_before(
        self, mixed: Watched
    ) -> None:
        mixed.given_up_at = mixed.now + 0.09
        step = mixed.look(counters(139, sectors=1200, read_ms=18), state="resetting")
        assert step.cancelled == 9
        assert step.wait == pytest.approx(0.002)

    def test_comes_when_the_pace_says_that_requests_had_flowed_until_then(
        self, mixed: Watched
    ) -> None:
        mixed.given_up_at = at = mixed.now + 0.09
        step = mixed.look(counters(139, sectors=1200), state="resetting")
        # Nine at a hundred a second: one was caught, the ninth was due when it was.
        assert mixed.progress.next_due(step) == pytest.approx(at)


class TestALossThatNobodyAnnounces:
    """As of ANA states. What ended in its interval tells how long the path was well."""

    def test_is_dated_by_the_pace_at_which_requests_had_ended(self, watched: Watched) -> None:
        for reads in (110, 120, 130):
            watched.look(counters(reads, sectors=8 * reads + reads % 7), ana="optimized")
        began = watched.now
        step = watched.look(counters(138, sectors=1200), ana="inaccessible")
        # Eight at a hundred a second: seven were done, one was caught.
        assert step.ended == pytest.approx(began + 0.07)

    def test_lies_at_the_end_where_more_came_than_usual(self, watched: Watched) -> None:
        for reads in (110, 120, 130):
            watched.look(counters(reads, sectors=8 * reads + reads % 7), ana="optimized")
        step = watched.look(counters(160, sectors=1400), ana="inaccessible")
        assert step.ended == pytest.approx(watched.now)

    def test_lies_in_the_middle_where_only_what_was_out_before_ended(
        self, watched: Watched
    ) -> None:
        watched.look(counters(110, in_flight=3), ana="optimized")
        step = watched.look(counters(113, sectors=1200), ana="inaccessible")
        assert step.ended == pytest.approx(watched.now - POLL / 2)


class TestRequestsInFlight:
    def test_stand_still_from_when_they_were_first_seen(self, watched: Watched) -> None:
        watched.look(counters(100, in_flight=2))
        since = watched.progress.stalled_since
        for _ in range(5):
            watched.look(counters(100, in_flight=2))
        assert watched.progress.stalled_since == since
        assert since is not None
        assert watched.now - since == pytest.approx(0.55)

    def test_do_not_stand_still_when_others_end(self, watched: Watched) -> None:
        for reads in range(101, 130):
            watched.look(counters(reads, in_flight=1, read_ms=(reads - 100) * 90))
        since = watched.progress.stalled_since
        assert since is not None
        assert watched.now - since <= POLL

    def test_that_are_none_cannot_stand_still(self, watched: Watched) -> None:
        watched.look(counters(100, in_flight=2))
        watched.look(counters(102))
        assert watched.progress.stalled_since is None


class TestADisk:
    def test_that_cannot_be_read_for_some_polls_says_nothing_and_loses_nothing(
        self, watched: Watched
    ) -> None:
        assert watched.look(None).true == 0
        assert watched.look(None).true == 0
        assert watched.look(counters(109)).true == 9

    def test_whose_counters_fell_begins_anew(self, watched: Watched) -> None:
        step = watched.look(counters(5))
        assert (step.true, step.cancelled) == (0, 0)
        assert watched.look(counters(6)).true == 1

    def test_with_another_name_begins_anew(self, watched: Watched) -> None:
        assert watched.look(counters(500), disk="nvme0c3n1").true == 0

    def test_that_vanishes_takes_its_requests_with_it(self, watched: Watched) -> None:
        watched.look(counters(100, in_flight=4))
        step = watched.progress.vanish(watched.now, watched.now + POLL)
        assert (step.cancelled, step.lost, step.gone) == (4, True, True)
        assert watched.progress.in_flight == 0

    def test_that_comes_back_with_its_old_counts_does_not_count_them_again(
        self, watched: Watched
    ) -> None:
        watched.progress.vanish(watched.now, watched.now + POLL)
        assert watched.look(counters(100)).true == 0


def test_leaving_and_entering_the_usable_set_is_told_once(watched: Watched) -> None:
    told = [watched.look(counters(100), state=s) for s in ("resetting", "connecting", "live")]
    assert [(step.lost, step.returned) for step in told] == [
        (True, False),
        (False, False),
        (False, True),
    ]
