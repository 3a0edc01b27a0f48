"""The make-believe rtnetlink: heard at once, as the real one is."""

from __future__ import annotations

from contextlib import closing

from nvmeof_exporter.demo.links import LinkPipe
from nvmeof_exporter.demo.nodes import demo_node
from nvmeof_exporter.model import Event, EventKind
from tests.fixtures.descriptors import readable


def is_readable(pipe: LinkPipe) -> bool:
    return bool(readable([pipe]))


def test_a_lost_carrier_is_told_with_the_time_of_its_loss() -> None:
    node = demo_node()
    with closing(LinkPipe(node)) as pipe:
        node.drain_events()
        node.advance(1)
        node.link_down(node.netdevs["h0"])
        node.advance(1)
        assert not is_readable(pipe)
        pipe.write(node.drain_events(), offset=100.0)
        assert is_readable(pipe)
        assert pipe.read() == [Event(101.0, "netlink", EventKind.CARRIER_LOST, "h0")]
        assert pipe.read() == []
        assert not is_readable(pipe)


def test_the_table_has_carriers_and_networks_of_every_interface() -> None:
    node = demo_node()
    with closing(LinkPipe(node)) as pipe:
        assert pipe.table().carriers() == dict.fromkeys(("h0", "h1", "h2", "h3"), True)
        assert pipe.table().owner("10.0.1.1") == "h1"
        assert pipe.table().subnet("h1", "10.0.1.1", "10.0.1.2") == "10.0.1.0/24"
        node.link_down(node.netdevs["h0"])
        pipe.write(node.drain_events(), 0)
        assert pipe.table().carrier("h0") is False
        assert pipe.changes == 1


def test_what_is_of_no_interest_to_it_wakes_nobody() -> None:
    node = demo_node()
    with closing(LinkPipe(node)) as pipe:
        node.reset(node.connection("tcp:10.0.0.2:4420%h0"))
        node.advance(1)
        events = node.drain_events()
        assert events
        pipe.write(events, 0)
        assert not is_readable(pipe)
        assert pipe.changes == 0


def test_nobody_reading_it_holds_nothing_up_and_loses_nothing() -> None:
    node = demo_node()
    netdev = node.netdevs["h0"]
    with closing(LinkPipe(node)) as pipe:
        node.drain_events()
        for _ in range(5000):
            node.link_down(netdev)
            node.link_up(netdev)
            pipe.write(node.drain_events(), 0)
        assert len(pipe.read()) == 10_000


def test_what_is_written_after_its_end_is_lost_without_harm() -> None:
    node = demo_node()
    pipe = LinkPipe(node)
    pipe.close()
    pipe.close()
    node.link_down(node.netdevs["h0"])
    pipe.write(node.drain_events(), 0)
