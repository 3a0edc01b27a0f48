"""What the load felt: latencies, pauses and errors, from the times of its requests."""

from __future__ import annotations

import errno
import math

from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter.drill.latencies import Latencies
from nvmeof_exporter.drill.recorder import Failure, Pause, Recorder, Sample

SECONDS = st.floats(0, 20_000)


def counted(values: list[float]) -> Latencies:
    latencies = Latencies()
    for value in values:
        latencies.add(value)
    return latencies


class TestLatencies:
    @given(st.lists(SECONDS, min_size=1), st.floats(0.01, 100))
    def test_percentiles_are_at_most_one_percent_too_great(
        self, values: list[float], share: float
    ) -> None:
        exact = sorted(values)[max(math.ceil(share / 100 * len(values)), 1) - 1]
        told = counted(values).percentile(share)
        assert told is not None
        assert exact <= told <= exact * 1.01 + 1e-6

    @given(st.lists(SECONDS), st.lists(SECONDS))
    def test_of_several_workers_add_up(self, first: list[float], second: list[float]) -> None:
        both, together = counted(first), counted(first + second)
        both.add_all(counted(second))
        shares = (0.1, 50, 99, 100)
        assert [both.percentile(s) for s in shares] == [together.percentile(s) for s in shares]
        assert both.count == together.count
        assert both.total == together.total or math.isclose(both.total, together.total)

    def test_of_nothing_are_not_known(self) -> None:
        assert Latencies().percentile(50) is None


class Script:
    """Requests of several workers at given times."""

    def __init__(self) -> None:
        self.recorder = Recorder(0.0, threshold=0.5)
        self._begun: dict[str, float] = {}

    def begin(self, worker: str, now: float) -> None:
        self._begun[worker] = now
        self.recorder.begin(worker, now)

    def end(self, worker: str, now: float, error: int = 0) -> None:
        moved = 0 if error else 1 << 20
        self.recorder.end(worker, "read", self._begun.pop(worker), now, moved, error)


class TestPauses:
    def test_last_from_the_last_request_done_to_the_next(self) -> None:
        script = Script()
        script.begin("a", 0.0)
        script.begin("b", 0.1)
        script.end("a", 0.2)
        script.begin("a", 0.2)
        script.end("b", 6.0)
        script.end("a", 6.1)
        assert script.recorder.pauses == [
            Pause(0.2, 6.0, ""),
            Pause(0.1, 6.0, "b"),
            Pause(0.2, 6.1, "a"),
        ]

    def test_begin_where_something_is_wanted_first_after_idleness(self) -> None:
        script = Script()
        script.begin("a", 0.0)
        script.end("a", 0.1)
        script.begin("a", 5.0)
        script.end("a", 5.6)
        assert script.recorder.pauses == [Pause(5.0, 5.6, ""), Pause(5.0, 5.6, "a")]

    def test_of_one_worker_are_none_of_all_while_another_goes_on(self) -> None:
        script = Script()
        script.begin("a", 0.0)
        for tenth in range(20):
            script.begin("b", tenth / 10)
            script.end("b", tenth / 10 + 0.1)
        script.end("a", 2.0)
        assert script.recorder.pauses == [Pause(0.0, 2.0, "a")]
        assert script.recorder.longest(9.0, 0.0, 9.0, whole=False) == 2.0
        assert script.recorder.longest(9.0, 0.0, 9.0, whole=True) == 0.0

    def test_end_with_an_error_too_and_say_so(self) -> None:
        script = Script()
        script.begin("a", 1.0)
        script.end("a", 4.0, errno.EIO)
        assert script.recorder.pauses == [
            Pause(1.0, 4.0, "", failed=True),
            Pause(1.0, 4.0, "a", failed=True),
        ]
        assert script.recorder.failures == [Failure(4.0, "a", "read", "EIO")]

    def test_that_go_on_are_told_as_they_are_now(self) -> None:
        script = Script()
        script.begin("a", 0.0)
        script.end("a", 1.0)
        script.begin("a", 1.0)
        assert script.recorder.sample(4.0) == Sample(4.0, 1 << 20, 0, 1, 0, 3.0)
        assert script.recorder.longest(4.0, 2.0, 4.0, whole=True) == 3.0
        assert script.recorder.waits(4.0) == 3.0

    def test_belong_to_the_time_they_touch(self) -> None:
        script = Script()
        script.begin("a", 1.0)
        script.end("a", 3.0)
        recorder = script.recorder
        assert recorder.longest(1.0, 0.0, 9.0, whole=True) == 0.0
        assert recorder.longest(1.1, 2.9, 9.0, whole=True) == 2.0
        assert recorder.longest(9.0, 3.0, 9.0, whole=True) == 0.0

    def test_are_none_in_idleness(self) -> None:
        script = Script()
        script.begin("a", 0.0)
        script.end("a", 0.1)
        assert script.recorder.sample(9.0).stalled == 0.0
        assert script.recorder.ongoing(9.0) == []

    @given(
        st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 5), st.floats(0, 5)), max_size=30)
    )
    def test_of_all_are_those_of_the_times_at_which_anything_was_done(
        self, requests: list[tuple[str, float, float]]
    ) -> None:
        """Against a plain reckoning: gaps between ends, without the time nothing was wanted."""
        script = Script()
        free = dict.fromkeys("abc", 0.0)
        moments: list[tuple[float, int, str]] = []
        for worker, thinks, takes in requests:
            begin = free[worker] + thinks
            free[worker] = begin + takes
            moments += [(begin, 1, worker), (free[worker], 0, worker)]
        # One worker ends before it begins anew at the same moment, and begins before it ends.
        order = sorted(range(len(moments)), key=lambda index: (moments[index][0], index))
        wanted: dict[str, float] = {}
        last, expected = 0.0, []
        since = 0.0
        for index in order:
            now, begins, worker = moments[index]
            if begins:
                if not wanted:
                    since = now
                wanted[worker] = now
                script.begin(worker, now)
                continue
            start = max(last, since)
            if now - start >= 0.5:
                expected.append(Pause(start, now))
            last = now
            del wanted[worker]
            script.end(worker, now)
        assert [pause for pause in script.recorder.pauses if not pause.worker] == expected


class TestThroughput:
    def test_is_what_was_moved_in_whole_slots(self) -> None:
        script = Script()
        for tenth in range(20):
            script.begin("a", tenth / 10)
            script.end("a", tenth / 10 + 0.05)
        assert script.recorder.moved(0.0, 2.0) == 10 * (1 << 20)
        assert script.recorder.moved(0.5, 1.5) == 10 * (1 << 20)

    def test_falls_where_nothing_was_done(self) -> None:
        script = Script()
        script.begin("a", 0.0)
        script.end("a", 0.05)
        assert script.recorder.moved(0.0, 10.0) == (1 << 20) / 10

    def test_of_no_time_is_none(self) -> None:
        assert Script().recorder.moved(1.0, 1.0) == 0.0
