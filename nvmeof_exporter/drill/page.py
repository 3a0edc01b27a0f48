"""Reports as pages that need nothing beside them: no script, no font, no other file.

Every text in a report is escaped: names come from an array, a disk or a command line.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from nvmeof_exporter.drill.picture import WIDTH, picture_of
from nvmeof_exporter.drill.sizes import size_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvmeof_exporter.drill.report import Report

__all__ = ["matrix_page", "page"]


def page(report: Report) -> str:
    """Render one drill."""
    return (
        _environment()
        .get_template("drill.html")
        .render(report=report, picture=picture_of(report), width=WIDTH)
    )


def matrix_page(reports: Sequence[Report]) -> str:
    """Render several drills side by side."""
    objectives = list(
        dict.fromkeys(one.objective for report in reports for one in report.objectives)
    )
    return _environment().get_template("matrix.html").render(reports=reports, objectives=objectives)


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("nvmeof_exporter.drill"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(rate=_rate, seconds=_seconds, wait=_wait, moment=_moment)
    return environment


def _rate(value: float | None) -> str:
    return "–" if value is None else f"{size_of(value)}/s"  # noqa: RUF001  # a dash


def _seconds(value: float | None) -> str:
    """Seconds, with as many digits as tell something."""
    if value is None:
        return "–"  # noqa: RUF001  # a dash
    return f"{value * 1000:.2f} ms" if value < 1 else f"{value:.3f} s"


def _wait(value: float | None) -> str:
    """The same of a pause, of which those shorter than the recorder's threshold are 0."""
    return "< 0.1 s" if value == 0 else _seconds(value)


def _moment(wall: float) -> str:
    return f"{dt.datetime.fromtimestamp(wall, dt.timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
