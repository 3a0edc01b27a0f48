from __future__ import annotations

import math
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter.model import ANA_STATES, PATH_STATES
from nvmeof_exporter.sources import decode

DECODERS = (
    decode.address,
    decode.ana_state,
    decode.controller_state,
    decode.counter,
    decode.flag,
    decode.io_counters,
    decode.milliseconds,
    decode.padded_text,
    decode.required_text,
    decode.seconds,
    decode.seconds_or_off,
    decode.sectors,
    decode.text,
)

#: What an address part may hold: neither the separator of parts nor padding.
PART = st.text(
    st.characters(codec="ascii", min_codepoint=33, max_codepoint=126, exclude_characters=","),
    min_size=1,
)
COUNT = st.integers(0, 2**64 - 1)


@pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: decoder.__name__)
@given(raw=st.binary(max_size=200))
def test_any_bytes_are_a_value_or_a_value_error(decoder: object, raw: bytes) -> None:
    assert callable(decoder)
    try:
        decoder(raw)
    except ValueError as error:
        assert str(error)


class TestTexts:
    @given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
    def test_a_text_survives_its_padding(self, own: str) -> None:
        own = own.rstrip(" \t\r\n")
        for padding in (b"", b"\n", b"   \n", b"\n\0\0\0", b" \0\0"):
            assert decode.text(own.encode() + padding) == own

    def test_a_nul_inside_is_replaced(self) -> None:
        assert decode.text(b"SN\x001\0\0") == "SN\ufffd1"

    def test_a_fixed_width_text_loses_padding_on_both_sides(self) -> None:
        assert decode.padded_text(b"      S39X  \n") == "S39X"

    def test_a_leading_blank_of_other_texts_is_theirs(self) -> None:
        assert decode.text(b"  nqn\n") == "  nqn"

    @pytest.mark.parametrize(
        "nqn", ["nqn.2026-01.org.example:a", "nqn.2026-01.org.example:a ", " "]
    )
    def test_blanks_at_the_end_of_an_nqn_are_its_own(self, nqn: str) -> None:
        if nqn.strip():
            assert decode.subsystem_nqn(nqn.encode() + b"\n") == nqn
        else:
            with pytest.raises(ValueError, match="empty"):
                decode.subsystem_nqn(nqn.encode() + b"\n")

    @pytest.mark.parametrize("raw", [b"", b"\n", b"\0", b"  \n"])
    def test_a_required_text_is_not_empty(self, raw: bytes) -> None:
        with pytest.raises(ValueError, match="empty"):
            decode.required_text(raw)


class TestStates:
    @pytest.mark.parametrize("state", sorted(set(PATH_STATES) - {"missing", "unknown"}))
    def test_the_kernels_states_are_themselves(self, state: str) -> None:
        assert decode.controller_state(state.encode() + b"\n") == (state, state)

    def test_deleting_without_io_is_deleting_with_its_own_text(self) -> None:
        assert decode.controller_state(b"deleting (no IO)\n") == ("deleting", "deleting (no IO)")

    @pytest.mark.parametrize("own", ["fencing", "fenced", "unknown state", "missing", "Live"])
    def test_a_state_nobody_has_heard_of_is_unknown_and_kept(self, own: str) -> None:
        assert decode.controller_state(own.encode()) == ("unknown", own)

    @given(st.binary(min_size=1, max_size=50))
    def test_every_state_is_one_of_those_published(self, raw: bytes) -> None:
        try:
            state, own = decode.controller_state(raw)
        except ValueError:
            assert not decode.text(raw)
        else:
            assert state in PATH_STATES
            assert own == decode.text(raw)

    @pytest.mark.parametrize("state", ANA_STATES)
    def test_ana_states_are_themselves(self, state: str) -> None:
        assert decode.ana_state(state.encode() + b"\n") == state

    @pytest.mark.parametrize("own", [b"invalid state\n", b"optimized-ish", b"OPTIMIZED"])
    def test_any_other_ana_state_is_unknown(self, own: bytes) -> None:
        assert decode.ana_state(own) == "unknown"


class TestAddress:
    @given(
        st.fixed_dictionaries(
            {"traddr": PART},
            optional=dict.fromkeys(("trsvcid", "host_traddr", "host_iface", "src_addr"), PART),
        ),
        st.randoms(),
    )
    def test_every_part_is_found_in_any_order(self, parts: dict[str, str], random: object) -> None:
        items = list(parts.items())
        random.shuffle(items)  # type: ignore[attr-defined]
        raw = ",".join(f"{name}={value}" for name, value in items).encode() + b"\n"
        absent = dict.fromkeys(("trsvcid", "host_traddr", "host_iface", "src_addr"), "")
        assert asdict(decode.address(raw)) == {**absent, **parts}

    def test_fibre_channel_names_hold_colons(self) -> None:
        found = decode.address(b"traddr=nn-0x1:pn-0x2,host_traddr=nn-0x3:pn-0x4\n")
        assert (found.traddr, found.host_traddr) == ("nn-0x1:pn-0x2", "nn-0x3:pn-0x4")

    def test_a_scope_belongs_to_the_address(self) -> None:
        assert decode.address(b"traddr=fe80::1%eth0,trsvcid=4420").traddr == "fe80::1%eth0"

    @pytest.mark.parametrize(
        ("raw", "traddr"),
        [
            (b"0000:0f:00.0\n", "0000:0f:00.0"),
            (b"0000:0f:00.0", "0000:0f:00.0"),
            (b"nn-0x1:pn-0x2\n", "nn-0x1:pn-0x2"),
            (b"27bcc0000.nvme\n", "27bcc0000.nvme"),
            (b"\n", ""),
        ],
    )
    def test_a_bare_address_is_the_target(self, raw: bytes, traddr: str) -> None:
        assert decode.address(raw) == decode.Address(traddr=traddr)

    def test_a_key_nobody_has_heard_of_is_passed_over(self) -> None:
        found = decode.address(b"traddr=10.0.0.2,tls=1,flag,trsvcid=4420")
        assert found == decode.Address(traddr="10.0.0.2", trsvcid="4420")


class TestNumbers:
    @given(COUNT)
    def test_counters_are_read_as_they_are(self, number: int) -> None:
        assert decode.counter(b"%d\n" % number) == number

    @pytest.mark.parametrize("raw", [b"-1", b"0x10", b"1_000", b"1.5", "٣".encode(), b"1 2"])
    def test_what_only_looks_like_a_counter_is_none(self, raw: bytes) -> None:
        with pytest.raises(ValueError, match="whole number"):
            decode.counter(raw)

    @pytest.mark.parametrize("decoder", [decode.counter, decode.seconds, decode.sectors])
    def test_more_than_64_bits_is_no_counter(self, decoder: object) -> None:
        assert callable(decoder)
        with pytest.raises(ValueError, match="64 bits"):
            decoder(b"9" * 400)

    @pytest.mark.parametrize("raw", [b"off\n", b"-1\n"])
    def test_off_is_never(self, raw: bytes) -> None:
        assert decode.seconds_or_off(raw) == math.inf

    @given(st.integers(0, 10**9))
    def test_a_time_out_is_seconds(self, number: int) -> None:
        assert decode.seconds_or_off(b"%d\n" % number) == number
        assert decode.seconds(b"%d\n" % number) == number

    def test_zero_is_not_off(self) -> None:
        assert decode.seconds_or_off(b"0\n") == 0

    def test_milliseconds_become_seconds(self) -> None:
        assert decode.milliseconds(b"30500\n") == 30.5

    def test_sectors_are_of_512_bytes(self) -> None:
        assert decode.sectors(b"2048\n") == 1 << 20

    @pytest.mark.parametrize(
        ("raw", "value"), [(b"Y\n", True), (b"N\n", False), (b"1", True), (b"0", False)]
    )
    def test_module_parameters_are_y_or_n(self, raw: bytes, value: bool) -> None:
        assert decode.flag(raw) is value


class TestDiskCounters:
    @given(st.lists(COUNT, min_size=11, max_size=25))
    def test_fields_keep_their_order_and_later_ones_are_passed_over(
        self, numbers: list[int]
    ) -> None:
        raw = b" ".join(b"%8d" % number for number in numbers) + b"\n"
        found = decode.io_counters(raw)
        assert tuple(found) == tuple((numbers + [0] * 6)[:17])

    @pytest.mark.parametrize("count", [0, 1, 10])
    def test_fewer_than_eleven_fields_are_none(self, count: int) -> None:
        with pytest.raises(ValueError, match="at least 11"):
            decode.io_counters(b"7 " * count)

    @pytest.mark.parametrize("odd", [b"-1", b"x", b"1_0", b"1.5"])
    def test_a_field_that_is_no_number_spoils_all(self, odd: bytes) -> None:
        with pytest.raises(ValueError, match="whole numbers"):
            decode.io_counters(b"7 " * 10 + odd)

    def test_padding_is_no_field(self) -> None:
        assert decode.io_counters(b"7 " * 11 + b"\n\0\0\0").queue_ms == 7
