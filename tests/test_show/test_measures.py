"""Times and sizes as people read them."""

from __future__ import annotations

import pytest

from nvmeof_exporter.show.measures import age, pause, size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0s"),
        (0.9, "0s"),
        (59.9, "59s"),
        (60, "1m00s"),
        (3599, "59m59s"),
        (3600, "1h00m"),
        (11_520, "3h12m"),
        (86_400, "1d00h"),
        (190_000, "2d04h"),
    ],
)
def test_an_age_has_two_units(seconds: float, text: str) -> None:
    assert age(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 ms"), (0.0034, "3 ms"), (0.1, "0.10 s"), (6.314, "6.31 s"), (303, "5m03s")],
)
def test_a_pause_is_as_exact_as_matters(seconds: float, text: str) -> None:
    assert pause(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (2_199_023_255_552, "2.20 TB"),
        (10**22, "10000.00 EB"),
    ],
)
def test_sizes_are_decimal_as_drives_are_sold(count: int, text: str) -> None:
    assert size(count) == text
