"""Every query runs in a real Prometheus, and answers with a handful of series."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from tests.dashboards.boards import BOARDS, CHOICES, Query, expand, marks, queries, variables
from tests.dashboards.recorded import Recording, Scene, ask

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

#: As many lines as anybody can tell apart, or rows as anybody reads.
MOST_SERIES = 60

#: Nothing happened that these could tell of: they are looked at in ``test_rendering``.
NODE_BOARDS = [board for board in BOARDS if board != "fleet"]
NODE_QUERIES = [query for board in NODE_BOARDS for query in (*queries(board), *marks(board))]


def _answer(prometheus: str, scene: Scene, query: Query) -> list[dict[str, Any]]:
    seconds = f"{scene.end - scene.start:.0f}"
    choices = {**CHOICES, "instance": scene.instance, "__rate_interval": "15s"}
    choices |= {"__range": f"{seconds}s", "__range_s": seconds}
    expr = expand(query.expr, choices)
    if query.instant:
        found = ask(prometheus, "query", query=expr, time=str(scene.end))
    else:
        step = max((scene.end - scene.start) / 60, 1)
        parameters = {"start": str(scene.start), "end": str(scene.end), "step": f"{step:.0f}"}
        found = ask(prometheus, "query_range", query=expr, **parameters)
    result: list[dict[str, Any]] = found["result"]
    return result


def _values(series: Iterable[dict[str, Any]]) -> list[float]:
    return [
        float(text)
        for one in series
        for _, text in (one["values"] if "values" in one else [one["value"]])
    ]


@pytest.mark.parametrize("query", NODE_QUERIES, ids=str)
def test_a_query_answers_in_every_scene(query: Query, recording: Recording) -> None:
    for scene in recording.scenes.values():
        found = _answer(recording.prometheus, scene, query)
        assert len(found) <= MOST_SERIES
        assert not any(math.isnan(one) for one in _values(found))


@pytest.mark.parametrize("query", queries("fleet"), ids=str)
def test_a_fleet_of_two_hundred_nodes_answers_with_few_series(
    query: Query, fleet: Recording
) -> None:
    found = _answer(fleet.prometheus, fleet.scenes["fleet"], query)
    assert 0 < len(found) <= 20, "two clusters, however many nodes"


@pytest.mark.parametrize("board", NODE_BOARDS)
def test_variables_offer_what_there_is(board: str, recording: Recording) -> None:
    choices = {**CHOICES, "instance": "drilled"}
    found = {
        one["name"]: _offered(recording.prometheus, expand(one["query"], choices))
        for one in variables(board)
        if one["type"] == "query"
    }
    assert found["cluster"] == ["hall-1"]
    assert found["instance"] == ["calm", "drilled", "lost", "unplugged"]
    if "nqn" in found:
        array, scratch = (f"nqn.2026-01.org.example:{name}" for name in ("array1", "scratch"))
        assert found["nqn"] == [array, scratch]


def _offered(prometheus: str, query: str) -> list[str]:
    selector, _, label = query.removeprefix("label_values(").removesuffix(")").rpartition(",")
    values: list[str] = ask(prometheus, f"label/{label}/values", **{"match[]": selector})
    return values
