"""The dashboards, drawn by Grafana's libraries in a browser: no error, no hole, the right words.

The pictures are kept in ``pictures/`` beside this file, for people to look at.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from tests.dashboards.chromium import Chromium, Page
    from tests.dashboards.recorded import Recording
    from tests.dashboards.site import Site

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

PICTURES = Path(__file__).parent / "pictures"
SCREEN = (1600, 1000)
_HEIGHTS = {"drill": 1000, "fleet": 1420, "node": 2900, "rdma-and-links": 1650}

#: What Grafana has above a dashboard and the page here has not, in pixels.
_GRAFANAS_HEADER = 40

_NO_FAILOVER = {"Last finished failover", "Last finished failover by phase"}
_NO_ERRORS = {"Errors and pauses of links"}
_QUIET_NODE = {"Failovers by cause", "Policy violations"}
_QUIET_FABRIC = {"Congestion of RDMA ports"}
#: The make-believe nodes' driver tells of no pauses.
_NO_PAUSES = {"Pause frames", "Time paused"}


@dataclass(frozen=True)
class Picture:
    """A dashboard in a scene, and the panels that have nothing to show there."""

    board: str
    scene: str
    theme: str
    nothing: AbstractSet[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.board}-{self.scene}-{self.theme}"


PICTURED = [
    Picture("drill", "healthy", "dark", _NO_FAILOVER | _NO_ERRORS | {"Objective of $objective s"}),
    Picture("drill", "during", "dark", _NO_FAILOVER | _NO_ERRORS),
    Picture("drill", "after", "light", _NO_ERRORS),
    Picture("drill", "lost", "light", _NO_FAILOVER | _NO_ERRORS),
    Picture("drill", "unplugged", "dark"),
    Picture("node", "healthy", "light", _QUIET_NODE),
    Picture("node", "after", "dark", {"Policy violations"}),
    Picture("node", "lost", "dark", _QUIET_NODE),
    Picture(
        "rdma-and-links", "healthy", "light", _QUIET_FABRIC | _NO_PAUSES | {"Errors of RDMA ports"}
    ),
    Picture("rdma-and-links", "unplugged", "dark"),
]


class Studio:
    """Takes each picture once."""

    def __init__(self, chromium: Chromium, site: Site) -> None:
        self._chromium = chromium
        self._site = site
        self._taken: dict[str, Page] = {}
        PICTURES.mkdir(exist_ok=True)

    def take(self, picture: Picture, recording: Recording, scrape: int = 2) -> Page:
        """Return the page of a picture."""
        if str(picture) not in self._taken:
            scene = recording.scenes[picture.scene]
            self._site.prometheus = recording.prometheus
            choices = {"var-instance": scene.instance} if picture.board != "fleet" else {}
            url = self._site.address(
                picture.board,
                scene.start,
                scene.end,
                theme=picture.theme,
                scrape=str(scrape),
                **choices,
            )
            page = self._chromium.visit(url, SCREEN[0], _HEIGHTS[picture.board])
            (PICTURES / f"{picture}.png").write_bytes(page.png)
            self._taken[str(picture)] = page
        return self._taken[str(picture)]


@pytest.fixture(scope="module")
def studio(chromium: Chromium, site: Site) -> Studio:
    return Studio(chromium, site)


def _panels(page: Page) -> dict[str, dict[str, Any]]:
    return {panel["title"]: panel for panel in page.report["panels"]}


def _check(page: Page, nothing: AbstractSet[str]) -> None:
    report = page.report
    assert report["errors"] == []
    assert page.complaints == []
    assert report["panels"]
    for panel in report["panels"]:
        assert (panel["state"], panel.get("error")) == ("Done", None), panel["title"]
        assert "$" not in panel["text"], panel["title"]
        assert "No data" not in panel["text"], "each panel has words of its own for that"
    assert {panel["title"] for panel in report["panels"] if not panel["rows"]} == set(nothing)
    for query in report["queries"]:
        assert query.get("error") is None
        assert "$" not in query["expr"]
        assert query["points"] or not query["series"], query["expr"]
    assert all(variable["values"] for variable in report["variables"])


@pytest.mark.parametrize("picture", PICTURED, ids=str)
def test_a_dashboard_is_drawn_without_error_or_hole(
    picture: Picture, studio: Studio, recording: Recording
) -> None:
    _check(studio.take(picture, recording), picture.nothing)


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_a_fleet_is_drawn_without_error_or_hole(
    theme: str, studio: Studio, fleet: Recording
) -> None:
    page = studio.take(Picture("fleet", "fleet", theme), fleet, scrape=180)
    _check(page, frozenset())
    panels = _panels(page)
    tiles = {title: panels[title]["text"].split("\n")[-1] for title in list(panels)[:6]}
    assert tiles == {
        "Nodes: lost": "1",
        "Nodes: at risk": "3",
        "Nodes: degraded": "5",
        "Nodes: redundant": "189",
        "Namespaces standing still": "1",
        "Silent exporters": "2",
    }
    worst = panels["Worst subsystems"]["text"].split("\n")
    assert worst[worst.index("gpu-012") :][:5] == ["gpu-012", "array1", "lost", "2", "10.0 mins"]


def _words(page: Page) -> dict[str, str]:
    """Return what the tiles of the drill say."""
    panels = list(_panels(page).items())[:6]
    return {title: panel["text"].partition("\n")[2] for title, panel in panels}


def _picture(scene: str) -> Picture:
    (found,) = [one for one in PICTURED if one.board == "drill" and one.scene == scene]
    return found


def test_the_drill_fits_on_a_screen(studio: Studio, recording: Recording) -> None:
    page = studio.take(_picture("during"), recording)
    bottom = max(panel["bottom"] for panel in page.report["panels"])
    assert bottom + _GRAFANAS_HEADER <= SCREEN[1]


def test_the_drill_says_that_all_is_well(studio: Studio, recording: Recording) -> None:
    words = _words(studio.take(_picture("healthy"), recording))
    assert words["I/O"] == "flows"
    assert words["Phase"] == "all is well"
    assert words["Last finished failover"] == "none yet"
    assert words["Redundancy"] == "redundant"


def test_the_drill_says_that_io_stands_still_although_every_path_is_live(
    studio: Studio, recording: Recording
) -> None:
    page = studio.take(_picture("during"), recording)
    words = _words(page)
    assert words["I/O"] == "stands still"
    assert words["Phase"] == "detection"
    assert words["Redundancy"] == "redundant", "as far as the kernel knows"
    assert words["Objective of $objective s"] == "running"
    seconds = float(words["Standing still for"].removesuffix("s"))
    assert 0.5 < seconds < 5


def test_the_drill_says_how_long_a_failover_took(studio: Studio, recording: Recording) -> None:
    page = studio.take(_picture("after"), recording)
    words = _words(page)
    assert words["I/O"] == "flows"
    assert words["Objective of $objective s"] == "met"
    took = float(words["Last finished failover"].removesuffix("s"))
    assert 2.5 < took < 5, "one to one and a half times a keep-alive of 3 s"
    table = _panels(page)["Last finished failover by phase"]["text"].split("\n")
    assert table[:6] == [
        "Last finished failover by phase",
        *["Subsystem", "Detection", "Reroute", "Failover", "Reconnect"],
    ]
    assert "array1" in table


def test_the_drill_says_that_everything_is_lost(studio: Studio, recording: Recording) -> None:
    words = _words(studio.take(_picture("lost"), recording))
    assert words["I/O"] == "stands still"
    assert words["Phase"] == "no usable path"
    assert words["Objective of $objective s"] == "missed"
    assert words["Redundancy"] == "lost"


def test_paths_are_named_as_people_do(studio: Studio, recording: Recording) -> None:
    page = studio.take(_picture("after"), recording)
    panels = _panels(page)
    for title in ("Paths", "I/O by path"):
        assert "array1 · tcp 10.0.0.2 via h0" in panels[title]["text"]
        assert "scratch · rdma 10.0.3.2 via h3" in panels[title]["text"]
