"""Which paths there should be: remembered, configured, superseded, disconnected on purpose."""

from __future__ import annotations

from nvmeof_exporter.model import EventKind, PathId
from nvmeof_exporter.monitor.expectations import (
    Expectation,
    Expectations,
    KnownPath,
    KnownSubsystem,
)
from nvmeof_exporter.monitor.redundancy import worst_level
from nvmeof_exporter.remembering import recalled, remembered
from tests.test_monitor.drawing import NQN, History, label, path_id

A, B, C = (path_id(number) for number in range(3))
QUARTER = 900.0


class Memory:
    """Expectations of one subsystem, and the time."""

    def __init__(self, expectations: Expectations | None = None) -> None:
        self.expectations = expectations or Expectations(expiry=QUARTER)
        self.now = 1000.0
        self.wall_offset = 1e9

    def see(self, *present: PathId, retiring: tuple[PathId, ...] = ()) -> None:
        self.now += 1
        self.expectations.observe(
            NQN, set(present), retiring, wall=self.now + self.wall_offset, now=self.now
        )

    @property
    def expected(self) -> int | None:
        return self.expectations.expected(NQN)

    def missing(self, *present: PathId) -> list[str]:
        return self.expectations.missing(NQN, present)


class TestWhatIsRemembered:
    def test_is_expected_and_named_when_it_is_gone(self) -> None:
        memory = Memory()
        memory.see(A, B)
        memory.see(A)
        assert (memory.expected, memory.missing(A)) == (2, [label(1)])

    def test_is_the_most_that_was_ever_there_at_once(self) -> None:
        memory = Memory()
        memory.see(A, B)
        memory.see(B, C)
        assert memory.expected == 2
        assert memory.missing(B, C) == [label(0)]

    def test_is_nothing_of_a_subsystem_never_seen(self) -> None:
        memory = Memory()
        memory.see()
        assert (memory.expected, memory.missing()) == (None, [])
        assert memory.expectations.nqns() == set()

    def test_outlives_a_restart(self) -> None:
        known = {NQN: KnownSubsystem({A: KnownPath(1, 2), B: KnownPath(1, 2)}, most=2)}
        memory = Memory(Expectations(known=known))
        memory.see(A)
        assert (memory.expected, memory.missing(A)) == (2, [label(1)])

    def test_says_when_it_is_worth_writing_down(self) -> None:
        memory = Memory()
        memory.see(A)
        assert memory.expectations.changed
        memory.expectations.changed = False
        memory.see(A)
        assert not memory.expectations.changed

    def test_is_bounded(self) -> None:
        memory = Memory()
        for batch in range(10):
            memory.see(A, *(PathId("tcp", f"192.0.2.{batch}", str(n)) for n in range(500)))
        known = memory.expectations.known[NQN].paths
        assert len(known) == 4096
        assert A in known
        assert PathId("tcp", "192.0.2.9", "499") in known
        assert PathId("tcp", "192.0.2.0", "0") not in known


class TestForgetting:
    def test_drops_a_path_and_with_the_last_the_subsystem(self) -> None:
        memory = Memory()
        memory.see(A, B)
        memory.expectations.forget(NQN, B)
        assert memory.expected == 1
        memory.expectations.forget(NQN, A)
        assert memory.expected is None

    def test_what_is_still_there_lets_it_be_learned_anew(self) -> None:
        memory = Memory()
        memory.see(A, B)
        memory.expectations.forget(NQN, A)
        memory.see(A, B)
        assert memory.expected == 2

    def test_what_is_not_known_changes_nothing(self) -> None:
        memory = Memory()
        memory.expectations.forget(NQN, A)
        assert not memory.expectations.changed


class TestTheConfiguration:
    def test_wins_over_what_is_remembered(self) -> None:
        memory = Memory(Expectations({NQN: Expectation(4)}))
        memory.see(A, B)
        assert memory.expected == 4

    def test_of_names_makes_exactly_those_missing(self) -> None:
        memory = Memory(Expectations({NQN: Expectation(2, (label(0), label(2)))}))
        memory.see(A, B)
        assert memory.missing(A) == [label(2)]

    def test_speaks_for_a_subsystem_that_was_never_there(self) -> None:
        memory = Memory(Expectations({NQN: Expectation(1, (label(0),))}))
        assert (memory.expected, memory.missing()) == (1, [label(0)])
        assert memory.expectations.nqns() == {NQN}

    def test_can_be_replaced(self) -> None:
        memory = Memory(Expectations({NQN: Expectation(4)}))
        memory.see(A)
        memory.expectations.configure({}, expiry=1)
        assert memory.expected == 1


class TestARetiringPath:
    def test_is_shown_missing_but_not_expected_and_forgotten_in_time(self) -> None:
        memory = Memory()
        memory.see(A, B)
        memory.see(A, retiring=(B,))
        assert (memory.expected, memory.missing(A)) == (1, [label(1)])
        memory.now += QUARTER - 5
        memory.see(A, retiring=(B,))
        assert memory.missing(A) == [label(1)]
        memory.now += 10
        memory.see(A, retiring=(B,))
        assert memory.missing(A) == []

    def test_is_not_hastened_by_a_step_of_the_wall_clock(self) -> None:
        memory = Memory()
        memory.see(A, B)
        memory.see(A, retiring=(B,))
        memory.wall_offset += 86400
        memory.see(A, retiring=(B,))
        assert memory.missing(A) == [label(1)]

    def test_that_comes_back_is_expected_again(self) -> None:
        memory = Memory()
        memory.see(A, B)
        memory.see(A, retiring=(B,))
        memory.see(A, B)
        memory.see(A)
        assert (memory.expected, memory.missing(A)) == (2, [label(1)])


def watched(*, expiry: float = QUARTER, paths: int = 2, ana: bool = False) -> History:
    history = History(
        paths=paths, ana=ana, expectations=Expectations(expiry=expiry), interval=1, dense=1
    )
    history.wait(10)
    return history


class TestASupersededPath:
    def replaced(self) -> History:
        """A gateway's path turned inaccessible; one that is younger carries on."""
        history = watched(ana=True, paths=3)
        history.leave(2)
        history.monitor.expectations.forget(NQN, C)
        history.wait(5)
        history.come(2)
        history.wait(2)
        history.ports[0].ana["1"] = "inaccessible"
        history.wait(1)
        history.state(0, "connecting")
        history.wait(1)
        return history

    def test_is_named_while_it_still_tries_to_reconnect(self) -> None:
        history = self.replaced()
        assert history.monitor.superseded[NQN] == {"nvme0"}
        assert history.monitor.expectations.expected(NQN) == 2

    def test_is_forgotten_after_a_while_without_an_alarm(self) -> None:
        history = self.replaced()
        history.leave(0)
        history.wait(600)
        assert history.monitor.missing[NQN] == [label(0)]
        assert history.monitor.expectations.expected(NQN) == 2
        history.wait(400)
        assert history.monitor.missing[NQN] == []
        assert (NQN, label(0)) not in history.monitor.paths

    def test_that_is_live_again_is_superseded_no_more(self) -> None:
        history = self.replaced()
        history.state(0, "live")
        history.wait(2)
        assert history.monitor.superseded[NQN] == frozenset()
        assert history.monitor.expectations.expected(NQN) == 3

    def test_is_none_without_a_younger_one(self) -> None:
        history = watched(ana=True)
        history.ports[0].ana["1"] = "inaccessible"
        history.wait(1)
        history.state(0, "connecting")
        history.wait(1)
        history.leave(0)
        history.wait(2000)
        assert history.monitor.missing[NQN] == [label(0)]
        assert history.monitor.expectations.expected(NQN) == 2

    def test_is_none_that_was_optimized_to_the_end(self) -> None:
        history = watched(ana=True)
        history.ports.append(history.ports[1].__class__(C, "nvme2", ana={"1": "optimized"}))
        history.come(2)
        history.wait(1)
        history.state(0, "connecting")
        history.wait(1)
        assert history.monitor.superseded[NQN] == frozenset()


def disconnect(history: History, *paths: int, seen: bool = True) -> None:
    """``nvme disconnect``: live, deleting, gone."""
    for path in paths:
        history.say(EventKind.REMOVING, history.ports[path].name)
        if seen:
            history.state(path, "deleting")
    if seen:
        history.wait(1)
    for path in paths:
        history.leave(path)
    history.directory = any(port.present for port in history.ports)
    history.wait(1)


class TestASubsystemDisconnectedOnPurpose:
    def test_is_shown_missing_but_not_expected(self) -> None:
        history = watched()
        disconnect(history, 0, 1)
        assert history.monitor.missing[NQN] == [label(0), label(1)]
        assert history.monitor.expectations.expected(NQN) == 0
        assert worst_level([], complete=True) is None

    def test_is_forgotten_after_a_while(self) -> None:
        history = watched()
        disconnect(history, 0, 1)
        history.wait(QUARTER - 10)
        assert history.monitor.missing[NQN] == [label(0), label(1)]
        history.wait(20)
        assert NQN not in history.monitor.subsystems
        assert NQN not in history.monitor.expectations.nqns()
        assert history.monitor.paths == {}

    def test_is_recognised_by_the_kernel_log_when_no_poll_saw_it_deleting(self) -> None:
        history = watched()
        disconnect(history, 0, 1, seen=False)
        assert history.monitor.expectations.expected(NQN) == 0

    def test_may_have_had_a_path_that_was_lost_long_before(self) -> None:
        history = watched()
        history.state(0, "connecting")
        history.wait(600)
        history.leave(0)
        history.wait(600)
        assert history.monitor.expectations.expected(NQN) == 2
        disconnect(history, 1)
        assert history.monitor.expectations.expected(NQN) == 0

    def test_may_have_a_path_that_is_down_just_then(self) -> None:
        history = watched()
        history.state(0, "connecting")
        history.wait(60)
        disconnect(history, 0, 1)
        assert history.monitor.expectations.expected(NQN) == 0

    def test_is_expected_again_when_a_path_of_it_comes_back(self) -> None:
        history = watched()
        disconnect(history, 0, 1)
        history.directory = True
        history.come(1)
        history.wait(2000)
        assert history.monitor.expectations.expected(NQN) == 2
        assert history.monitor.missing[NQN] == [label(0)]


class TestARestart:
    """The memory knows what was retiring."""

    def test_expects_no_subsystem_that_was_disconnected_before_it(self) -> None:
        history = watched()
        disconnect(history, 0, 1)
        later = History(paths=0, expectations=Expectations(known=known_after(history)))
        assert later.monitor.expectations.expected(NQN) == 0
        assert later.monitor.missing[NQN] == [label(0), label(1)]

    def test_forgets_it_when_its_time_is_over(self) -> None:
        history = watched()
        disconnect(history, 0, 1)
        later = History(paths=0, expectations=Expectations(known=known_after(history)))
        later.wait(QUARTER - 10)
        assert NQN in later.monitor.expectations.nqns()
        later.wait(30)
        assert NQN not in later.monitor.expectations.nqns()

    def test_expects_all_of_it_when_a_path_of_it_is_back(self) -> None:
        history = watched()
        disconnect(history, 0, 1)
        later = History(paths=1, expectations=Expectations(known=known_after(history)))
        assert later.monitor.expectations.expected(NQN) == 2
        assert later.monitor.missing[NQN] == [label(1)]

    def test_expects_what_was_lost_before_it(self) -> None:
        history = watched()
        history.leave(0)
        history.wait(10)
        later = History(paths=0, expectations=Expectations(known=known_after(history)))
        assert later.monitor.expectations.expected(NQN) == 2


def known_after(history: History) -> dict[str, KnownSubsystem]:
    """What is remembered by the file."""
    expectations = history.monitor.expectations
    assert expectations.changed
    return recalled(remembered(expectations), -history.wall_offset)


class TestNotOnPurpose:
    def test_is_one_path_of_several(self) -> None:
        history = watched()
        disconnect(history, 0)
        history.wait(2000)
        assert history.monitor.expectations.expected(NQN) == 2
        assert history.monitor.missing[NQN] == [label(0)]

    def test_is_a_subsystem_whose_paths_reached_ctrl_loss_tmo(self) -> None:
        history = watched()
        for path in (0, 1):
            history.say(EventKind.ERROR_RECOVERY, f"nvme{path}")
            history.state(path, "connecting")
        history.wait(600)
        disconnect(history, 0, 1)
        history.wait(2000)
        assert history.monitor.expectations.expected(NQN) == 2
        assert history.monitor.missing[NQN] == [label(0), label(1)]

    def test_is_a_path_given_up_so_fast_that_only_the_log_knows_of_its_trouble(self) -> None:
        """``ctrl_loss_tmo=0``: removed at the first loss."""
        history = watched(paths=1)
        history.say(EventKind.ERROR_RECOVERY, "nvme0")
        disconnect(history, 0)
        assert history.monitor.expectations.expected(NQN) == 1

    def test_is_a_controller_that_vanished_without_a_word(self) -> None:
        history = watched(paths=1)
        history.leave(0)
        history.directory = False
        history.wait(2)
        assert history.monitor.expectations.expected(NQN) == 1

    def test_is_a_disconnect_long_before_the_last_path_was_lost(self) -> None:
        history = watched()
        disconnect(history, 0)
        history.wait(60)
        history.state(1, "connecting")
        history.wait(600)
        disconnect(history, 1)
        assert history.monitor.expectations.expected(NQN) == 2
