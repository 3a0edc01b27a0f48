"""The timeline of a drill as coordinates: what was moved, how long requests took, what paths did.

Only geometry: texts are the page's, which escapes them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nvmeof_exporter.drill.sizes import size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from nvmeof_exporter.drill.report import PathTold, Report

__all__ = ["Bar", "Mark", "Panel", "Picture", "Row", "Tick", "picture_of"]

LEFT, RIGHT, TOP = 90.0, 15.0, 34.0
WIDTH = 1000.0
PANEL_HEIGHT, GAP = 120.0, 26.0
ROW_HEIGHT, ROW_LABEL = 16.0, 15.0

_TICKS = 8
_STEPS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)

#: Only these are good: the rest of what a path can be is not.
_GOOD = {"live", "optimized"}
_FAIR = {"live", "non-optimized"}


@dataclass(frozen=True, slots=True)
class Tick:
    """A place on an axis, and what stands there."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment: where its line is, how high its text, and what it says."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves over time. ``curves`` are (name, points of an SVG polyline)."""

    title: str
    top: float
    bottom: float
    curves: tuple[tuple[str, str], ...]
    ticks: tuple[Tick, ...]


@dataclass(frozen=True, slots=True)
class Bar:
    """A path's state for a while. ``kind`` is ``good``, ``fair``, ``bad`` or ``gone``."""

    x: float
    width: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """One path: its label, where it is, its bars."""

    label: str
    y: float
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything, in the units of an SVG of WIDTH by ``height``."""

    height: float
    left: float
    right: float
    axis: tuple[Tick, ...]
    marks: tuple[Mark, ...]
    panels: tuple[Panel, ...]
    rows: tuple[Row, ...]
    bottom: float


def picture_of(report: Report) -> Picture:
    """Lay out the timeline of a report."""
    seconds = max(report.seconds, 1.0)

    def x_of(time: float) -> float:
        share = min(max(time / seconds, 0.0), 1.0)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    timeline = report.timeline
    times = [x_of((index + 0.5) * timeline.step) for index in range(len(timeline.read))]
    panels = (
        _panel(
            "throughput per second",
            TOP,
            times,
            (("read", timeline.read), ("written", timeline.written)),
            (float(1 << 20), size_of),
        ),
        _panel(
            "longest request, seconds",
            TOP + PANEL_HEIGHT + GAP,
            times,
            (("worst", timeline.worst),),
            (1.0, lambda value: f"{value:g}"),
        ),
    )
    first = panels[-1].bottom + GAP
    rows = tuple(
        _row(path, first + index * (ROW_HEIGHT + ROW_LABEL + 4) + ROW_LABEL, seconds, x_of)
        for index, path in enumerate(report.paths)
    )
    bottom = rows[-1].y + ROW_HEIGHT if rows else panels[-1].bottom
    return Picture(
        bottom + 24,
        LEFT,
        WIDTH - RIGHT,
        tuple(Tick(x_of(time), f"{time:g} s") for time in _round_times(seconds)),
        _marks(report, x_of),
        panels,
        rows,
        bottom,
    )


def _panel(
    title: str,
    top: float,
    times: Sequence[float],
    curves: Iterable[tuple[str, Sequence[float]]],
    scale: tuple[float, Callable[[float], str]],
) -> Panel:
    """Lay out curves; ``scale`` is the unit that the axis is round in, and how values are told."""
    named = list(curves)
    unit, text_of = scale
    greatest = max((max(values, default=0.0) for _, values in named), default=0.0)
    greatest = _round_up(greatest / unit) * unit
    bottom = top + PANEL_HEIGHT

    def y_of(value: float) -> float:
        return round(bottom - value / greatest * PANEL_HEIGHT, 1)

    return Panel(
        title,
        top,
        bottom,
        tuple(
            (
                name,
                " ".join(f"{x:g},{y_of(value):g}" for x, value in zip(times, values, strict=True)),
            )
            for name, values in named
        ),
        tuple(Tick(y_of(greatest * part / 2), text_of(greatest * part / 2)) for part in range(3)),
    )


def _row(path: PathTold, y: float, seconds: float, x_of: Callable[[float], float]) -> Row:
    ends = [span.start for span in path.spans[1:]] + [seconds]
    bars = tuple(
        Bar(
            x_of(span.start),
            # What is too short to be drawn is drawn all the same: it happened.
            max(round(x_of(end) - x_of(span.start), 1), 1.0),
            _kind(span.state),
            f"{span.state}, {max(end - span.start, 0.0):.1f} s",
        )
        for span, end in zip(path.spans, ends, strict=True)
    )
    return Row(path.path, y, bars)


def _kind(state: str) -> str:
    words = set(state.split())
    if words <= _GOOD:
        return "good"
    if words <= _FAIR:
        return "fair"
    return "gone" if words == {"missing"} else "bad"


def _marks(report: Report, x_of: Callable[[float], float]) -> tuple[Mark, ...]:
    """Marks whose texts would overlap go up and down in turn."""
    names = {"fault": "fault", "struck": "path lost", "undone": "undone", "back": "as before"}
    told = sorted(
        (report.marks[name], text) for name, text in names.items() if name in report.marks
    )
    return tuple(
        Mark(x_of(time), 12.0 if index % 2 else 26.0, text)
        for index, (time, text) in enumerate(told)
    )


def _round_times(seconds: float) -> list[float]:
    step = next((one for one in _STEPS if seconds / one <= _TICKS), _STEPS[-1])
    return [float(index * step) for index in range(int(seconds / step) + 1)]


def _round_up(value: float) -> float:
    """The next greater number of one digit; 1 for nothing."""
    if value <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(value))
    return float(math.ceil(value / size) * size)
