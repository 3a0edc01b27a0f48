"""The whole: order of snapshots, several subsystems, memory, and published cases of the field."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nvmeof_exporter.model import Event, EventKind, Snapshot
from nvmeof_exporter.monitor.expectations import Expectation, Expectations
from nvmeof_exporter.monitor.monitor import Monitor
from nvmeof_exporter.monitor.redundancy import condition_counts, worst_level
from tests.test_monitor.drawing import NQN, History, label, path_id


class TestSnapshots:
    def test_that_are_not_newer_are_ignored(self) -> None:
        history = History()
        history.wait(1)
        old = history.snapshot()
        history.state(0, "connecting")
        assert history.monitor.observe(replace(history.snapshot(), monotonic=old.monotonic)) == []
        assert history.monitor.observe(replace(history.snapshot(), monotonic=1.0)) == []
        assert history.path().state == "live"

    def test_that_are_not_newer_do_not_swallow_what_was_announced_with_them(self) -> None:
        history = History()
        history.monitor.log_readable = True
        event = Event(history.now, "kmsg", EventKind.REQUEUED, "nvme0n1")
        history.monitor.observe(history.snapshot(), [event])
        history.wait(0.2)
        assert history.namespace().requeued == 1

    def test_that_were_lost_for_a_while_leave_everything_standing(self) -> None:
        history = History(interval=30.0)
        history.flow(120, 0)
        assert history.told("failover") == history.told("I/O paused") == []
        history.poll()
        assert history.path().seconds["live"] == pytest.approx(history.now - 1000)

    def test_of_an_empty_machine_say_nothing(self) -> None:
        monitor = Monitor()
        assert monitor.observe(Snapshot(1, 1)) == []
        assert not monitor.attention
        assert not monitor.subsystems

    @pytest.mark.parametrize("step", [-1e6, 1e6])
    def test_may_come_with_steps_of_the_wall_clock(self, step: float) -> None:
        history = History()
        history.flow(2.03, 0)
        history.wait(2)
        history.wall_offset += step
        history.wait(1)
        history.lose(0, to=1)
        history.flow(1, 1)
        (told,) = history.told("failover")
        assert told["seconds"] == pytest.approx(3.01, abs=0.05)
        assert history.record.last_timestamp == pytest.approx(
            history.now + history.wall_offset - 1, abs=0.1
        )


class TestWhatIsKept:
    def test_is_known_of_every_subsystem_by_itself(self) -> None:
        history = History()
        other = replace(history.snapshot().subsystems[0], nqn="nqn.other", name="nvme-subsys1")
        both = replace(history.snapshot(), monotonic=2000.0)
        history.monitor.observe(replace(both, subsystems=(*both.subsystems, other)))
        assert set(history.monitor.subsystems) == {NQN, "nqn.other"}
        assert len(history.monitor.paths) == 4

    def test_of_a_remembered_subsystem_stays_after_it_is_gone(self) -> None:
        history = History()
        history.flow(2, 0)
        history.lose(0, to=1)
        history.flow(2, 1)
        history.say(EventKind.ERROR_RECOVERY, "nvme1")
        for path in (0, 1):
            history.leave(path)
        history.directory = False
        history.wait(5)
        assert history.record.failovers == {(label(0), "unknown"): 1}
        assert history.monitor.missing[NQN] == [label(0), label(1)]
        assert history.monitor.namespaces == {}

    def test_of_a_forgotten_subsystem_goes(self) -> None:
        history = History()
        for path in (0, 1):
            history.leave(path)
        history.directory = False
        history.wait(1)
        for path in (0, 1):
            history.monitor.expectations.forget(NQN, path_id(path))
        history.wait(1)
        monitor = history.monitor
        kept = (monitor.subsystems, monitor.paths, monitor.missing, monitor.superseded)
        assert kept == ({}, {}, {}, {})

    def test_of_a_configured_subsystem_is_there_before_it_is(self) -> None:
        expectations = Expectations({NQN: Expectation(1, (label(0),))})
        monitor = Monitor(expectations=expectations)
        monitor.observe(Snapshot(1, 1))
        assert monitor.missing[NQN] == [label(0)]

    def test_counts_of_a_forgotten_path_go_with_it(self) -> None:
        history = History()
        history.flow(2, 0)
        history.lose(0, to=1)
        history.flow(2, 1)
        history.leave(0)
        history.flow(2, 1)
        assert set(history.record.failovers) == {(label(0), "unknown")}
        history.monitor.expectations.forget(NQN, path_id(0))
        history.flow(1, 1)
        assert history.record.failovers == {}


def test_a_lower_threshold_takes_effect_at_once() -> None:
    history = History()
    history.monitor.configure(0.2)
    history.flow(1, 0)
    history.wait(0.3)
    history.flow(1, 0)
    assert len(history.told("I/O paused")) == 1


@pytest.fixture
def only_path() -> History:
    """Five seconds or more between looks, as somebody's scripts took them."""
    return History(paths=1, interval=1000.0, dense=1000.0)


class TestAKeepAliveLossOnTheOnlyPath:
    """36 s in ``connecting``; the requests hung before, and were parked meanwhile."""

    def replay(self, history: History) -> None:
        history.now = 1000.999
        history.issue(0, 4)
        self.at(history, 0)
        history.now += 0.001
        history.complete(0, 4)
        history.issue(0, 32)
        self.at(history, 5)
        history.lose(0)
        history.say(EventKind.KEEP_ALIVE_FAILED, "nvme0")
        history.say(EventKind.ERROR_RECOVERY, "nvme0")
        history.say(EventKind.REQUEUED, "nvme0n1")
        self.at(history, 10)
        self.at(history, 30)
        history.state(0, "live")
        history.issue(0, 32)
        self.at(history, 46)
        history.complete(0, 32)
        history.issue(0, 4)

    def at(self, history: History, second: float) -> None:
        history.now = 1001.0 + second
        history.poll()

    def test_is_an_outage_of_36_seconds(self, only_path: History) -> None:
        self.replay(only_path)
        assert only_path.record.outages.count == 1
        assert only_path.record.outages.sum == pytest.approx(36)

    def test_stalls_for_41_to_51_seconds_and_does_not_end_at_the_false_completions(
        self, only_path: History
    ) -> None:
        self.replay(only_path)
        assert only_path.told("I/O paused") == []
        assert only_path.namespace().stalled == pytest.approx(43, abs=5)
        self.at(only_path, 51)
        (told,) = only_path.told("I/O paused")
        assert 41 <= float(told["seconds"]) <= 51
        assert only_path.namespace().stalled == 0

    def test_is_no_failover_since_there_is_nowhere_to_go(self, only_path: History) -> None:
        self.replay(only_path)
        self.at(only_path, 51)
        assert only_path.told("failover") == []
        assert only_path.record.failovers == {}


class TestATargetThatIsGoneForGood:
    """Linux 5.1, RDMA: nothing on the head ever counts, hardly any attribute exists."""

    def test_stalls_without_end_though_nothing_is_in_flight_anywhere(
        self, only_path: History
    ) -> None:
        history = only_path
        history.issue(0, 32)
        for second in (0, 14, 120, 226):
            if second == 14:
                history.lose(0)
            history.now = 1001.0 + second
            history.poll()
        assert (history.namespace().stalled or 0) >= 212
        assert history.record.outages.count == 0
        subsystems = history.snapshot().subsystems
        assert worst_level(subsystems, complete=True) == "lost"


class TestFourGatewaysOneOfWhichIsLost:
    """877 s until its controller goes; three live paths are no use to the first namespace."""

    def replay(self) -> History:
        history = History(paths=4, namespaces=2, ana=True, interval=5, dense=5)
        for number, port in enumerate(history.ports):
            port.ana = {
                "1": "optimized" if number == 0 else "inaccessible",
                "2": "optimized" if number == 1 else "inaccessible",
            }
        history.wait(10)
        return history

    def usable(self, history: History) -> list[int]:
        (subsystem,) = history.snapshot().subsystems
        return [sum(path.usable for path in ns.paths) for ns in subsystem.namespaces]

    def test_is_redundant_before(self) -> None:
        history = self.replay()
        assert worst_level(history.snapshot().subsystems, complete=True) == "redundant"

    def test_loses_one_namespace_and_not_the_other(self) -> None:
        history = self.replay()
        history.state(0, "connecting")
        history.wait(10)
        assert self.usable(history) == [0, 1]
        (subsystem,) = history.snapshot().subsystems
        assert condition_counts(subsystem.namespaces[0])["unusable"] == 4
        assert worst_level([subsystem], complete=True) == "lost"

    def test_keeps_the_lost_path_in_mind_when_its_controller_goes(self) -> None:
        history = self.replay()
        history.state(0, "connecting")
        history.wait(870)
        history.leave(0)
        history.wait(10)
        assert self.usable(history) == [0, 1]
        assert history.monitor.missing[NQN] == [label(0)]
        assert history.monitor.expectations.expected(NQN) == 4


class TestAPathThatFlapsBetweenTwoLooks:
    @pytest.mark.parametrize(("diag", "attempts"), [(True, 3), (False, 1)])
    def test_is_found_by_what_it_leaves_behind(self, diag: bool, attempts: int) -> None:
        history = History(diag=diag, interval=60, dense=60)
        history.ports[0].cntlid, history.ports[0].reconnects = "6121", 7
        history.poll()
        history.wait(60)
        history.ports[0].cntlid, history.ports[0].reconnects = "6124", 10
        before = history.path().reconnect_attempts
        history.wait(60)
        assert history.path().reconnect_attempts - before == attempts
        assert history.path(1).reconnect_attempts == 0
        assert history.path().seconds.keys() == {"live"}
