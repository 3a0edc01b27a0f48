"""Metric families in the making."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prometheus_client.core import Metric as Family
from prometheus_client.utils import floatToGoString

from nvmeof_exporter.exposition.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nvmeof_exporter.monitor.histogram import Histogram

__all__ = ["Sheet"]

#: ``Family`` knows no type "info" that keeps its name in the classic text format.
_TYPES = {"info": "gauge"}

#: What Python puts in place of a byte that is no UTF-8.
_SURROGATE = re.compile("[\ud800-\udfff]")


def _labels(name: str, values: Iterable[str]) -> dict[str, str]:
    """Give values to the labels of a metric."""
    return dict(zip(METRICS[name].labels, map(_utf8, values), strict=True))


def _utf8(text: str) -> str:
    """Replace what UTF-8 cannot tell: the name of a file or an interface may have any bytes."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _bound(value: float) -> str:
    """Write a bucket's upper bound as Prometheus does."""
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]


class Sheet:
    """Families in the order of the table, filled sample by sample."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}

    def add(self, name: str, labels: Iterable[str], value: float) -> None:
        """Add one sample of a gauge, counter or info."""
        family = self._family(name)
        family.add_sample(name, _labels(name, labels), value)

    def add_known(self, name: str, labels: Iterable[str], value: float | None) -> None:
        """Add one sample, unless there is no value to tell."""
        if value is not None:
            self.add(name, labels, value)

    def add_states(
        self, name: str, labels: tuple[str, ...], states: Iterable[str], present: str
    ) -> None:
        """Add a sample for each state: 1 for the present one, 0 for the others."""
        for state in states:
            self.add(name, (*labels, state), state == present)

    def add_histogram(self, name: str, labels: Iterable[str], histogram: Histogram) -> None:
        """Add the samples of one histogram."""
        family = self._family(name)
        own = _labels(name, labels)
        counts = histogram.cumulative()
        for bound, count in zip((*histogram.bounds, float("inf")), counts, strict=True):
            family.add_sample(f"{name}_bucket", {**own, "le": _bound(bound)}, count)
        family.add_sample(f"{name}_count", own, counts[-1])
        family.add_sample(f"{name}_sum", own, histogram.sum)

    def families(self) -> Iterator[Family]:
        """Yield the families that have samples, in the order of the table."""
        for name in METRICS:
            family = self._families.get(name)
            if family is not None:
                yield family

    def _family(self, name: str) -> Family:
        family = self._families.get(name)
        if family is None:
            metric = METRICS[name]
            bare = name.removesuffix("_total") if metric.kind == "counter" else name
            family = Family(bare, metric.help, _TYPES.get(metric.kind, metric.kind))
            self._families[name] = family
        return family
