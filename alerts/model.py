"""What rule files are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Alert", "Group", "Record", "Text"]

#: A text of an annotation: parts without a newline are prose, those with one are template
#: actions that stand on lines of their own. Between parts is one space, unless an action
#: takes it away: ``{{- ... }}``.
Text = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A recording rule; ``note`` is the comment above it."""

    name: str
    expr: str
    note: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Alert:
    """An alerting rule.

    ``wait`` is its ``for``, ``keep`` its ``keep_firing_for``: durations as Prometheus
    writes them. ``severity`` is ``critical`` (someone gets up), ``warning``, or ``none``.
    The runbook goes by the name.
    """

    name: str
    severity: str
    expr: str
    summary: str
    description: Text
    wait: str = ""
    keep: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated one after the other; ``note`` is the comment above them."""

    name: str
    note: str
    rules: tuple[Alert | Record, ...]
