"""The committed dashboards, as tests look at them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "BOARDS",
    "DIRECTORY",
    "Panel",
    "Query",
    "expand",
    "load",
    "marks",
    "panels",
    "queries",
    "variables",
]

DIRECTORY = Path(__file__).parents[2] / "dashboards"
BOARDS = ("fleet", "node", "drill", "rdma-and-links")

_VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)\}")

#: What Grafana and the choices on top put in place of variables, for a look at ten minutes.
CHOICES = {
    "cluster": ".*",
    "instance": "node",
    "nqn": ".*",
    "objective": "5",
    "__range": "600s",
    "__range_s": "600",
    "__rate_interval": "60s",
}


@dataclass(frozen=True)
class Panel:
    """A panel of a dashboard."""

    board: str
    model: dict[str, Any]

    @property
    def title(self) -> str:
        """What stands above it."""
        return str(self.model["title"])

    @property
    def defaults(self) -> dict[str, Any]:
        """How its values are shown."""
        found: dict[str, Any] = self.model["fieldConfig"]["defaults"]
        return found

    def __str__(self) -> str:
        return f"{self.board}: {self.title}"


@dataclass(frozen=True)
class Query:
    """A query of a panel, an annotation or a variable."""

    where: str
    expr: str
    legend: str = ""
    instant: bool = False

    def __str__(self) -> str:
        return self.where


@cache
def load(board: str) -> dict[str, Any]:
    """Return the model of a dashboard."""
    model: dict[str, Any] = json.loads((DIRECTORY / f"{board}.json").read_text(encoding="utf-8"))
    return model


def panels(board: str) -> list[Panel]:
    """Return the panels of a dashboard, without the headings of rows."""
    return [Panel(board, one) for one in load(board)["panels"] if one["type"] != "row"]


def queries(board: str) -> list[Query]:
    """Return the queries of the panels."""
    return [
        Query(
            f"{panel} {target['refId']}",
            target["expr"],
            target["legendFormat"],
            bool(target.get("instant")),
        )
        for panel in panels(board)
        for target in panel.model["targets"]
    ]


def marks(board: str) -> list[Query]:
    """Return the queries of the annotations."""
    found = load(board).get("annotations", {}).get("list", [])
    return [Query(f"{board}: {one['name']}", one["expr"]) for one in found]


def variables(board: str) -> list[dict[str, Any]]:
    """Return the variables of a dashboard."""
    found: list[dict[str, Any]] = load(board)["templating"]["list"]
    return found


def expand(text: str, choices: Mapping[str, str] = CHOICES) -> str:
    """Put values in place of variables.

    Raises:
        KeyError: there is no such variable.

    """
    return _VARIABLE.sub(lambda match: choices[match[1] or match[2]], text)
