"""How panels look: the house style, in one place.

Each function takes what differs and returns a builder of the SDK. All panels have a title, a
description that says how to read them, a unit, and a word for having nothing to show.
"""

from __future__ import annotations

import string
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    dashboard,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models.common import DataSourceRef
from grafana_foundation_sdk.models.dashboard import (
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    ThresholdsMode,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards.source.meaning import GREEN, NAMES, RED, nothing, steps, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from grafana_foundation_sdk.models.dashboard import Threshold, ValueMapping

    from dashboards.source.meaning import Word

__all__ = [
    "DATASOURCE",
    "Column",
    "Look",
    "Query",
    "Say",
    "bars",
    "lines",
    "rows",
    "tile",
    "timeline",
]

#: The SDK's builders of panels have no type in common.
_Panel = TypeVar(
    "_Panel", bargauge.Panel, stat.Panel, statetimeline.Panel, table.Panel, timeseries.Panel
)

DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")

#: Legends as people speak of subsystems and paths: "array1 · tcp 10.0.0.2 via h0".
_RENAMES = (
    (r"/nqn\.\S*:(\S+)/", "$1"),
    (r"/\b(\w+):(\S+?)(?::4420)?%([^%\]\s]+)/", "$1 $2 via $3"),
    (r"/\b(tcp|rdma|fc|loop|pcie):(\S+?)(?::4420)?(?=\s|$)/", "$1 $2"),
)


#: Which port carries a series, in colours that say nothing else: by the last digit of the
#: interface or, where none was given, of the address ("... via h0", "mlx5_0/1 in").
_PORT_COLOURS = {
    rf"/(?<!\/){digit}(\/\d+)?( (in|out|rx|tx))?$/": colour
    for digit, colour in enumerate(
        (
            "blue",
            "purple",
            "#2ab0c0",
            "#d071b8",
            "super-light-blue",
            "dark-purple",
            "dark-blue",
            "#7f8fa6",
            "light-purple",
            "#9c7a66",
        )
    )
}


@dataclass(frozen=True, slots=True)
class Say:
    """What a panel says: its title, unit, how to read it, and what is shown without data.

    ``size``: its columns (of 24) and rows.
    """

    title: str
    unit: str
    size: tuple[int, int]
    description: str
    nothing: str = "no data"


@dataclass(frozen=True, slots=True)
class Query:
    """One query and the name of its series; ``step`` is the least time between two points."""

    expr: str
    legend: str = "__auto"
    step: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """How lines are drawn.

    ``stacked``: on top of each other, filled. ``by_port``: the colour says which port carries
    it. ``colours``: by regular expressions of names, for series that mean something.
    ``objective``: the name of a series that is a limit, a dashed red line. ``log``: by orders of
    magnitude. ``legend``: whether it is a table with newest and greatest values.
    """

    stacked: bool = False
    by_port: bool = False
    colours: Mapping[str, str] = field(default_factory=dict)
    objective: str = ""
    log: bool = False
    legend: bool = True


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: the field it shows, its heading, and how.

    ``coloured``: the cell has the colour of ``limits`` or ``shown``. ``link``: where a click leads.
    """

    name: str
    title: str
    unit: str = ""
    width: int = 0
    decimals: int | None = None
    shown: Sequence[ValueMapping] = ()
    limits: Sequence[Threshold] = ()
    coloured: bool = False
    link: str = ""


_PLAIN = Look()


def tile(
    say: Say,
    queries: Sequence[Query],
    *,
    shown: Iterable[Word] = (),
    limits: Sequence[Threshold] = (),
    decimals: int | None = None,
) -> stat.Panel:
    """Return one big value in the colour of its meaning: the newest only."""
    panel = _said(stat.Panel(), say)
    for target in _targets(queries, now=True):
        panel.with_target(target)
    panel.graph_mode(kinds.BigValueGraphMode.NONE)
    panel.color_mode(kinds.BigValueColorMode.BACKGROUND_SOLID)
    panel.reduce_options(common.ReduceDataOptions().calcs(["last"]))
    panel.thresholds(_absolute(limits or steps(GREEN)))
    panel.text_mode(kinds.BigValueTextMode.VALUE)
    panel.mappings([*words(shown), nothing(say.nothing)])
    if decimals is not None:
        panel.decimals(decimals)
    return panel


def timeline(
    say: Say, queries: Sequence[Query], shown: Iterable[Word], *, per_page: int = 0
) -> statetimeline.Panel:
    """Return states over time, a row per series; a gap is a time for which nothing is known."""
    panel = _renamed(_said(statetimeline.Panel(), say))
    for target in _targets(queries):
        panel.with_target(target)
    panel.mappings(words(shown))
    panel.color_scheme(_colour(FieldColorModeId.THRESHOLDS))
    panel.thresholds(_absolute(steps("text")))
    panel.merge_values(merge_values=True).show_value(kinds.VisibilityMode.AUTO).row_height(0.85)
    panel.fill_opacity(85).line_width(0)
    panel.legend(common.VizLegendOptions().show_legend(show_legend=False).calcs([]))
    panel.tooltip(common.VizTooltipOptions().mode(kinds.TooltipDisplayMode.SINGLE))
    if per_page:
        panel.per_page(per_page)
    return panel


def lines(say: Say, queries: Sequence[Query], look: Look = _PLAIN) -> timeseries.Panel:
    """Return values over time, from 0 on."""
    panel = _renamed(_said(timeseries.Panel(), say))
    for target in _targets(queries):
        panel.with_target(target)
    panel.line_width(2).fill_opacity(8).span_nulls(span_nulls=False)
    panel.show_points(kinds.VisibilityMode.AUTO).point_size(4)
    panel.color_scheme(_colour(FieldColorModeId.PALETTE_CLASSIC_BY_NAME))
    tooltip = common.VizTooltipOptions().mode(kinds.TooltipDisplayMode.MULTI)
    panel.tooltip(tooltip.sort(kinds.SortOrder.DESCENDING))
    if look.stacked:
        panel.stacking(common.StackingConfig().mode(kinds.StackingMode.NORMAL).group("A"))
        panel.fill_opacity(55).line_width(1)
    panel.legend(_legend(table=look.legend))
    if say.unit == "short":
        panel.decimals(0)
    if say.unit in {"short", "s"} and not look.log:
        # Nothing but zeros would else be drawn below a hundred.
        panel.axis_soft_max(1)
    panel.override_by_regexp("/ (out|tx|written)$/", [_DASHES])
    colours = {**(_PORT_COLOURS if look.by_port else {}), **look.colours}
    for name, colour in colours.items():
        panel.override_by_regexp(name, _fixed(colour))
    if look.objective:
        panel.override_by_name(look.objective, [*_fixed(RED), *_DASHED])
    if look.log:
        scale = common.ScaleDistributionConfig().type(kinds.ScaleDistribution.LOG).log(10)
        panel.scale_distribution(scale)
    else:
        panel.min(0)
    return panel


def _legend(*, table: bool) -> common.VizLegendOptions:
    legend = common.VizLegendOptions().show_legend(show_legend=True)
    if table:
        legend.display_mode(kinds.LegendDisplayMode.TABLE).calcs(["lastNotNull", "max"])
        return legend.placement(kinds.LegendPlacement.RIGHT)
    legend.display_mode(kinds.LegendDisplayMode.LIST).calcs([])
    return legend.placement(kinds.LegendPlacement.BOTTOM)


def rows(
    say: Say, queries: Sequence[Query], columns: Sequence[Column], *, sort: tuple[str, bool]
) -> table.Panel:
    """Return a table of the newest values; ``sort``: a heading, and whether greatest come first."""
    panel = _said(table.Panel(), say)
    for target in _targets(queries, now=True):
        panel.with_target(target.format(PromQueryFormat.TABLE))
    if len(queries) > 1:
        panel.with_transformation(DataTransformerConfig(id_val="merge", options={}))
    panel.with_transformation(
        DataTransformerConfig(
            id_val="filterFieldsByName",
            options={"include": {"names": [column.name for column in columns]}},
        )
    )
    panel.with_transformation(
        DataTransformerConfig(
            id_val="organize",
            options={
                "indexByName": {column.name: place for place, column in enumerate(columns)},
                "renameByName": {column.name: column.title for column in columns},
            },
        )
    )
    panel.mappings(NAMES).thresholds(_absolute(steps("text")))
    panel.show_header(show_header=True).cell_height(kinds.TableCellHeight.SM)
    panel.sort_by([common.TableSortByFieldState().display_name(sort[0]).desc(sort[1])])
    for column in columns:
        if properties := _column(column):
            panel.override_by_name(column.title, properties)
    return panel


def bars(
    say: Say, queries: Sequence[Query], limits: Sequence[Threshold], *, decimals: int | None = None
) -> bargauge.Panel:
    """Return the newest values as horizontal bars."""
    panel = _renamed(_said(bargauge.Panel(), say))
    for target in _targets(queries, now=True):
        panel.with_target(target)
    panel.orientation(kinds.VizOrientation.HORIZONTAL)
    panel.display_mode(kinds.BarGaugeDisplayMode.BASIC)
    panel.reduce_options(common.ReduceDataOptions().calcs(["last"]))
    panel.text(common.VizTextDisplayOptions().title_size(13).value_size(16))
    panel.min(0).thresholds(_absolute(limits))
    if say.unit == "percentunit":
        panel.max(1)
    if decimals is not None:
        panel.decimals(decimals)
    return panel


def _said(panel: _Panel, say: Say) -> _Panel:
    panel.title(say.title).description(say.description).datasource(DATASOURCE)
    panel.unit(say.unit).no_value(say.nothing)
    width, height = say.size
    return panel.span(width).height(height)


def _targets(queries: Sequence[Query], *, now: bool = False) -> Iterable[prometheus.Dataquery]:
    for ref, query in zip(string.ascii_uppercase, queries, strict=False):
        target = prometheus.Dataquery().ref_id(ref).datasource(DATASOURCE).expr(query.expr)
        target.legend_format(query.legend)
        target = target.instant() if now else target.range()
        if query.step:
            target.interval(query.step)
        yield target


def _renamed(panel: _Panel) -> _Panel:
    for pattern, replacement in _RENAMES:
        panel.with_transformation(
            DataTransformerConfig(
                id_val="renameByRegex",
                options={"regex": pattern, "renamePattern": replacement},
            )
        )
    return panel


def _absolute(limits: Sequence[Threshold]) -> dashboard.ThresholdsConfig:
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(list(limits))


def _colour(mode: FieldColorModeId, fixed: str = "") -> dashboard.FieldColor:
    colour = dashboard.FieldColor().mode(mode)
    return colour.fixed_color(fixed) if fixed else colour


def _property(name: str, value: object) -> DynamicConfigValue:
    return DynamicConfigValue(id_val=name, value=value)


def _fixed(colour: str) -> list[DynamicConfigValue]:
    return [_property("color", {"mode": "fixed", "fixedColor": colour})]


_DASHES = _property("custom.lineStyle", {"fill": "dash", "dash": [8, 6]})

_DASHED = [
    _DASHES,
    _property("custom.lineWidth", 2),
    _property("custom.fillOpacity", 0),
    _property("custom.stacking", {"mode": "none", "group": "A"}),
    _property("custom.hideFrom", {"legend": False, "tooltip": True, "viz": False}),
]


_FILLED = {"type": "color-background", "mode": "basic"}


def _column(column: Column) -> list[DynamicConfigValue]:
    found = []
    if column.unit:
        # The panel's own word for having nothing is for all of it.
        found += [_property("unit", column.unit), _property("noValue", "-")]
    if column.width:
        found.append(_property("custom.width", column.width))
    if column.decimals is not None:
        found.append(_property("decimals", column.decimals))
    if column.shown:
        found.append(_property("mappings", list(column.shown)))
    if column.limits:
        found.append(_property("thresholds", {"mode": "absolute", "steps": list(column.limits)}))
    if column.coloured:
        # Words are few and matter: yellow on white would not be read.
        cell = {"type": "color-text"} if column.limits else _FILLED
        found.append(_property("custom.cellOptions", cell))
    if column.link:
        link = {"title": "Look at this node", "url": column.link}
        found.append(_property("links", [link]))
    return found
