"""What a scraper accepts: the exposition format and whether it may be compressed.

prometheus_client knows the formats but not the preferences: it takes the first
format listed, whatever its quality value, and repeats versions it has never
heard of. So the choice is made here, and only a canonical wish handed on.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["accepts_gzip", "canonical_accept"]

_OPENMETRICS = "application/openmetrics-text; version=1.0.0"
_TEXT_1 = "text/plain; version=1.0.0"
_TEXT_0 = "text/plain; version=0.0.4"

#: What an element of ``Accept`` stands for, the richest format first: it wins among equals.
#: A wildcard gets the oldest format, which everybody can read.
_FORMATS = {
    ("application/openmetrics-text", "1.0.0"): _OPENMETRICS,
    ("application/openmetrics-text", ""): _OPENMETRICS,
    ("text/plain", "1.0.0"): _TEXT_1,
    ("text/plain", "0.0.4"): _TEXT_0,
    ("text/plain", ""): _TEXT_0,
    ("text/*", ""): _TEXT_0,
    ("*/*", ""): _TEXT_0,
}
_RANK = (_TEXT_0, _TEXT_1, _OPENMETRICS)


class _Element(NamedTuple):
    name: str
    version: str
    quality: float


def canonical_accept(header: str) -> str:
    """The best of the formats served, as an ``Accept`` header that names only that one."""
    wishes = [
        (element.quality, _RANK.index(known))
        for element in _elements(header)
        if element.quality > 0 and (known := _FORMATS.get((element.name, element.version)))
    ]
    return _RANK[max(wishes)[1]] if wishes else _TEXT_0


def accepts_gzip(header: str) -> bool:
    """Whether ``Accept-Encoding`` allows gzip, by name or else by the wildcard."""
    qualities = {element.name: element.quality for element in _elements(header)}
    return qualities.get("gzip", qualities.get("*", 0.0)) > 0


def _elements(header: str) -> list[_Element]:
    return [_element(part) for part in header.split(",") if part.strip()]


def _element(text: str) -> _Element:
    name, *parameters = (part.strip().lower() for part in text.split(";"))
    given = dict(_pair(parameter) for parameter in parameters)
    return _Element(name, given.get("version", ""), _quality(given.get("q", "1")))


def _pair(parameter: str) -> tuple[str, str]:
    name, _, value = parameter.partition("=")
    return name.strip(), value.strip().strip('"')


def _quality(text: str) -> float:
    """A quality value; what is none counts as a refusal."""
    try:
        quality = float(text)
    except ValueError:
        return 0.0
    return quality if 0 <= quality <= 1 else 0.0
