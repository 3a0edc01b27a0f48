from __future__ import annotations

import os
import socket
import struct
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter.model import Event, EventKind
from nvmeof_exporter.sources import netlink, rtnetlink
from nvmeof_exporter.sources.events import SourceBehind, SourceFailed, SourceUnavailable
from nvmeof_exporter.sources.interface_table import InterfaceTable
from nvmeof_exporter.sources.netlink import Links
from nvmeof_exporter.sources.rtnetlink import LinkMessage, parse_links
from tests.test_sources.network_namespaces import Namespace, needs_privileges
from tests.test_sources.waiting import events_until, is_readable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RTM_NEWLINK, RTM_DELLINK, RTM_NEWADDR = 16, 17, 20
UP, LOOPBACK, CARRIER = 0x1, 0x8, 0x10000


def link_message(
    name: str = "eth0",
    *,
    ifindex: int = 2,
    flags: int = UP | CARRIER,
    kind: int = RTM_NEWLINK,
    family: int = socket.AF_UNSPEC,
    more: bytes = b"",
) -> bytes:
    padded = os.fsencode(name) + b"\0"
    mtu = struct.pack("=HHI", 8, 4, 1500)
    attribute = struct.pack("=HH", 4 + len(padded), 3) + padded
    attribute += b"\0" * (-len(attribute) % 4)
    body = struct.pack("=BxHiII", family, 1, ifindex, flags, 0) + mtu + attribute + more
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body


class TestALinkMessage:
    def test_tells_name_and_carrier(self) -> None:
        assert list(parse_links(link_message())) == [
            LinkMessage(2, "eth0", carrier=True, present=True)
        ]

    def test_tells_a_name_that_is_no_utf_8_as_a_directory_lists_it(self, tmp_path: Path) -> None:
        os.mkdir(os.fsencode(tmp_path) + b"/eth\xff")
        (told,) = parse_links(link_message(os.listdir(tmp_path)[0]))
        assert told.name == os.listdir(tmp_path)[0]

    @pytest.mark.parametrize("flags", [0, UP, CARRIER])
    def test_needs_both_administrator_and_cable_for_a_carrier(self, flags: int) -> None:
        assert [link.carrier for link in parse_links(link_message(flags=flags))] == [False]

    def test_of_a_removed_interface_has_no_carrier_whatever_its_flags(self) -> None:
        assert list(parse_links(link_message(kind=RTM_DELLINK))) == [
            LinkMessage(2, "eth0", carrier=False, present=False)
        ]

    def test_of_the_bridge_family_says_nothing_of_the_interface(self) -> None:
        assert not list(parse_links(link_message(kind=RTM_DELLINK, family=socket.AF_BRIDGE)))

    @pytest.mark.parametrize("nested", [0, 0x8000])
    def test_tells_the_kind_and_what_the_interface_belongs_to(self, nested: int) -> None:
        kind = struct.pack("=HH4s", 8, 1, b"vrf\0")
        more = struct.pack("=HHI", 8, 10, 7) + struct.pack("=HH", 4 + len(kind), 18 | nested) + kind
        (told,) = parse_links(link_message("blue", more=more))
        assert (told.kind, told.master) == ("vrf", 7)

    def test_of_loopback_says_so_by_its_flags(self) -> None:
        (told,) = parse_links(link_message("lo", flags=UP | CARRIER | LOOPBACK))
        assert told.kind == "loopback"

    def test_of_another_kind_is_skipped_and_the_next_one_read(self) -> None:
        datagram = link_message(kind=RTM_NEWADDR) + link_message("eth1", ifindex=3)
        assert [link.name for link in parse_links(datagram)] == ["eth1"]

    @given(st.binary(max_size=300))
    def test_may_be_any_bytes(self, datagram: bytes) -> None:
        assert len(list(parse_links(datagram))) <= len(datagram) // 16

    @given(st.integers(0, 200), st.integers(0, 255))
    def test_may_have_any_byte_replaced(self, position: int, value: int) -> None:
        damaged = bytearray(link_message() + link_message("eth1"))
        damaged[position % len(damaged)] = value
        assert len(list(parse_links(bytes(damaged)))) <= 2

    @given(st.integers(0, 200))
    def test_may_be_cut_short_anywhere(self, length: int) -> None:
        assert len(list(parse_links(link_message()[:length]))) <= 1


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    made = Namespace()
    yield made
    made.close()


@pytest.fixture
def cable(namespace: Namespace) -> Namespace:
    """Two interfaces, ``here`` and ``there``, with a cable between them."""
    namespace.ip("link add here type veth peer name there", "link set here up", "link set there up")
    return namespace


@pytest.fixture
def links(cable: Namespace) -> Iterator[Links]:
    opened = cable.call(Links)
    yield opened
    opened.close()


def changes(namespace: Namespace, links: Links, count: int) -> list[tuple[EventKind, str]]:
    events = namespace.call(events_until, links, lambda events: len(events) >= count)
    return [(event.kind, event.device) for event in events]


@needs_privileges
class TestRealInterfaces:
    def test_what_is_up_at_the_start_is_known_and_makes_no_event(self, links: Links) -> None:
        assert links.table().carrier("here") is True
        assert links.table().carrier("lo") is False
        assert links.read() == []

    def test_an_unknown_interface_is_neither_up_nor_down(self, links: Links) -> None:
        assert links.table().carrier("eth99") is None

    def test_a_pulled_cable_is_told_at_once_and_once(self, cable: Namespace, links: Links) -> None:
        before = time.monotonic()
        cable.ip("link set there down")
        events = cable.call(events_until, links, lambda events: len(events) >= 2)
        assert {(event.kind, event.device) for event in events} == {
            (EventKind.CARRIER_LOST, "here"),
            (EventKind.CARRIER_LOST, "there"),
        }
        assert all(event.source == "netlink" for event in events)
        assert all(before <= event.time <= time.monotonic() for event in events)
        assert links.table().carrier("here") is False

    def test_a_cable_put_back_is_told(self, cable: Namespace, links: Links) -> None:
        cable.ip("link set there down")
        changes(cable, links, 2)
        cable.ip("link set there up")
        assert set(changes(cable, links, 2)) == {
            (EventKind.CARRIER_GAINED, "here"),
            (EventKind.CARRIER_GAINED, "there"),
        }

    def test_an_interface_that_is_removed_has_lost_its_carrier(
        self, cable: Namespace, links: Links
    ) -> None:
        cable.ip("link delete there")
        assert set(changes(cable, links, 2)) == {
            (EventKind.CARRIER_LOST, "here"),
            (EventKind.CARRIER_LOST, "there"),
        }
        # The messages of the removal itself may still be on their way.
        while is_readable(links, 0.2):
            assert links.read() == []
        assert links.table().carrier("there") is None

    def test_other_changes_make_no_event(self, cable: Namespace, links: Links) -> None:
        cable.ip(
            "link set here mtu 1400", "link set here promisc on", "addr add 10.0.0.1/24 dev here"
        )
        assert is_readable(links, 5)
        assert links.read() == []

    def test_a_renamed_interface_is_known_by_its_new_name(
        self, cable: Namespace, links: Links
    ) -> None:
        # Older kernels rename an interface only while it is down.
        cable.ip(
            "link set here down",
            "link property add dev here altname spare",
            "link set here name storage0",
            "link set storage0 up",
        )
        while not links.table().carrier("storage0"):
            assert is_readable(links, 5)
            cable.call(links.read)
        assert links.table().carrier("here") is None

    def test_another_namespace_is_not_heard(self, cable: Namespace, links: Links) -> None:
        other = Namespace()
        other.ip("link add here type veth peer name there", "link set here up")
        other.close()
        cable.ip("link set here mtu 1400")
        assert is_readable(links, 5)
        assert links.read() == []

    def test_after_an_overrun_the_state_is_read_anew(self, cable: Namespace, links: Links) -> None:
        links._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        cable.ip(*["link set there mtu 1400", "link set there mtu 1500"] * 50)
        cable.ip("link set there down")
        told = changes(cable, links, 3)
        assert told[0] == (EventKind.LOST_EVENTS, "")
        assert (EventKind.CARRIER_LOST, "here") in told
        assert links.table().carrier("here") is False

    def test_what_was_queued_before_an_overrun_does_not_outlive_it(
        self, cable: Namespace, links: Links
    ) -> None:
        links._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        cable.ip("link set there down")
        cable.ip(*["link set lo mtu 65000", "link set lo mtu 65536"] * 50)
        cable.ip("link set there up")
        while is_readable(links, 0.2):
            cable.call(links.read)
        assert (links.table().carrier("here"), links.table().carrier("there")) == (True, True)

    def test_an_interface_that_went_during_an_overrun_is_gone(
        self, cable: Namespace, links: Links
    ) -> None:
        links._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        cable.ip(*["link set there mtu 1400", "link set there mtu 1500"] * 50)
        cable.ip("link delete there")
        assert (EventKind.CARRIER_LOST, "there") in changes(cable, links, 3)
        assert links.table().carrier("there") is None

    def test_many_changes_are_read_in_bounded_portions(
        self, cable: Namespace, links: Links, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(netlink, "_DATAGRAMS_PER_READ", 3)
        cable.ip(*["link set there down", "link set there up"] * 10)
        told = changes(cable, links, 4)
        assert EventKind.LOST_EVENTS not in {kind for kind, _ in told}


@needs_privileges
class TestTheCountOfChanges:
    """What a worker waits for, to look again at once."""

    def counted(self, namespace: Namespace, links: Links, *lines: str) -> int:
        """Count the changes that these commands make, up to a last change that ends them."""
        before = links.changes
        namespace.ip(*lines, "link add end type bridge")
        while "end" not in links.table().carriers():
            assert is_readable(links, 5)
            namespace.call(links.read)
        return links.changes - before - 1

    @pytest.mark.parametrize(
        "change",
        [
            "addr add 10.0.0.1/24 dev here",
            "link set there down",
            "link add mv0 link here type macvlan",
        ],
    )
    def test_grows_with_what_matters(self, cable: Namespace, links: Links, change: str) -> None:
        assert self.counted(cable, links, change) > 0

    def test_grows_when_an_interface_joins_a_bridge(self, cable: Namespace, links: Links) -> None:
        self.counted(cable, links)
        before = links.changes
        cable.ip("link set here master end")
        while links.changes == before:
            assert is_readable(links, 5)
            cable.call(links.read)
        assert links.table().carrier("here") is True

    def test_does_not_grow_with_what_does_not(self, cable: Namespace, links: Links) -> None:
        boring = ["link set here mtu 1400", "link set here promisc on", "link set here mtu 1500"]
        assert self.counted(cable, links, *boring) == 0

    def test_comes_after_the_table_that_shows_the_change(
        self, cable: Namespace, links: Links
    ) -> None:
        shown = links.table()
        self.counted(cable, links, "addr add 10.0.0.1/24 dev here")
        assert shown.owner("10.0.0.1") == ""
        assert links.table().owner("10.0.0.1") == "here"


class FakeSocket:
    """A netlink socket that gives the datagrams it was made with, then an error."""

    def __init__(self, *datagrams: tuple[bytes, int, int], error: OSError) -> None:
        self._datagrams = list(datagrams)
        self._error = error

    def recvmsg(self, _size: int) -> tuple[bytes, list[object], int, tuple[int, int]]:
        if not self._datagrams:
            raise self._error
        data, flags, port = self._datagrams.pop(0)
        return data, [], flags, (port, 1)

    def close(self) -> None:
        pass


def links_over(fake: FakeSocket, monkeypatch: pytest.MonkeyPatch) -> Links:
    links = Links(clock=lambda: 5.0)
    links.close()
    monkeypatch.setattr(links, "_socket", fake)
    monkeypatch.setattr(links, "_links", {})
    return links


class TestTheSocket:
    def test_messages_of_other_processes_are_not_believed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        forged = (link_message("eth7"), 0, 4711)
        links = links_over(FakeSocket(forged, error=BlockingIOError()), monkeypatch)
        assert links.read() == []
        assert links.table().carrier("eth7") is None

    def test_a_name_that_moved_to_another_interface_follows_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        swapped = [
            (link_message("eth0", ifindex=2), 0, 0),
            (link_message("eth1", ifindex=3, flags=0), 0, 0),
            (link_message("eth0", ifindex=3, flags=0), 0, 0),
            (link_message("eth1", ifindex=2), 0, 0),
        ]
        links = links_over(FakeSocket(*swapped, error=BlockingIOError()), monkeypatch)
        assert links.read() == [Event(5.0, "netlink", EventKind.CARRIER_GAINED, "eth0")]
        assert (links.table().carrier("eth0"), links.table().carrier("eth1")) == (False, True)

    def test_a_message_cut_short_counts_as_lost(self, monkeypatch: pytest.MonkeyPatch) -> None:
        cut = (link_message(), socket.MSG_TRUNC, 0)
        links = links_over(FakeSocket(cut, error=BlockingIOError()), monkeypatch)
        assert links.read()[0].kind is EventKind.LOST_EVENTS

    def test_its_death_is_told_with_the_reason(self, monkeypatch: pytest.MonkeyPatch) -> None:
        dead = FakeSocket(error=OSError(9, "Bad file descriptor"))
        with pytest.raises(SourceFailed, match=r"rtnetlink: .*Bad file descriptor"):
            links_over(dead, monkeypatch).read()

    def test_a_list_that_comes_too_late_after_an_overrun_is_asked_for_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cut = (link_message(), socket.MSG_TRUNC, 0)
        links = links_over(FakeSocket(cut, error=BlockingIOError()), monkeypatch)
        clock = [100.0]
        monkeypatch.setattr(links, "_clock", lambda: clock[0])
        before = links.changes
        asked: list[float] = []

        def late() -> list[LinkMessage]:
            asked.append(clock[0])
            raise TimeoutError(110, "timed out")

        monkeypatch.setattr(rtnetlink, "list_links", late)
        for clock[0] in (100.0, 109.0, 110.0):
            with pytest.raises(SourceBehind):
                links.read()
            assert links.table() == InterfaceTable()
        assert asked == [100.0, 110.0]
        assert links.changes > before
        here = LinkMessage(2, "eth0", carrier=True, present=True)
        monkeypatch.setattr(rtnetlink, "list_links", lambda: [here])
        clock[0] = 120.0
        assert links.read() == [
            Event(100.0, "netlink", EventKind.LOST_EVENTS, ""),
            Event(120.0, "netlink", EventKind.CARRIER_GAINED, "eth0"),
        ]
        assert links.table().carriers() == {"eth0": True}
        assert links.read() == []

    def test_a_list_that_is_refused_after_an_overrun_ends_the_source(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        links = links_over(FakeSocket(error=OSError(105, "No buffer space")), monkeypatch)

        def refused() -> list[LinkMessage]:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(rtnetlink, "list_links", refused)
        with pytest.raises(SourceFailed, match="cannot list interfaces"):
            links.read()

    def test_a_list_that_changed_meanwhile_is_asked_for_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        changed = bytearray(link_message("eth0"))
        struct.pack_into("=H", changed, 6, 0x12)  # NLM_F_MULTI | NLM_F_DUMP_INTR
        answers = [[bytes(changed)], [link_message("eth1")]]
        monkeypatch.setattr(rtnetlink, "ask", lambda *_, **__: answers.pop(0))
        assert [link.name for link in rtnetlink.list_links()] == ["eth1"]
        monkeypatch.setattr(rtnetlink, "ask", lambda *_, **__: [bytes(changed)])
        with pytest.raises(InterruptedError):
            rtnetlink.list_links()

    def test_a_node_without_rtnetlink_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refused(*_: object) -> socket.socket:
            raise OSError(93, "Protocol not supported")

        monkeypatch.setattr(rtnetlink, "open_socket", refused)
        with pytest.raises(SourceUnavailable, match="Protocol not supported"):
            Links()

    def test_an_interface_that_appears_with_a_carrier_has_gained_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        appears = [
            (link_message("a", ifindex=8, flags=UP), 0, 0),
            (link_message("b", ifindex=9), 0, 0),
        ]
        links = links_over(FakeSocket(*appears, error=BlockingIOError()), monkeypatch)
        assert [(event.kind, event.device) for event in links.read()] == [
            (EventKind.CARRIER_GAINED, "b")
        ]
