"""The text formats: written from families that are text already, faster than from samples.

Byte for byte what prometheus_client writes (the tests hold both against each other), which
makes an object of every sample and escapes every label anew. A sample's line is the same in
the classic format and in OpenMetrics 1.0; only what is above and below them differs.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.exposition import generate_latest as classic_text
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client.core import Metric as ForeignFamily

    from nvmeof_exporter.exposition.metric import Metric

__all__ = ["Family", "encode", "label_text", "number"]

#: The formats know no type "info" that keeps its name in the classic one.
_TYPES = {"info": "gauge"}

#: What Python puts in place of a byte that is no UTF-8.
_SURROGATE = re.compile("[\ud800-\udfff]")

#: From here on Go writes an exponent.
_EXPONENT_FROM = 1_000_000

_END = "# EOF\n"


class Family(NamedTuple):
    """A family of the table and its samples, a line each."""

    metric: Metric
    lines: str


class _One:
    """A collector of one family."""

    def __init__(self, family: ForeignFamily) -> None:
        self._family = family

    def collect(self) -> Iterator[ForeignFamily]:
        yield self._family


def encode(families: Iterable[Family | ForeignFamily], *, openmetrics: bool) -> Iterator[bytes]:
    """Write families in OpenMetrics 1.0, or else in the classic text format.

    Those that are no text yet (a library's collectors) are written by prometheus_client.
    """
    for family in families:
        if not isinstance(family, Family):
            yield _foreign(family, openmetrics=openmetrics)
        else:
            yield (_heading(family.metric, openmetrics=openmetrics) + family.lines).encode()
    if openmetrics:
        yield _END.encode()


def label_text(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """Write labels in braces, in the order of their names; nothing where there are none.

    Raises:
        ValueError: there are not as many values as names.

    """
    if len(names) != len(values):
        raise ValueError(f"labels {names}: {len(values)} values")
    if not names:
        return ""
    pairs = [f'{name}="{_escaped(values[index])}"' for index, name in _in_order(names)]
    return "{" + ",".join(pairs) + "}"


def number(value: float) -> str:
    """Write a value as prometheus_client does: like Go, except that whole numbers end in ``.0``."""
    if -_EXPONENT_FROM < value < _EXPONENT_FROM:
        return repr(float(value))
    value = float(value)
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(value)
    whole, dot, rest = text.partition(".")
    if value < 0 or not dot or len(whole) <= len("100000"):
        # Negative, not a number, or written with an exponent by Python already.
        return "NaN" if math.isnan(value) else text
    digits = f"{whole[0]}.{whole[1:]}{rest}".rstrip("0.")
    return f"{digits}e+{len(whole) - 1:02d}"


@lru_cache
def _in_order(names: tuple[str, ...]) -> tuple[tuple[int, str], ...]:
    return tuple(sorted(enumerate(names), key=lambda item: item[1]))


def _escaped(value: str) -> str:
    """Escape a label's value; what UTF-8 cannot tell (names may have any bytes) is replaced."""
    if not value.isascii():
        value = _SURROGATE.sub("\ufffd", value)
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return value


@lru_cache(1024)
def _heading(metric: Metric, *, openmetrics: bool) -> str:
    name, text = metric.name, metric.help.replace("\\", r"\\").replace("\n", r"\n")
    if openmetrics:
        text = text.replace('"', r"\"")
        if metric.kind == "counter":
            name = name.removesuffix("_total")
    return f"# HELP {name} {text}\n# TYPE {name} {_TYPES.get(metric.kind, metric.kind)}\n"


def _foreign(family: ForeignFamily, *, openmetrics: bool) -> bytes:
    if not openmetrics:
        return classic_text(_One(family))
    written: bytes = openmetrics_text(_One(family))  # type: ignore[no-untyped-call]
    return written.removesuffix(_END.encode())
