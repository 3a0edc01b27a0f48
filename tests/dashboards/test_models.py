"""What holds for every panel of every dashboard."""

from __future__ import annotations

import itertools
import re

import pytest

from nvmeof_exporter.model import ANA_STATES, PATH_STATES
from nvmeof_exporter.monitor.redundancy import LEVELS
from tests.dashboards.boards import BOARDS, DIRECTORY, Panel, load, panels, variables

PANELS = [panel for board in BOARDS for panel in panels(board)]
_SCREEN_ROWS = 22
_MARKS_OF_MEANING = re.compile(r"red|orange|yellow|green")

each_board = pytest.mark.parametrize("board", BOARDS)
each_panel = pytest.mark.parametrize("panel", PANELS, ids=str)


@pytest.mark.filterwarnings("ignore:Prefer using dashboardv2:DeprecationWarning")  # it is classic
def test_the_files_are_what_the_sources_say() -> None:
    pytest.importorskip("grafana_foundation_sdk", reason="needs Python 3.11")
    from dashboards.generate import files  # noqa: PLC0415 - not without the SDK

    found = {path.name: path.read_text(encoding="utf-8") for path in DIRECTORY.glob("*.json")}
    assert found == files()


@each_board
def test_a_dashboard_is_classic_and_can_be_linked_to(board: str) -> None:
    model = load(board)
    assert model["schemaVersion"] == 42
    assert model["uid"] == f"nvmeof-{board}"
    assert model["tags"] == ["nvmeof"]
    assert [link["type"] for link in model["links"]] == ["dashboards"]
    assert model["description"]


@each_board
def test_a_fresh_import_chooses_what_there_is(board: str) -> None:
    chosen = {one["name"]: one for one in variables(board)}
    assert next(iter(chosen)) == "datasource"
    assert all(one["label"] for one in chosen.values())
    for name in chosen.keys() & {"cluster", "nqn"}:
        assert chosen[name]["current"]["value"] == "$__all"
        assert chosen[name]["allValue"] == ".*", "what has no such label is chosen, too"
    # Without a present value, Grafana takes the first: one node, not a thousand.
    if "instance" in chosen:
        assert "current" not in chosen["instance"]
        assert chosen["instance"]["multi"] is chosen["instance"]["includeAll"] is False


@each_board
def test_identifiers_are_unique(board: str) -> None:
    identifiers = [panel["id"] for panel in load(board)["panels"]]
    assert len(set(identifiers)) == len(identifiers)


@each_board
def test_panels_do_not_overlap(board: str) -> None:
    places = [panel["gridPos"] for panel in load(board)["panels"]]
    for one, other in itertools.combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above, (one, other)
    assert all(place["x"] + place["w"] <= 24 for place in places)


def test_the_drill_needs_no_scrolling() -> None:
    bottom = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in load("drill")["panels"])
    assert bottom <= _SCREEN_ROWS


@each_panel
def test_a_panel_explains_itself(panel: Panel) -> None:
    assert panel.model["description"].endswith(".")
    assert panel.defaults["unit"]
    assert panel.defaults["noValue"]
    assert panel.model["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


@each_panel
def test_a_panel_invents_no_value(panel: Panel) -> None:
    assert panel.defaults.get("custom", {}).get("spanNulls", False) is False
    calculations = panel.model["options"].get("reduceOptions", {}).get("calcs", ["last"])
    assert calculations == ["last"], "what is not known now is not shown as known"


@each_panel
def test_every_query_names_its_series(panel: Panel) -> None:
    for target in panel.model["targets"]:
        alone = target.get("instant") and target["legendFormat"] == "__auto"
        assert alone or target["legendFormat"] != "__auto"


def _mapped(panel: Panel) -> dict[str, str]:
    return {
        entry["text"]: entry["color"]
        for mapping in panel.defaults.get("mappings", [])
        if mapping["type"] == "value"
        for entry in mapping["options"].values()
    }


def _panel(board: str, title: str) -> Panel:
    (found,) = [panel for panel in panels(board) if panel.title == title]
    return found


def test_green_can_carry_io_yellow_waits_and_red_is_lost() -> None:
    condition = _mapped(_panel("drill", "Paths"))
    assert {condition[text] for text in ("usable",)} == {"green"}
    assert {condition[text] for text in ("standby",)} == {"yellow"}
    assert {condition[text] for text in ("connecting",)} == {"red"}
    assert {condition[text] for text in ("missing", "dead", "deleting")} == {"dark-red"}
    assert _mapped(_panel("drill", "Redundancy")) == {
        "redundant": "green",
        "degraded": "yellow",
        "at risk": "orange",
        "lost": "red",
    }


def test_every_state_has_a_word() -> None:
    # A live path is told by what it is good for.
    assert set(PATH_STATES) - {"live"} <= _mapped(_panel("drill", "Paths")).keys()
    assert set(ANA_STATES) == _mapped(_panel("node", "ANA states")).keys()
    levels = {text.replace(" ", "-") for text in _mapped(_panel("drill", "Redundancy"))}
    assert set(LEVELS) == levels


@pytest.mark.parametrize("title", ["I/O by path", "I/O standing still"])
def test_the_colours_of_ports_mean_nothing_else(title: str) -> None:
    ports = [
        rule["properties"][0]["value"]["fixedColor"]
        for rule in _panel("drill", title).model["fieldConfig"]["overrides"]
        if rule["matcher"]["id"] == "byRegexp" and r"\d+" in rule["matcher"]["options"]
    ]
    assert len(set(ports)) == 10
    assert not [colour for colour in ports if _MARKS_OF_MEANING.search(colour)]
