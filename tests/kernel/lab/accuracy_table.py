"""What one measured fault says, in a row: the truth, the exporter's word, the difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.kernel.guest.verdict import reported_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.kernel.lab.boots import Result

__all__ = ["Row", "row", "table"]


@dataclass(frozen=True)
class Row:
    """Seconds of fio's worst request and of the pause that the exporter reported (None: none)."""

    kernel: str
    fault: str
    fio_s: float
    reported_s: float | None
    failovers: float
    causes: tuple[str, ...]
    lost_paths: tuple[str, ...]
    phases: dict[str, float]

    @property
    def error_ms(self) -> float | None:
        """How far the exporter is off, in milliseconds; positive when it says more."""
        return None if self.reported_s is None else (self.reported_s - self.fio_s) * 1000


def row(result: Result) -> Row:
    """The row of ``result``."""
    told: dict[str, Any] = result.found["exporter"]
    failovers = told["failovers"]
    return Row(
        kernel=result.kernel,
        fault=result.name,
        fio_s=result.found["slow_requests"][0]["seconds"],
        reported_s=reported_seconds(result.found),
        failovers=sum(entry["count"] for entry in failovers),
        causes=tuple(sorted(entry["cause"] for entry in failovers)),
        lost_paths=tuple(sorted(entry["path"] for entry in failovers)),
        phases=told["phases"],
    )


def table(rows: Iterable[Row]) -> str:
    """The rows as a Markdown table."""
    lines = [
        "| kernel | fault | fio s | reported s | error ms | failovers | cause | phases s |",
        "| --- | --- | --: | --: | --: | --: | --- | --- |",
    ]
    for each in rows:
        phases = ", ".join(f"{name} {seconds:.2f}" for name, seconds in each.phases.items())
        lines.append(
            f"| {each.kernel} | {each.fault.replace('_', ' ')} | {each.fio_s:.3f} "
            f"| {_number(each.reported_s, '.3f')} | {_number(each.error_ms, '+.0f')} "
            f"| {each.failovers:.0f} | {' '.join(each.causes)} | {phases} |"
        )
    return "\n".join(lines) + "\n"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
