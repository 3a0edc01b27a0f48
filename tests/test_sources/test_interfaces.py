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
from nvmeof_exporter.sources.interfaces import PathInterfaces
from nvmeof_exporter.sources.netlink import AddressMessage, Links, parse_addresses

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    def test_tells_interface_and_address(self, address: str) -> None:
        packed = ipaddress.ip_address(address).packed
        assert list(parse_addresses(address_message(address, ifindex=3))) == [
            AddressMessage(3, packed, present=True)
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
        assert len(list(parse_addresses(bytes(damaged)))) <= 1

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
        assert links.interface(address) == ("lo" if address == "127.0.0.1" else "")

    def test_is_told_of_addresses_that_come_and_go(
        self, links: Links, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        comes, goes = (address_message("10.9.8.7", kind=k) for k in (RTM_NEWADDR, RTM_DELADDR))
        monkeypatch.setattr(links, "_socket", FakeSocket(comes))
        assert links.read() == []
        assert links.interface("10.9.8.7") == "lo"
        monkeypatch.setattr(links, "_socket", FakeSocket(goes))
        assert links.read() == []
        assert links.interface("10.9.8.7") == ""

    def test_is_unknown_where_two_interfaces_have_it_unless_the_address_says_which(
        self, links: Links, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = links._links[1]
        monkeypatch.setitem(links._links, 77, first._replace(ifindex=77, name="twin"))
        both = (address_message("fe80::5", ifindex=index) for index in (1, 77))
        monkeypatch.setattr(links, "_socket", FakeSocket(*both))
        links.read()
        assert links.interface("fe80::5") == ""
        assert links.interface("fe80::5%twin") == "twin"
        assert links.interface("fe80::5%elsewhere") == ""


def controller(
    *,
    transport: str = "tcp",
    host_traddr: str = "",
    host_iface: str = "",
    src_addr: str = "",
    state: str = "live",
) -> Controller:
    path = PathId(transport, "192.0.2.1", "4420", host_traddr, host_iface)
    return Controller("nvme0", "nqn.x", path, state, state, src_addr=src_addr)


OWNERS = {"10.0.0.1": "eth0", "10.0.1.1": "eth1"}


def owner(address: str) -> str:
    return OWNERS.get(address, "")


class TestTheInterfaceOfAPath:
    def test_is_the_one_given_at_connect_time(self) -> None:
        given = controller(host_iface="eth9", host_traddr="10.0.0.1", src_addr="10.0.1.1")
        assert PathInterfaces(owner)(given) == "eth9"

    def test_is_else_the_one_that_has_the_address_given_at_connect_time(self) -> None:
        given = controller(host_traddr="10.0.0.1", src_addr="10.0.1.1")
        assert PathInterfaces(owner)(given) == "eth0"

    def test_is_else_the_one_that_has_the_address_that_the_host_chose(self) -> None:
        assert PathInterfaces(owner)(controller(src_addr="10.0.1.1")) == "eth1"

    def test_is_remembered_when_the_path_is_lost_and_shows_no_address_any_more(self) -> None:
        interfaces = PathInterfaces(owner)
        interfaces(controller(src_addr="10.0.1.1"))
        assert interfaces(controller(state="connecting")) == "eth1"

    def test_is_remembered_when_the_address_goes_with_the_interface(self) -> None:
        owners = dict(OWNERS)
        interfaces = PathInterfaces(lambda address: owners.get(address, ""))
        interfaces(controller(host_traddr="10.0.0.1"))
        del owners["10.0.0.1"]
        assert interfaces(controller(host_traddr="10.0.0.1")) == "eth0"

    def test_is_not_taken_over_by_another_path_with_the_same_kernel_name(self) -> None:
        interfaces = PathInterfaces(owner)
        interfaces(controller(src_addr="10.0.1.1"))
        assert interfaces(controller(host_traddr="10.0.7.7")) == ""

    def test_is_not_looked_for_by_the_addresses_of_fibre_channel(self) -> None:
        assert PathInterfaces(owner)(controller(transport="fc", host_traddr="10.0.0.1")) == ""
