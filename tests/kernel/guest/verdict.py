"""How far the exporter's word is from fio's, in one measured record."""

from __future__ import annotations

from typing import Any

__all__ = ["distance", "reported_seconds"]


def reported_seconds(record: dict[str, Any]) -> float | None:
    """The pause that was reported: the newest failover, or where none was counted, the stalls."""
    told = record["exporter"]
    if told["failovers"] and told["last_duration"] is not None:
        return float(told["last_duration"])
    return float(told["stalls"]["sum"]) if told["stalls"]["count"] else None


def distance(record: dict[str, Any]) -> float:
    """Seconds between the reported pause and fio's worst wait; without a report, all of it."""
    felt = float(record["slow_requests"][0]["seconds"])
    reported = reported_seconds(record)
    return felt if reported is None else abs(reported - felt)
