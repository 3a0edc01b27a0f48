"""What a drill is judged by."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter.drill.objectives import (
    SCENARIOS,
    Figures,
    Judgement,
    Objectives,
    Verdict,
    judge,
    status_of,
)

GOOD = Figures(
    struck=True,
    baseline_pause=0.2,
    baseline_errors=0,
    baseline_rate=1000.0,
    fault_pause=2.1,
    fault_whole=1.9,
    failback_pause=0.3,
    failback_whole=None,
    survivor_rate=600.0,
    failback_rate=900.0,
    resumed=True,
    errors=0,
    back_seconds=12.0,
    undone=True,
    whole=2,
    broken=0,
    unknown=0,
)
FAILBACK = SCENARIOS["failback"]


def judged(name: str, **changes: object) -> Judgement:
    """How one objective is judged where everything else is good."""
    scenario = next(one for one in SCENARIOS.values() if name in one.objectives)
    figures = dataclasses.replace(GOOD, **changes)  # type: ignore[arg-type]
    (found,) = (one for one in judge(scenario, Objectives(), figures) if one.objective == name)
    return found


class TestAGoodDrill:
    def test_meets_every_objective(self) -> None:
        assert judge(FAILBACK, Objectives(), GOOD) == [
            Judgement(
                "reroute",
                Verdict.MET,
                "the longest wait of a worker was 2.100 s, of all together 1.900 s",
                "at most 5 s",
            ),
            Judgement("errors", Verdict.MET, "0 requests failed", "no request fails"),
            Judgement("back", Verdict.MET, "after 12.0 s", "every path is back and used as before"),
            Judgement(
                "second-stall",
                Verdict.MET,
                "the longest wait of a worker was 0.300 s",
                "at most 5 s",
            ),
            Judgement(
                "share", Verdict.MET, "90 % of the baseline", "at least 80 % of the baseline"
            ),
            Judgement(
                "checkpoints",
                Verdict.MET,
                "2 whole, 0 broken or lost, 0 not readable",
                "each one that was committed is whole, and the newest loads",
            ),
        ]

    @pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=lambda s: s.name)
    def test_passes(self, scenario: object) -> None:
        assert status_of(judge(scenario, Objectives(), GOOD)) == 0  # type: ignore[arg-type]


class TestMissed:
    @pytest.mark.parametrize(
        ("name", "changes", "found"),
        [
            ("reroute", {"fault_pause": 5.001, "fault_whole": None},
             "the longest wait of a worker was 5.001 s"),
            ("reroute", {"resumed": False, "fault_whole": None},
             "I/O did not go on; the longest wait of a worker was 2.100 s"),
            ("errors", {"errors": 3}, "3 requests failed"),
            ("back", {"back_seconds": None}, "not within the time given"),
            ("second-stall", {"failback_pause": 6.0},
             "the longest wait of a worker was 6.000 s"),
            ("second-stall", {"failback_pause": 6.0, "failback_whole": 0.0},
             "the longest wait of a worker was 6.000 s, of all together less than 0.1 s"),
            ("share", {"failback_rate": 799.9}, "79.9 % of the baseline"),
            ("resumed", {"resumed": False}, "it did not within the time given"),
            ("checkpoints", {"broken": 1}, "2 whole, 1 broken or lost, 0 not readable"),
        ],
    )  # fmt: skip
    def test_says_what_was_found(self, name: str, changes: dict[str, object], found: str) -> None:
        one = judged(name, **changes)
        assert (one.verdict, one.found) == (Verdict.MISSED, found)


class TestNotJudged:
    @pytest.mark.parametrize(
        ("name", "changes", "found"),
        [
            ("reroute", {"struck": False}, "no path was lost"),
            ("reroute", {"baseline_pause": 7.0},
             "a request waited 7.000 s already before the fault"),
            ("reroute", {"fault_pause": None}, "no pause was measured"),
            ("errors", {"baseline_errors": 1}, "1 failed already before the fault"),
            ("errors", {"struck": False}, "0 requests failed, but no path was lost"),
            ("back", {"undone": False}, "the fault was not undone"),
            ("second-stall", {"undone": False}, "there was no failback to look at"),
            ("share", {"baseline_rate": 0.0}, "the throughput was not measured"),
            ("share", {"failback_rate": None}, "the throughput was not measured"),
            ("checkpoints", {"whole": None}, "they could not be looked at"),
            ("checkpoints", {"whole": 0}, "none was committed"),
            ("checkpoints", {"unknown": 1}, "2 whole, 0 broken or lost, 1 not readable"),
        ],
    )  # fmt: skip
    def test_says_why(self, name: str, changes: dict[str, object], found: str) -> None:
        one = judged(name, **changes)
        assert (one.verdict, one.found) == (Verdict.UNKNOWN, found)


class TestProblems:
    def test_leave_nothing_met(self) -> None:
        found = judge(FAILBACK, Objectives(), GOOD, ["interrupted"])
        assert {one.verdict for one in found} == {Verdict.UNKNOWN}
        assert found[1].found == "0 requests failed (interrupted)"
        assert status_of(found) == 2

    def test_do_not_excuse_what_was_missed(self) -> None:
        bad = dataclasses.replace(GOOD, errors=1)
        assert status_of(judge(FAILBACK, Objectives(), bad, ["interrupted"])) == 1


def test_without_a_judgement_nothing_passes() -> None:
    assert status_of([]) == 2


@given(st.builds(Figures, broken=st.none() | st.integers(0, 3)), st.sampled_from(sorted(SCENARIOS)))
def test_whatever_was_measured_a_drill_without_a_lost_path_does_not_pass(
    found: Figures, name: str
) -> None:
    unharmed = dataclasses.replace(found, struck=False)
    assert status_of(judge(SCENARIOS[name], Objectives(), unharmed)) != 0
