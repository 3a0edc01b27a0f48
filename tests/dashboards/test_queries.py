"""What the dashboards ask for exists, whatever is in a Prometheus at the moment."""

from __future__ import annotations

import re

import pytest

from tests.dashboards.boards import BOARDS, Query, expand, marks, queries, variables

promql_parser = pytest.importorskip("promql_parser")

from tests.dashboards.promql import RULES, labels_of, selectors, unknown_labels  # noqa: E402

QUERIES = [query for board in BOARDS for query in (*queries(board), *marks(board))]
_LEGEND = re.compile(r"\{\{(\w+)\}\}")

each_query = pytest.mark.parametrize("query", QUERIES, ids=str)


@each_query
def test_a_query_asks_for_metrics_and_labels_that_there_are(query: Query) -> None:
    expr = promql_parser.parse(expand(query.expr))
    for selector in selectors(expr):
        labels_of(selector.name)  # KeyError: nothing makes such series
    assert unknown_labels(expr) == set()


@each_query
def test_a_legend_uses_labels_that_there_are(query: Query) -> None:
    expr = promql_parser.parse(expand(query.expr))
    known = {label for one in selectors(expr) for label in labels_of(one.name)}
    assert set(_LEGEND.findall(query.legend)) <= known


@pytest.mark.parametrize("board", BOARDS)
def test_variables_ask_for_labels_that_there_are(board: str) -> None:
    for variable in variables(board):
        if variable["type"] != "query":
            continue
        match = re.fullmatch(r"label_values\((.+),(\w+)\)", variable["query"])
        assert match is not None
        (selector,) = selectors(promql_parser.parse(match[1]))
        assert {match[2], *selector.labels} <= labels_of(selector.name)


@pytest.mark.parametrize("query", queries("fleet"), ids=str)
def test_the_fleet_is_asked_by_recording_rules(query: Query) -> None:
    raw = {one.name for one in selectors(promql_parser.parse(expand(query.expr)))} - RULES.keys()
    # Tables of what is worst need names that no rule keeps: asked once, a few rows at most.
    few = query.instant and ("topk(" in query.expr or raw == {"ALERTS"})
    assert not raw or few


@pytest.mark.parametrize("board", [board for board in BOARDS if board != "fleet"])
def test_other_dashboards_ask_one_node(board: str) -> None:
    for query in (*queries(board), *marks(board)):
        for selector in selectors(promql_parser.parse(expand(query.expr))):
            assert "instance" in selector.labels, (str(query), selector.name)
