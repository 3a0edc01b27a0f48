"""``nvmeof-exporter drill compare``: several drills side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nvmeof_exporter.config import ConfigError
from nvmeof_exporter.drill.findings import os_reason
from nvmeof_exporter.drill.report import VERDICTS, ReportError, decode
from nvmeof_exporter.terminal import printable, writing

if TYPE_CHECKING:
    import argparse

    from nvmeof_exporter.drill.report import Report

__all__ = ["add_arguments", "run"]

_LARGEST_REPORT = 256 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what only this command knows."""
    parser.add_argument("reports", metavar="FILE", nargs="+", help="Reports of drills, as JSON.")
    parser.add_argument(
        "--html", metavar="FILE", default="", help="Write a page there as well (needs Jinja2)."
    )


def run(args: argparse.Namespace) -> int:
    """Tell the drills' verdicts side by side. Returns the worst of their statuses.

    Raises:
        ConfigError: a file is no report, or the page cannot be written.

    """
    reports = [_read(file) for file in args.reports]
    with writing(sys.stdout) as out:
        out.write(_table(reports))
    if args.html:
        _write_page(args.html, reports)
    verdicts = {report.verdict for report in reports}
    passed, failed, _ = VERDICTS
    if failed in verdicts:
        return VERDICTS.index(failed)
    return 0 if verdicts == {passed} else 2


def _read(file: str) -> Report:
    try:
        with open(file, "rb") as opened:
            raw = opened.read(_LARGEST_REPORT + 1)
        if len(raw) > _LARGEST_REPORT:
            raise ConfigError(f"{file}: is larger than {_LARGEST_REPORT >> 20} MiB")
        return decode(raw)
    except OSError as error:
        raise ConfigError(f"{file}: {os_reason(error)}") from error
    except ReportError as error:
        raise ConfigError(f"{file}: {error}") from error


def _table(reports: list[Report]) -> str:
    objectives = list(
        dict.fromkeys(one.objective for report in reports for one in report.objectives)
    )
    rows = [["", *(printable(report.name) for report in reports)]]
    rows.append(["scenario", *(printable(report.scenario) for report in reports)])
    rows.append(["verdict", *(printable(report.verdict) for report in reports)])
    for objective in objectives:
        row = [printable(objective)]
        for report in reports:
            told = {one.objective: one.verdict for one in report.objectives}
            row.append(printable(told.get(objective, "-")))
        rows.append(row)
    pauses = [report.figures.fault_pause for report in reports]
    rows.append(["longest wait", *("-" if p is None else f"{p:.3f} s" for p in pauses)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)) for row in rows)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _write_page(file: str, reports: list[Report]) -> None:
    try:
        from nvmeof_exporter.drill.page import matrix_page  # noqa: PLC0415  # needs Jinja2
    except ImportError as error:
        raise ConfigError(
            "--html: Jinja2 is not installed; expected nvmeof-exporter[drill]"
        ) from error
    try:
        Path(file).write_text(matrix_page(reports), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--html: {file}: {os_reason(error)}") from error
