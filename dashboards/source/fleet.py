"""The fleet at a glance: from recording rules, however many nodes there are.

Graphs ask nothing but the rules of alerts/nvmeof-fleet.rules.yaml. Tables of what is worst
ask the exporters' own series, once per refresh and not for a range, and get a few rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards.source import queries as ask
from dashboards.source.frame import Frame, Variables, start
from dashboards.source.meaning import (
    BLUE,
    GREEN,
    LEVEL,
    LOST,
    ORANGE,
    RED,
    SEVERITY,
    YELLOW,
    steps,
    words,
)
from dashboards.source.panels import Column, Look, Query, Say, bars, lines, rows, tile
from dashboards.source.queries import FLEET, pick

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders import bargauge, dashboard, stat, table, timeseries

__all__ = ["fleet"]

_FRAME = Frame(
    uid="nvmeof-fleet",
    title="NVMe-oF fleet",
    description=(
        "Every node at a glance: how redundant, what is worst, how long failovers take, which "
        "exporters are silent. Needs the recording rules in alerts/."
    ),
    span="6h",
    refresh="30s",
    variables=Variables.CLUSTER,
)

_NODE = (
    "/d/nvmeof-node?${datasource:queryparam}&var-instance=${__data.fields.Node}&${__url_time_range}"
)
_LEVELS = {
    "/^redundant$/": GREEN,
    "/^degraded$/": YELLOW,
    "/^at-risk$/": ORANGE,
    "/^lost$/": RED,
}
_STATES = {
    "/^(resetting|new)$/": ORANGE,
    "/^connecting$/": RED,
    "/^(deleting|dead|missing)$/": LOST,
}
_WHO = "cluster, instance, nqn"


def fleet() -> dashboard.Dashboard:
    """Return the dashboard."""
    board = start(_FRAME)
    for panel in (
        *_tiles(),
        _nodes(),
        _paths(),
        _worst(),
        _alerts(),
        _failovers(),
        _durations(),
        _slowest(),
        _policy(),
        _stalled(),
        _silent(),
    ):
        board.with_panel(panel)
    return board


def _nodes_at(level: str) -> str:
    return f"sum({pick('cluster_job_level:nvmeof_nodes:count', FLEET, level=level)})"


def _tiles() -> list[stat.Panel]:
    levels = [
        ("Nodes: lost", "lost", RED, "A subsystem of theirs has no usable path: I/O waits."),
        ("Nodes: at risk", "at-risk", ORANGE, "One usable path is left of more."),
        ("Nodes: degraded", "degraded", YELLOW, "A path is missing, and more than one is usable."),
    ]
    found = [
        tile(
            Say(title, "short", (4, 4), f"{text} A node counts where its worst subsystem is."),
            [Query(_nodes_at(level))],
            limits=steps(GREEN, (1, colour)),
        )
        for title, level, colour, text in levels
    ]
    return [
        *found,
        tile(
            Say("Nodes: redundant", "short", (4, 4), "Every subsystem has all that protects it."),
            [Query(_nodes_at("redundant"))],
            limits=steps(GREEN),
        ),
        tile(
            Say(
                "Namespaces standing still",
                "short",
                (4, 4),
                "Namespaces whose wanted I/O has made no progress for more than a second.",
            ),
            [Query(f"sum({pick('cluster_job:nvmeof_namespaces_stalled:count', FLEET)})")],
            limits=steps(GREEN, (1, RED)),
        ),
        tile(
            Say(
                "Silent exporters",
                "short",
                (4, 4),
                "Exporters that do not answer: nothing is known of their nodes. Found by the "
                "job's name, which must have 'nvmeof' in it.",
            ),
            [Query(f"sum({pick('cluster_job:nvmeof_exporters_silent:count', FLEET)})")],
            limits=steps(GREEN, (1, ORANGE)),
        ),
    ]


def _nodes() -> timeseries.Panel:
    metric = pick("cluster_job_level:nvmeof_nodes:count", FLEET, level="~degraded|at-risk|lost")
    return lines(
        Say(
            "Nodes by redundancy",
            "short",
            (12, 7),
            "Nodes by the level of their worst subsystem, without those that are redundant: an "
            "empty graph is a good one. A step that many nodes take at once is a switch or an "
            "array, not a node.",
        ),
        [Query(f"sum by (level) ({metric})", "{{level}}")],
        Look(stacked=True, colours=_LEVELS),
    )


def _paths() -> timeseries.Panel:
    metric = f'cluster_job_state:nvmeof_path_state:sum{{{FLEET},state!="live"}}'
    return lines(
        Say(
            "Paths that are not live",
            "short",
            (12, 7),
            "By state. *connecting*: lost, and the kernel tries again. *missing*: the kernel gave "
            "up, or somebody disconnected it; nothing brings it back by itself.",
        ),
        [Query(f"sum by (state) ({metric}) > 0", "{{state}}")],
        Look(stacked=True, colours=_STATES),
    )


def _worst() -> table.Panel:
    worst = f"topk(20, ({ask.worst_level(_WHO, FLEET)}) > 0)"
    short = f"sum by ({_WHO}) ({pick('nqn:nvmeof_subsystem_paths_short:count', FLEET)})"
    changed = (
        f"min by ({_WHO}) ({pick('nvmeof_exporter_last_poll_timestamp_seconds', FLEET)}"
        " - ignoring (nqn, path) group_right () "
        f"{pick('nvmeof_path_last_transition_timestamp_seconds', FLEET)})"
    )
    return rows(
        Say(
            "Worst subsystems",
            "short",
            (14, 8),
            "The twenty that are worst off; a click on the node leads to it. *paths short*: how "
            "many live paths fewer than expected. *last change*: how long ago a path of it "
            "changed its state.",
            "every subsystem is redundant",
        ),
        [
            Query(worst),
            Query(f"{short} and on ({_WHO}) {worst}"),
            Query(f"{changed} and on ({_WHO}) {worst}"),
        ],
        [
            Column("cluster", "Cluster", width=90),
            Column("instance", "Node", link=_NODE),
            Column("nqn", "Subsystem"),
            Column("Value #A", "Redundancy", width=110, shown=words(LEVEL), coloured=True),
            Column("Value #B", "Paths short", "short", 100, 0),
            Column("Value #C", "Last change", "s", 110, 1),
        ],
        sort=("Redundancy", True),
    )


def _alerts() -> table.Panel:
    firing = pick("ALERTS", FLEET, alertname="~NVMeoF.+", alertstate="firing")
    return rows(
        Say(
            "Alerts firing",
            "short",
            (10, 8),
            "Alerts of this exporter, what pages first, and on how many subsystems, paths or "
            "devices each fires. "
            "docs/runbooks has a page for each.",
            "no alert is firing",
        ),
        [Query(f"sum by (alertname, severity) ({firing})")],
        [
            Column("alertname", "Alert"),
            Column("severity", "Severity", width=110, shown=SEVERITY, coloured=True),
            Column("Value", "Firing", "short", 80, 0),
        ],
        sort=("Severity", False),
    )


def _failovers() -> timeseries.Panel:
    metric = pick("cluster_job_cause:nvmeof_failovers:increase1h", FLEET)
    return lines(
        Say(
            "Failovers within an hour, by cause",
            "short",
            (8, 7),
            "At each moment, the failovers of the hour before it. docs/failover.md explains the "
            "causes.",
            "no failovers",
        ),
        [Query(f"sum by (cause) ({metric}) > 0", "{{cause}}")],
        Look(stacked=True),
    )


def _durations() -> timeseries.Panel:
    buckets = pick("cluster_job_le:nvmeof_failover_duration_seconds_bucket:increase1h", FLEET)
    slowest = pick("cluster_job:nvmeof_failover_last_duration_seconds:max1h", FLEET)
    return lines(
        Say(
            "How long failovers take",
            "s",
            (8, 7),
            "Of the hour before each moment: median, 99th percentile and the slowest. "
            "Percentiles are as exact as the buckets are. The dashed line is the objective of "
            "the alerts.",
            "no failovers",
        ),
        [
            *(
                # ">= 0": without any failover there is no number, rather than one that is none.
                Query(
                    f"clamp_max(histogram_quantile({quantile}, sum by (le) ({buckets})), "
                    f"scalar(max({slowest}))) >= 0",
                    name,
                )
                for quantile, name in ((0.5, "median"), (0.99, "99 %"))
            ),
            Query(f"max({slowest})", "slowest"),
            Query("max(nvmeof:objective:failover_seconds)", "objective"),
        ],
        Look(
            objective="objective",
            colours={"/^median$/": "light-blue", "/^99 %$/": BLUE, "/^slowest$/": "dark-purple"},
        ),
    )


def _slowest() -> table.Panel:
    ended = pick("nvmeof_failover_last_timestamp_seconds", FLEET)
    clock = pick("nvmeof_exporter_last_poll_timestamp_seconds", FLEET)
    age = f"({clock} - ignoring (nqn) group_right () {ended})"
    took = pick("nvmeof_failover_last_duration_seconds", FLEET)
    newest = f"max by ({_WHO}) ({took} and on (job, {_WHO}) {age} < $__range_s)"
    slowest = f"topk(10, {newest})"
    return rows(
        Say(
            "Slowest failovers",
            "s",
            (8, 7),
            "Of each subsystem's newest failover within the time range above, the ten slowest.",
            "no failovers",
        ),
        [Query(slowest), Query(f"max by ({_WHO}) {age} and on ({_WHO}) {slowest}")],
        [
            Column("instance", "Node", link=_NODE),
            Column("nqn", "Subsystem"),
            Column("Value #A", "Took", "s", 80, 2, limits=steps(GREEN, (5, RED)), coloured=True),
            Column("Value #B", "Ago", "s", 100, 1),
        ],
        sort=("Took", True),
    )


def _policy() -> bargauge.Panel:
    metric = pick("cluster_job_rule:nvmeof_policy_violation:sum", FLEET)
    return bars(
        Say(
            "Policy violations by rule",
            "short",
            (8, 7),
            "Paths, subsystems and nodes that a rule of the policy finds wanting. "
            "`nvmeof-exporter check` on a node says what to change.",
            "no violations known",
        ),
        [Query(f"sort_desc(sum by (rule) ({metric}) > 0)", "{{rule}}")],
        steps(ORANGE),
    )


def _stalled() -> timeseries.Panel:
    metric = pick("cluster_job:nvmeof_namespaces_stalled:count", FLEET)
    return lines(
        Say(
            "Namespaces standing still over time",
            "short",
            (8, 7),
            "Namespaces whose wanted I/O has made no progress for more than a second.",
        ),
        [Query(f"sum by (cluster) ({metric})", "{{cluster}} namespaces")],
        Look(colours={"/.*/": RED}, legend=False),
    )


def _silent() -> timeseries.Panel:
    metric = pick("cluster_job:nvmeof_exporters_silent:count", FLEET)
    return lines(
        Say(
            "Silent exporters over time",
            "short",
            (8, 7),
            "Exporters that did not answer. Their nodes are in no other graph meanwhile.",
        ),
        [Query(f"sum by (cluster) ({metric})", "{{cluster}} exporters")],
        Look(colours={"/.*/": ORANGE}, legend=False),
    )
