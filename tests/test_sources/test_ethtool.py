from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import shutil
import struct
import subprocess
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.hardware import Pause
from nvmeof_exporter.sources.ethtool import PauseSource, statistics
from tests.fixtures.node_files import FaultyReader
from tests.test_sources.network_namespaces import Namespace, needs_privileges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GSTRINGS, GSTATS, GSSET_INFO = 0x1B, 0x1D, 0x37

READS_UNTIL_RETRIED = 60

#: What a card of two enabled priorities shows.
CARD = {
    "rx_packets": 5,
    "rx_prio3_pause": 120,
    "rx_prio3_pause_duration": 1500,
    "tx_prio4_pause": 2**64 - 1,
}


class Kernel:
    """Stands in for the ioctl of an interface named ``eth0``.

    ``before`` is called with each command before it is answered.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, card: dict[str, int]) -> None:
        self.card = card
        self.error = 0
        self.commands: list[int] = []
        self.before: Callable[[int], None] = lambda _: None
        monkeypatch.setattr(fcntl, "ioctl", self.ioctl)

    def ioctl(self, descriptor: int, request: int, ifreq: bytes) -> None:
        assert request == 0x8946
        name, address = struct.unpack_from("@16sP", ifreq)
        command, first = struct.unpack("=II", ctypes.string_at(address, 8))
        self.commands.append(command)
        if self.error:
            raise OSError(self.error, os.strerror(self.error))
        assert name == b"eth0".ljust(16, b"\0")
        self.before(command)
        size = len(self.card)
        if command == GSSET_INFO:
            assert struct.unpack("=Q", ctypes.string_at(address + 8, 8)) == (1 << 1,)
            answer = struct.pack("=IIQI", command, 0, 1 << 1, size)
        elif command == GSTRINGS:
            assert first == 1
            names = (name.encode().ljust(32, b"\0") for name in self.card)
            answer = struct.pack("=III", command, 1, size) + b"".join(names)
        else:
            answer = struct.pack(f"=II{size}Q", command, size, *self.card.values())
        ctypes.memmove(address, answer, len(answer))


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(monkeypatch, dict(CARD))


@pytest.fixture
def reader() -> FaultyReader:
    return FaultyReader()


class TestStatistics:
    def test_are_names_and_values_in_the_drivers_order(self, kernel: Kernel) -> None:
        assert statistics("eth0") == list(CARD.items())

    def test_are_asked_for_by_commands_that_only_read(self, kernel: Kernel) -> None:
        statistics("eth0")
        assert kernel.commands == [GSSET_INFO, GSTRINGS, GSTATS, GSTRINGS]

    def test_may_be_chosen_by_name(self, kernel: Kernel) -> None:
        assert statistics("eth0", "rx_packets".__eq__) == [("rx_packets", 5)]

    def test_lose_the_blanks_that_pad_their_names(self, kernel: Kernel) -> None:
        kernel.card = {"rx_pause_frames        ": 1, "x" * 31: 2}
        assert statistics("eth0") == [("rx_pause_frames", 1), ("x" * 31, 2)]

    def test_of_a_driver_without_any_are_none(self, kernel: Kernel) -> None:
        kernel.card = {}
        assert statistics("eth0") == []

    @pytest.mark.parametrize("command", [GSTRINGS, GSTATS])
    def test_that_become_more_meanwhile_are_not_told(self, kernel: Kernel, command: int) -> None:
        def grow(asked: int) -> None:
            if asked == command:
                kernel.card.update({f"queue{number}": number for number in range(10_000)})

        kernel.before = grow
        assert statistics("eth0") is None

    def test_that_get_other_names_meanwhile_are_not_told(self, kernel: Kernel) -> None:
        def rename(asked: int) -> None:
            if asked == GSTATS:
                kernel.card = {name.replace("3", "5"): value for name, value in CARD.items()}

        kernel.before = rename
        assert statistics("eth0") is None

    def test_beyond_all_measure_are_not_asked_for(self, kernel: Kernel) -> None:
        kernel.card = dict.fromkeys(map(str, range(65_537)), 0)
        assert statistics("eth0") == []
        assert kernel.commands == [GSSET_INFO]

    @pytest.mark.parametrize("name", ["", "a-name-of-16-chars"])
    def test_of_what_can_be_no_interface_are_an_error(self, kernel: Kernel, name: str) -> None:
        with pytest.raises(OSError, match="No such device"):
            statistics(name)
        assert kernel.commands == []


class TestPauseSource:
    def test_tells_the_pauses_of_an_interface(self, kernel: Kernel, reader: FaultyReader) -> None:
        source = PauseSource(reader)
        expected = (Pause("rx", "3", 120, 0.0015), Pause("tx", "4", 2**64 - 1))
        assert [source.read("eth0"), source.read("eth0")] == [expected, expected]
        assert reader.errors == 0

    def test_a_driver_without_statistics_is_no_error_and_seldom_asked(
        self, kernel: Kernel, reader: FaultyReader
    ) -> None:
        kernel.error = errno.EOPNOTSUPP
        source = PauseSource(reader)
        for _ in range(READS_UNTIL_RETRIED):
            assert source.read("eth0") == ()
        assert (reader.errors, reader.told, len(kernel.commands)) == (0, [], 1)
        kernel.error = 0
        assert source.read("eth0") != ()

    @pytest.mark.parametrize("number", [errno.ENODEV, errno.EBUSY])
    def test_a_failure_hides_nothing_of_the_next_read(
        self, kernel: Kernel, reader: FaultyReader, number: int
    ) -> None:
        source = PauseSource(reader)
        kernel.error = number
        assert source.read("eth0") == ()
        kernel.error = 0
        assert source.read("eth0") != ()

    def test_a_change_meanwhile_hides_nothing_of_the_next_read(
        self, kernel: Kernel, reader: FaultyReader
    ) -> None:
        source = PauseSource(reader)
        kernel.before = lambda _: kernel.card.update({f"new{len(kernel.commands)}": 1})
        assert source.read("eth0") == ()
        kernel.before = lambda _: None
        assert source.read("eth0") != ()

    def test_a_driver_without_pauses_is_seldom_asked(
        self, kernel: Kernel, reader: FaultyReader
    ) -> None:
        kernel.card = {"rx_packets": 5}
        source = PauseSource(reader)
        assert {source.read("eth0") for _ in range(READS_UNTIL_RETRIED)} == {()}
        assert len(kernel.commands) == 4

    def test_interfaces_that_come_and_go_are_not_remembered_for_ever(
        self, kernel: Kernel, reader: FaultyReader
    ) -> None:
        source = PauseSource(reader)
        kernel.error = errno.EOPNOTSUPP
        for number in range(1024):
            source.read(f"veth{number}")
        kernel.error = 0
        assert source.read("eth0") != ()
        kernel.error = errno.EOPNOTSUPP
        source.read("veth1024")
        kernel.commands.clear()
        source.read("veth0")
        assert len(kernel.commands) == 1

    def test_a_refusal_is_counted_and_told_once(self, kernel: Kernel, reader: FaultyReader) -> None:
        kernel.error = errno.EPERM
        source = PauseSource(reader)
        for _ in range(2):
            assert source.read("eth0") == ()
        assert reader.errors == 2
        assert reader.told == [("ethtool statistics of eth0", "EPERM")]


@pytest.fixture
def cable() -> Iterator[Namespace]:
    """A network namespace with two interfaces, ``here`` and ``there``, and no traffic."""
    made = Namespace()
    made.ip(
        "link add here type veth peer name there",
        "link set here addrgenmode none up",
        "link set there addrgenmode none up",
    )
    yield made
    made.close()


@needs_privileges
class TestRealInterfaces:
    @pytest.mark.skipif(shutil.which("ethtool") is None, reason="compares with ethtool")
    def test_have_the_statistics_that_ethtool_shows(self, cable: Namespace) -> None:
        shown = cable.call(
            lambda: (
                subprocess.run(
                    ["ethtool", "-S", "here"], check=True, capture_output=True, text=True
                ).stdout
            )
        )
        found = re.findall(r"^ +(\S.*): (\d+)$", shown, re.MULTILINE)
        assert found
        ours = cable.call(statistics, "here")
        assert ours == [(name, int(value)) for name, value in found]

    def test_without_pauses_have_none(self, cable: Namespace, reader: FaultyReader) -> None:
        source = PauseSource(reader)
        for netdev in ("here", "lo", "nowhere"):
            assert cable.call(source.read, netdev) == ()
        assert reader.errors == 0
