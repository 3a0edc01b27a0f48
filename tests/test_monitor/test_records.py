"""Totals as they are published."""

from __future__ import annotations

import pytest

from nvmeof_exporter.model import Controller, IoCounters, Namespace, NamespacePath, PathId
from nvmeof_exporter.monitor.failover import Failback, Failover
from nvmeof_exporter.monitor.histogram import Histogram
from nvmeof_exporter.monitor.pace import NamespaceStep
from nvmeof_exporter.monitor.progress import Step
from nvmeof_exporter.monitor.records import NamespaceRecord, SubsystemRecord

A = PathId("tcp", "192.0.2.1")
B = PathId("tcp", "192.0.2.2")


def io(reads: int, writes: int = 0) -> IoCounters:
    return IoCounters(reads, 0, reads * 8, reads * 2, writes, 0, writes * 8, writes * 3, 0, 0, 0)


def namespace(
    a: IoCounters | None,
    b: IoCounters | None,
    *,
    head: IoCounters | None = None,
    requeued: int | None = None,
    failed: int | None = None,
) -> Namespace:
    paths = tuple(
        NamespacePath(f"nvme0c{n}n1", Controller(f"nvme{n}", "nqn.x", path, "live"), io=counters)
        for n, (path, counters) in enumerate(((A, a), (B, b)))
    )
    return Namespace(
        "nqn.x", "1", "nvme0n1", io=head, requeued=requeued, failed=failed, paths=paths
    )


def see(record: NamespaceRecord, seen: Namespace, step: NamespaceStep | None = None) -> None:
    record.observe(seen, step or NamespaceStep(), log_readable=False)


class TestTheIoOfANamespace:
    def test_is_the_sum_of_its_paths_where_the_head_counts_nothing(self) -> None:
        record = NamespaceRecord()
        see(record, namespace(io(10, 1), io(20, 2), head=io(0)))
        assert record.io == [30, 240, 60, 3, 24, 9]

    def test_is_the_heads_where_it_counts(self) -> None:
        record = NamespaceRecord()
        see(record, namespace(io(10), io(20), head=io(29)))
        assert record.io == [29, 232, 58, 0, 0, 0]

    def test_stays_the_heads_once_it_has_counted(self) -> None:
        record = NamespaceRecord()
        see(record, namespace(io(10), io(20), head=io(29)))
        see(record, namespace(io(11), io(20), head=io(0)))
        assert record.io == [0] * 6

    def test_leaves_cancelled_requests_out(self) -> None:
        record = NamespaceRecord()
        see(record, namespace(io(10), io(0)))
        step = NamespaceStep(paths={A: Step(cancelled=4), B: Step(true=1)})
        see(record, namespace(io(14), io(1)), step)
        assert record.io is not None
        assert record.io[0] == 11

    def test_never_falls_when_a_path_goes_and_comes_back_from_zero(self) -> None:
        record = NamespaceRecord()
        totals = []
        for a in (io(100), None, io(3), io(5)):
            see(record, namespace(a, io(50)))
            assert record.io is not None
            totals.append(record.io[0])
        assert totals == [150, 150, 153, 155]

    def test_is_unknown_while_nothing_can_be_read(self) -> None:
        record = NamespaceRecord()
        see(record, namespace(None, None))
        assert record.io is None


class TestRequeuedAndFailedIo:
    def test_follow_the_kernels_counts(self) -> None:
        record = NamespaceRecord()
        see(record, namespace(None, None, requeued=5, failed=0))
        see(record, namespace(None, None, requeued=9, failed=2))
        assert (record.requeued, record.failed) == (9, 2)

    def test_never_fall_when_root_resets_the_kernels_counts(self) -> None:
        record = NamespaceRecord()
        for requeued, total in ((5, 5), (2, 7), (3, 8)):
            see(record, namespace(None, None, requeued=requeued))
            assert record.requeued == total

    def test_are_counted_in_the_log_where_the_kernel_has_no_counts(self) -> None:
        record = NamespaceRecord()
        record.observe(namespace(None, None), NamespaceStep(), log_readable=True)
        assert (record.requeued, record.failed) == (0, 0)
        record.announced(requeued=3, failed=1)
        assert (record.requeued, record.failed) == (3, 1)

    def test_are_not_counted_twice(self) -> None:
        record = NamespaceRecord()
        see(record, namespace(None, None, requeued=5, failed=5))
        record.announced(requeued=3, failed=3)
        assert (record.requeued, record.failed) == (5, 5)

    def test_are_unknown_without_either_source(self) -> None:
        record = NamespaceRecord()
        see(record, namespace(None, None))
        assert (record.requeued, record.failed) == (None, None)


class TestTheRecordOfASubsystem:
    def test_dates_a_failover_by_the_wall_clock_at_its_end(self) -> None:
        record = SubsystemRecord()
        over = Failover(A, lost_at=104.0, start=100.0, end=105.0)
        record.count_failover({"a": "keep_alive"}, over, wall=5000.0, now=107.0)
        assert record.last_timestamp == 4998.0
        assert record.last_duration == 5.0
        assert record.phases["detection"].sum + record.phases["reroute"].sum == 5.0

    def test_counts_an_idle_failover_in_no_histogram(self) -> None:
        record = SubsystemRecord()
        record.count_failover({"a": "unknown"}, Failover(A, 104.0), wall=5000.0, now=107.0)
        assert record.failovers == {("a", "unknown"): 1}
        assert record.durations.count == 0
        assert record.last_timestamp is None

    def test_times_a_failback_only_where_both_phases_are_known(self) -> None:
        record = SubsystemRecord()
        record.count_failback("a", Failback(A))
        record.count_failback("a", Failback(A, reconnect=3.0, failback=0.5))
        assert record.failbacks == {"a": 2}
        assert record.phases["reconnect"].count == record.phases["failback"].count == 1

    def test_forgets_the_counts_of_paths_that_are_forgotten(self) -> None:
        record = SubsystemRecord()
        for label in ("a", "b"):
            record.count_failover({label: "ana"}, Failover(A, 1.0), wall=0, now=0)
            record.count_failback(label, Failback(A))
        record.keep_paths({"b"})
        assert record.failovers == {("b", "ana"): 1}
        assert record.failbacks == {"b": 1}


class TestAHistogram:
    def test_counts_a_value_at_a_bound_below_it(self) -> None:
        histogram = Histogram((1.0, 2.0))
        for value in (0.0, 1.0, 1.5, 2.0, 9.0):
            histogram.observe(value)
        assert histogram.cumulative() == [2, 4, 5]
        assert (histogram.count, histogram.sum) == (5, 13.5)

    def test_has_the_contracts_buckets(self) -> None:
        needed = {0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 30, 45, 60, 120, 300, 600}
        assert needed <= set(Histogram().bounds)

    @pytest.mark.parametrize("bounds", [(), (1.0,)])
    def test_begins_empty(self, bounds: tuple[float, ...]) -> None:
        assert Histogram(bounds).cumulative() == [0] * (len(bounds) + 1)
