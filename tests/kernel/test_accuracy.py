"""Failovers and pauses against what applications timed in the same moments, on stock kernels."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from tests.kernel.lab.accuracy_table import row, table

if TYPE_CHECKING:
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
    if expected["failovers"] and not result.found["moved"]:
        # A reset can be over before anything is sent another way: then nothing failed over.
        assert (told.failovers, told.pauses) == ({}, 0), result.explain("nothing moved")
        return
    if expected["failovers"]:
        one_each = dict.fromkeys(result.found["lost"], 1)
        assert told.failovers == one_each, result.explain("failovers of the lost paths")
    elif expected["failovers"] is None:
        namespaces = result.found["case"]["namespaces"]
        assert told.pauses == namespaces, result.explain("one pause of each namespace")
    else:
        assert told.failovers == {}, result.explain("nothing failed over")
    assert set(told.causes) <= set(expected["causes"]), result.explain("cause of the failover")
    if expected["pause"]:
        assert told.error_ms is not None, result.explain("no pause was reported")
        assert abs(told.error_ms) <= _WORST_MS, result.explain(f"off by {told.error_ms:.0f} ms")
    else:
        assert not told.pauses, result.explain("a pause was reported")


def test_reported_pauses_are_close_to_the_application_s_in_the_median(boot: Boot) -> None:
    rows = [row(result) for result in boot.results() if _has_a_pause(result)]
    (boot.output / "accuracy.md").write_text(table(rows))
    assert rows, "no fault was measured"
    assert statistics.median(each.distance_ms for each in rows) <= _MEDIAN_MS, table(rows)


def _has_a_pause(result: Result) -> bool:
    return "unsupported" not in result.found and result.found["expected"]["pause"]
