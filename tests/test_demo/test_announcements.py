"""What the kernel says of a fault, in the wording of its transport and generation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.demo.devices import Timeouts
from nvmeof_exporter.demo.load import Load
from nvmeof_exporter.demo.nodes import array_node
from nvmeof_exporter.model import Event, EventKind
from nvmeof_exporter.sources.kmsg import parse

if TYPE_CHECKING:
    from nvmeof_exporter.demo.simulation import Node

LOAD = Load(queue_depth=2, rate=100)
TIMEOUTS = Timeouts(keep_alive=2, reconnect_delay=1, ctrl_loss=60)


def log_of(node: Node, device: str = "nvme0") -> list[str]:
    return [e.text for e in node.events if e.source == "kmsg" and e.device == device]


def black_holed(kernel: str, transport: str) -> Node:
    node = array_node(kernel, load=LOAD, transport=transport, timeouts=TIMEOUTS)
    node.advance(3)
    node.drain_events()
    node.black_hole(node.subsystems[0].connections[0])
    node.advance(14)
    node.heal(node.subsystems[0].connections[0])
    node.advance(6)
    return node


def test_tcp_of_7_3_tells_attempts_and_their_limit() -> None:
    log = log_of(black_holed("7.3", "tcp"))
    assert log[:4] == [
        "nvme nvme0: I/O tag 0 (0000) type 4 opcode 0x18 (Keep Alive) QID 0 timeout",
        "nvme nvme0: starting error recovery",
        "nvme nvme0: failed nvme_keep_alive_end_io error=10",
        "nvme nvme0: Reconnecting in 1 seconds...",
    ]
    assert "nvme nvme0: Failed reconnect attempt 1/60" in log
    assert log[-1].startswith("nvme nvme0: Successfully reconnected (attempt ")
    assert log[-1].endswith("/60)")


def test_tcp_of_6_1_tells_attempts_only() -> None:
    log = log_of(black_holed("6.1", "tcp"))
    assert log[0] == "nvme nvme0: queue 0: timeout request 0x0 type 4"
    assert "nvme nvme0: Failed reconnect attempt 1" in log
    assert log[-1].endswith(" attempt)")


def test_rdma_tells_of_the_send_that_failed() -> None:
    log = log_of(black_holed("7.3", "rdma"))
    assert log[0].startswith("nvme nvme0: SEND for CQE 0x")
    assert log[1] == "nvme nvme0: starting error recovery"
    assert "nvme nvme0: rdma connection establishment failed (-104)" in log
    assert log[-1].endswith(" attempts)")


def test_a_reconnect_is_announced_by_uevents_of_controller_and_heads() -> None:
    node = black_holed("7.3", "tcp")
    reconnected = next(e for e in node.events if e.kind is EventKind.RECONNECTED)
    uevents = [
        (e.kind, e.device) for e in node.events if e.source == "udev" and e.time == reconnected.time
    ]
    assert uevents == [
        (EventKind.CONTROLLER_CONNECTED, "nvme0"),
        (EventKind.TOPOLOGY_CHANGED, "nvme0n1"),
    ]


def test_an_ana_change_is_not_announced_at_all() -> None:
    node = array_node(load=LOAD)
    node.advance(1)
    node.drain_events()
    node.set_ana(node.subsystems[0].connections[0], 1, "inaccessible")
    node.advance(2)
    assert node.events == ()


def test_requeued_io_is_logged_ten_times_in_five_seconds_at_most() -> None:
    node = array_node(load=Load(queue_depth=64, rate=1000))
    node.advance(1)
    for connection in node.subsystems[0].connections:
        node.port_removed(connection)
    node.advance(1)
    log = log_of(node, "nvme0n1")
    assert log == ["block nvme0n1: no usable path - requeuing I/O"] * 10


def test_carrier_changes_are_announced_at_once() -> None:
    node = array_node()
    node.advance(1)
    node.link_down(node.netdevs["h1"])
    node.advance(1)
    node.link_up(node.netdevs["h1"])
    links = [(e.time, e.kind, e.device) for e in node.events if e.source == "netlink"]
    assert links == [
        (1, EventKind.CARRIER_LOST, "h1"),
        (2, EventKind.CARRIER_GAINED, "h1"),
    ]


@pytest.mark.parametrize("transport", ["tcp", "rdma"])
@pytest.mark.parametrize("kernel", ["6.1", "6.6", "6.12", "7.3"])
def test_the_exporter_reads_every_line_as_it_is_meant(kernel: str, transport: str) -> None:
    node = array_node(
        kernel,
        load=LOAD,
        transport=transport,
        timeouts=Timeouts(keep_alive=0, reconnect_delay=1, ctrl_loss=4, fast_io_fail=2),
    )
    first, second = node.subsystems[0].connections
    node.advance(1)
    node.reset(first)
    node.black_hole(second)
    node.advance(40)
    node.port_removed(first)
    node.advance(20)
    events = [*black_holed(kernel, transport).events, *node.events]
    logged = [event for event in events if event.source == "kmsg"]
    assert [parse(event.text) for event in logged] == [(e.kind, e.device) for e in logged]
    assert kinds(logged) >= {
        EventKind.ERROR_RECOVERY,
        EventKind.KEEP_ALIVE_FAILED,
        EventKind.CONNECT_FAILED,
        EventKind.RECONNECT_FAILED,
        EventKind.RECONNECTED,
        EventKind.RESETTING,
        EventKind.REMOVING,
        EventKind.FAST_FAIL,
        EventKind.REQUEUED,
    } - ({EventKind.KEEP_ALIVE_FAILED} if transport == "rdma" and kernel != "6.1" else set())


def kinds(events: list[Event]) -> set[EventKind]:
    return {event.kind for event in events}
