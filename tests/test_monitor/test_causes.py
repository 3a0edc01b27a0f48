"""Why a path was lost, by what was announced and in which order.

The sequences are those of stock kernels' logs for each fault.
"""

from __future__ import annotations

import pytest

from nvmeof_exporter.model import Controller, Event, EventKind
from nvmeof_exporter.monitor.causes import (
    ERROR_CAUSES,
    FAILOVER_CAUSES,
    Evidence,
    Losses,
    LossSigns,
    error_cause,
)
from nvmeof_exporter.monitor.look import Look
from nvmeof_exporter.monitor.pace import NamespaceStep
from nvmeof_exporter.monitor.progress import Step
from nvmeof_exporter.monitor.share import NamespaceView
from nvmeof_exporter.monitor.stall import NamespaceProgress
from tests.test_monitor.drawing import History, path_id

LOST = 100.0

KEEP_ALIVE = EventKind.KEEP_ALIVE_FAILED
RECOVERY = EventKind.ERROR_RECOVERY
SCHEDULED = EventKind.RECONNECT_SCHEDULED
TRANSPORT = EventKind.TRANSPORT_ERROR
REMOVING = EventKind.REMOVING


def told(*kinds: EventKind, since: float = LOST, device: str = "nvme0") -> list[Event]:
    """Announcements a millisecond apart."""
    return [Event(since + n / 1000, "kmsg", kind, device) for n, kind in enumerate(kinds)]


def signs(
    *,
    last_io: float = LOST - 5,
    ana: bool = False,
    gone: bool = False,
    states: tuple[str, ...] = (),
    netdev: str = "eth0",
) -> LossSigns:
    return LossSigns("nvme0", netdev, last_io, LOST + 0.01, ana, gone, set(states))


def unused() -> LossSigns:
    """What is seen of a path that carried nothing until what another one gave up came to it."""
    return LossSigns("nvme0", "eth0", LOST, LOST + 0.01, unused=True)


def cause(*events: Event, loss: LossSigns | None = None, log_readable: bool = True) -> str:
    evidence = Evidence()
    evidence.add(events)
    return evidence.cause(loss or signs(), LOST + 1, log_readable=log_readable)


class TestALinkUnderAPathThatCarriedNothing:
    """When I/O last went over it is not known: only whether the link was down tells."""

    def test_is_the_cause_while_it_is_down_since_whenever(self) -> None:
        lost = Event(LOST - 30, "netlink", EventKind.CARRIER_LOST, "eth0")
        assert cause(lost, *told(KEEP_ALIVE, RECOVERY), loss=unused()) == "link_down"

    def test_is_not_when_it_had_come_up_again(self) -> None:
        lost = Event(LOST - 30, "netlink", EventKind.CARRIER_LOST, "eth0")
        back = Event(LOST - 20, "netlink", EventKind.CARRIER_GAINED, "eth0")
        assert cause(lost, back, *told(KEEP_ALIVE, RECOVERY), loss=unused()) == "keep_alive"


class TestTheKernelLogOf:
    def test_a_black_hole_begins_with_the_keep_alive(self) -> None:
        assert cause(*told(KEEP_ALIVE, RECOVERY, KEEP_ALIVE, SCHEDULED)) == "keep_alive"

    def test_a_black_hole_on_kernels_that_log_only_the_end_of_the_keep_alive(self) -> None:
        assert cause(*told(KEEP_ALIVE, SCHEDULED)) == "keep_alive"

    def test_a_removed_port_begins_with_error_recovery(self) -> None:
        assert cause(*told(RECOVERY, TRANSPORT, TRANSPORT, SCHEDULED)) == "transport"

    def test_a_removed_port_whose_recovery_cancels_a_keep_alive_is_still_the_transports(
        self,
    ) -> None:
        assert cause(*told(RECOVERY, KEEP_ALIVE, SCHEDULED)) == "transport"

    def test_an_rdma_link_that_breaks_begins_with_flushed_work_requests(self) -> None:
        assert cause(*told(TRANSPORT, RECOVERY, KEEP_ALIVE, SCHEDULED)) == "transport"

    def test_a_request_that_timed_out_says_so_before_the_recovery(self) -> None:
        assert cause(*told(EventKind.IO_TIMEOUT, RECOVERY, KEEP_ALIVE)) == "io_timeout"

    def test_a_reset_by_the_administrator_says_so(self) -> None:
        assert cause(*told(EventKind.RESETTING, KEEP_ALIVE)) == "administrative"

    def test_a_disconnect_says_so(self) -> None:
        assert cause(*told(REMOVING, KEEP_ALIVE), loss=signs(gone=True)) == "administrative"

    def test_an_ana_transition_that_takes_too_long_says_so_before_it_resets(self) -> None:
        assert cause(*told(EventKind.ANA_TIMEOUT, EventKind.RESETTING)) == "ana"

    def test_a_reset_through_sysfs_says_nothing_and_is_known_by_that(self) -> None:
        loss = signs(states=("resetting", "connecting"))
        assert cause(loss=loss) == "administrative"
        assert cause(loss=loss, log_readable=False) == "unknown"
        lost = Event(LOST, "kmsg", EventKind.LOST_EVENTS)
        assert cause(lost, loss=loss) == "unknown"

    def test_a_storm_does_not_push_out_what_came_first(self) -> None:
        storm = told(RECOVERY, *[TRANSPORT] * 500, KEEP_ALIVE)
        assert cause(*storm) == "transport"
        assert cause(*told(KEEP_ALIVE, RECOVERY, *[TRANSPORT] * 500)) == "keep_alive"


class TestAnEarlierLoss:
    def test_does_not_explain_one_after_a_reconnect(self) -> None:
        earlier = told(KEEP_ALIVE, RECOVERY, since=LOST - 4)
        back = told(EventKind.RECONNECTED, since=LOST - 1)
        assert cause(*earlier, *back, *told(RECOVERY)) == "transport"

    def test_does_not_explain_one_of_a_path_that_was_idle_for_hours(self) -> None:
        earlier = told(EventKind.IO_TIMEOUT, since=LOST - 3000)
        assert cause(*earlier, *told(RECOVERY), loss=signs(last_io=LOST - 9000)) == "transport"

    def test_of_another_controller_explains_nothing(self) -> None:
        assert cause(*told(KEEP_ALIVE, device="nvme1")) == "unknown"

    def test_that_comes_later_explains_nothing(self) -> None:
        assert cause(*told(KEEP_ALIVE, since=LOST + 2)) == "unknown"


class TestThePulledCable:
    def down(self, time: float) -> Event:
        return Event(time, "netlink", EventKind.CARRIER_LOST, "eth0")

    def up(self, time: float) -> Event:
        return Event(time, "netlink", EventKind.CARRIER_GAINED, "eth0")

    def test_is_the_cause_and_the_keep_alive_only_found_it(self) -> None:
        assert cause(self.down(LOST - 5), *told(KEEP_ALIVE, RECOVERY)) == "link_down"

    def test_is_the_cause_also_when_it_was_put_back_before_the_kernel_noticed(self) -> None:
        events = (self.down(LOST - 5), self.up(LOST - 1), *told(KEEP_ALIVE, RECOVERY))
        assert cause(*events) == "link_down"

    def test_is_the_cause_of_a_loss_long_after_the_last_io(self) -> None:
        loss = signs(last_io=LOST - 9000)
        assert cause(self.down(LOST - 200), *told(KEEP_ALIVE), loss=loss) == "link_down"

    def test_is_not_the_cause_when_io_went_on_without_it(self) -> None:
        """A bond has another member."""
        assert cause(self.down(LOST - 60), *told(KEEP_ALIVE)) == "keep_alive"

    def test_is_not_the_cause_when_it_was_put_back_long_ago(self) -> None:
        loss = signs(last_io=LOST - 9000)
        events = (self.down(LOST - 400), self.up(LOST - 300), *told(KEEP_ALIVE))
        assert cause(*events, loss=loss) == "keep_alive"

    def test_of_another_interface_is_not_the_cause(self) -> None:
        assert cause(self.down(LOST - 5), *told(RECOVERY), loss=signs(netdev="eth1")) == "transport"

    def test_of_an_interface_nobody_knows_is_not_the_cause(self) -> None:
        assert cause(self.down(LOST - 5), *told(KEEP_ALIVE), loss=signs(netdev="")) == "keep_alive"


class TestWithoutTheKernelLog:
    @pytest.mark.parametrize(
        ("loss", "expected"),
        [
            (signs(ana=True), "ana"),
            (signs(gone=True), "removed"),
            (signs(gone=True, states=("deleting",)), "administrative"),
            (signs(states=("deleting",)), "administrative"),
            (signs(states=("resetting", "connecting")), "unknown"),
            (signs(), "unknown"),
        ],
    )
    def test_the_snapshots_tell_what_they_can(self, loss: LossSigns, expected: str) -> None:
        assert cause(loss=loss, log_readable=False) == expected


class TestLosses:
    def look(self, state: str, at: float) -> Look:
        controller = Controller("nvme0", "nqn.x", path_id(0), state.split(maxsplit=1)[0], state)
        return Look("nqn.x", at - 0.1, at, at, {path_id(0): controller}, {})

    def test_ask_for_the_interface_as_it_was_while_the_path_was_live(self) -> None:
        losses = Losses(lambda controller: "eth0" if controller.state == "live" else "")
        losses.observe(self.look("live", LOST - 0.1), {})
        step = NamespaceStep(paths={path_id(0): Step(lost=True, last_true=LOST - 5)})
        losses.observe(
            self.look("resetting", LOST), {"1": NamespaceView(NamespaceProgress(), step)}
        )
        losses.hear([Event(LOST - 4, "netlink", EventKind.CARRIER_LOST, "eth0")])
        assert losses.cause("nqn.x", path_id(0), LOST + 1, log_readable=True) == "link_down"

    def test_are_explained_once(self) -> None:
        losses = Losses(lambda _: "")
        losses.observe(self.look("live", LOST - 0.1), {})
        step = NamespaceStep(paths={path_id(0): Step(lost=True)})
        losses.observe(
            self.look("deleting (no IO)", LOST), {"1": NamespaceView(NamespaceProgress(), step)}
        )
        found = [losses.cause("nqn.x", path_id(0), LOST + 1, log_readable=True) for _ in range(2)]
        assert found == ["administrative", "unknown"]


class TestSeenWithTheStates:
    """The same through the whole monitor, the log's lines between the polls they fall into."""

    def causes(self, history: History) -> list[str | float]:
        return [told["cause"] for told in history.told("failover")]

    def test_a_reset(self) -> None:
        history = History()
        history.monitor.log_readable = True
        history.flow(2, 0)
        history.say(EventKind.RESETTING, "nvme0")
        history.lose(0, to=1, state="resetting")
        history.flow(1, 1)
        assert self.causes(history) == ["administrative"]

    def test_ctrl_loss_tmo_is_a_loss_long_before_with_a_cause_of_its_own(self) -> None:
        history = History()
        history.flow(2, 0)
        history.wait(4)
        for kind in (KEEP_ALIVE, RECOVERY, KEEP_ALIVE, SCHEDULED):
            history.say(kind, "nvme0")
        history.lose(0, to=1)
        history.flow(20, 1)
        history.say(REMOVING, "nvme0")
        history.state(0, "deleting (no IO)")
        history.flow(0.1, 1)
        history.leave(0)
        history.flow(5, 1)
        assert self.causes(history) == ["keep_alive"]

    def test_a_disconnect(self) -> None:
        history = History()
        history.flow(2, 0)
        history.say(REMOVING, "nvme0")
        history.state(0, "deleting")
        history.flow(0.05, 0)
        history.issue(1, history.cancel(0))
        history.leave(0)
        history.flow(1, 1)
        assert self.causes(history) == ["administrative"]


def test_every_cause_is_one_of_the_contracts() -> None:
    assert {error_cause(kind) for kind in EventKind} - {None} <= set(ERROR_CAUSES)
    assert {"ana", "removed", "administrative", "link_down"} <= set(FAILOVER_CAUSES)


def test_evidence_is_bounded_however_much_is_announced() -> None:
    evidence = Evidence()
    for number in range(6000):
        evidence.add(
            Event(second * 10.0, "kmsg", kind, f"nvme{number}")
            for second, kind in enumerate([RECOVERY, KEEP_ALIVE] * (50 if number < 10 else 1))
        )
    assert len(evidence._events) <= 4096
    assert max(len(events) for events in evidence._events.values()) <= 64
