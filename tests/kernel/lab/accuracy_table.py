"""What one measured fault says, in a row: the truth, the exporter's word, the difference."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.kernel.lab.boots import Result

__all__ = ["Row", "row", "table"]

_USUAL_PATHS = 2


@dataclass(frozen=True)
class Row:
    """Seconds that the application felt and that were reported, if any.

    Of a failover that is the worst of all requests. Where the kernel may go on over any path,
    there may be none; the pauses of all namespaces are told then, and the mean of them
    is held against the mean of each disk's worst request.

    ``failovers`` are counts by path, ``pauses`` how many were told, ``case`` is how the
    fault was met.
    """

    kernel: str
    fault: str
    case: dict[str, Any]
    felt_s: float
    reported_s: float | None
    failovers: dict[str, float]
    pauses: float
    causes: tuple[str, ...]
    phases: dict[str, float]

    @property
    def error_ms(self) -> float | None:
        """How far the exporter is off, in milliseconds; positive when it says more."""
        return None if self.reported_s is None else (self.reported_s - self.felt_s) * 1000

    @property
    def distance_ms(self) -> float:
        """Between the reported pause and the true one; without a report, all of it."""
        return abs(self.error_ms) if self.error_ms is not None else self.felt_s * 1000


def row(result: Result) -> Row:
    """The row of ``result``."""
    told: dict[str, Any] = result.found["exporter"]
    failovers: dict[str, float] = {}
    for entry in told["failovers"]:
        failovers[entry["path"]] = failovers.get(entry["path"], 0) + entry["count"]
    pauses = told["stalls"]["count"] or 0
    worst = result.found["worst_by_disk"].values()
    if result.found["expected"]["failovers"] is None:
        felt = statistics.mean(worst)
        reported = told["stalls"]["sum"] / pauses if pauses else None
    else:
        felt, reported = max(worst), told["last_duration"]
    return Row(
        kernel=result.kernel,
        fault=result.found["fault"],
        case=result.found["case"],
        felt_s=felt,
        reported_s=reported,
        failovers=failovers,
        pauses=pauses,
        causes=tuple(sorted({entry["cause"] for entry in told["failovers"]})),
        phases=told["phases"],
    )


def table(rows: Iterable[Row]) -> str:
    """The rows as a Markdown table, with the worst and the median error."""
    lines = [
        "| fault | load | policy | keep-alive s | felt s | reported s | error ms "
        "| failovers | cause | phases s |",
        "| --- | --- | --- | --: | --: | --: | --: | --: | --- | --- |",
    ]
    errors = []
    for each in rows:
        errors.append(each.distance_ms)
        phases = ", ".join(f"{name} {seconds:.2f}" for name, seconds in each.phases.items())
        lines.append(
            f"| {each.fault.replace('_', ' ')} | {_load(each.case)} | {_policy(each.case)} "
            f"| {each.case['keep_alive']} | {each.felt_s:.3f} "
            f"| {_number(each.reported_s, '.3f')} | {_number(each.error_ms, '+.0f')} "
            f"| {sum(each.failovers.values()):.0f} | {' '.join(each.causes)} | {phases} |"
        )
    worst, median = max(errors, default=0.0), statistics.median(errors or [0.0])
    lines += ["", f"{len(errors)} faults: worst {worst:.0f} ms off, median {median:.0f} ms."]
    return "\n".join(lines) + "\n"


def _load(case: dict[str, Any]) -> str:
    return f"{case['pattern']}, {case['namespaces']} x {case['depth']}"


def _policy(case: dict[str, Any]) -> str:
    paths = len(case["ana"])
    return f"{case['iopolicy']}, {paths} paths" if paths > _USUAL_PATHS else str(case["iopolicy"])


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
