"""What a query asks for, read from its syntax tree."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import promql_parser
import yaml

from nvmeof_exporter.exposition.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["RULES", "TARGET_LABELS", "Selector", "labels_of", "selectors", "unknown_labels"]

#: What the scrape adds to every series.
TARGET_LABELS = frozenset({"cluster", "instance", "job"})

_ALERTS = Path(__file__).parents[2] / "alerts"

#: What Prometheus itself tells of alerts.
_ALERT_LABELS = frozenset({"alertname", "alertstate", "severity"})


def _records() -> dict[str, frozenset[str]]:
    """Return the labels of each recorded series: they stand before its first colon."""
    records = [
        rule["record"]
        for file in _ALERTS.glob("*.rules.yaml")
        for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
        if "record" in rule
    ]
    levels = {name: name.partition(":")[0] for name in records}
    return {
        # "nqn:": one series per subsystem and node. "nvmeof:": a threshold, without labels.
        name: frozenset({"nqn", *TARGET_LABELS} if level == "nqn" else level.split("_"))
        for name, level in levels.items()
    }


RULES = _records()


@dataclass(frozen=True)
class Selector:
    """Series that a query selects: the metric, and the labels that it is picked by."""

    name: str
    labels: frozenset[str]


def labels_of(name: str) -> frozenset[str]:
    """Return the labels that series of this name have.

    Raises:
        KeyError: neither the exporter nor a rule makes such series.

    """
    if name in RULES:
        return RULES[name]
    if name == "ALERTS":
        return _ALERT_LABELS | TARGET_LABELS
    if name in METRICS:
        return TARGET_LABELS | set(METRICS[name].labels)
    family, _, part = name.rpartition("_")
    if part in {"bucket", "count", "sum"} and METRICS[family].kind == "histogram":
        bucket = {"le"} if part == "bucket" else set()
        return TARGET_LABELS | set(METRICS[family].labels) | bucket
    raise KeyError(name)


def selectors(expr: promql_parser.Expr) -> list[Selector]:
    """Return what an expression selects."""
    return [
        Selector(node.name, frozenset(one.name for one in node.matchers.matchers))
        for node in _nodes(expr)
        if isinstance(node, promql_parser.VectorSelector) and node.name
    ]


def unknown_labels(expr: promql_parser.Expr) -> set[str]:
    """Return the labels that are matched, grouped or joined by, and that nothing below has."""
    found: set[str] = set()
    for selector in selectors(expr):
        found |= selector.labels - labels_of(selector.name)
    for node in _nodes(expr):
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            found |= set(node.modifier.labels) - _available(node.expr)
        if isinstance(node, promql_parser.BinaryExpr) and node.modifier is not None:
            matching = node.modifier.matching
            joined = set(matching.labels) if matching is not None else set()
            found |= joined - (_available(node.lhs) | _available(node.rhs))
    return found


def _available(expr: promql_parser.Expr) -> set[str]:
    return {label for one in selectors(expr) for label in labels_of(one.name)}


def _nodes(expr: promql_parser.Expr) -> Iterator[Any]:
    found: list[promql_parser.Expr] = []
    promql_parser.walk(expr, found.append)
    return iter(found)
