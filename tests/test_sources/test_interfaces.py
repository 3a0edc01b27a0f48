"""Which interface a path uses, and which interface has an address."""

from __future__ import annotations

import ipaddress
import socket
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter.model import Controller, PathId
from nvmeof_exporter.sources.interface_table import InterfaceTable
from nvmeof_exporter.sources.interfaces import PathPorts
from nvmeof_exporter.sources.netlink import Links
from nvmeof_exporter.sources.reader import Reader
from nvmeof_exporter.sources.routes import Route
from nvmeof_exporter.sources.rtnetlink import AddressMessage, LinkMessage, parse_addresses

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

RTM_NEWLINK, RTM_NEWADDR, RTM_DELADDR = 16, 20, 21
IFA_ADDRESS, IFA_LOCAL = 1, 2


def address_message(
    address: str, *, ifindex: int = 1, kind: int = RTM_NEWADDR, peer: str = ""
) -> bytes:
    """A message as the kernel makes it: with a peer, ``IFA_ADDRESS`` is the peer's."""
    own = ipaddress.ip_address(address)
    family = socket.AF_INET if own.version == 4 else socket.AF_INET6
    attributes = [(IFA_ADDRESS, ipaddress.ip_address(peer or address).packed)]
    if own.version == 4 or peer:
        attributes.append((IFA_LOCAL, own.packed))
    body = struct.pack("=BBBBI", family, 24, 0, 0, ifindex)
    for number, value in attributes:
        body += struct.pack("=HH", 4 + len(value), number) + value
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body


class FakeSocket:
    """A netlink socket with these datagrams from the kernel."""

    def __init__(self, *datagrams: bytes) -> None:
        self._datagrams = list(datagrams)

    def recvmsg(self, _size: int) -> tuple[bytes, list[object], int, tuple[int, int]]:
        if not self._datagrams:
            raise BlockingIOError
        return self._datagrams.pop(0), [], 0, (0, 1)


class TestAnAddressMessage:
    @pytest.mark.parametrize("address", ["10.0.1.7", "fd00::7"])
    def test_tells_interface_address_and_network(self, address: str) -> None:
        packed = ipaddress.ip_address(address).packed
        assert list(parse_addresses(address_message(address, ifindex=3))) == [
            AddressMessage(3, packed, 24, present=True)
        ]

    def test_of_a_point_to_point_link_tells_the_own_address_and_not_the_peers(self) -> None:
        (told,) = parse_addresses(address_message("10.0.0.1", peer="10.0.0.2"))
        assert told.address == ipaddress.ip_address("10.0.0.1").packed

    def test_of_a_removal_is_told_as_one(self) -> None:
        (told,) = parse_addresses(address_message("10.0.0.1", kind=RTM_DELADDR))
        assert not told.present

    def test_of_another_kind_is_skipped(self) -> None:
        assert not list(parse_addresses(address_message("10.0.0.1", kind=RTM_NEWLINK)))

    @given(st.integers(0, 80), st.integers(0, 255))
    def test_may_have_any_byte_replaced(self, position: int, value: int) -> None:
        damaged = bytearray(address_message("fd00::1"))
        damaged[position % len(damaged)] = value
        told = list(parse_addresses(bytes(damaged)))
        assert len(told) <= 1
        links = [LinkMessage(link.ifindex, "eth0", carrier=True, present=True) for link in told]
        table = InterfaceTable.build(links, told)
        assert table.owner("fd00::1") in {"", "eth0"}
        assert isinstance(table.subnet("eth0", "fd00::1", "fd00::2"), str)

    @given(st.integers(0, 60))
    def test_may_be_cut_short_anywhere(self, length: int) -> None:
        assert len(list(parse_addresses(address_message("10.0.0.1")[:length]))) <= 1


@pytest.fixture
def links() -> Iterator[Links]:
    opened = Links()
    yield opened
    opened.close()


class TestTheOwnerOfAnAddress:
    @pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:0:0", "not an address", "", "%lo"])
    def test_is_known_from_the_start_or_nobody(self, links: Links, address: str) -> None:
        assert links.table().owner(address) == ("lo" if address == "127.0.0.1" else "")

    def test_is_told_of_addresses_that_come_and_go(
        self, links: Links, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        comes, goes = (address_message("10.9.8.7", kind=k) for k in (RTM_NEWADDR, RTM_DELADDR))
        monkeypatch.setattr(links, "_socket", FakeSocket(comes))
        assert links.read() == []
        assert links.table().owner("10.9.8.7") == "lo"
        monkeypatch.setattr(links, "_socket", FakeSocket(goes))
        assert links.read() == []
        assert links.table().owner("10.9.8.7") == ""

    def test_is_unknown_where_two_interfaces_have_it_unless_the_address_says_which(self) -> None:
        table = node({"eth0": ["fe80::5/64"], "eth1": ["fe80::5/64"]})
        assert table.owner("fe80::5") == ""
        assert table.owner("fe80::5%eth1") == "eth1"
        assert table.owner("fe80::5%2") == "eth1"
        assert table.owner("fe80::5%elsewhere") == ""
        assert table.owner("fe80::5%99") == ""

    def test_is_not_known_any_more_once_nobody_listens(self, links: Links) -> None:
        links.close()
        assert (links.table().owner("127.0.0.1"), links.table().carrier("lo")) == ("", None)


def node(
    addresses: Mapping[str, list[str]],
    *,
    down: tuple[str, ...] = (),
    kinds: Mapping[str, str] | None = None,
) -> InterfaceTable:
    """The table of a node with these interfaces, numbered from 1."""
    links = []
    held = []
    for index, (name, texts) in enumerate(addresses.items(), 1):
        kind = (kinds or {}).get(name, "")
        links.append(LinkMessage(index, name, name not in down, present=True, kind=kind))
        for text in texts:
            own = ipaddress.ip_interface(text)
            held.append(AddressMessage(index, own.packed, own.network.prefixlen, present=True))
    return InterfaceTable.build(links, held)


class TestTheSubnetOfAPath:
    TABLE = node(
        {
            "eth0": ["10.0.1.7/24", "10.0.2.7/24", "fd00:1::7/64", "fe80::7/64"],
            "eth1": ["10.0.1.8/31"],
            "lo": ["127.0.0.1/8"],
            "eth2": ["10.7.0.1/16", "10.7.1.1/24", "fe80::8/64"],
        }
    )

    @pytest.mark.parametrize(
        ("netdev", "source", "target", "subnet"),
        [
            ("eth0", "10.0.2.7", "192.0.2.1", "10.0.2.0/24"),
            ("eth0", "", "10.0.1.99", "10.0.1.0/24"),
            ("eth0", "", "192.0.2.1", ""),
            ("eth0", "fd00:1::7", "fd00:1::9", "fd00:1::/64"),
            ("eth0", "", "fd00:9::9", "fd00:1::/64"),
            ("eth0", "fe80::7%eth0", "fe80::9%eth0", "fe80::/64%eth0"),
            ("eth1", "", "192.0.2.1", "10.0.1.8/31"),
            ("eth1", "", "fd00::1", ""),
            ("eth2", "", "10.7.1.9", "10.7.1.0/24"),
            ("eth2", "10.99.0.1", "10.7.9.9", "10.7.0.0/16"),
            ("eth2", "", "fe80::1", "fe80::/64%eth2"),
            ("eth9", "10.0.1.7", "10.0.1.9", ""),
            ("", "", "", ""),
        ],
    )
    def test_is_that_of_the_hosts_own_address(
        self, netdev: str, source: str, target: str, subnet: str
    ) -> None:
        assert self.TABLE.subnet(netdev, source, target) == subnet


def controller(
    *,
    transport: str = "tcp",
    traddr: str = "192.0.2.1",
    host_traddr: str = "",
    host_iface: str = "",
    src_addr: str = "",
    state: str = "live",
) -> Controller:
    path = PathId(transport, traddr, "4420", host_traddr, host_iface)
    return Controller("nvme0", "nqn.x", path, state, state, src_addr=src_addr)


class Node:
    """A node whose interfaces and routes a test changes, and the paths' interfaces there."""

    def __init__(self, sysfs: Path, table: InterfaceTable | None = None) -> None:
        self.table = table or node({"eth0": ["10.0.0.1/24"], "eth1": ["10.0.1.1/24"]})
        self.routes: dict[str, Route] = {}
        self.asked: list[tuple[str, str, int]] = []
        self.seconds = 0.0
        self.reader = Reader()
        self.interfaces = PathPorts(
            self.reader,
            str(sysfs),
            lambda: self.table,
            routes=self._look_up,
            clock=lambda: self.seconds,
        )

    def _look_up(self, target: str, source: str, ifindex: int) -> Route | None:
        self.asked.append((target, source, ifindex))
        return self.routes.get(target)

    def netdev(self, path: Controller) -> str:
        return self.interfaces.netdev_of(path)

    def refreshed(self, path: Controller) -> str:
        found = self.interfaces.refresh([path])[path.nqn, path.path].netdev
        assert found == self.interfaces.netdev_of(path)
        return found


@pytest.fixture
def plain(tmp_path: Path) -> Node:
    return Node(tmp_path)


class TestTheInterfaceOfAPath:
    def test_is_the_one_given_at_connect_time(self, plain: Node) -> None:
        given_one = controller(host_iface="eth9", host_traddr="10.0.0.1", src_addr="10.0.1.1")
        assert plain.netdev(given_one) == "eth9"

    def test_is_else_the_one_that_has_the_address_given_at_connect_time(self, plain: Node) -> None:
        assert plain.netdev(controller(host_traddr="10.0.0.1", src_addr="10.0.1.1")) == "eth0"

    def test_is_else_the_one_that_has_the_address_that_the_host_chose(self, plain: Node) -> None:
        assert plain.netdev(controller(src_addr="10.0.1.1")) == "eth1"

    @pytest.mark.parametrize(
        ("zone", "netdev"), [("eth1", "eth1"), ("2", "eth1"), ("eth9", "eth9"), ("9", ""), ("", "")]
    )
    def test_is_else_the_one_that_a_link_local_target_names(
        self, plain: Node, zone: str, netdev: str
    ) -> None:
        assert plain.netdev(controller(traddr=f"fe80::9%{zone}")) == netdev

    def test_is_remembered_when_the_path_is_lost_and_shows_no_address_any_more(
        self, plain: Node
    ) -> None:
        plain.netdev(controller(src_addr="10.0.1.1"))
        assert plain.netdev(controller(state="connecting")) == "eth1"

    def test_is_remembered_though_it_is_renamed_meanwhile(self, plain: Node) -> None:
        plain.netdev(controller(src_addr="10.0.1.1"))
        plain.table = node({"eth0": [], "storage1": []})
        assert plain.netdev(controller(state="connecting")) == "storage1"

    def test_is_remembered_when_the_address_goes_with_the_interface(self, plain: Node) -> None:
        plain.netdev(controller(host_traddr="10.0.0.1"))
        plain.table = InterfaceTable()
        assert plain.netdev(controller(host_traddr="10.0.0.1")) == "eth0"

    def test_is_not_taken_over_by_another_path_with_the_same_kernel_name(self, plain: Node) -> None:
        plain.netdev(controller(src_addr="10.0.1.1"))
        assert plain.netdev(controller(host_traddr="10.0.7.7")) == ""

    def test_is_not_looked_for_by_the_addresses_of_fibre_channel(self, plain: Node) -> None:
        channel = controller(transport="fc", host_traddr="10.0.0.1")
        assert plain.netdev(channel) == ""
        assert plain.interfaces.refresh([channel]) == {}

    def test_is_remembered_of_a_bounded_number_of_paths(
        self, plain: Node, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("nvmeof_exporter.sources.interfaces._MOST_PATHS", 2)
        monkeypatch.setattr("nvmeof_exporter.sources.path_routes._MOST_PATHS", 2)
        targets = [f"192.0.2.{number}" for number in range(5)]
        for target in targets:
            plain.netdev(controller(traddr=target, src_addr="10.0.1.1"))
            plain.routes[target + "0"] = Route(1, "")
            plain.refreshed(controller(traddr=target + "0"))
        lost = [plain.netdev(controller(traddr=target)) for target in targets]
        assert lost == ["", "", "", "eth1", "eth1"]
        routed = [plain.netdev(controller(traddr=target + "0")) for target in targets]
        assert routed == ["", "", "", "eth0", "eth0"]


class TestARouteToThePath:
    def test_is_looked_up_where_nothing_else_is_known(self, plain: Node) -> None:
        plain.routes["192.0.2.1"] = Route(2, "10.0.1.1")
        path = controller(transport="rdma")
        assert plain.netdev(path) == ""
        assert plain.refreshed(path) == "eth1"
        assert plain.asked == [("192.0.2.1", "", 0)]

    def test_is_not_looked_up_where_the_path_tells_its_interface(self, plain: Node) -> None:
        for path in (
            controller(host_iface="eth9"),
            controller(host_traddr="10.0.0.1"),
            controller(src_addr="10.0.1.1"),
            controller(src_addr="", state="connecting"),
        ):
            plain.refreshed(path)
        assert plain.asked == []

    def test_is_kept_when_the_link_is_lost_and_routes_lead_to_the_gateway(
        self, plain: Node
    ) -> None:
        plain.routes["192.0.2.1"] = Route(2, "10.0.1.1")
        plain.refreshed(controller())
        plain.routes["192.0.2.1"] = Route(1, "10.0.0.1")
        plain.table = node({"eth0": ["10.0.0.1/24"], "eth1": []}, down=("eth1",))
        for plain.seconds in (0.0, 100.0):  # long enough to believe another route of a live path
            for state in ("live", "resetting", "connecting"):
                assert plain.refreshed(controller(state=state)) == "eth1"

    def test_is_kept_while_the_path_is_not_live_though_its_link_is_up(self, plain: Node) -> None:
        plain.routes["192.0.2.1"] = Route(2, "10.0.1.1")
        plain.refreshed(controller())
        plain.routes["192.0.2.1"] = Route(1, "10.0.0.1")
        assert plain.refreshed(controller(state="connecting")) == "eth1"
        assert len(plain.asked) == 1

    def test_is_not_believed_of_a_path_that_was_never_seen_live(self, plain: Node) -> None:
        plain.routes["192.0.2.1"] = Route(1, "10.0.0.1")
        assert plain.refreshed(controller(state="connecting")) == ""
        plain.routes["192.0.2.1"] = Route(2, "10.0.1.1")
        assert plain.refreshed(controller()) == "eth1"

    def test_that_changes_under_a_live_path_is_believed_after_a_while(self, plain: Node) -> None:
        plain.routes["192.0.2.1"] = Route(2, "10.0.1.1")
        plain.refreshed(controller())
        plain.routes["192.0.2.1"] = Route(1, "10.0.0.1")
        for plain.seconds, netdev in ((100.0, "eth1"), (129.0, "eth1"), (131.0, "eth0")):
            assert plain.refreshed(controller()) == netdev

    def test_that_changes_and_comes_back_has_never_changed(self, plain: Node) -> None:
        plain.routes["192.0.2.1"] = Route(2, "10.0.1.1")
        plain.refreshed(controller())
        for plain.seconds, index in ((100.0, 1), (110.0, 2), (125.0, 1), (140.0, 1)):
            plain.routes["192.0.2.1"] = Route(index, "")
            assert plain.refreshed(controller()) == "eth1"

    def test_follows_a_renamed_interface_at_once(self, plain: Node) -> None:
        plain.routes["192.0.2.1"] = Route(2, "10.0.1.1")
        plain.refreshed(controller())
        plain.table = node({"eth0": [], "storage1": ["10.0.1.1/24"]})
        for state in ("live", "connecting"):
            assert plain.netdev(controller(state=state)) == "storage1"
            assert plain.refreshed(controller(state=state)) == "storage1"

    def test_starts_from_the_address_given_where_the_host_has_it_on_loopback(
        self, tmp_path: Path
    ) -> None:
        table = node({"lo": ["10.9.9.9/32"], "eth1": []}, kinds={"lo": "loopback"})
        plain = Node(tmp_path, table)
        path = controller(host_traddr="10.9.9.9")
        assert plain.refreshed(path) == "lo"
        plain.routes["192.0.2.1"] = Route(2, "10.9.9.9")
        assert plain.refreshed(path) == "eth1"
        assert plain.asked[-1] == ("192.0.2.1", "10.9.9.9", 0)

    def test_of_a_vrf_leads_to_the_interface_in_it(self, tmp_path: Path) -> None:
        plain = Node(tmp_path, node({"blue": [], "eth1": []}, kinds={"blue": "vrf"}))
        plain.routes["192.0.2.1"] = Route(2, "10.0.1.1")
        path = controller(host_iface="blue")
        assert plain.netdev(path) == "blue"
        assert plain.refreshed(path) == "eth1"
        assert plain.asked == [("192.0.2.1", "", 1)]

    def test_that_is_not_told_is_counted_and_costs_nothing_else(self, tmp_path: Path) -> None:
        def silent(*_: object) -> Route | None:
            raise TimeoutError

        told: list[tuple[str, str]] = []
        reader = Reader(lambda path, reason: told.append((path, reason)))
        ports = PathPorts(reader, str(tmp_path), node_without_addresses, routes=silent)
        known, unknown = controller(host_iface="eth0"), controller()
        ports.refresh([unknown, known])
        found = ports.refresh([unknown, known])
        assert [port.netdev for port in found.values()] == ["", "eth0"]
        assert reader.errors == 2
        assert told == [("rtnetlink: route lookup", "TimeoutError")]


def node_without_addresses() -> InterfaceTable:
    return node({"eth0": []})


class TestATreeThatIsNotThisMachines:
    def test_has_neither_addresses_nor_routes(self, tmp_path: Path) -> None:
        def forbidden(*_: object) -> Route | None:
            raise AssertionError("asked this machine for a route")

        ports = PathPorts(Reader(), str(tmp_path), routes=forbidden)
        paths = [
            controller(src_addr="127.0.0.1"),
            controller(host_iface="eth9"),
            controller(traddr="fe80::9%enp1s0"),
        ]
        found = ports.refresh(paths)
        assert [port.netdev for port in found.values()] == ["", "eth9", "enp1s0"]
        assert {port.subnet for port in found.values()} == {""}
