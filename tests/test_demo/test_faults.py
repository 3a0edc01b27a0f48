"""Every other fault, and how it ends."""

from __future__ import annotations

import pytest

from nvmeof_exporter.demo.devices import Controller, Timeouts
from nvmeof_exporter.demo.load import Load
from nvmeof_exporter.demo.nodes import array_node
from nvmeof_exporter.demo.simulation import Node

LOAD = Load(queue_depth=4, rate=400)
SHORT = Timeouts(keep_alive=2, reconnect_delay=1, ctrl_loss=3)


def controller_of(node: Node, index: int) -> Controller:
    controller = node.subsystems[0].connections[index].controller
    assert controller is not None
    return controller


class TestPortRemoved:
    def test_recovery_starts_at_once_and_nobody_waits(self) -> None:
        node = array_node(load=LOAD)
        node.advance(5)
        node.port_removed(node.subsystems[0].connections[0])
        assert controller_of(node, 0).state == "resetting"
        node.advance(1)
        assert controller_of(node, 0).state == "connecting"
        assert node.truth.pauses == {}
        assert node.truth.failovers[0].cause == "transport"

    def test_it_reconnects_with_a_new_cntlid_after_the_port_is_back(self) -> None:
        node = array_node(load=LOAD)
        connection = node.subsystems[0].connections[0]
        before = controller_of(node, 0).cntlid
        node.port_removed(connection)
        node.advance(5)
        attempts = controller_of(node, 0).reconnects
        node.port_restored(connection)
        node.advance(connection.timeouts.reconnect_delay + 0.2)
        after = controller_of(node, 0)
        assert after.state == "live"
        assert after.cntlid != before
        assert after.reconnects == attempts + 1
        assert after.resets == 1

    def test_numa_goes_back_to_the_path_that_was_connected_first(self) -> None:
        node = array_node(load=LOAD)
        connection = node.subsystems[0].connections[0]
        node.port_removed(connection)
        node.advance(1)
        node.port_restored(connection)
        node.advance(4)
        assert node.subsystems[0].namespaces[0].current is controller_of(node, 0).paths[0]


class TestAna:
    def test_requests_that_hit_it_are_sent_elsewhere_with_tiny_waits(self) -> None:
        node = array_node(load=Load(queue_depth=4, rate=None))
        node.advance(2)
        node.set_ana(node.subsystems[0].connections[0], 1, "inaccessible")
        node.advance(0.5)
        first, second = node.subsystems[0].namespaces[0].paths
        assert (first.controller.state, second.controller.state) == ("live", "live")
        assert first.ana_state == "inaccessible"
        assert 1 <= first.failovers <= 4
        assert second.counters.reads > 0
        assert node.truth.pauses == {}
        assert node.truth.failovers[0].cause == "ana"

    def test_the_file_says_so_up_to_a_fifth_of_a_second_after_the_first_refusal(self) -> None:
        node = array_node(load=Load(queue_depth=4, rate=None))
        node.advance(2)
        node.set_ana(node.subsystems[0].connections[0], 1, "change")
        node.advance(0.01)
        path = node.subsystems[0].namespaces[0].paths[0]
        assert path.failovers > 0
        assert path.ana_state == "optimized"
        node.advance(0.2)
        assert path.ana_state == "change"

    def test_with_no_path_accessible_io_is_parked_and_in_flight_nowhere(self) -> None:
        node = array_node(load=LOAD)
        namespace = node.subsystems[0].namespaces[0]
        node.advance(2)
        for connection in node.subsystems[0].connections:
            node.set_ana(connection, 1, "inaccessible")
        node.advance(5)
        assert [path.counters.in_flight for path in namespace.paths] == [0, 0]
        assert namespace.counters.in_flight == 0
        assert node.waiting(namespace) == LOAD.queue_depth
        assert namespace.requeued >= LOAD.queue_depth
        assert node.longest_wait(namespace) == pytest.approx(5, abs=0.1)
        node.set_ana(node.subsystems[0].connections[1], 1, "optimized")
        node.advance(0.5)
        ((pause,),) = node.truth.pauses.values()
        assert pause.longest == pytest.approx(5.1, abs=0.15)
        assert pause.failed == 0

    def test_optimized_comes_before_non_optimized(self) -> None:
        node = array_node(load=LOAD)
        node.set_ana(node.subsystems[0].connections[0], 1, "non-optimized")
        node.advance(1)
        before = node.subsystems[0].namespaces[0].paths[0].counters.reads
        node.advance(1)
        first, second = node.subsystems[0].namespaces[0].paths
        assert first.counters.reads == before
        assert second.counters.reads > 0
        node.set_ana(node.subsystems[0].connections[1], 1, "inaccessible")
        node.advance(1)
        assert first.counters.reads > before

    def test_an_unknown_state_is_refused(self) -> None:
        node = array_node()
        with pytest.raises(ValueError, match="expected one of optimized"):
            node.set_ana(node.subsystems[0].connections[0], 1, "optimised")


class TestControllerLoss:
    def test_attempts_count_not_seconds(self) -> None:
        node = array_node(load=LOAD, timeouts=SHORT)
        node.advance(5)
        for connection in node.subsystems[0].connections:
            node.black_hole(connection)
        node.advance(12)
        assert len(node.subsystems[0].controllers) == 2
        node.advance(5)
        assert node.subsystems[0].controllers == []

    def test_io_fails_and_the_subsystem_stays_while_it_is_held_open(self) -> None:
        node = array_node(load=LOAD, timeouts=SHORT)
        namespace = node.subsystems[0].namespaces[0]
        node.advance(5)
        for connection in node.subsystems[0].connections:
            node.port_removed(connection)
        node.advance(10)
        shown = node.snapshot(0, 0).subsystems
        assert [(s.name, s.controllers, s.namespaces) for s in shown] == [("nvme-subsys0", (), ())]
        assert node.waiting(namespace) == 0
        ((pause,),) = node.truth.pauses.values()
        assert pause.failed == LOAD.queue_depth
        node.set_load(namespace, None)
        assert node.snapshot(0, 0).subsystems == ()

    def test_a_later_connect_makes_a_new_instance_cntlid_and_counters(self) -> None:
        node = array_node(load=LOAD, timeouts=SHORT)
        connection = node.subsystems[0].connections[0]
        before = controller_of(node, 0)
        node.port_removed(connection)
        node.advance(10)
        assert connection.controller is None
        node.port_restored(connection)
        after = node.connect(connection)
        # Number 0 stays with the subsystem that was named after it.
        assert (before.name, after.name) == ("nvme0", "nvme2")
        assert after.cntlid > before.cntlid
        assert (after.resets, after.reconnects) == (0, 0)
        assert after.paths[0].disk == "nvme0c2n1"
        assert after.paths[0].counters.reads == 0

    def test_a_path_can_be_made_to_come_back_under_another_number(self) -> None:
        node = array_node()
        connection = node.subsystems[0].connections[1]
        seen = set()
        for _ in range(3):
            node.disconnect(connection)
            node.advance(1)
            seen.add(node.connect(connection, renumber=True).name)
        assert seen == {"nvme1", "nvme2"}
        with pytest.raises(ValueError, match="cannot be connected"):
            node.connect(connection)

    def test_fast_io_fail_fails_what_is_parked(self) -> None:
        node = array_node(load=LOAD, timeouts=Timeouts(fast_io_fail=2))
        namespace = node.subsystems[0].namespaces[0]
        node.advance(5)
        for connection in node.subsystems[0].connections:
            node.port_removed(connection)
        node.advance(1.5)
        assert (namespace.failed, node.waiting(namespace)) == (0, LOAD.queue_depth)
        node.advance(1)
        assert namespace.failed >= LOAD.queue_depth
        ((pause,),) = node.truth.pauses.values()
        assert pause.longest == pytest.approx(2, abs=0.1)
        assert pause.failed == LOAD.queue_depth


class TestHostActions:
    def test_a_reset_is_short_and_nobody_waits(self) -> None:
        node = array_node(load=LOAD)
        node.advance(2)
        node.reset(node.subsystems[0].connections[0])
        assert controller_of(node, 0).state == "resetting"
        node.advance(0.9)
        assert controller_of(node, 0).state == "live"
        assert controller_of(node, 0).resets == 1
        assert node.truth.pauses == {}

    def test_a_disconnected_path_goes_and_io_moves(self) -> None:
        node = array_node(load=LOAD)
        node.advance(2)
        node.disconnect(node.subsystems[0].connections[0])
        node.advance(1)
        (path,) = node.subsystems[0].namespaces[0].paths
        assert path.disk == "nvme0c1n1"
        assert node.truth.pauses == {}
        assert node.truth.failovers[0].cause == "administrative"

    def test_a_silent_controller_lingers_deleting_and_its_io_waits(self) -> None:
        node = array_node(load=LOAD)
        connection = node.subsystems[0].connections[0]
        node.advance(2)
        node.black_hole(connection)
        node.advance(0.1)
        node.disconnect(connection)
        node.advance(20)
        assert controller_of(node, 0).state == "deleting (no IO)"
        node.heal(connection)
        assert connection.controller is None
        node.advance(1)
        ((pause,),) = node.truth.pauses.values()
        assert pause.longest == pytest.approx(20.1, abs=0.1)


class TestNamespaceDisabled:
    def test_its_disks_go_and_it_comes_back_as_another_head(self) -> None:
        node = array_node(load=LOAD)
        namespace = node.subsystems[0].namespaces[0]
        node.advance(2)
        node.disable(namespace)
        assert node.snapshot(0, 0).subsystems[0].namespaces == ()
        node.advance(1)
        node.enable(namespace)
        node.advance(1)
        (shown,) = node.snapshot(0, 0).subsystems[0].namespaces
        assert shown.device == "nvme0n2"
        assert namespace.paths[0].counters.reads > 0


class TestKernelGenerations:
    def test_the_head_counts_nothing_on_6_1(self) -> None:
        node = array_node("6.1", load=LOAD)
        node.advance(5)
        (namespace,) = node.snapshot(0, 0).subsystems[0].namespaces
        assert namespace.io is not None
        assert set(namespace.io) == {0}
        assert (namespace.requeued, namespace.failed) == (None, None)

    def test_the_head_counts_what_its_paths_do_on_7_3(self) -> None:
        node = array_node("7.3", load=LOAD, iopolicy="round-robin")
        node.advance(5)
        (namespace,) = node.snapshot(0, 0).subsystems[0].namespaces
        assert namespace.io is not None
        counted = [path.io for path in namespace.paths if path.io is not None]
        assert namespace.io.completed == sum(io.completed for io in counted)
        assert namespace.io.read_sectors == sum(io.read_sectors for io in counted)

    def test_a_failover_leaks_the_in_flight_count_of_the_head_on_6_6(self) -> None:
        node = array_node("6.6", load=Load(queue_depth=4, rate=None))
        node.advance(2)
        node.port_removed(node.subsystems[0].connections[0])
        node.advance(1)
        namespace = node.subsystems[0].namespaces[0]
        lost = namespace.paths[0].failovers
        node.set_load(namespace, None)
        node.advance(1)
        assert lost > 0
        assert namespace.counters.in_flight == lost
        assert [path.counters.in_flight for path in namespace.paths] == [0, 0]

    def test_queue_depth_is_no_policy_of_6_1(self) -> None:
        with pytest.raises(ValueError, match="queue-depth"):
            array_node("6.1", iopolicy="queue-depth")

    def test_an_unheard_of_kernel_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"expected one of 6\.1"):
            Node("2.6")


def test_queue_depth_prefers_the_controller_with_less_to_do() -> None:
    node = array_node(load=Load(queue_depth=32, rate=None), iopolicy="queue-depth")
    node.advance(1)
    first, second = node.subsystems[0].namespaces[0].paths
    assert first.counters.in_flight == second.counters.in_flight == 16


def test_the_same_calls_give_the_same_history() -> None:
    def history() -> object:
        node = array_node(load=LOAD)
        node.advance(3)
        node.black_hole(node.subsystems[0].connections[0])
        node.advance(10)
        return node.snapshot(0, 0), node.events, node.truth.pauses

    assert history() == history()


def test_a_load_keeps_its_rate() -> None:
    node = array_node(load=Load(queue_depth=8, rate=200, read_share=0.5))
    node.advance(10)
    application = node.subsystems[0].namespaces[0].application
    assert application is not None
    assert application.completed == pytest.approx(2000, rel=0.01)
