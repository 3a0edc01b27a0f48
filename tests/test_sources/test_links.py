from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter.hardware import Link, Pause
from nvmeof_exporter.sources.links import LinkSource, speed
from tests.fixtures.node_files import FaultyReader
from tests.fixtures.rdma_files import write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def reader() -> FaultyReader:
    return FaultyReader()


@pytest.fixture
def net(tmp_path: Path) -> Path:
    return tmp_path / "class/net"


@pytest.fixture
def source(reader: FaultyReader, tmp_path: Path) -> LinkSource:
    return LinkSource(reader, str(tmp_path))


class TestALink:
    def test_is_told_whole(self, net: Path, source: LinkSource) -> None:
        write(net / "ens5np0", {"carrier": 1, "carrier_changes": 2, "speed": 400000})
        assert source.read("ens5np0") == Link("ens5np0", up=True, carrier_changes=2, speed=50e9)

    def test_without_a_carrier_is_down_and_has_no_speed(
        self, net: Path, source: LinkSource
    ) -> None:
        write(net / "ens6np0", {"carrier": 0, "carrier_changes": 3, "speed": -1})
        assert source.read("ens6np0") == Link("ens6np0", up=False, carrier_changes=3)

    def test_that_is_administratively_down_is_down_and_no_error(
        self, net: Path, source: LinkSource, reader: FaultyReader
    ) -> None:
        write(net / "eth0", {"carrier": "", "carrier_changes": 3, "speed": ""})
        write(net / "eth0", {"operstate": "down"})
        for name in ("carrier", "speed"):
            reader.answers[f"{net}/eth0/{name}"] = errno.EINVAL
        assert source.read("eth0") == Link("eth0", up=False, carrier_changes=3)
        assert (reader.errors, reader.told) == (0, [])

    @pytest.mark.parametrize(
        ("state", "up"),
        [
            ("up", True),
            ("down", False),
            ("lowerlayerdown", False),
            ("notpresent", False),
            ("unknown", None),
            ("dormant", None),
            ("testing", None),
        ],
    )
    def test_whose_carrier_is_not_shown_is_judged_by_its_operational_state(
        self, net: Path, source: LinkSource, state: str, up: bool | None
    ) -> None:
        write(net / "eth0", {"operstate": state})
        assert source.read("eth0") == Link("eth0", up=up)

    def test_of_which_nothing_is_shown_is_unknown(self, net: Path, source: LinkSource) -> None:
        (net / "eth0").mkdir(parents=True)
        assert source.read("eth0") == Link("eth0")

    def test_that_is_gone_is_none(self, source: LinkSource) -> None:
        assert source.read("eth0") is None

    def test_counts_what_fails(self, net: Path, source: LinkSource, reader: FaultyReader) -> None:
        write(net / "eth0", {"carrier": 1, "carrier_changes": "many", "speed": 1000})
        reader.answers[f"{net}/eth0/speed"] = errno.EIO
        for _ in range(2):
            assert source.read("eth0") == Link("eth0", up=True)
        assert reader.errors == 4
        assert reader.told == [
            (f"{net}/eth0/carrier_changes", "expected a whole number, found 'many'"),
            (f"{net}/eth0/speed", "EIO"),
        ]

    def test_has_the_pauses_that_its_driver_tells(
        self, net: Path, reader: FaultyReader, tmp_path: Path
    ) -> None:
        (net / "eth0").mkdir(parents=True)
        asked = {"eth0": (Pause("rx", "3", 7, 0.5),)}
        source = LinkSource(reader, str(tmp_path), asked.__getitem__)
        assert source.read("eth0") == Link("eth0", pauses=(Pause("rx", "3", 7, 0.5),))


class TestInterfaces:
    def test_are_directories_in_order(self, net: Path, source: LinkSource) -> None:
        write(net, {"bonding_masters": "bond0", "eth1/mtu": 1500, "bond0/mtu": 1500})
        os.symlink("../../devices/gone/net/eth9", net / "eth9")
        assert source.netdevs() == ["bond0", "eth1"]

    def test_of_a_tree_without_any_are_none(self, source: LinkSource, reader: FaultyReader) -> None:
        assert source.netdevs() == []
        assert reader.errors == 0


class TestASpeed:
    @given(st.integers(0, 10_000_000).filter(lambda speed: speed != 65535))
    def test_is_in_bytes_per_second(self, megabits: int) -> None:
        assert speed(f"{megabits}\n".encode()) == megabits * 1e6 / 8

    @pytest.mark.parametrize("raw", [b"-1\n", b"4294967295\n", b"65535\n"])
    def test_that_is_unknown_is_none(self, raw: bytes) -> None:
        assert speed(raw) is None

    @given(st.binary(max_size=30))
    def test_of_any_bytes_is_a_number_none_or_an_error(self, raw: bytes) -> None:
        try:
            value = speed(raw)
        except ValueError:
            return
        assert value is None or value >= 0
