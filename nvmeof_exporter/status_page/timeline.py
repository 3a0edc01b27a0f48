"""A path's last hour as a strip, and a failover's length against the objective as a bar.

Both are SVG with presentation attributes only: the page's policy allows no inline style.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from nvmeof_exporter.show.measures import age
from nvmeof_exporter.status_page.html import Html, joined, tag

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Span", "bar", "clock", "spans", "strip"]

_HOUR = 3600.0
_HEIGHT = 12
#: A live path is a thin line: what stands out of it is trouble, whatever its colour.
_LIVE_HEIGHT = 4
#: The shortest stretch that is still seen (seconds, of 3600 over the width of a phone).
_LEAST_WIDTH = 12.0

_BAR_HEIGHT = 8
_BAR_WIDTH = 100.0


class Span(NamedTuple):
    """A state and when it lasted, in seconds since the epoch."""

    start: float
    end: float
    state: str


def spans(timeline: Sequence[tuple[float, str]], now: float) -> list[Span]:
    """Return the stretches of the last hour, oldest first."""
    ends = [*timeline, (now, "")]
    found = [Span(start, end, state) for (start, state), (end, _) in pairwise(ends)]
    first = now - _HOUR
    return [span._replace(start=max(span.start, first)) for span in found if span.end > first]


def strip(found: Sequence[Span], now: float) -> Html:
    """Draw the last hour up to ``now``; what is not known of it stays empty."""
    totals: dict[str, float] = {}
    for span in found:
        totals[span.state] = totals.get(span.state, 0.0) + span.end - span.start
    told = ", ".join(f"{state} {age(seconds)}" for state, seconds in totals.items())
    return tag(
        "svg",
        *_stretches(found, now - _HOUR),
        class_="strip",
        viewBox=f"0 0 {_HOUR:g} {_HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"last hour: {told or 'not known'}",
    )


def _stretches(found: Iterable[Span], first: float) -> Iterable[Html]:
    for span in found:
        live = span.state == "live"
        height = _LIVE_HEIGHT if live else _HEIGHT
        seconds = span.end - span.start
        width = seconds if live else max(seconds, _LEAST_WIDTH)
        yield tag(
            "g",
            tag("title", f"{span.state} for {age(seconds)} from {clock(span.start)}"),
            tag(
                "rect",
                class_=f"is-{span.state}",
                x=f"{min(span.start - first, _HOUR - width):.1f}",
                y=_HEIGHT - height,
                width=f"{width:.1f}",
                height=height,
            ),
        )


def bar(seconds: float, objective: float, longest: float) -> Html:
    """Draw a duration beside the objective, on a scale that the longest one fits."""
    scale = _BAR_WIDTH / max(longest, 2 * objective)
    mark = f"{objective * scale:.1f}"
    return tag(
        "svg",
        joined(
            tag(
                "rect",
                class_="is-over" if seconds > objective else "is-within",
                width=f"{max(seconds * scale, 0.5):.1f}",
                height=_BAR_HEIGHT,
            ),
            tag("line", class_="objective", x1=mark, x2=mark, y1=0, y2=_BAR_HEIGHT),
        ),
        class_="bar",
        viewBox=f"0 0 {_BAR_WIDTH:g} {_BAR_HEIGHT}",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


def clock(moment: float) -> str:
    """The time of day, in UTC: who looks may be anywhere."""
    return time.strftime("%H:%M:%S UTC", time.gmtime(moment))
