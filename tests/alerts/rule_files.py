"""The rules, their histories and the Alertmanager example, as the tests read them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from alerts.generate import ALERTS
from alerts.model import Alert

__all__ = ["ALERTING", "ALERTS_DIRECTORY", "HISTORIES", "Selector", "label_lists", "selectors"]

ALERTS_DIRECTORY = Path(__file__).parents[2] / "alerts"

#: Every alert by its name.
ALERTING = {rule.name: rule for group in ALERTS for rule in group.rules if isinstance(rule, Alert)}

#: The documents of ``alerts/tests`` by file name.
HISTORIES: dict[str, dict[str, Any]] = {
    path.name: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((ALERTS_DIRECTORY / "tests").glob("*.yaml"))
}

_SELECTOR = re.compile(
    r"(?<![\w:$.])((?:[a-z_]+:)?nvmeof[\w:]*|instance:up:\w+|up)(?![\w:])(?:\{([^}]*)\})?"
)
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*(%q|"(?:[^"\\]|\\.)*")')
_LABELS = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^()]*)\)")
_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)


@dataclass(frozen=True)
class Selector:
    """A series that an expression asks for; matchers as (label, operator, value)."""

    metric: str
    matchers: tuple[tuple[str, str, str], ...]


def selectors(expr: str) -> list[Selector]:
    """Find every selector of an expression. The values of matchers are without quotes."""
    return [
        Selector(
            found[1],
            tuple((label, op, value.strip('"')) for label, op, value in _MATCHER.findall(body)),
        )
        for found in _SELECTOR.finditer(_COMMENT.sub("", expr))
        for body in [found[2] or ""]
    ]


def label_lists(expr: str) -> set[str]:
    """Return the labels that aggregations and matchings of an expression name."""
    lists = (found.split(",") for found in _LABELS.findall(expr))
    return {label.strip() for labels in lists for label in labels if label.strip()}
