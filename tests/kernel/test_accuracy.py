"""Failovers and pauses against fio's own record of the same moments, on stock kernels."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from tests.kernel.lab.accuracy_table import row, table

if TYPE_CHECKING:
    from tests.kernel.lab.accuracy_table import Row
    from tests.kernel.lab.boots import Boot, Result

GROUP = "accuracy"

_WORST_MS = 50
_MEDIAN_MS = 20
_QUEUE_DEPTH_POLICY_SINCE = (6, 11)


def test_a_fault_under_load_is_reported_as_it_was(result: Result) -> None:
    if "unsupported" in result.found:
        version = tuple(int(number) for number in result.kernel.split(".")[:2])
        assert version < _QUEUE_DEPTH_POLICY_SINCE, result.explain("the kernel has this policy")
        return
    told, expected = row(result), result.found["expected"]
    if expected["failovers"] is not None:
        assert told.failovers == expected["failovers"], result.explain("number of failovers")
    assert set(told.causes) <= set(expected["causes"]), result.explain("cause of the failover")
    if expected["failovers"]:
        assert told.lost_paths == (result.found["lost"],), result.explain("the path that was lost")
    if expected["pause_is_logged"]:
        assert told.error_ms is not None, result.explain("no pause was reported")
        assert abs(told.error_ms) <= _WORST_MS, result.explain(f"off by {told.error_ms:.0f} ms")


def test_reported_pauses_are_close_to_the_application_s_in_the_median(boot: Boot) -> None:
    rows = [row(result) for result in boot.results() if _is_judged(result)]
    (boot.output / "accuracy.md").write_text(table(rows))
    errors = [_distance(each) for each in rows]
    assert errors, "no fault was measured"
    assert statistics.median(errors) <= _MEDIAN_MS, table(rows)


def _is_judged(result: Result) -> bool:
    return "unsupported" not in result.found and result.found["expected"]["pause_is_logged"]


def _distance(told: Row) -> float:
    """Milliseconds between the reported pause and the true one; without a report, all of it."""
    return abs(told.error_ms) if told.error_ms is not None else told.fio_s * 1000
