"""The failover drill: one failure, watched live, on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards.source import queries as ask
from dashboards.source.frame import Frame, Variables, mark_failovers, objective, start
from dashboards.source.meaning import (
    CONDITION,
    GREEN,
    GREY,
    IO,
    LEVEL,
    OBJECTIVE,
    ORANGE,
    PHASE,
    PORT,
    RED,
    YELLOW,
    steps,
)
from dashboards.source.panels import Column, Look, Query, Say, lines, rows, tile, timeline
from dashboards.source.queries import pick

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders import dashboard, stat, statetimeline, table, timeseries

__all__ = ["drill"]

_FRAME = Frame(
    uid="nvmeof-drill",
    title="NVMe-oF failover drill",
    description=(
        "Watch one failure live: is I/O flowing, through which path, how long did it stand "
        "still, in which phase is the failover, is the objective met. Scrape the node every "
        "second or two while you do."
    ),
    span="10m",
    refresh="2s",
    variables=Variables.SUBSYSTEM,
)

#: As dense as the scrapes are.
_STEP = "1s"

_STATISTIC = "{{device}}/{{port}} {{statistic}}"


def drill() -> dashboard.Dashboard:
    """Return the dashboard: 22 rows, which fit on a screen of 1600 x 1000."""
    board = start(_FRAME).with_variable(objective())
    mark_failovers(board)
    for panel in (
        *_tiles(),
        _paths(),
        _newest(),
        _throughput(),
        _pauses(),
        _errors(),
        _links(),
        _fabric_errors(),
    ):
        board.with_panel(panel)
    return board


def _tiles() -> list[stat.Panel]:
    standing = ask.standing()
    last = pick("nvmeof_failover_last_duration_seconds")
    newest = f"topk(1, {pick('nvmeof_failover_last_timestamp_seconds')})"
    return [
        tile(
            Say(
                "I/O",
                "short",
                (4, 4),
                "Whether requests move now. *stuck on a path*: the namespace goes on, but "
                "requests wait on one of its paths. *idle*: nobody wants any.",
            ),
            [Query(ask.io_condition())],
            shown=IO,
        ),
        tile(
            Say(
                "Standing still for",
                "s",
                (4, 4),
                "The longest that wanted I/O, or a request caught on a path, has made no "
                "progress until now. 0 when all I/O flows.",
            ),
            [Query(standing)],
            limits=steps(GREEN, (0.5, ORANGE), (5, RED)),
            decimals=1,
        ),
        tile(
            Say(
                "Phase",
                "short",
                (4, 4),
                "Of the subsystem that is worst off. *detection*: I/O stands still and the "
                "kernel has not given the path up. *reroute*: given up, nothing done elsewhere "
                "yet. *reconnect*: I/O goes on, a path is gone. *failback*: the path is back, "
                "its I/O is not.",
            ),
            [Query(f"max({ask.phase()})")],
            shown=PHASE,
        ),
        tile(
            Say(
                "Last finished failover",
                "s",
                (4, 4),
                "From the last request done on the lost path to the first done on another one "
                "after it was given up.",
                "none yet",
            ),
            [Query(f"max({last} and on (nqn) {newest})")],
            limits=steps(GREEN, (3, YELLOW), (5, RED)),
            decimals=2,
        ),
        tile(
            Say(
                "Objective of $objective s",
                "short",
                (4, 4),
                "Whether the newest failover took no longer than the objective; *missed* at "
                "once when I/O stands still for longer now.",
                "none yet",
            ),
            [Query(ask.objective_met())],
            shown=OBJECTIVE,
        ),
        tile(
            Say(
                "Redundancy",
                "short",
                (4, 4),
                "The worst level of the chosen subsystems. *at risk*: one usable path is left.",
            ),
            [Query(f"max({ask.worst_level('nqn')})")],
            shown=LEVEL,
        ),
    ]


def _paths() -> statetimeline.Panel:
    return timeline(
        Say(
            "Paths",
            "short",
            (14, 6),
            "What each path is good for. *I/O stuck*: it is live and requests on it do not "
            "move: dead, and the kernel has not noticed. *standby*: live, and its ANA state "
            "lets no I/O pass. Gaps: the exporter did not answer.",
        ),
        [Query(ask.path_condition(), "{{nqn}} · {{path}}", _STEP)],
        CONDITION,
    )


def _newest() -> table.Panel:
    newest = [Query(ask.newest_phase(name)) for name in ("detection", "reroute")]
    settled = [
        Query(f"{ask.newest_phase(name)} unless on (nqn) {ask.away()}")
        for name in ("reconnect", "failback")
    ]
    total = f"sum by (nqn) ({pick('nvmeof_failover_last_duration_seconds')})"
    late = steps(GREEN, (5, RED))
    return rows(
        Say(
            "Last finished failover by phase",
            "s",
            (10, 6),
            "Detection (last I/O on the path until the kernel gave it up) and reroute (until the "
            "first I/O elsewhere) add up to the failover. Reconnect and failback are empty until "
            "they are over. Phases are found where they happened within the time range above.",
            "no failover yet",
        ),
        [*newest, Query(total), *settled],
        [
            Column("nqn", "Subsystem"),
            Column("Value #A", "Detection", "s", 90, 2),
            Column("Value #B", "Reroute", "s", 90, 2),
            Column("Value #C", "Failover", "s", 90, 2, limits=late, coloured=True),
            Column("Value #D", "Reconnect", "s", 90, 2),
            Column("Value #E", "Failback", "s", 90, 2),
        ],
        sort=("Failover", True),
    )


def _throughput() -> timeseries.Panel:
    return lines(
        Say(
            "I/O by path",
            "Bps",
            (12, 6),
            "Bytes read and written per second, stacked: the height is what applications get, "
            "the colours tell which path carries it.",
        ),
        [Query(ask.io_bytes("nvmeof_namespace_path", "nqn, path"), "{{nqn}} · {{path}}", _STEP)],
        Look(stacked=True, by_port=True),
    )


def _pauses() -> timeseries.Panel:
    head = pick("nvmeof_namespace_io_stalled_seconds")
    path = pick("nvmeof_namespace_path_io_stalled_seconds")
    return lines(
        Say(
            "I/O standing still",
            "s",
            (12, 6),
            "How long wanted I/O of each subsystem, and requests caught on each path, have made "
            "no progress. The dashed line is the objective.",
        ),
        [
            Query(f"max by (nqn) ({head})", "{{nqn}} as a whole", _STEP),
            Query(f"max by (nqn, path) ({path})", "{{nqn}} · {{path}}", _STEP),
            Query("vector($objective)", "objective", _STEP),
        ],
        Look(objective="objective", by_port=True, colours={"/ as a whole$/": "text"}),
    )


def _errors() -> timeseries.Panel:
    causes = f"sum by (cause) (increase({pick('nvmeof_path_errors_total')}[1m])) > 0"
    attempts = f"sum(increase({pick('nvmeof_path_reconnect_attempts_total')}[1m]))"
    failed = f"sum(increase({pick('nvmeof_namespace_io_failed_total')}[1m]))"
    return lines(
        Say(
            "Errors and reconnects per minute",
            "short",
            (8, 6),
            "Errors that the kernel logged, by cause, attempts to reconnect, and requests that "
            "failed: an application saw those.",
        ),
        [
            Query(causes, "{{cause}}", _STEP),
            Query(attempts, "reconnect attempts", _STEP),
            Query(failed, "failed I/O", _STEP),
        ],
        Look(colours={"/^failed I/": RED, "/^reconnect attempts$/": GREY}, legend=False),
    )


def _links() -> statetimeline.Panel:
    return timeline(
        Say(
            "Links and RDMA ports",
            "short",
            (8, 6),
            "Carrier of each interface, and state of each RDMA port, that a path uses. A link "
            "that is down tells of a lost path seconds before its keep-alive does.",
        ),
        [
            Query(ask.link_state(), "{{netdev}}", _STEP),
            Query(ask.port_state(), "{{device}}/{{port}}", _STEP),
        ],
        PORT,
    )


def _fabric_errors() -> timeseries.Panel:
    return lines(
        Say(
            "Errors and pauses of links",
            "cps",
            (8, 6),
            "Per second: the RDMA error counters that rise fastest, by the kernel's own name, and "
            "pause frames. Congestion looks like a slow path, errors come before a lost one.",
            "no errors, no pauses",
        ),
        [
            Query(f"topk(5, {ask.rdma_rates(ask.ERRORS)} > 0)", _STATISTIC, _STEP),
            Query(f"{ask.pause_frames()} > 0", "{{netdev}} pause {{direction}}", _STEP),
        ],
        Look(by_port=True, legend=False),
    )
