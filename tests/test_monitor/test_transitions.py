"""The states of one path: counted, timed, and found even where no poll saw them."""

from __future__ import annotations

import pytest

from nvmeof_exporter.model import Event, EventKind
from tests.test_monitor.drawing import WALL, History


class TestAChangeOfState:
    def test_is_counted_told_and_dated(self) -> None:
        history = History()
        history.wait(7)
        history.state(0, "connecting")
        history.wait(0.1)
        path = history.path()
        assert (path.state, path.transitions) == ("connecting", {"connecting": 1})
        assert path.last_transition == pytest.approx(WALL + 1007, abs=0.15)
        (told,) = history.told("path state changed")
        assert (told["old"], told["new"]) == ("live", "connecting")
        assert told["old_seconds"] == pytest.approx(7, abs=0.15)

    def test_keeps_polling_dense_for_a_while(self) -> None:
        history = History()
        history.state(0, "connecting")
        history.wait(1)
        assert history.monitor.attention
        history.wait(3)
        assert not history.monitor.attention

    def test_to_an_unknown_state_counts_as_unknown(self) -> None:
        history = History()
        history.state(0, "unknown")
        history.wait(0.2)
        assert history.path().transitions == {"unknown": 1}

    def test_is_not_made_by_a_state_that_cannot_be_read(self) -> None:
        history = History()
        history.state(0, None)
        history.wait(1)
        history.state(0, "live")
        history.wait(1)
        assert history.path().transitions == {}
        assert history.told("path state changed") == []

    def test_is_an_outage_from_leaving_live_to_being_live_again(self) -> None:
        history = History()
        for state, seconds in (("resetting", 1), ("connecting", 3), ("live", 1)):
            history.state(0, state)
            history.wait(seconds)
        assert history.record.outages.count == 1
        assert history.record.outages.sum == pytest.approx(4, abs=0.1)

    def test_of_a_path_that_is_removed_and_connected_anew_is_one_outage(self) -> None:
        history = History()
        history.state(0, "connecting")
        history.wait(2)
        history.leave(0)
        history.wait(60)
        history.come(0, name="nvme7", cntlid="9")
        history.wait(1)
        path = history.path()
        assert path.transitions == {"connecting": 1, "missing": 1, "live": 1}
        assert history.record.outages.sum == pytest.approx(62, abs=0.2)


class TestTimeInStates:
    def test_adds_up_to_the_time_that_passed(self) -> None:
        history = History()
        for state in ("connecting", "live", "resetting", "deleting", "new"):
            history.wait(1.37)
            history.state(0, state)
        history.wait(2)
        history.poll()
        assert sum(history.path().seconds.values()) == pytest.approx(history.now - 1000)

    def test_goes_on_for_a_path_that_is_missing(self) -> None:
        history = History()
        history.leave(0)
        history.wait(10)
        assert history.path().seconds["missing"] == pytest.approx(10, abs=0.2)

    @pytest.mark.parametrize("step", [-86400.0, 86400.0])
    def test_knows_nothing_of_steps_of_the_wall_clock(self, step: float) -> None:
        history = History()
        history.wait(1)
        history.wall_offset += step
        history.wait(1)
        assert sum(history.path().seconds.values()) == pytest.approx(2)


class TestAReconnectBetweenTwoPolls:
    def settled(self, *, diag: bool = False) -> History:
        history = History(diag=diag)
        history.wait(10)
        return history

    def test_is_betrayed_by_another_cntlid(self) -> None:
        history = self.settled()
        history.ports[0].cntlid = "2"
        history.wait(0.2)
        path = history.path()
        assert path.reconnect_attempts == 1
        assert path.transitions == {"connecting": 1, "live": 1}
        assert history.path(1).transitions == {}

    def test_is_betrayed_by_the_kernels_count_of_each(self) -> None:
        history = self.settled(diag=True)
        history.ports[0].reconnects += 3
        history.ports[0].cntlid = "2"
        history.wait(0.2)
        assert history.path().reconnect_attempts == 3

    def test_is_counted_from_zero_after_root_reset_the_count(self) -> None:
        history = self.settled(diag=True)
        history.ports[0].reconnects = 50
        history.wait(10)
        for reconnects in (2, 3):
            history.ports[0].reconnects = reconnects
            history.wait(10)
            assert history.path().reconnect_attempts == 50 + reconnects

    def test_is_not_counted_again_when_polls_saw_it(self) -> None:
        history = self.settled(diag=True)
        history.state(0, "connecting")
        history.wait(1)
        history.ports[0].reconnects += 1
        history.ports[0].cntlid = "2"
        history.state(0, "live")
        history.wait(10)
        assert history.path().transitions == {"connecting": 1, "live": 1}
        assert history.path().reconnect_attempts == 1

    def test_is_not_seen_in_a_new_controller_with_counts_of_its_own(self) -> None:
        history = self.settled(diag=True)
        history.ports[0].reconnects = 40
        history.wait(10)
        attempts = history.path().reconnect_attempts
        history.leave(0)
        history.wait(1)
        history.come(0, name="nvme9")
        history.ports[0].reconnects = 5
        history.wait(10)
        assert history.path().reconnect_attempts <= attempts + 1

    def test_is_heard_of_in_the_kernel_log(self) -> None:
        history = self.settled()
        history.say(EventKind.RECONNECT_FAILED, "nvme0")
        history.say(EventKind.RECONNECTED, "nvme0")
        history.wait(0.2)
        assert history.path().reconnect_attempts == 2


class TestResets:
    @pytest.mark.parametrize("diag", [False, True])
    def test_are_counted_once_seen_told_or_both(self, diag: bool) -> None:
        history = History(diag=diag)
        history.wait(10)
        history.state(0, "resetting")
        history.ports[0].resets += 1
        history.wait(1)
        history.state(0, "live")
        history.wait(10)
        assert history.path().resets == 1

    def test_between_two_polls_are_told_by_the_kernels_count(self) -> None:
        history = History(diag=True)
        history.wait(10)
        history.ports[0].resets += 2
        history.wait(1)
        assert history.path().resets == 2


class TestAna:
    def test_changes_are_counted_by_what_they_lead_to(self) -> None:
        history = History(ana=True)
        for state in ("inaccessible", "change", "optimized"):
            history.ports[0].ana["1"] = state
            history.wait(0.2)
        assert history.path().ana_transitions == {"inaccessible": 1, "change": 1, "optimized": 1}
        assert history.path(1).ana_transitions == {}
        assert [told["old"] for told in history.told("ANA state changed")] == [
            "optimized",
            "inaccessible",
            "change",
        ]

    def test_states_of_a_namespace_that_is_gone_are_forgotten(self) -> None:
        history = History(ana=True, namespaces=2)
        assert set(history.path().ana) == {"1", "2"}
        history.heads.remove("2")
        history.wait(0.2)
        assert set(history.path().ana) == {"1"}


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        (EventKind.KEEP_ALIVE_FAILED, "keep_alive"),
        (EventKind.IO_TIMEOUT, "io_timeout"),
        (EventKind.TRANSPORT_ERROR, "transport"),
        (EventKind.RECONNECT_FAILED, "connect"),
        (EventKind.ANA_TIMEOUT, "ana"),
        (EventKind.REMOVING, "removed"),
        (EventKind.FAST_FAIL, "other"),
    ],
)
def test_what_the_kernel_logs_of_a_controller_counts_as_an_error_of_its_path(
    kind: EventKind, cause: str
) -> None:
    history = History()
    history.say(kind, "nvme0")
    history.say(EventKind.RECONNECT_SCHEDULED, "nvme0")
    history.wait(0.2)
    assert history.path().errors == {cause: 1}
    assert history.path(1).errors == {}


def test_one_loss_of_the_keep_alive_is_one_error_however_many_lines_tell_of_it() -> None:
    history = History()
    for kind in (EventKind.KEEP_ALIVE_FAILED, EventKind.ERROR_RECOVERY) * 2:
        history.say(kind, "nvme0")
    history.wait(0.2)
    assert history.path().errors == {"keep_alive": 1}
    history.say(EventKind.RECONNECTED, "nvme0")
    history.say(EventKind.KEEP_ALIVE_FAILED, "nvme0")
    history.wait(0.2)
    assert history.path().errors == {"keep_alive": 2}


def test_a_failed_connect_that_is_told_twice_is_one_error() -> None:
    history = History()
    history.say(EventKind.CONNECT_FAILED, "nvme0")
    history.say(EventKind.RECONNECT_FAILED, "nvme0")
    history.wait(0.2)
    assert history.path().errors == {"connect": 1}


def test_what_is_logged_of_a_controller_nobody_knows_is_nobodys() -> None:
    history = History()
    history.events.append(Event(history.now, "kmsg", EventKind.IO_TIMEOUT, "nvme99"))
    history.wait(0.2)
    assert history.path().errors == {}


def test_a_kernel_name_that_another_path_has_now_stands_for_that_one() -> None:
    history = History()
    history.leave(0)
    history.leave(1)
    history.wait(1)
    history.come(1, name="nvme0")
    history.wait(1)
    history.say(EventKind.IO_TIMEOUT, "nvme0")
    history.wait(0.2)
    assert history.path(0).errors == {}
    assert history.path(1).errors == {"io_timeout": 1}
