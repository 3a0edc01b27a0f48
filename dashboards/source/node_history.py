"""What happened on one node, and whether its exporter can be believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards.source.meaning import GREEN, GREY, ORANGE, RED, WORKS, YELLOW, steps
from dashboards.source.panels import Column, Look, Query, Say, bars, lines, rows, timeline
from dashboards.source.queries import NODE, pick

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders import bargauge, statetimeline, table, timeseries

__all__ = ["exporter_panels", "panels"]


def panels() -> list[table.Panel | timeseries.Panel | bargauge.Panel]:
    """Return the panels of failovers and outages."""
    return [_failovers(), _errors(), _availability()]


def exporter_panels() -> list[timeseries.Panel | statetimeline.Panel]:
    """Return the panels of the exporter itself."""
    return [_collectors(), _polls(), _read_errors()]


def _failovers() -> table.Panel:
    # A counter appears with its first failover: what it was before is 0, not unknown.
    total = pick("nvmeof_failovers_total")
    within = f"({total} - ({total} offset $__range or 0 * {total}))"
    return rows(
        Say(
            "Failovers by cause",
            "short",
            (10, 8),
            "How often I/O left each path within the time range above, and why.",
            "no failovers",
        ),
        [Query(f"sum by (nqn, path, cause) ({within}) > 0")],
        [
            Column("nqn", "Subsystem"),
            Column("path", "Path", width=200),
            Column("cause", "Cause", width=120),
            Column("Value", "Times", "short", 70, 0),
        ],
        sort=("Times", True),
    )


def _errors() -> timeseries.Panel:
    causes = f"sum by (cause) (increase({pick('nvmeof_path_errors_total')}[1m])) > 0"
    attempts = f"sum(increase({pick('nvmeof_path_reconnect_attempts_total')}[1m]))"
    failed = f"sum(increase({pick('nvmeof_namespace_io_failed_total')}[1m]))"
    return lines(
        Say(
            "Errors and reconnects per minute",
            "short",
            (8, 8),
            "Errors that the kernel logged, by cause, attempts to reconnect, and requests that "
            "failed: an application saw those.",
        ),
        [
            Query(causes, "{{cause}}"),
            Query(attempts, "reconnect attempts"),
            Query(failed, "failed I/O"),
        ],
        Look(colours={"/^failed I/": RED, "/^reconnect attempts$/": GREY}, legend=False),
    )


def _availability() -> bargauge.Panel:
    seconds = pick("nvmeof_path_state_seconds_total")
    live = pick("nvmeof_path_state_seconds_total", state="live")
    return bars(
        Say(
            "Time each path was live",
            "percentunit",
            (6, 8),
            "The share of the time range above.",
            "no paths",
        ),
        [
            Query(
                f"sum by (nqn, path) (increase({live}[$__range]))"
                f" / sum by (nqn, path) (increase({seconds}[$__range]))",
                "{{nqn}} · {{path}}",
            )
        ],
        steps(RED, (0.9, ORANGE), (0.99, YELLOW), (0.999, GREEN)),
        decimals=1,
    )


def _collectors() -> statetimeline.Panel:
    success = pick("nvmeof_exporter_collector_success", NODE)
    return timeline(
        Say(
            "Sources",
            "short",
            (8, 7),
            "Whether each source of the exporter works. Where one fails, what it tells is "
            "missing or old; the journal says why.",
            "exporter silent",
        ),
        [Query(f"min by (collector) ({success})", "{{collector}}")],
        WORKS,
    )


def _polls() -> timeseries.Panel:
    took = "nvmeof_exporter_poll_duration_seconds"
    mean = " / ".join(
        f"sum(rate({pick(f'{took}_{part}', NODE)}[$__rate_interval]))" for part in ("sum", "count")
    )
    interval = pick("nvmeof_exporter_poll_interval_seconds", NODE)
    return lines(
        Say(
            "Polls",
            "s",
            (8, 7),
            "How long a look at the kernel takes, and how often there is one: shorter during an "
            "incident.",
            "exporter silent",
        ),
        [Query(mean, "mean duration"), Query(f"max({interval})", "interval")],
        Look(legend=False),
    )


def _read_errors() -> timeseries.Panel:
    errors = pick("nvmeof_exporter_read_errors_total", NODE)
    return lines(
        Say(
            "Reads that failed per minute",
            "short",
            (8, 7),
            "Each costs one value. A few are usual when controllers come and go.",
            "exporter silent",
        ),
        [Query(f"sum by (collector) (increase({errors}[1m]))", "{{collector}}")],
        Look(legend=False),
    )
