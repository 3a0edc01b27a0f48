"""Metric families in the making: lines of text, most of them from the sheet before.

Between two scrapes a node's counters move and little else does. So whoever fills a sheet
names its parts and what each is made of, and a part that is made of the same is taken over
from the sheet before instead of being written anew.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from nvmeof_exporter.exposition.encoder import Family, label_text, number
from nvmeof_exporter.exposition.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
    from typing import Concatenate, ParamSpec

    from nvmeof_exporter.monitor.histogram import Observed

    P = ParamSpec("P")

__all__ = ["Part", "Sheet"]


class Part(NamedTuple):
    """What was written of one subject: by family, all of its lines in one text."""

    made_of: tuple[object, ...]
    texts: tuple[tuple[str, str], ...]


class Sheet:
    """Families in the order of the table, filled sample by sample, or part by part.

    Args:
        before: the parts of the sheet before.

    Attributes:
        parts: of this one, for the next.

    """

    def __init__(self, before: Mapping[Hashable, Part] | None = None) -> None:
        self.parts: dict[Hashable, Part] = {}
        self._lines: defaultdict[str, list[str]] = defaultdict(list)
        self._before = before or {}

    def add(self, name: str, labels: tuple[str, ...], value: float) -> None:
        """Add one sample of a gauge, counter or info."""
        text = label_text(METRICS[name].labels, labels)
        self._lines[name].append(f"{name}{text} {number(value)}\n")

    def add_known(self, name: str, labels: tuple[str, ...], value: float | None) -> None:
        """Add one sample, unless there is no value to tell."""
        if value is not None:
            self.add(name, labels, value)

    def add_alike(
        self, labels: tuple[str, ...], samples: Iterable[tuple[str, float | None]]
    ) -> None:
        """Add one sample of each of several metrics that have the same labels, where known."""
        text = names = None
        for name, value in samples:
            if value is None:
                continue
            own = METRICS[name].labels
            if text is None or own is not names:
                text, names = label_text(own, labels), own
            self._lines[name].append(f"{name}{text} {number(value)}\n")

    def add_states(
        self, name: str, labels: tuple[str, ...], states: Iterable[str], present: str
    ) -> None:
        """Add a sample for each state: 1 for the present one, 0 for the others."""
        for state in states:
            self.add(name, (*labels, state), state == present)

    def add_histogram(self, name: str, labels: tuple[str, ...], observed: Observed) -> None:
        """Add the samples of one histogram."""
        names = METRICS[name].labels
        lines = self._lines[name]
        for bound, count in zip((*observed.bounds, float("inf")), observed.cumulative, strict=True):
            text = label_text((*names, "le"), (*labels, number(bound)))
            lines.append(f"{name}_bucket{text} {number(count)}\n")
        text = label_text(names, labels)
        lines.append(f"{name}_count{text} {number(observed.cumulative[-1])}\n")
        lines.append(f"{name}_sum{text} {number(observed.sum)}\n")

    def part(
        self,
        key: Hashable,
        made_of: tuple[object, ...],
        write: Callable[Concatenate[Sheet, P], None],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Add what ``write(sheet, *args)`` adds, or what it added to the sheet before.

        Args:
            key: the subject, the same at every scrape.
            made_of: everything that ``write`` looks at, in values that never change. The
                sheet before is believed when this is equal to what it had.
            write: adds the samples.
            *args: for ``write``.
            **kwargs: for ``write``.

        """
        part = self._before.get(key)
        if part is None or part.made_of != made_of:
            around, self._lines = self._lines, defaultdict(list)
            try:
                write(self, *args, **kwargs)
                texts = tuple((name, "".join(lines)) for name, lines in self._lines.items())
            finally:
                self._lines = around
            part = Part(made_of, texts)
        self.parts[key] = part
        lines = self._lines
        for name, text in part.texts:
            lines[name].append(text)

    def families(self) -> Iterator[Family]:
        """Yield the families that have samples, in the order of the table."""
        for name, metric in METRICS.items():
            if name in self._lines:
                yield Family(metric, "".join(self._lines[name]))
