"""One node: its subsystems, their paths, their namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders.dashboard import Row

from dashboards.source import node_history, node_io
from dashboards.source import queries as ask
from dashboards.source.frame import Frame, Variables, mark_failovers, start
from dashboards.source.meaning import (
    ANA,
    CONDITION,
    GREEN,
    IO,
    LEVEL,
    ORANGE,
    RED,
    YELLOW,
    endless,
    nothing,
    steps,
    words,
)
from dashboards.source.panels import Column, Query, Say, rows, tile, timeline
from dashboards.source.queries import NODE, pick

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders import dashboard, stat, statetimeline, table

__all__ = ["node"]

_FRAME = Frame(
    uid="nvmeof-node",
    title="NVMe-oF node",
    description=(
        "One node: which subsystems it uses, over which paths, who carries the load, what "
        "stood still, how it is set up, and what its paths share."
    ),
    span="1h",
    refresh="10s",
    variables=Variables.SUBSYSTEM,
)


def node() -> dashboard.Dashboard:
    """Return the dashboard."""
    board = start(_FRAME)
    mark_failovers(board)
    for panel in (*_tiles(), _conditions(), _paths()):
        board.with_panel(panel)
    sections = {
        "Namespaces": (_ana(), _namespaces()),
        "I/O": node_io.panels(),
        "Failovers and outages": node_history.panels(),
        "How it is set up": (_shared_fate(), _violations(), _subsystems()),
        "The exporter": node_history.exporter_panels(),
    }
    for title, panels in sections.items():
        board.with_row(Row(title))
        for panel in panels:
            board.with_panel(panel)
    return board


def _tiles() -> list[stat.Panel]:
    polled = pick("nvmeof_exporter_last_poll_timestamp_seconds", NODE)
    return [
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
                "progress until now.",
            ),
            [Query(ask.standing())],
            limits=steps(GREEN, (0.5, ORANGE), (5, RED)),
            decimals=1,
        ),
        tile(
            Say(
                "Paths lacking",
                "short",
                (4, 4),
                "How many live paths, standby ones among them, there are fewer than there should "
                "be: configured, or else the most there ever were at once.",
            ),
            [Query(ask.lacking())],
            limits=steps(GREEN, (1, ORANGE)),
        ),
        tile(
            Say(
                "Failovers",
                "short",
                (4, 4),
                "Failovers that I/O took part in, within the time range above.",
            ),
            [
                Query(
                    "round(sum(increase("
                    f"{pick('nvmeof_failover_duration_seconds_count')}[$__range])))"
                )
            ],
            limits=steps(GREEN, (1, YELLOW)),
        ),
        tile(
            Say(
                "Last answer",
                "s",
                (4, 4),
                "How old the newest answer of the exporter is.",
                "exporter silent",
            ),
            [Query(f"time() - max(timestamp({polled}))")],
            limits=steps(GREEN, (60, ORANGE)),
            decimals=0,
        ),
    ]


def _conditions() -> statetimeline.Panel:
    return timeline(
        Say(
            "Paths",
            "short",
            (24, 7),
            "What each path is good for. *I/O stuck*: it is live and requests on it do not "
            "move: dead, and the kernel has not noticed. *standby*: live, and its ANA state "
            "lets no I/O pass. Gaps: the exporter did not answer.",
            "no paths",
        ),
        [Query(ask.path_condition(), "{{nqn}} · {{path}}")],
        CONDITION,
        per_page=20,
    )


def _paths() -> table.Panel:
    info = pick("nvmeof_path_info")
    what = "nqn, path, controller, transport, traddr, netdev, rdma_device"

    def setting(name: str) -> Query:
        return Query(f"max by (nqn, path) ({pick(f'nvmeof_path_{name}')})")

    never = endless("never")
    return rows(
        Say(
            "Paths and their settings",
            "short",
            (24, 7),
            "Keep-alive: a silent loss takes 1 to 1.5 times as long to be found, *none*: only "
            "the I/O time-out finds it. Given up: ctrl_loss_tmo. Retry: reconnect_delay. Fail "
            "I/O: fast_io_fail_tmo, how long I/O without any path waits.",
            "no paths",
        ),
        [
            Query(f"group by ({what}) ({info})"),
            Query(ask.path_condition()),
            setting("keep_alive_timeout_seconds"),
            setting("ctrl_loss_timeout_seconds"),
            setting("reconnect_delay_seconds"),
            setting("fast_io_fail_timeout_seconds"),
            setting("queues"),
        ],
        [
            Column("nqn", "Subsystem"),
            Column("path", "Path", width=220),
            Column("Value #B", "Condition", width=110, shown=words(CONDITION), coloured=True),
            Column("controller", "Controller", width=95),
            Column("transport", "Transport", width=90),
            Column("traddr", "Address", width=130),
            Column("netdev", "Interface", width=90),
            Column("rdma_device", "RDMA device", width=110),
            Column("Value #C", "Keep-alive", "s", 100, shown=endless("none")),
            Column("Value #D", "Given up", "s", 100, shown=never),
            Column("Value #E", "Retry", "s", 80, shown=never),
            Column("Value #F", "Fail I/O", "s", 90, shown=never),
            Column("Value #G", "Queues", "short", 80, 0),
        ],
        sort=("Subsystem", False),
    )


def _ana() -> statetimeline.Panel:
    return timeline(
        Say(
            "ANA states",
            "short",
            (12, 8),
            "What the array says of each path to each namespace. Gaps: the path is not live, and "
            "what the kernel heard last is old.",
            "the array has no ANA",
        ),
        [Query(ask.ana_state(), "{{nqn}} namespace {{nsid}} · {{path}}")],
        ANA,
        per_page=12,
    )


def _namespaces() -> table.Panel:
    def paths(condition: str) -> Query:
        metric = pick("nvmeof_namespace_paths", condition=condition)
        return Query(f"sum by (nqn, nsid) ({metric})")

    usable = steps(RED, (1, GREEN))
    return rows(
        Say(
            "Namespaces",
            "short",
            (12, 8),
            "Each block device, its paths by condition, and the I/O on it now. Optimized and "
            "non-optimized paths carry I/O, standbys wait.",
            "no namespaces",
        ),
        [
            Query(f"group by (nqn, nsid, device) ({pick('nvmeof_namespace_info')})"),
            Query(f"max by (nqn, nsid) ({pick('nvmeof_namespace_size_bytes')})"),
            paths("~optimized|non-optimized"),
            paths("standby"),
            paths("unusable"),
            Query(f"sum by (nqn, nsid) ({pick('nvmeof_namespace_path_io_now')})"),
            Query(f"max by (nqn, nsid) ({pick('nvmeof_namespace_io_stalled_seconds')})"),
        ],
        [
            Column("device", "Device", width=85),
            Column("nqn", "Subsystem"),
            Column("nsid", "ID", width=45),
            Column("Value #B", "Size", "bytes", 75),
            Column("Value #C", "Usable", "short", 70, 0, limits=usable, coloured=True),
            Column("Value #D", "Standby", "short", 75, 0),
            Column("Value #E", "Unusable", "short", 85, 0),
            Column("Value #F", "In flight", "short", 75, 0),
            Column(
                "Value #G",
                "Stands still",
                "s",
                95,
                1,
                limits=steps(GREEN, (0.5, ORANGE), (5, RED)),
                coloured=True,
            ),
        ],
        sort=("Device", False),
    )


def _shared_fate() -> table.Panel:
    def different(resource: str) -> Query:
        metric = pick("nvmeof_subsystem_distinct", resource=resource)
        return Query(f"min by (nqn) ({metric})")

    known = {
        "netdev": "Interfaces",
        "nic": "Cards",
        "rdma_device": "RDMA devices",
        "subnet": "Subnets",
        "switch": "Switches",
        "target_address": "Addresses",
    }
    single = steps(ORANGE, (2, GREEN))
    return rows(
        Say(
            "What the paths share",
            "short",
            (14, 7),
            "How many different ones of each resource the paths of a subsystem run over. 1 is a "
            "single point of failure: when it goes, so does the access. Empty: not known of "
            "every path. See docs/shared-fate.md.",
            "not known",
        ),
        [different(resource) for resource in known],
        [
            Column("nqn", "Subsystem"),
            *(
                Column(
                    f"Value #{ref}",
                    title,
                    "short",
                    width=115,
                    decimals=0,
                    shown=[nothing("not known")],
                    limits=single,
                    coloured=True,
                )
                for ref, title in zip("ABCDEF", known.values(), strict=True)
            ),
        ],
        sort=("Subsystem", False),
    )


def _violations() -> table.Panel:
    violated = f'nvmeof_policy_violation{{{NODE},nqn=~"$nqn|"}}'
    return rows(
        Say(
            "Policy violations",
            "short",
            (10, 7),
            "What the policy finds wanting. `nvmeof-exporter check` on the node says what was "
            "found, what is wanted, and how to change it.",
            "no violations known",
        ),
        [Query(f"group by (rule, nqn, path) ({violated} == 1)")],
        [
            Column("rule", "Rule"),
            Column("nqn", "Subsystem"),
            Column("path", "Path", width=220),
        ],
        sort=("Rule", False),
    )


def _subsystems() -> table.Panel:
    return rows(
        Say(
            "Subsystems",
            "short",
            (24, 5),
            "What each subsystem says of itself, and by which policy the kernel chooses among "
            "its paths.",
            "no subsystems",
        ),
        [
            Query(
                "group by (nqn, model, serial, firmware, iopolicy) "
                f"({pick('nvmeof_subsystem_info')})"
            )
        ],
        [
            Column("nqn", "Subsystem"),
            Column("model", "Model"),
            Column("serial", "Serial"),
            Column("firmware", "Firmware", width=90),
            Column("iopolicy", "I/O policy", width=110),
        ],
        sort=("Subsystem", False),
    )
