from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from alerts.fleet_rules import FLEET
from alerts.generate import ALERTS, files
from alerts.model import Alert, Record
from alerts.objectives import OBJECTIVES, objective
from nvmeof_exporter.exposition.metrics import METRICS
from nvmeof_exporter.model import ANA_STATES, PATH_STATES
from nvmeof_exporter.monitor.redundancy import CONDITIONS, LEVELS
from nvmeof_exporter.monitor.shared_fate import RESOURCES
from nvmeof_exporter.sources.rdma_counters import PORT_STATES
from tests.alerts.rule_files import (
    ALERTING,
    ALERTS_DIRECTORY,
    HISTORIES,
    Selector,
    label_lists,
    selectors,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

RULES = [rule for group in (*ALERTS, FLEET) for rule in group.rules]
RECORDED = {rule.name for rule in RULES if isinstance(rule, Record)}

#: Labels of the target: Prometheus adds job and instance, the scrape configuration perhaps more.
TARGET = {"job", "instance", "cluster"}

#: A label that some add to their targets; no rule may name it.
OWN = {"rack"}

#: Labels whose values are words of the exporter's own.
WORDS = {
    "level": set(LEVELS),
    "condition": set(CONDITIONS),
    "ana_state": set(ANA_STATES),
    "resource": set(RESOURCES),
    "direction": {"rx", "tx"},
}
STATES = {
    "nvmeof_path_state": set(PATH_STATES),
    "nvmeof_path_state_seconds_total": set(PATH_STATES),
    "nvmeof_rdma_port_state": set(PORT_STATES),
}


def labels_of(metric: str) -> set[str] | None:
    """The labels that the exporter gives a series, None when it tells no such metric."""
    if metric == "up":
        return set()
    for suffix, extra in (
        ("", set[str]()),
        ("_bucket", {"le"}),
        ("_count", set()),
        ("_sum", set()),
    ):
        found = METRICS.get(metric.removesuffix(suffix) if suffix else metric)
        if found is not None and (not suffix or found.kind == "histogram"):
            return {*found.labels, *extra}
    return None


def wrong(found: Iterable[Selector]) -> list[str]:
    """What the exporter would never tell."""
    problems = []
    for selector in found:
        if selector.metric in RECORDED:
            continue
        labels = labels_of(selector.metric)
        if labels is None:
            problems.append(f"no metric {selector.metric}")
            continue
        for label, op, value in selector.matchers:
            if label not in labels | TARGET | OWN:
                problems.append(f"{selector.metric} has no label {label}")
            words = STATES.get(selector.metric) if label == "state" else WORDS.get(label)
            if (
                words is not None
                and value != "%q"
                and not any(
                    re.fullmatch(value, word) if "~" in op else value == word for word in words
                )
            ):
                problems.append(f"{selector.metric}: {label} is never {value}")
    return problems


def test_what_looks_wrong_is_found() -> None:
    expr = (
        'up + nvmeof_path_states == nvmeof_path_info{color="red"} or nvmeof_path_state{state="up"}'
    )
    assert wrong(selectors(expr)) == [
        "no metric nvmeof_path_states",
        "nvmeof_path_info has no label color",
        "nvmeof_path_state: state is never up",
    ]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_expressions_ask_for_what_the_exporter_tells(rule: Alert | Record) -> None:
    assert wrong(selectors(rule.expr)) == []
    known = {label for metric in METRICS.values() for label in metric.labels}
    assert label_lists(rule.expr) <= known | TARGET | {"le"}


@pytest.mark.parametrize("alert", ALERTING.values(), ids=lambda alert: alert.name)
def test_descriptions_ask_for_what_the_exporter_tells(alert: Alert) -> None:
    text = " ".join(alert.description)
    queries = re.findall(r"`([^`]*)`|query \"([^\"]*)\"", text)
    assert wrong(selectors(" ".join(a or b for a, b in queries))) == []
    known = {label for metric in METRICS.values() for label in metric.labels}
    assert set(re.findall(r"\.Labels\.(\w+)", text)) <= known


@pytest.mark.parametrize("alert", ALERTING.values(), ids=lambda alert: alert.name)
def test_every_alert_is_critical_or_a_warning_and_says_what_to_do_first(alert: Alert) -> None:
    wanted = {"none"} if alert.name == "NVMeoFDrillRunning" else {"critical", "warning"}
    assert alert.severity in wanted
    assert alert.summary
    assert " First " in f" {' '.join(alert.description)} " or alert.severity == "none"


def test_names_are_used_once() -> None:
    assert len(ALERTING) == sum(isinstance(rule, Alert) for rule in RULES)


def test_what_pages() -> None:
    assert {alert.name for alert in ALERTING.values() if alert.severity == "critical"} == {
        "NVMeoFNoUsablePath",
        "NVMeoFIOStalled",
        "NVMeoFIOFailed",
        "NVMeoFRedundancyLost",
    }


@pytest.mark.parametrize("alert", ALERTING.values(), ids=lambda alert: alert.name)
def test_alerts_keep_the_labels_of_the_target(alert: Alert) -> None:
    """Aggregations say what they leave out, unless they are about many targets."""
    assert " by (" not in alert.expr.replace("count by (cluster, job) (", "")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_expressions_mean_the_same_to_every_version(rule: Alert | Record) -> None:
    """Prometheus 3 writes bounds of classic buckets as 5.0, and lets a dot match a newline."""
    assert not re.search(r"\ble\s*[=!]", rule.expr)
    patterns = [v for s in selectors(rule.expr) for _, op, v in s.matchers if "~" in op]
    assert all("." not in p.replace(".*nvmeof.*", "") for p in patterns)


def test_every_objective_is_used_and_explained() -> None:
    for record in OBJECTIVES.rules:
        assert record.note
        name = record.name.removeprefix("nvmeof:objective:")
        assert any(objective(name) in rule.expr for rule in RULES), name


def test_no_objective_is_invented() -> None:
    with pytest.raises(KeyError, match="speed"):
        objective("speed")


@pytest.mark.parametrize("name", HISTORIES)
def test_histories_are_made_of_what_the_exporter_tells(name: str) -> None:
    series = [s["series"] for test in HISTORIES[name]["tests"] for s in test["input_series"]]
    assert wrong(selector for text in series for selector in selectors(text)) == []


@pytest.mark.prometheus
@pytest.mark.parametrize("name", [name for name in files() if name.endswith(".rules.yaml")])
def test_promtool_takes_the_rules(name: str) -> None:
    checked = subprocess.run(
        ["promtool", "check", "rules", "--lint=all", "--lint-fatal", ALERTS_DIRECTORY / name],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
