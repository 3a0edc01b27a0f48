"""Rules as YAML, written for people: comments, wrapped texts, expressions as they stand."""

from __future__ import annotations

import re
import textwrap
from itertools import groupby
from typing import TYPE_CHECKING

from alerts.model import Alert, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from alerts.model import Group, Text

__all__ = ["prometheus_rule", "rule_file"]

_WIDTH = 98
_ACTION = re.compile(r"\{\{.*?\}\}")
_UNBREAKABLE = "\0"


def rule_file(head: str, groups: Iterable[Group], runbooks: str) -> str:
    """Write a rule file of Prometheus.

    Args:
        head: the comment at its top.
        groups: what it holds.
        runbooks: where the runbooks are, without a slash at the end.

    """
    lines = [*_comment(head), "", "groups:", *_groups(groups, runbooks)]
    return "\n".join(lines) + "\n"


def prometheus_rule(head: str, groups: Iterable[Group], runbooks: str) -> str:
    """Write the same as a PrometheusRule of the Prometheus operator."""
    manifest = [
        "apiVersion: monitoring.coreos.com/v1",
        "kind: PrometheusRule",
        "metadata:",
        "  name: nvmeof-exporter",
        "  labels:",
        "    app.kubernetes.io/name: nvmeof-exporter",
        "spec:",
        "  groups:",
    ]
    lines = [*_comment(head), "", *manifest, *_indent(_groups(groups, runbooks), 2)]
    return "\n".join(lines) + "\n"


def _groups(groups: Iterable[Group], runbooks: str) -> Iterator[str]:
    for number, group in enumerate(groups):
        if number:
            yield ""
        yield from _indent(_comment(group.note), 2)
        yield f"  - name: {group.name}"
        yield "    rules:"
        for rule in group.rules:
            lines = _alert(rule, runbooks) if isinstance(rule, Alert) else _record(rule)
            yield from _indent(_comment(rule.note), 6)
            yield from _item(lines)


def _record(rule: Record) -> Iterator[str]:
    yield f"record: {rule.name}"
    yield from _expression(rule.expr)
    yield from _mapping("labels", rule.labels)


def _alert(rule: Alert, runbooks: str) -> Iterator[str]:
    yield f"alert: {rule.name}"
    yield from _expression(rule.expr)
    if rule.wait:
        yield f"for: {rule.wait}"
    if rule.keep:
        yield f"keep_firing_for: {rule.keep}"
    yield from _mapping("labels", {"severity": rule.severity})
    yield "annotations:"
    yield from _indent(_folded("summary", (rule.summary,)), 2)
    yield from _indent(_folded("description", rule.description), 2)
    yield f"  runbook_url: {runbooks}/{rule.name}.md"


def _expression(expr: str) -> Iterator[str]:
    lines = textwrap.dedent(expr).strip().splitlines()
    if len(lines) == 1:
        yield f"expr: {lines[0]}"
        return
    yield "expr: |"
    yield from _indent(lines, 2)


def _mapping(key: str, values: Mapping[str, str]) -> Iterator[str]:
    if values:
        yield f"{key}:"
        for name, value in values.items():
            yield f"  {name}: {value}"


def _folded(key: str, text: Text) -> Iterator[str]:
    yield f"{key}: >-"
    for actions, parts in groupby(text, key=lambda part: "\n" in part):
        joined = ("\n" if actions else " ").join(part.strip() for part in parts)
        yield from _indent(joined.splitlines() if actions else _wrap(joined), 2)


def _wrap(prose: str) -> list[str]:
    """Break between words, but within no template action."""
    kept = _ACTION.sub(lambda found: found[0].replace(" ", _UNBREAKABLE), prose)
    lines = textwrap.wrap(kept, _WIDTH - 12, break_long_words=False, break_on_hyphens=False)
    return [line.replace(_UNBREAKABLE, " ") for line in lines]


def _comment(text: str) -> Iterator[str]:
    """Wrap paragraphs, which an empty line separates; ``- `` begins an item of a list."""
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text.strip())):
        if number:
            yield "#"
        for item in re.split(r"\n\s*(?=- )", paragraph):
            wrapped = textwrap.wrap(
                " ".join(item.split()),
                _WIDTH - 8,
                subsequent_indent="  " if item.startswith("- ") else "",
                break_long_words=False,
                break_on_hyphens=False,
            )
            yield from (f"# {line}" for line in wrapped)


def _item(lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield f"      {'  ' if number else '- '}{line}"


def _indent(lines: Iterable[str], by: int) -> Iterator[str]:
    return (" " * by + line if line else line for line in lines)
