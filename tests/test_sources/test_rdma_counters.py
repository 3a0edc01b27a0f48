from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter.sources import rdma_counters
from nvmeof_exporter.sources.rdma_counters import (
    CEILINGS,
    NO_COUNTERS,
    PHYSICAL_STATES,
    PORT_STATES,
    TRAFFIC,
    counter,
    physical_state,
    port_state,
    rate,
)

#: ``state`` and ``phys_state`` as the kernel prints them.
LOGICAL = {0: "NOP", 1: "DOWN", 2: "INIT", 3: "ARMED", 4: "ACTIVE", 5: "ACTIVE_DEFER"}
PHYSICAL = {
    1: "Sleep",
    2: "Polling",
    3: "Disabled",
    4: "PortConfigurationTraining",
    5: "LinkUp",
    6: "LinkErrorRecovery",
    7: "Phy Test",
}


class TestAPortState:
    @pytest.mark.parametrize(("number", "word"), list(LOGICAL.items()))
    def test_is_the_kernels_word_in_lower_case(self, number: int, word: str) -> None:
        assert port_state(f"{number}: {word}\n".encode()) == word.lower()

    @pytest.mark.parametrize(("number", "word"), list(PHYSICAL.items()))
    def test_is_physical_too(self, number: int, word: str) -> None:
        assert physical_state(f"{number}: {word}\n".encode()) == word.lower()

    def test_list_is_complete(self) -> None:
        assert [*map(str.lower, LOGICAL.values()), "unknown"] == list(PORT_STATES)
        assert [*map(str.lower, PHYSICAL.values()), "unknown"] == list(PHYSICAL_STATES)

    @pytest.mark.parametrize("raw", [b"6: UNKNOWN\n", b"4\n", b"ACTIVE\n", b"5: LinkUp\n"])
    def test_that_no_kernel_prints_is_unknown(self, raw: bytes) -> None:
        assert port_state(raw) == "unknown"

    @pytest.mark.parametrize("raw", [b"9: <unknown>\n", b"4: ACTIVE\n"])
    def test_of_another_kind_is_unknown(self, raw: bytes) -> None:
        assert physical_state(raw) == "unknown"

    @given(st.binary(max_size=40))
    def test_of_any_bytes_is_a_known_word_or_an_error(self, raw: bytes) -> None:
        try:
            words = {port_state(raw), physical_state(raw)}
        except ValueError as error:
            assert str(error) == "the file is empty"
        else:
            assert words <= {*PORT_STATES, *PHYSICAL_STATES}


class TestARate:
    @pytest.mark.parametrize(
        ("text", "bits_per_second"),
        [
            ("2.5 Gb/sec (1X SDR)", 2.5e9),
            ("10 Gb/sec (4X)", 10e9),
            ("10 Gb/sec (1X FDR10)", 10e9),
            ("25 Gb/sec (1X EDR)", 25e9),
            ("56 Gb/sec (4X FDR)", 56e9),
            ("400 Gb/sec (4X NDR)", 400e9),
            ("800 Gb/sec (4X XDR)", 800e9),
            ("0 GB/sec", 0.0),
            ("0 Gb/sec", 0.0),
        ],
    )
    def test_is_in_bytes_per_second(self, text: str, bits_per_second: float) -> None:
        assert rate(f"{text}\n".encode()) == bits_per_second / 8

    @given(
        st.sampled_from([25, 50, 100, 140, 250, 500, 1000, 2000]),
        st.sampled_from([1, 2, 4, 8, 12]),
    )
    def test_is_read_as_rate_show_prints_it(self, tenths: int, lanes: int) -> None:
        speed = tenths * lanes
        text = f"{speed // 10}{'.5' if speed % 10 else ''} Gb/sec ({lanes}X NDR)\n"
        assert rate(text.encode()) == speed * 12_500_000

    @pytest.mark.parametrize("text", ["5 GB/sec", "10 Mb/sec", "-1 Gb/sec", "Gb/sec", "unknown"])
    def test_in_another_unit_is_none(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"^expected a rate in Gb/sec, found '.*'$"):
            rate(text.encode())

    @given(st.binary(max_size=40) | st.from_regex(r"\A[0-9.]{1,30} G[Bb]/sec( \(.*\))?\n\Z"))
    def test_of_any_text_or_bytes_is_a_rate_or_an_error(self, raw: bytes | str) -> None:
        try:
            value = rate(raw.encode("utf-8", "replace") if isinstance(raw, str) else raw)
        except ValueError:
            return
        assert 0 <= value < 1e9 * rdma_counters.rate(b"1 Gb/sec")


class TestACounter:
    @given(st.integers(0, 2**64 - 1))
    def test_is_a_number_of_64_bits(self, number: int) -> None:
        assert counter(f"{number}\n".encode()) == number

    def test_that_the_device_has_not_is_none(self) -> None:
        assert counter(b"N/A (no PMA)\n") is None

    @given(st.binary(max_size=24))
    def test_of_any_bytes_is_a_number_none_or_an_error(self, raw: bytes) -> None:
        try:
            value = counter(raw)
        except ValueError:
            return
        assert raw.startswith(b"N/A") if value is None else 0 <= value < 2**64


class TestTheTables:
    @pytest.mark.parametrize(
        "name",
        [
            "lifespan",
            "active_qps",
            "active_rc_qps",
            "watermark_mrs",
            "db_fifo_register",
            "current_rate",
            "num_qps_congested",
            "DRIVER_CtxtsOpen",
        ],
    )
    def test_tell_settings_and_levels_from_counters(self, name: str) -> None:
        assert NO_COUNTERS.fullmatch(name)

    @pytest.mark.parametrize(
        "name",
        [
            "max_retry_exceeded",  # bnxt_re: retransmissions
            "num_cqovf",  # mlx4
            "sq_num_rnr",
            "rq_num_oos",
            "resize_cq_cnt",
            "rate_inc_events",
            "keep_alive_rcvd",
            "lifespan_errors",
        ],
    )
    def test_leave_counters_in_that_only_look_like_levels(self, name: str) -> None:
        assert not NO_COUNTERS.fullmatch(name)

    def test_know_ceilings_of_whole_bits(self) -> None:
        assert {ceiling.bit_length() for ceiling in CEILINGS.values()} == {4, 8, 16, 32}
        assert all(ceiling & (ceiling + 1) == 0 for ceiling in CEILINGS.values())

    def test_have_a_source_for_sending_for_each_for_receiving(self) -> None:
        assert [len(sources) for sources in TRAFFIC.values()] == [6, 6, 8, 8]
        assert list(TRAFFIC) == [
            "received_bytes",
            "transmitted_bytes",
            "received_packets",
            "transmitted_packets",
        ]
