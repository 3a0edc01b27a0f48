from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter.config.values import (
    FLAG,
    LISTEN_ADDRESS,
    OPTIONAL_PATH,
    PATH,
    URL_PATH,
    ListenAddress,
    choice,
    duration,
    format_duration,
    integer,
    parse_duration,
    parse_listen_address,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("100ms", 0.1),
        ("1.5s", 1.5),
        ("5s", 5.0),
        ("1m30s", 90.0),
        ("2h", 7200.0),
        ("1d", 86400.0),
        ("1w2d3h4m5s6ms", 788645.006),
        ("0s", 0.0),
    ],
)
def test_a_duration_is_read_as_prometheus_writes_it(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "5 s", "5S", "30s1m", "1s1s", "-5s", "1e3s", "٣s", "5x"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^a duration such as 100ms, 1\.5s, 5s, 1m30s or 2h$"):
        parse_duration(text)


def test_a_plain_number_is_refused_with_the_unit_it_lacks() -> None:
    with pytest.raises(ValueError, match=r"^a duration with a unit, such as 100ms or 100s$"):
        parse_duration("100")


@given(st.integers(min_value=0, max_value=10**12))
def test_a_duration_survives_being_written_and_read(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds / 1000)) == milliseconds / 1000


@given(st.text())
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    try:
        assert parse_duration(text) >= 0
    except ValueError as error:
        assert str(error).startswith("a duration")


def test_bounds_of_a_duration_are_included() -> None:
    kind = duration("10ms", "60s")
    assert (kind.parse("10ms"), kind.parse("1m")) == (0.01, 60.0)
    for text in ("9ms", "60.001s"):
        with pytest.raises(ValueError, match=r"^a duration from 10ms to 60s$"):
            kind.parse(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":10067", ListenAddress("", 10067)),
        ("0.0.0.0:80", ListenAddress("0.0.0.0", 80)),
        ("node-1.example.org:0", ListenAddress("node-1.example.org", 0)),
        ("[::1]:10067", ListenAddress("::1", 10067)),
        ("[fe80::1%eth0]:65535", ListenAddress("fe80::1%eth0", 65535)),
    ],
)
def test_a_listen_address_is_read(text: str, address: ListenAddress) -> None:
    assert parse_listen_address(text) == address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10067", ":PORT, HOST:PORT or [IPV6]:PORT"),
        ("localhost", ":PORT, HOST:PORT or [IPV6]:PORT"),
        ("localhost:http", ":PORT, HOST:PORT or [IPV6]:PORT"),
        ("a b:1", ":PORT, HOST:PORT or [IPV6]:PORT"),
        ("", ":PORT, HOST:PORT or [IPV6]:PORT"),
        ("localhost:", ":PORT, HOST:PORT or [IPV6]:PORT"),
        ("::1:10067", "an IPv6 address in brackets, such as [::1]:10067"),
        (":65536", "a port from 0 to 65535"),
    ],
)
def test_what_is_no_listen_address_is_refused(text: str, expected: str) -> None:
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 (compared whole below)
        parse_listen_address(text)
    assert str(refusal.value) == expected


_hosts = st.one_of(
    st.just(""),
    st.from_regex(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]+)*", fullmatch=True),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(str),
)


@given(_hosts, st.integers(0, 65535))
def test_a_listen_address_survives_being_written_and_read(host: str, port: int) -> None:
    address = ListenAddress(host, port)
    assert parse_listen_address(str(address)) == address


@given(st.text())
def test_any_text_is_a_listen_address_or_refused(text: str) -> None:
    try:
        assert 0 <= parse_listen_address(text).port <= 65535
    except ValueError as error:
        assert str(error)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("No", False), ("1", True)])
def test_a_flag_is_read_in_the_usual_spellings(text: str, value: bool) -> None:
    assert FLAG.parse(text) is value


def test_a_flag_that_is_neither_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^true or false$"):
        FLAG.parse("maybe")


@pytest.mark.parametrize("text", ["0", "11", "-1", "1.0", "", "٣"])
def test_a_number_out_of_bounds_or_none_at_all_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^a whole number from 1 to 10$"):
        integer(1, 10).parse(text)


def test_a_word_that_is_no_choice_is_refused() -> None:
    assert choice("logfmt", "json").parse("json") == "json"
    with pytest.raises(ValueError, match=r"^one of logfmt, json$"):
        choice("logfmt", "json").parse("xml")


def test_a_path_is_normalized_and_only_an_optional_one_may_be_empty() -> None:
    assert PATH.parse("/sys/") == "/sys"
    assert OPTIONAL_PATH.parse("") == ""
    with pytest.raises(ValueError, match=r"^a path$"):
        PATH.parse("")
    with pytest.raises(ValueError, match=r"^a path$"):
        PATH.parse("/a\0b")


@pytest.mark.parametrize("text", ["metrics", "/a b", "/a?b", "/-/healthy", "/-/ready", ""])
def test_a_telemetry_path_that_could_not_be_served_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^a URL path "):
        URL_PATH.parse(text)


def test_listen_addresses_are_of_their_kind() -> None:
    assert LISTEN_ADDRESS.parse(":1") == ListenAddress("", 1)
