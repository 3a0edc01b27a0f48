"""The course of a drill: what is done when, from what is seen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter.drill.phases import Course, Do, Observation, Phase, Plan

PLAN = Plan(baseline=10, hold=5, settle=2, limit=60)
BOTH, ONLY_B, NONE = frozenset("AB"), frozenset("B"), frozenset[str]()


class Stage:
    """Time, in steps of a tenth of a second, and what is to be seen meanwhile."""

    def __init__(self, plan: Plan = PLAN) -> None:
        self.course = Course(plan, 0.0)
        self.now = 0.0
        self.usable = BOTH
        self.preferred = BOTH
        self.carrying = BOTH
        self.stalled_since: float | None = None
        self.changes = 0
        self.done = 0
        self.log: list[tuple[float, Do]] = []

    def live(self, seconds: float) -> list[tuple[float, Do]]:
        """Let time pass; returns what was to be done, and when."""
        before = len(self.log)
        for _ in range(round(seconds * 10)):
            self.now = round(self.now + 0.1, 3)
            if self.stalled_since is None:
                self.done += 1
            do = self.course.observe(
                Observation(
                    self.now,
                    self.done,
                    0.0 if self.stalled_since is None else self.now - self.stalled_since,
                    self.usable,
                    self.preferred & self.usable,
                    NONE if self.stalled_since is not None else self.carrying & self.usable,
                    self.changes,
                )
            )
            if do is not None:
                self.log.append((self.now, do))
        return self.log[before:]

    def phase(self) -> Phase:
        return self.course.phase

    def stall(self) -> None:
        self.stalled_since = self.now

    def go_on(self) -> None:
        self.stalled_since = None

    def to_the_fault(self) -> None:
        """Live through the baseline, until the fault is due."""
        assert self.live(10) == [(10.0, Do.TRIGGER)]

    def to_the_restore(self) -> None:
        """Lose path A, go on over B, and let that be measured."""
        self.to_the_fault()
        self.usable = ONLY_B
        self.changes += 1
        assert [do for _, do in self.live(7.2)] == [Do.RESTORE]


class TestAGoodCourse:
    def test_measures_strikes_goes_on_and_comes_back(self) -> None:
        stage = Stage()
        stage.to_the_fault()
        stage.stall()
        stage.live(3)
        assert stage.phase() is Phase.FAULT
        stage.usable = ONLY_B
        stage.changes += 1
        stage.live(1)
        stage.go_on()
        # The path was seen lost at 13.1: two seconds later it is clear that I/O goes on.
        assert stage.live(10) == [(20.1, Do.RESTORE)]
        stage.usable = BOTH
        assert stage.live(10) == [(29.1, Do.END)]
        assert stage.course.marks == {
            Phase.BASELINE: 0.0,
            Phase.FAULT: 10.0,
            Phase.RECOVERY: 15.1,
            Phase.FAILBACK: 20.1,
            Phase.OVER: 29.1,
        }
        assert (stage.course.struck, stage.course.resumed) == (13.1, 15.1)
        assert (stage.course.undone, stage.course.back) == (20.1, 24.1)
        assert (stage.course.lost, stage.course.problems) == ({"A"}, [])

    def test_waits_while_one_worker_is_caught_though_others_go_on(self) -> None:
        stage = Stage()
        stage.to_the_fault()
        stage.stall()
        stage.usable = ONLY_B
        stage.live(20)
        assert stage.phase() is Phase.FAULT
        stage.go_on()
        stage.live(0.1)
        assert stage.phase() is Phase.RECOVERY

    def test_counts_from_the_latest_loss(self) -> None:
        stage = Stage()
        stage.usable = stage.preferred = stage.carrying = frozenset("ABC")
        stage.to_the_fault()
        stage.usable = frozenset("BC")
        stage.live(1.9)
        stage.usable = frozenset("C")
        stage.live(1.9)
        assert stage.phase() is Phase.FAULT
        stage.live(0.3)
        assert stage.phase() is Phase.RECOVERY
        assert stage.course.lost == {"A", "B"}

    def test_takes_a_reset_too_short_to_be_seen_for_a_loss(self) -> None:
        stage = Stage()
        stage.to_the_fault()
        stage.changes += 2
        assert [do for _, do in stage.live(30)] == [Do.RESTORE, Do.END]
        assert stage.course.lost == set()
        assert stage.course.struck == 10.1

    def test_is_not_back_while_io_is_on_a_path_that_is_not_preferred(self) -> None:
        stage = Stage()
        stage.preferred = stage.carrying = frozenset("A")
        stage.to_the_fault()
        stage.usable, stage.preferred, stage.carrying = ONLY_B, NONE, ONLY_B
        stage.live(7.2)
        stage.usable, stage.preferred = BOTH, frozenset("A")
        stage.live(10)
        assert stage.course.back is None
        stage.carrying = frozenset("A")
        stage.live(2.2)
        assert stage.course.back == pytest.approx(29.3)

    def test_is_back_with_io_on_another_path_that_is_as_good(self) -> None:
        stage = Stage()
        stage.carrying = frozenset("A")
        stage.to_the_fault()
        stage.usable, stage.carrying = ONLY_B, ONLY_B
        stage.live(7.2)
        stage.usable = BOTH
        stage.live(0.1)
        assert stage.course.back == pytest.approx(17.3)

    def test_is_not_back_while_fewer_paths_carry_io(self) -> None:
        stage = Stage()
        stage.to_the_restore()
        stage.usable, stage.carrying = BOTH, ONLY_B
        stage.live(20)
        assert stage.course.back is None


class TestWithoutSurvivors:
    def test_the_fault_is_undone_after_a_while_and_io_goes_on_then(self) -> None:
        stage = Stage(Plan(baseline=10, hold=5, settle=2, limit=60, survivors=False))
        stage.to_the_fault()
        stage.stall()
        stage.usable = NONE
        assert stage.live(8) == [(15.0, Do.RESTORE)]
        assert stage.phase() is Phase.RECOVERY
        stage.usable = BOTH
        stage.go_on()
        assert stage.live(10) == [(23.2, Do.END)]
        assert stage.course.resumed == 18.1
        assert stage.course.problems == []


class TestWhatCannotBeJudged:
    def test_a_fault_that_takes_no_path_away_is_undone(self) -> None:
        stage = Stage()
        stage.to_the_fault()
        assert stage.live(62) == [(70.0, Do.RESTORE), (70.1, Do.END)]
        assert stage.course.problems == ["the fault took no path away"]

    def test_a_path_that_was_lost_before_is_no_time_for_a_fault(self) -> None:
        stage = Stage()
        stage.live(5)
        stage.usable = ONLY_B
        assert stage.live(6) == [(10.0, Do.END)]
        assert stage.course.problems == ["before the fault a path was lost already: A"]

    def test_a_single_path_is_not_taken_away(self) -> None:
        stage = Stage()
        stage.usable = ONLY_B
        assert stage.live(11) == [(10.0, Do.END)]
        assert stage.course.problems == ["there is no second usable path to fail over to"]

    def test_a_load_that_gets_going_late_lengthens_a_short_baseline(self) -> None:
        stage = Stage(replace(PLAN, baseline=0.5))
        stage.stall()
        assert stage.live(5) == []
        stage.go_on()
        assert stage.live(0.2) == [(5.1, Do.TRIGGER)]

    def test_a_load_that_stands_still_before_is_no_baseline(self) -> None:
        stage = Stage()
        stage.stall()
        assert stage.live(11) == [(10.0, Do.END)]
        assert stage.course.problems == ["before the fault no I/O was done"]


class TestResultsThatAreBad:
    def test_io_that_does_not_go_on_ends_the_wait_and_the_fault(self) -> None:
        stage = Stage()
        stage.to_the_fault()
        stage.stall()
        stage.usable = ONLY_B
        assert stage.live(62) == [(70.1, Do.RESTORE)]
        assert (stage.course.resumed, stage.course.problems) == (None, [])

    def test_a_path_that_does_not_come_back_ends_the_wait(self) -> None:
        stage = Stage()
        stage.to_the_restore()
        assert [do for _, do in stage.live(62)] == [Do.END]
        assert (stage.course.back, stage.course.problems) == (None, [])


class TestGivingUp:
    def test_before_the_fault_ends_at_once(self) -> None:
        stage = Stage()
        stage.live(3)
        assert stage.course.abort(3.1, "interrupted") is Do.END
        assert stage.live(60) == []

    def test_after_it_undoes_it_first(self) -> None:
        stage = Stage()
        stage.to_the_fault()
        assert stage.course.abort(10.1, "interrupted") is Do.RESTORE
        assert [do for _, do in stage.live(1)] == [Do.END]
        assert stage.course.problems == ["interrupted"]

    def test_twice_does_not_wait(self) -> None:
        stage = Stage()
        stage.to_the_fault()
        assert stage.course.abort(10.1, "interrupted") is Do.RESTORE
        assert stage.course.abort(10.2, "interrupted again") is Do.END

    def test_after_it_was_undone_ends_at_once(self) -> None:
        stage = Stage()
        stage.to_the_restore()
        assert stage.course.abort(17.3, "interrupted") is Do.END


LABELS = st.frozensets(st.sampled_from("ABC"))


@given(
    st.lists(
        st.tuples(st.floats(0.01, 30), st.floats(0, 20), LABELS, LABELS, LABELS, st.booleans()),
        max_size=80,
    ),
    st.integers(0, 80),
    st.booleans(),
)
def test_whatever_is_seen_a_fault_is_undone_once_and_before_the_end(
    steps: list[tuple[float, float, frozenset[str], frozenset[str], frozenset[str], bool]],
    abort_at: int,
    survivors: bool,
) -> None:
    course = Course(Plan(baseline=5, hold=5, settle=2, limit=20, survivors=survivors), 0.0)
    now, changes, order = 0.0, 0, []
    for index, (step, stalled, usable, preferred, carrying, changed) in enumerate(steps):
        now += step
        changes += changed
        if index == abort_at:
            order.append(course.abort(now, "interrupted"))
        order.append(
            course.observe(
                Observation(now, index, stalled, usable, preferred & usable, carrying, changes)
            )
        )
    done = [do for do in order if do is not None]
    whole = ([Do.TRIGGER, Do.RESTORE, Do.END], [Do.END])
    assert any(done == course_[: len(done)] for course_ in whole)
    assert (course.phase is Phase.OVER) == (Do.END in done)
