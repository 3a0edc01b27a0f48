"""Which way the kernel would send."""

from __future__ import annotations

import errno
import socket
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter.sources import routes
from nvmeof_exporter.sources.routes import Route, look_up, parse_route
from nvmeof_exporter.sources.rtnetlink import ask
from tests.test_sources.network_namespaces import Namespace, needs_privileges

if TYPE_CHECKING:
    from collections.abc import Iterator

RTM_NEWROUTE, RTM_NEWLINK = 24, 16
UNICAST, BLACKHOLE = 1, 6


def route_message(
    *, ifindex: int = 3, source: str = "10.0.1.7", type_: int = UNICAST, kind: int = RTM_NEWROUTE
) -> bytes:
    packed = socket.inet_aton(source)
    body = struct.pack("=BBBBBBBBI", socket.AF_INET, 32, 0, 0, 254, 0, 0, type_, 0)
    body += struct.pack("=HHI", 8, 4, ifindex) + struct.pack("=HH", 8, 7) + packed
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 1, 0) + body


class TestARouteMessage:
    def test_tells_the_interface_and_the_hosts_address(self) -> None:
        assert parse_route(route_message()) == Route(3, "10.0.1.7")

    @pytest.mark.parametrize(
        "message", [route_message(type_=BLACKHOLE), route_message(kind=RTM_NEWLINK), b""]
    )
    def test_that_leads_nowhere_tells_none(self, message: bytes) -> None:
        assert parse_route(message) is None

    @given(st.binary(max_size=200))
    def test_may_be_any_bytes(self, datagram: bytes) -> None:
        assert parse_route(datagram) is None or datagram

    @given(st.integers(0, 63), st.integers(0, 255))
    def test_may_have_any_byte_replaced(self, position: int, value: int) -> None:
        damaged = bytearray(route_message())
        damaged[position % len(damaged)] = value
        found = parse_route(bytes(damaged))
        assert found is None or found.ifindex >= 0

    @given(st.integers(0, 43))
    def test_cut_short_tells_none_or_less(self, length: int) -> None:
        assert parse_route(route_message()[:length]) in {None, Route(3, "")}


class TestALookUp:
    @pytest.mark.parametrize("target", ["", "nowhere", "nn-0x1:pn-0x2", "fe80::1"])
    def test_of_no_address_and_of_a_link_local_one_alone_asks_nobody(
        self, target: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(routes, "ask", pytest.fail)
        assert look_up(target) is None

    @pytest.mark.parametrize("number", [errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EINVAL])
    def test_that_the_kernel_refuses_has_no_route(
        self, number: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refused(*_: object) -> list[bytes]:
            raise OSError(number, "refused")

        monkeypatch.setattr(routes, "ask", refused)
        assert look_up("192.0.2.1") is None

    def test_without_an_answer_is_a_failure(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def silent(*_: object) -> list[bytes]:
            raise TimeoutError

        monkeypatch.setattr(routes, "ask", silent)
        with pytest.raises(TimeoutError):
            look_up("192.0.2.1")


@pytest.fixture
def node() -> Iterator[Namespace]:
    """``near`` to 10.0.1.0/24, ``far`` with the default gateway."""
    made = Namespace()
    made.ip(
        "link add near type veth peer name near-end",
        "link add far type veth peer name far-end",
        *(f"link set {name} up" for name in ("lo", "near", "near-end", "far", "far-end")),
        "addr add 10.0.1.1/24 dev near",
        "addr add 10.0.9.1/24 dev far",
        "addr add fd00:1::1/64 dev near nodad",
        "route add default via 10.0.9.254",
    )
    yield made
    made.close()


def way(
    node: Namespace, target: str, source: str = "", through: str = ""
) -> tuple[str, str] | None:
    def asked() -> tuple[str, str] | None:
        ifindex = socket.if_nametoindex(through) if through else 0
        found = look_up(target, source, ifindex)
        return found and (socket.if_indextoname(found.ifindex), found.source)

    return node.call(asked)


@needs_privileges
class TestRealRoutes:
    def test_lead_to_a_neighbour_directly(self, node: Namespace) -> None:
        assert way(node, "10.0.1.9") == ("near", "10.0.1.1")

    def test_lead_elsewhere_by_the_gateway(self, node: Namespace) -> None:
        assert way(node, "192.0.2.1") == ("far", "10.0.9.1")

    def test_of_ipv6_are_told_too(self, node: Namespace) -> None:
        assert way(node, "fd00:1::9") == ("near", "fd00:1::1")
        assert way(node, "fd00:2::9") is None

    def test_heed_the_source_that_a_rule_goes_by(self, node: Namespace) -> None:
        node.ip(
            "route add 192.0.2.0/24 via 10.0.1.254 table 100", "rule add from 10.0.1.1 lookup 100"
        )
        assert way(node, "192.0.2.1", "10.0.1.1") == ("near", "10.0.1.1")
        assert way(node, "192.0.2.1") == ("far", "10.0.9.1")

    def test_from_an_address_of_nobody_are_none(self, node: Namespace) -> None:
        assert way(node, "192.0.2.1", "10.77.0.1") is None

    def test_to_a_link_local_address_need_its_interface(self, node: Namespace) -> None:
        assert way(node, "fe80::9", through="near") is not None
        assert way(node, "fe80::9") is None

    def test_to_a_link_local_address_of_ipv4_are_like_any_other(self, node: Namespace) -> None:
        node.ip("addr add 169.254.3.1/16 dev near")
        assert way(node, "169.254.3.4") == ("near", "169.254.3.1")

    def test_into_a_blackhole_are_none(self, node: Namespace) -> None:
        node.ip("route add blackhole 192.0.2.0/24")
        assert way(node, "192.0.2.1") is None

    def test_to_the_host_itself_lead_to_loopback(self, node: Namespace) -> None:
        assert way(node, "10.0.1.1") == ("lo", "10.0.1.1")

    def test_of_a_vrf_lead_to_the_interface_in_it(self, node: Namespace) -> None:
        node.ip_or_skip("link add blue type vrf table 10")
        node.ip("link set blue up", "link set near master blue")
        assert way(node, "10.0.1.9", through="blue") == ("near", "10.0.1.1")
        assert way(node, "10.0.1.9") == ("far", "10.0.9.1")

    def test_over_several_ways_lead_over_one_of_them(self, node: Namespace) -> None:
        node.ip(
            "route add 192.0.2.0/24 nexthop via 10.0.1.254 dev near nexthop via 10.0.9.254 dev far"
        )
        found = way(node, "192.0.2.1")
        assert found is not None
        assert found[0] in {"near", "far"}

    def test_are_refused_where_the_kernel_does_not_know_the_question(self, node: Namespace) -> None:
        with pytest.raises(OSError, match="Operation not supported"):
            node.call(ask, 1000, b"")
