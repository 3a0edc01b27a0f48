from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from nvmeof_exporter.exposition.metrics import METRICS
from tests.test_docs.markdown import code_blocks, headings

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
RUNBOOKS = ROOT / "docs" / "runbooks"
INDEX = RUNBOOKS / "README.md"
ALERTING = ROOT / "docs" / "alerting.md"
PAGES = sorted(RUNBOOKS.glob("NVMeoF*.md"))
WITH_QUERIES = [INDEX, *PAGES]

SECTIONS = [
    "What it means for the job",
    "First three commands",
    "Which layer",
    "Repair",
    "It is over when",
    "Wake somebody else",
    "When the alert is wrong",
    "Tuning",
]

#: Named in advance; what serves them is still to come.
PLANNED: set[str] = set()

LABELS = {metric.name: set(metric.labels) for metric in METRICS.values()}
HISTOGRAMS = {metric.name for metric in METRICS.values() if metric.kind == "histogram"}
#: What the scrape adds to every series.
TARGET_LABELS = {"job", "instance", "cluster"}

_METRIC = re.compile(r"\bnvmeof_(?!exporter\b)\w+\b(?!\.)")
_SELECTOR = re.compile(r"\b(?P<name>nvmeof_\w+)\{(?P<matchers>[^{}]*)\}")
_MATCHER = re.compile(r"(?P<label>\w+)\s*(?:=~|!~|!=|=)\s*\"")
_OBJECTIVE = re.compile(r"nvmeof:objective:(\w+)")


def rules() -> list[dict[str, Any]]:
    return [
        rule
        for file in sorted((ROOT / "alerts").glob("*.rules.yaml"))
        for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
    ]


@cache
def severities() -> dict[str, str]:
    return {rule["alert"]: rule["labels"]["severity"] for rule in rules() if "alert" in rule}


@cache
def waits() -> dict[str, str]:
    """How long each condition must last, as people write it: ``5 m``."""
    pending = {rule["alert"]: rule["for"] for rule in rules() if "for" in rule}
    return {alert: re.sub(r"(?<=\d)(?=[smh])", " ", wait) for alert, wait in pending.items()}


@cache
def objectives() -> set[str]:
    records = (_OBJECTIVE.fullmatch(rule.get("record", "")) for rule in rules())
    return {found[1] for found in records if found}


def name(page: Path) -> str:
    return page.name


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def queries(page: Path) -> Iterator[str]:
    """Each PromQL expression of a page: lines that are indented belong to the one before."""
    for block in code_blocks(text(page)):
        if block.language == "promql":
            yield from re.split(r"\n(?![\s)])", block.text.strip())


def listed(page: Path) -> dict[str, str]:
    """The alerts of a page's table that links to the runbooks, and their severities."""
    row = re.compile(r"^\| \[(NVMeoF\w+)\]\((?:runbooks/)?\1\.md\) \| (\w+) \|", re.MULTILINE)
    return dict(row.findall(text(page)))


def labels(metric: str) -> set[str] | None:
    """The labels of a metric, or of a histogram's part; None when there is no such metric."""
    whole = re.sub(r"_(?:bucket|sum|count)$", "", metric)
    if whole in HISTOGRAMS:
        return LABELS[whole] | {"le"}
    return set() if metric in PLANNED else LABELS.get(metric)


def test_each_alert_has_its_runbook_and_each_runbook_its_alert() -> None:
    assert {page.stem for page in PAGES} == severities().keys()


@pytest.mark.parametrize("page", [INDEX, ALERTING], ids=name)
def test_every_alert_is_listed_with_its_severity(page: Path) -> None:
    assert listed(page) == severities()


@pytest.mark.parametrize("alert", sorted(waits()))
def test_the_table_says_how_long_the_condition_must_last(alert: str) -> None:
    row = next(line for line in text(ALERTING).splitlines() if line.startswith(f"| [{alert}]"))
    assert f"for {waits()[alert]} " in row


@pytest.mark.parametrize("page", PAGES, ids=name)
class TestRunbook:
    def test_it_has_the_sections_of_all_runbooks(self, page: Path) -> None:
        assert headings(text(page)) == [page.stem, *SECTIONS]

    def test_it_begins_with_its_severity_and_how_long_it_takes(self, page: Path) -> None:
        wait = waits().get(page.stem)
        urgency = severities()[page.stem] + (f" after {wait}" if wait else "")
        assert re.match(rf"# {page.stem}\n\n\*\*{urgency}[.,*]", text(page))

    def test_it_is_short_enough_for_the_night(self, page: Path) -> None:
        assert 60 <= len(text(page).splitlines()) <= 110

    def test_its_first_commands_are_three_lines(self, page: Path) -> None:
        section = text(page).split("## First three commands\n")[1].split("\n## ")[0]
        first = next(block for block in code_blocks(section) if block.language == "sh")
        assert len(first.text.splitlines()) == 3

    def test_its_end_is_a_query(self, page: Path) -> None:
        section = text(page).split("## It is over when\n")[1].split("\n## ")[0]
        assert any(block.language == "promql" for block in code_blocks(section))


@pytest.mark.parametrize("page", [*WITH_QUERIES, ALERTING], ids=name)
class TestNames:
    def test_every_metric_exists(self, page: Path) -> None:
        assert {metric for metric in _METRIC.findall(text(page)) if labels(metric) is None} == set()

    def test_every_label_in_a_query_is_one_of_its_metric(self, page: Path) -> None:
        wrong = [
            f"{selector['name']}{{{label}}}"
            for query in queries(page)
            for selector in _SELECTOR.finditer(query)
            for label in _MATCHER.findall(selector["matchers"])
            if label not in (labels(selector["name"]) or set()) | TARGET_LABELS
        ]
        assert wrong == []

    def test_every_objective_is_one_of_the_rules(self, page: Path) -> None:
        assert set(_OBJECTIVE.findall(text(page))) - {"NAME"} <= objectives()


def test_every_objective_is_explained() -> None:
    pages = "".join(text(page) for page in [ALERTING, *PAGES])
    assert {objective for objective in objectives() if objective not in pages} == set()


def test_what_is_served_is_no_longer_planned() -> None:
    assert PLANNED & LABELS.keys() == set()


@pytest.mark.parametrize("page", [*WITH_QUERIES, ALERTING], ids=name)
def test_the_shell_understands_every_command(page: Path) -> None:
    commands = "\n".join(b.text for b in code_blocks(text(page)) if b.language == "sh")
    checked = subprocess.run(
        ["bash", "-n"], input=commands, capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.prometheus
def test_prometheus_understands_every_query(tmp_path: Path) -> None:
    file = tmp_path / "queries.yaml"
    found = [
        {"record": f"query_{number}", "expr": query}
        for page in WITH_QUERIES
        for number, query in enumerate(queries(page))
    ]
    file.write_text(yaml.safe_dump({"groups": [{"name": "runbooks", "rules": found}]}))
    checked = subprocess.run(
        ["promtool", "check", "rules", "--lint=none", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stderr) == (0, "")
    assert f"{len(found)} rules found" in checked.stdout
