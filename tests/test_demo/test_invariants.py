"""Whatever befalls the node, in whatever order, its books balance."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nvmeof_exporter.demo.devices import Timeouts
from nvmeof_exporter.demo.load import Load
from nvmeof_exporter.demo.nodes import array_node
from nvmeof_exporter.model import PATH_STATES

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvmeof_exporter.demo.devices import Connection
    from nvmeof_exporter.demo.simulation import Node
    from nvmeof_exporter.model import IoCounters, Snapshot

pytestmark = pytest.mark.thorough

#: Fields of ``stat`` that go up and down.
GAUGES = {"in_flight"}


def connect(node: Node, connection: Connection) -> None:
    if connection.controller is None and connection.answering:
        node.connect(connection)


ON_PATH: dict[str, Callable[[Node, Connection], object]] = {
    "black hole": lambda node, path: node.black_hole(path),
    "heal": lambda node, path: node.heal(path),
    "link down": lambda node, path: node.link_down(path.netdev),
    "link up": lambda node, path: node.link_up(path.netdev),
    "port removed": lambda node, path: node.port_removed(path),
    "port restored": lambda node, path: node.port_restored(path),
    "reset": lambda node, path: node.reset(path),
    "disconnect": lambda node, path: node.disconnect(path),
    "connect": connect,
    "optimized": lambda node, path: node.set_ana(path, 1, "optimized"),
    "non-optimized": lambda node, path: node.set_ana(path, 1, "non-optimized"),
    "inaccessible": lambda node, path: node.set_ana(path, 1, "inaccessible"),
    "change": lambda node, path: node.set_ana(path, 1, "change"),
    "disable": lambda node, path: node.disable(path.subsystem.namespaces[0]),
    "enable": lambda node, path: node.enable(path.subsystem.namespaces[0]),
    "load off": lambda node, path: node.set_load(path.subsystem.namespaces[0], None),
    "load on": lambda node, path: node.set_load(path.subsystem.namespaces[0], Load(4, 50)),
}

STEPS = st.lists(
    st.tuples(
        st.sampled_from(sorted(ON_PATH)),
        st.integers(min_value=0, max_value=2),
        st.sampled_from([0.0, 0.003, 0.1, 1.0, 4.0]),
    ),
    max_size=25,
)
NODES = st.builds(
    array_node,
    kernel=st.sampled_from(["6.1", "6.6", "7.3"]),
    load=st.just(Load(queue_depth=4, rate=60)),
    iopolicy=st.sampled_from(["numa", "round-robin"]),
    transport=st.sampled_from(["tcp", "rdma"]),
    timeouts=st.builds(
        Timeouts,
        keep_alive=st.sampled_from([0, 1, 5]),
        reconnect_delay=st.just(1),
        ctrl_loss=st.sampled_from([2, None]),
        fast_io_fail=st.sampled_from([1, None]),
    ),
    paths=st.just(3),
)


@settings(max_examples=150, deadline=None)
@given(node=NODES, steps=STEPS)
def test_every_request_is_completed_or_failed_or_waits(
    node: Node, steps: list[tuple[str, int, float]]
) -> None:
    (namespace,) = node.subsystems[0].namespaces
    for name, index, seconds in steps:
        ON_PATH[name](node, node.subsystems[0].connections[index])
        node.advance(seconds)
        application = namespace.application
        assert application is not None
        ended = application.completed + application.failed
        assert application.issued == ended + node.waiting(namespace)


@settings(max_examples=150, deadline=None)
@given(node=NODES, steps=STEPS)
def test_counters_never_go_back_while_their_disk_exists(
    node: Node, steps: list[tuple[str, int, float]]
) -> None:
    history = [node.snapshot(0, 0)]
    for name, index, seconds in steps:
        ON_PATH[name](node, node.subsystems[0].connections[index])
        node.advance(seconds)
        history.append(node.snapshot(0, 0))
    for before, after in pairwise(history):
        earlier, later = disks_of(before), disks_of(after)
        for disk in earlier.keys() & later.keys():
            for field in set(earlier[disk]._fields) - GAUGES:
                assert getattr(earlier[disk], field) <= getattr(later[disk], field), field
        assert all(io.in_flight >= 0 for io in later.values())
        assert all(min(io) >= 0 for io in later.values())


@settings(max_examples=150, deadline=None)
@given(node=NODES, steps=STEPS)
def test_what_is_in_flight_is_on_the_paths_and_the_rest_is_parked(
    node: Node, steps: list[tuple[str, int, float]]
) -> None:
    (namespace,) = node.subsystems[0].namespaces
    for name, index, seconds in steps:
        ON_PATH[name](node, node.subsystems[0].connections[index])
        node.advance(seconds)
        on_paths = sum(path.counters.in_flight for path in namespace.paths)
        assert node.waiting(namespace) == on_paths + len(namespace.parked)
        for controller in node.subsystems[0].controllers:
            assert controller.in_flight == sum(len(path.in_flight) for path in controller.paths)
        if namespace.parked:
            assert not any(path.usable for path in namespace.paths)
        states = {c.state for s in node.snapshot(0, 0).subsystems for c in s.controllers}
        assert states <= set(PATH_STATES)


@settings(max_examples=100, deadline=None)
@given(node=NODES, steps=STEPS)
def test_when_all_is_well_again_io_flows_again(
    node: Node, steps: list[tuple[str, int, float]]
) -> None:
    for name, index, seconds in steps:
        ON_PATH[name](node, node.subsystems[0].connections[index])
        node.advance(seconds)
    (namespace,) = node.subsystems[0].namespaces
    for connection in node.subsystems[0].connections:
        for name in ("heal", "link up", "port restored", "optimized"):
            ON_PATH[name](node, connection)
    node.enable(namespace)
    node.set_load(namespace, Load(queue_depth=4, rate=60))
    node.advance(40)
    for connection in node.subsystems[0].connections:
        connect(node, connection)
    node.advance(1)
    application = namespace.application
    assert application is not None
    before = application.completed
    node.advance(1)
    assert application.completed - before >= 50
    assert {c.state for c in node.subsystems[0].controllers} == {"live"}
    assert node.longest_wait(namespace) < 0.1


def disks_of(snapshot: Snapshot) -> dict[tuple[str, str], IoCounters]:
    """Counters by disk and the incarnation of what it hangs on."""
    disks = {}
    for subsystem in snapshot.subsystems:
        for namespace in subsystem.namespaces:
            incarnations = []
            for path in namespace.paths:
                if path.io is not None:
                    incarnations.append(path.disk)
                    disks[path.disk, path.controller.name] = path.io
    return disks
