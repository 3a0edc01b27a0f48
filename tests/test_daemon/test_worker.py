from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from nvmeof_exporter.worker import _MOST_THREADS, Group, Worker
from nvmeof_exporter.worker import _PROMPT_SECONDS as PROMPT
from nvmeof_exporter.worker import _SPACING_SECONDS as SPACING
from tests.test_daemon.running import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INTERVAL, DEADLINE = 5.0, 2.0
AGE = 3 * INTERVAL + DEADLINE


class Bench:
    """A worker whose time stands still until it is told to pass."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.worker = Worker(INTERVAL, DEADLINE, clock=lambda: self.now)
        self.rdma: Group[int] = self.worker.group("rdma")
        self.worker.start()

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.worker._nudge.set()


class Device:
    """A source that answers when the test lets it, with how often it was asked."""

    def __init__(self, *, stuck: bool = False) -> None:
        self.asked = 0
        self.inside = 0
        self.most_inside = 0
        self.error: Exception | None = None
        self.answers = threading.Event()
        if not stuck:
            self.answers.set()

    def read(self) -> int:
        self.asked += 1
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        assert self.answers.wait(PATIENCE)
        self.inside -= 1
        if self.error is not None:
            raise self.error
        return self.asked


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.worker.stop()


@contextlib.contextmanager
def logged() -> Iterator[list[tuple[str, str, str]]]:
    """Level, text and reason of the lines that are logged meanwhile."""
    lines: list[tuple[str, str, str]] = []
    with capture_logs() as entries:
        try:
            yield lines
        finally:
            lines += [
                (str(e["log_level"]), str(e["event"]), str(e.get("reason", ""))) for e in entries
            ]


def asked(device: Device, times: int) -> Callable[[], bool]:
    return lambda: device.asked >= times and device.inside == 0


def test_tasks_run_at_once_and_then_once_per_interval(bench: Bench) -> None:
    device = Device()
    bench.rdma.assign({"mlx5_0": device.read})
    eventually(lambda: bench.rdma.values() == {"mlx5_0": 1}, "read")
    bench.pass_time(INTERVAL - 0.001)
    fence = Device()
    bench.rdma.assign({"mlx5_0": device.read, "mlx5_1": fence.read})
    eventually(asked(fence, 1), "a look at what is due")
    assert device.asked == 1
    bench.pass_time(0.001)
    eventually(lambda: bench.rdma.values() == {"mlx5_0": 2, "mlx5_1": 1}, "read again")
    status = bench.rdma.status()
    assert (status.success, status.seconds, status.errors) == (True, 0.0, 0)


def test_an_interval_may_be_shorter_than_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nvmeof_exporter.worker._SPACING_SECONDS", 0.0)
    worker = Worker(0.001, 3600)
    device = Device()
    worker.group("rdma").assign({"mlx5_0": device.read})
    worker.start()
    eventually(asked(device, 3), "read again and again")
    worker.stop()


def test_a_value_vanishes_at_its_age_and_not_before(bench: Bench) -> None:
    device = Device()
    bench.rdma.assign({"mlx5_0": device.read})
    eventually(lambda: bench.rdma.values() == {"mlx5_0": 1}, "read")
    device.answers.clear()
    bench.pass_time(AGE)
    assert bench.rdma.values() == {"mlx5_0": 1}
    bench.pass_time(0.001)
    assert bench.rdma.values() == {}
    device.answers.set()


def test_a_task_that_overruns_has_failed_at_its_deadline_and_the_others_go_on(
    bench: Bench,
) -> None:
    stuck, well = Device(stuck=True), Device()
    with logged() as lines:
        bench.rdma.assign({"mlx5_0": stuck.read, "mlx5_1": well.read})
        eventually(lambda: stuck.inside == 1, "stuck")
        bench.pass_time(0.2)
        eventually(lambda: bench.rdma.values() == {"mlx5_1": 1}, "the other one read")
        assert bench.rdma.status().success
        bench.pass_time(DEADLINE)
        eventually(lambda: not bench.rdma.status().success, "failed")
        assert bench.rdma.status().errors == 1
        bench.pass_time(INTERVAL)
        eventually(lambda: bench.rdma.values() == {"mlx5_1": 2}, "the other one goes on")
        bench.pass_time(INTERVAL)
        eventually(lambda: bench.rdma.values() == {"mlx5_1": 3}, "and on")
        assert bench.rdma.status().errors == 1
        stuck.answers.set()
        eventually(lambda: stuck.inside == 0, "returned")
        bench.pass_time(SPACING)
        eventually(lambda: bench.rdma.status().success, "works again")
    assert stuck.most_inside == 1
    assert lines == [
        ("warning", "slow source failed", "no answer within 2 s"),
        ("info", "slow source works again", ""),
    ]


def test_what_a_late_call_brings_is_thrown_away(bench: Bench) -> None:
    device = Device(stuck=True)
    bench.rdma.assign({"mlx5_0": device.read})
    eventually(lambda: device.inside == 1, "stuck")
    bench.pass_time(DEADLINE)
    eventually(lambda: not bench.rdma.status().success, "failed")
    device.answers.set()
    eventually(lambda: bench.rdma.tasks["mlx5_0"].began is None, "returned")
    assert bench.rdma.values() == {}
    assert not bench.rdma.status().success
    bench.pass_time(INTERVAL)
    eventually(lambda: bench.rdma.values() == {"mlx5_0": 2}, "read anew")


def test_a_device_that_went_and_came_back_while_a_call_hangs_gets_no_second_thread(
    bench: Bench,
) -> None:
    stuck = Device(stuck=True)
    bench.rdma.assign({"mlx5_0": stuck.read})
    eventually(lambda: stuck.inside == 1, "stuck")
    bench.rdma.assign({})
    assert bench.rdma.status().success
    other = Device()
    bench.rdma.assign({"mlx5_0": stuck.read, "mlx5_1": other.read})
    bench.pass_time(INTERVAL)
    eventually(asked(other, 1), "the other one read")
    assert stuck.asked == 1
    stuck.answers.set()
    eventually(lambda: stuck.inside == 0, "returned")
    bench.pass_time(INTERVAL)
    eventually(lambda: bench.rdma.values().get("mlx5_0") == 2, "read")


def test_no_more_threads_than_allowed_and_who_gets_none_has_failed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nvmeof_exporter.worker._MOST_THREADS", 3)
    devices = {f"mlx5_{number}": Device(stuck=True) for number in range(4)}
    bench.rdma.assign({name: device.read for name, device in devices.items()})
    for running in (1, 2, 3):
        eventually(lambda n=running: sum(d.inside for d in devices.values()) == n, "stuck")  # type: ignore[misc]
        bench.pass_time(0.2)
    eventually(lambda: bench.rdma.status().errors == 1, "failed for want of a thread")
    assert sum(device.asked for device in devices.values()) == 3
    for device in devices.values():
        device.answers.set()
    eventually(lambda: len(bench.rdma.values()) == 3, "those that had a thread")
    bench.pass_time(INTERVAL)
    eventually(lambda: bench.rdma.values().keys() == devices.keys(), "all read in the end")
    eventually(lambda: bench.rdma.status().success, "all well")


def test_waking_runs_tasks_now_but_not_in_rapid_succession(bench: Bench) -> None:
    device = Device()
    bench.rdma.assign({"mlx5_0": device.read})
    eventually(lambda: bench.rdma.values() == {"mlx5_0": 1}, "read")
    bench.pass_time(SPACING)
    for _ in range(100):
        bench.worker.wake()
    eventually(lambda: bench.rdma.values() == {"mlx5_0": 2}, "read again")
    bench.worker.wake()
    eventually(lambda: not bench.worker._woken, "heeded")
    assert device.asked == 2
    bench.pass_time(SPACING)
    eventually(lambda: bench.rdma.values() == {"mlx5_0": 3}, "not forgotten")


def test_a_change_while_a_task_runs_makes_it_run_once_more(bench: Bench) -> None:
    device = Device(stuck=True)
    bench.rdma.assign({"mlx5_0": device.read})
    eventually(lambda: device.inside == 1, "reading what was")
    bench.worker.wake()
    eventually(lambda: not bench.worker._woken, "heeded")
    device.answers.set()
    eventually(lambda: bench.rdma.values() == {"mlx5_0": 1}, "read")
    bench.pass_time(SPACING)
    eventually(lambda: bench.rdma.values() == {"mlx5_0": 2}, "read what is")


def test_groups_that_are_not_hurried_sleep_on_and_have_their_own_pace(bench: Bench) -> None:
    lldp: Group[int] = bench.worker.group("lldp", interval=60.0, hurried=False)
    switches, ports = Device(), Device()
    lldp.assign({"neighbours": switches.read})
    bench.rdma.assign({"mlx5_0": ports.read})
    eventually(lambda: (lldp.values(), bench.rdma.values()) != ({}, {}), "read")
    for seconds in (INTERVAL, 59.0 - INTERVAL):
        bench.pass_time(seconds)
        bench.worker.wake()
        eventually(lambda: not bench.worker._woken, "heeded")
    eventually(asked(ports, 2), "read again")
    assert switches.asked == 1
    assert lldp.age == 3 * 60.0 + DEADLINE
    bench.pass_time(1.0)
    eventually(asked(switches, 2), "a minute is over")


def test_a_failure_is_one_line_and_one_more_when_it_is_over(bench: Bench) -> None:
    device = Device()
    device.error = OSError(5, "Input/output error")
    with logged() as lines:
        bench.rdma.assign({"mlx5_0": device.read})
        for times in (1, 2, 3):
            eventually(lambda n=times: bench.rdma.status().errors == n, "failed")  # type: ignore[misc]
            bench.pass_time(INTERVAL)
        device.error = None
        eventually(lambda: bench.rdma.status().success, "works again")
    assert lines == [
        ("warning", "slow source failed", "[Errno 5] Input/output error"),
        ("info", "slow source works again", ""),
    ]


def test_a_defect_in_one_source_is_logged_with_its_trace_and_ends_nothing(bench: Bench) -> None:
    broken, well = Device(), Device()
    broken.error = KeyError("x")
    with capture_logs() as entries:
        bench.rdma.assign({"mlx5_0": broken.read, "mlx5_1": well.read})
        eventually(lambda: bench.rdma.values() == {"mlx5_1": 1}, "the other one read")
    assert [entry["log_level"] for entry in entries] == ["error", "warning"]
    assert entries[0]["exc_info"]
    assert not bench.rdma.status().success


def test_tasks_that_answer_at_once_run_one_after_another(bench: Bench) -> None:
    inside: list[int] = []
    running = threading.Semaphore(0)

    def read() -> int:
        running.release()
        inside.append(sum(t.name.startswith("rdma:") for t in threading.enumerate()))
        return 0

    bench.rdma.assign({f"mlx5_{number}": read for number in range(50)})
    eventually(lambda: len(bench.rdma.values()) == 50, "all read")
    assert set(inside) == {1}


def test_new_times_are_taken_over(bench: Bench) -> None:
    device = Device()
    bench.rdma.assign({"mlx5_0": device.read})
    eventually(lambda: bench.rdma.values() == {"mlx5_0": 1}, "read")
    bench.worker.configure(1.0, 0.5)
    assert bench.rdma.age == 3.5
    bench.pass_time(1.0)
    eventually(lambda: bench.rdma.values() == {"mlx5_0": 2}, "read at the new pace")


def test_a_source_that_hangs_keeps_no_process_alive() -> None:
    program = """
import threading
from nvmeof_exporter.worker import Worker
worker = Worker(5.0, 2.0)
inside = threading.Event()
def hang():
    inside.set()
    threading.Event().wait()
worker.group("rdma").assign({"mlx5_0": hang})
worker.start()
inside.wait()
worker.stop()
print("over")
"""
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "over\n", "")


_NAMES = [f"mlx5_{number}" for number in range(6)]
_STEPS = st.one_of(
    st.tuples(st.just("pass"), st.sampled_from([0.01, PROMPT, 0.5, SPACING, DEADLINE, INTERVAL])),
    st.tuples(st.just("end"), st.integers(0, 5)),
    st.tuples(st.just("fail"), st.integers(0, 5)),
    st.tuples(st.just("assign"), st.sets(st.sampled_from(_NAMES))),
    st.tuples(st.just("wake"), st.none()),
)


class ByHand:
    """A worker without threads: the test says when a call returns, and how."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.worker = Worker(INTERVAL, DEADLINE, clock=lambda: self.now)
        self.group: Group[float] = self.worker.group("rdma")
        self.running: list[tuple[str, float]] = []

    def look(self) -> None:
        """Begin what is to begin, and check what must always hold."""
        task, pause = self.worker._look()
        assert pause is None or pause >= 0
        if task is not None:
            assert task.name not in [name for name, _ in self.running]
            assert all(self.now - began >= PROMPT for _, began in self.running)
            self.running.append((task.name, self.now))
            assert len(self.running) <= _MOST_THREADS
        assert all(value >= self.now - AGE for value in self.group.values().values())

    def end(self, index: int, *, failing: bool) -> None:
        if self.running:
            name, began = self.running.pop(index % len(self.running))
            self.worker._end(self.group.tasks[name], began, failure="x" if failing else "")

    def do(self, step: tuple[str, object]) -> None:
        match step:
            case "pass", float(seconds):
                self.now += seconds
            case ("end" | "fail") as how, int(index):
                self.end(index, failing=how == "fail")
            case "assign", set(names):
                self.group.assign(dict.fromkeys(names, float))
            case _:
                self.worker.wake()


@given(st.lists(_STEPS, max_size=60))
def test_whatever_happens_a_device_has_one_thread_and_all_are_read_again_in_the_end(
    steps: list[tuple[str, object]],
) -> None:
    bench = ByHand()
    bench.group.assign(dict.fromkeys(_NAMES, float))
    for step in steps:
        bench.do(step)
        bench.look()
    wanted = {name for name, task in bench.group.tasks.items() if task.wanted}
    start = bench.now
    for _ in range(2 * len(_NAMES) + 2):
        bench.now += INTERVAL
        for _ in bench.running.copy():
            bench.end(0, failing=False)
        for _ in _NAMES:
            bench.look()
            bench.end(0, failing=False)
    assert bench.group.status().success
    assert bench.group.values().keys() == wanted
    assert all(value > start for value in bench.group.values().values())
    assert bench.group.tasks.keys() == wanted
