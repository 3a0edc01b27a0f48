"""What the dashboards have in common: variables, links to each other, annotations, time."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from dashboards.source.meaning import GREEN, ORANGE, RED
from dashboards.source.panels import DATASOURCE
from dashboards.source.queries import FLEET, NODE, pick

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders.dashboard import QueryVariable
    from grafana_foundation_sdk.cog.builder import Builder
    from grafana_foundation_sdk.models.dashboard import VariableModel

__all__ = ["Frame", "Variables", "mark_failovers", "objective", "start"]

_TAG = "nvmeof"
_EVERYTHING = VariableOption(selected=True, text="All", value="$__all")


class Variables(enum.IntEnum):
    """How far down a dashboard's choice goes."""

    CLUSTER = 1
    NODE = 2
    SUBSYSTEM = 3


@dataclass(frozen=True, slots=True)
class Frame:
    """A dashboard without its panels. ``span`` and ``refresh``: durations as Grafana has them."""

    uid: str
    title: str
    description: str
    span: str
    refresh: str
    variables: Variables


def start(frame: Frame) -> dashboard.Dashboard:
    """Return a dashboard that lacks only its panels."""
    board = dashboard.Dashboard(frame.title).uid(frame.uid).description(frame.description)
    board.tags([_TAG]).editable().timezone("browser")
    board.time(f"now-{frame.span}", "now").refresh(frame.refresh)
    board.tooltip(DashboardCursorSync.CROSSHAIR)
    board.timepicker(
        dashboard.TimePicker().refresh_intervals(["1s", "2s", "5s", "10s", "30s", "1m", "5m"])
    )
    board.link(
        dashboard.DashboardLink("NVMe-oF")
        .type(DashboardLinkType.DASHBOARDS)
        .tags([_TAG])
        .include_vars(include_vars=True)
        .keep_time(keep_time=True)
    )
    for variable in _variables(frame.variables):
        board.with_variable(variable)
    return board


def _variables(depth: Variables) -> list[Builder[VariableModel]]:
    known = "nvmeof_exporter_build_info"
    cluster = _query("cluster", "Cluster", f"label_values({known},cluster)")
    instance = _query("instance", "Node", f"label_values({pick(known, FLEET)},instance)")
    subsystems = pick("nvmeof_subsystem_paths_expected", NODE)
    nqn = _query("nqn", "Subsystem", f"label_values({subsystems},nqn)")
    source = dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")
    return [source, _all(cluster), instance, _all(nqn)][: 1 + depth]


def _query(name: str, label: str, query: str) -> QueryVariable:
    variable = dashboard.QueryVariable(name).label(label).datasource(DATASOURCE).query(query)
    variable.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
    return variable.sort(VariableSort.NATURAL_ASC)


def _all(variable: QueryVariable) -> QueryVariable:
    """Let several be chosen, or all: also what has no such label."""
    return (
        variable.multi(multi=True)
        .include_all(include_all=True)
        .all_value(".*")
        .current(_EVERYTHING)
    )


def objective() -> dashboard.CustomVariable:
    """Return the variable for how long a failover may take, in seconds."""
    variable = dashboard.CustomVariable("objective").label("Objective (s)").values("3,4,5")
    return variable.current(VariableOption(selected=True, text="5", value="5"))


def mark_failovers(board: dashboard.Dashboard) -> None:
    """Mark in every graph when failovers began, went on and ended.

    A failover is dated to milliseconds, by the exporter, once it is over; while it goes on, by
    the scrapes that told of it.
    """
    ended = pick("nvmeof_failover_last_timestamp_seconds")
    took = pick("nvmeof_failover_last_duration_seconds")
    going_on = f"{pick('nvmeof_failover_in_progress')} == 1"
    board.annotation(_mark("Failover goes on", going_on, ORANGE, "I/O has not gone on elsewhere"))
    for name, moment, colour, text in (
        ("Failover began", f"({ended} - {took}) * 1000", RED, "last I/O on the lost path"),
        ("Failover ended", f"{ended} * 1000", GREEN, "first I/O on another path"),
    ):
        mark = _mark(name, moment, colour, text)
        board.annotation(mark.use_value_for_time(use_value_for_time=True))


def _mark(name: str, expr: str, colour: str, text: str) -> dashboard.AnnotationQuery:
    mark = dashboard.AnnotationQuery().name(name).datasource(DATASOURCE).expr(expr)
    mark.enable(enable=True).icon_color(colour).step("1s")
    return mark.title_format(f"{name}: {{{{nqn}}}}").text_format(text)
