from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter.exposition.accept import accepts_gzip, canonical_accept

_OPENMETRICS = "application/openmetrics-text; version=1.0.0"
_TEXT_1 = "text/plain; version=1.0.0"
_TEXT_0 = "text/plain; version=0.0.4"

_PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
_PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
_BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize(
    ("header", "chosen"),
    [
        ("", _TEXT_0),
        ("*/*", _TEXT_0),
        (_BROWSER, _TEXT_0),
        (_PROMETHEUS_2, _OPENMETRICS),
        (_PROMETHEUS_3, _OPENMETRICS),
        ("text/plain", _TEXT_0),
        ("text/plain;version=0.0.4", _TEXT_0),
        ("text/plain; version=1.0.0", _TEXT_1),
        ("application/openmetrics-text", _OPENMETRICS),
        ("Application/OpenMetrics-Text; Version=1.0.0", _OPENMETRICS),
        ('application/openmetrics-text; version="1.0.0"', _OPENMETRICS),
        # quality values decide, wherever in the header they stand
        ("application/openmetrics-text;q=0.2,text/plain;version=0.0.4;q=0.9", _TEXT_0),
        ("text/plain;q=0.2,text/plain;version=1.0.0;q=0.3", _TEXT_1),
        ("application/openmetrics-text;q=0,text/plain;version=1.0.0;q=0.1", _TEXT_1),
        # the richest among equals
        ("text/plain,application/openmetrics-text", _OPENMETRICS),
        # what is not served, or makes no sense, is no wish
        ("application/openmetrics-text;version=99.0.0", _TEXT_0),
        ("application/openmetrics-text;version=zzz,text/plain;version=1.0.0;q=.1", _TEXT_1),
        ("application/openmetrics-text;q=2", _TEXT_0),
        ("application/openmetrics-text;q=nan", _TEXT_0),
        ("image/png", _TEXT_0),
        (",;,=;q", _TEXT_0),
    ],
)
def test_the_format_is_the_best_one_accepted(header: str, chosen: str) -> None:
    assert canonical_accept(header) == chosen


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("", False),
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip;q=0, *", False),
        ("*", True),
        ("*;q=0", False),
        ("identity", False),
        ("gzip;q=x", False),
        ("xgzip", False),
    ],
)
def test_gzip_is_used_where_it_is_accepted(header: str, accepted: bool) -> None:
    assert accepts_gzip(header) is accepted


@given(st.text())
def test_any_header_leads_to_a_format(header: str) -> None:
    assert canonical_accept(header) in {_OPENMETRICS, _TEXT_1, _TEXT_0}
    assert accepts_gzip(header) in {True, False}
