"""A path whose packets vanish: what the kernel shows, and what the application feels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.demo.devices import Timeouts
from nvmeof_exporter.demo.load import Load
from nvmeof_exporter.demo.nodes import array_node

if TYPE_CHECKING:
    from nvmeof_exporter.demo.simulation import Node

LOAD = Load(queue_depth=4, rate=400)


def holed_node(kernel: str = "7.3", keep_alive: int = 4) -> Node:
    """A node whose first path fell silent at 10 s, and that was looked at 0.1 s later."""
    node = array_node(kernel, load=LOAD, timeouts=Timeouts(keep_alive=keep_alive))
    node.advance(10)
    node.black_hole(node.subsystems[0].connections[0])
    node.advance(0.1)
    return node


def until_lost(node: Node, state: str = "connecting") -> float:
    """Let time pass until the first controller is in ``state``; return the time."""
    for _ in range(10_000):
        first = node.subsystems[0].connections[0].controller
        if first is not None and first.state == state:
            return node.now
        node.advance(0.01)
    raise AssertionError(f"never {state}")


@pytest.mark.parametrize("kernel", ["6.1", "6.12", "7.3"])
def test_its_counters_freeze_while_state_says_live(kernel: str) -> None:
    node = holed_node(kernel)
    before = node.snapshot(0, 0).subsystems[0].namespaces[0].paths[0]
    node.advance(3)
    after = node.snapshot(0, 0).subsystems[0].namespaces[0].paths[0]
    assert before.io is not None
    assert after.io is not None
    assert after.controller.state == "live"
    assert after.io.in_flight == LOAD.queue_depth
    assert (after.io.completed, after.io.waited_ms) == (before.io.completed, before.io.waited_ms)


@pytest.mark.parametrize("keep_alive", [1, 5, 15])
def test_the_keep_alive_notices_it_after_one_to_one_and_a_half_times_its_timeout(
    keep_alive: int,
) -> None:
    node = holed_node(keep_alive=keep_alive)
    took = until_lost(node, "connecting") - 10
    assert keep_alive <= took <= 1.5 * keep_alive + 0.1


def test_kernel_6_1_stays_resetting_for_four_seconds_more() -> None:
    node = holed_node("6.1")
    resetting = until_lost(node, "resetting")
    frozen = node.subsystems[0].namespaces[0].paths[0].counters.in_flight
    assert frozen == LOAD.queue_depth
    assert until_lost(node) - resetting == pytest.approx(4, abs=0.02)


@pytest.mark.parametrize("kernel", ["6.1", "6.12", "7.3"])
def test_cancelled_requests_add_their_whole_waiting_time_to_the_ms_fields(kernel: str) -> None:
    node = holed_node(kernel)
    path = node.subsystems[0].namespaces[0].paths[0]
    before = path.counters.values(node.now)
    started = [request.started for request in path.in_flight]
    until_lost(node)
    after = path.counters.values(node.now)
    (failover,) = node.truth.failovers
    waited = sum(failover.given_up - time for time in started) * 1000
    assert after.completed - before.completed == LOAD.queue_depth
    assert after.waited_ms - before.waited_ms == pytest.approx(waited, abs=3)


def test_cancelled_requests_move_no_data() -> None:
    node = holed_node()
    path = node.subsystems[0].namespaces[0].paths[0]
    before = path.counters.values(node.now)
    until_lost(node)
    after = path.counters.values(node.now)
    assert (after.read_sectors, after.write_sectors) == (
        before.read_sectors,
        before.write_sectors,
    )


def test_its_requests_are_sent_again_on_the_other_path_and_counted() -> None:
    node = holed_node()
    until_lost(node)
    first, second = node.subsystems[0].namespaces[0].paths
    assert first.failovers == LOAD.queue_depth
    assert first.counters.in_flight == 0
    assert second.counters.values(node.now).completed >= LOAD.queue_depth
    node.advance(1)
    assert second.counters.values(node.now).completed > 100


def test_the_application_felt_the_pause_that_the_truth_tells() -> None:
    node = holed_node()
    until_lost(node)
    node.advance(1)
    ((pause,),) = node.truth.pauses.values()
    (failover,) = node.truth.failovers
    assert pause.requests == LOAD.queue_depth
    assert pause.start == pytest.approx(10, abs=0.02)
    assert pause.longest == pytest.approx(pause.end - pause.start, abs=0.02)
    assert failover.cause == "keep_alive"
    assert failover.duration == pytest.approx(pause.longest, abs=0.02)


def test_a_short_one_is_a_pause_without_a_failover() -> None:
    node = holed_node()
    node.advance(1)
    node.heal(node.subsystems[0].connections[0])
    node.advance(2)
    ((pause,),) = node.truth.pauses.values()
    assert 1.1 < pause.longest < 1.5
    assert node.truth.failovers == []
    assert node.subsystems[0].namespaces[0].paths[0].failovers == 0


def test_without_a_keep_alive_the_io_timeout_notices_it() -> None:
    node = holed_node(keep_alive=0)
    assert until_lost(node) - 10 == pytest.approx(node.io_timeout, abs=0.1)
    assert node.truth.failovers[0].cause == "io_timeout"


def test_new_rdma_kernels_hear_of_it_from_the_transport() -> None:
    node = array_node("7.3", load=LOAD, transport="rdma")
    node.advance(5)
    node.black_hole(node.subsystems[0].connections[0])
    assert until_lost(node) - 5 < 0.7
    assert node.truth.failovers[0].cause == "transport"


def test_rdma_of_kernel_6_1_waits_for_the_keep_alive() -> None:
    node = array_node("6.1", load=LOAD, transport="rdma", timeouts=Timeouts(keep_alive=3))
    node.advance(5)
    node.black_hole(node.subsystems[0].connections[0])
    assert until_lost(node, "resetting") - 5 >= 3


def test_a_round_robin_application_with_other_requests_goes_on() -> None:
    node = array_node(load=Load(queue_depth=64, rate=100), iopolicy="round-robin")
    node.advance(5)
    first, second = node.subsystems[0].namespaces[0].paths
    node.black_hole(first.controller.connection)
    node.advance(0.2)
    before = second.counters.values(node.now).completed
    node.advance(0.4)
    assert second.counters.values(node.now).completed > before
    assert 0 < first.counters.in_flight < 64


def test_carrier_loss_is_the_same_with_another_cause() -> None:
    node = array_node(load=LOAD, timeouts=Timeouts(keep_alive=4))
    node.advance(10)
    node.link_down(node.netdevs["h0"])
    until_lost(node)
    (failover,) = node.truth.failovers
    assert failover.cause == "link_down"
    assert node.netdevs["h0"].carrier_changes == 3


def test_io_that_returns_to_the_same_path_was_served_by_no_other() -> None:
    node = array_node(load=LOAD, timeouts=Timeouts(keep_alive=2), paths=1)
    (connection,) = node.subsystems[0].connections
    node.advance(5)
    node.black_hole(connection)
    until_lost(node)
    node.heal(connection)
    node.advance(10)
    (failover,) = node.truth.failovers
    assert failover.cancelled == LOAD.queue_depth
    assert (failover.first_elsewhere, failover.duration) == (None, None)
    ((pause,),) = node.truth.pauses.values()
    assert pause.longest > 2
