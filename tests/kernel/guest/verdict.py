"""How far the exporter's word is from fio's, in one measured record."""

from __future__ import annotations

from typing import Any

__all__ = ["distance", "reported_seconds"]


def reported_seconds(record: dict[str, Any]) -> float | None:
    """The pause that was reported: the newest failover or the stalls, whichever was longer.

    I/O may fail over within milliseconds and then stand still for seconds, when
    the second path is lost as well: fio's worst request felt the stall.
    Of several namespaces' stalls, which one fault caused, it is their mean.
    """
    told = record["exporter"]
    found = []
    if told["failovers"] and told["last_duration"] is not None:
        found.append(float(told["last_duration"]))
    if told["stalls"]["count"]:
        found.append(told["stalls"]["sum"] / told["stalls"]["count"])
    return max(found, default=None)


def distance(record: dict[str, Any]) -> float:
    """Seconds between the reported pause and fio's worst wait; without a report, all of it."""
    felt = float(record["slow_requests"][0]["seconds"])
    reported = reported_seconds(record)
    return felt if reported is None else abs(reported - felt)
