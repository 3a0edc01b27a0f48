from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest
import yaml

from tests.alerts.rule_files import ALERTING, ALERTS_DIRECTORY

EXAMPLE = ALERTS_DIRECTORY / "alertmanager.example.yaml"
CONFIGURATION: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))

Labels = dict[str, str]


def amtool(*arguments: str) -> str:
    ran = subprocess.run(["amtool", *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.prometheus
def test_amtool_takes_the_example() -> None:
    assert "SUCCESS" in amtool("check-config", str(EXAMPLE))


@pytest.mark.prometheus
@pytest.mark.parametrize("name", ALERTING)
def test_an_alert_goes_where_its_severity_says(name: str) -> None:
    severity = ALERTING[name].severity
    receiver = {"critical": "storage-pager", "warning": "storage-queue", "none": "nobody"}[severity]
    labels = (f"alertname={name}", f"severity={severity}", "job=nvmeof")
    flags = ("config", "routes", "test", f"--config.file={EXAMPLE}")
    assert amtool(*flags, f"--verify.receivers={receiver}", *labels).strip() == receiver


@pytest.mark.prometheus
def test_alerts_of_others_take_no_route_of_ours() -> None:
    flags = ("config", "routes", "test", f"--config.file={EXAMPLE}")
    assert amtool(*flags, "alertname=DiskFull", "severity=critical").strip() == "storage-queue"


def matches(matchers: list[str], labels: Labels) -> bool:
    """Whether labels satisfy Alertmanager's matchers; a missing label is an empty one."""
    for matcher in matchers:
        found = re.fullmatch(r'(\w+)(=~|!~|!=|=)"(.*)"', matcher)
        assert found is not None, matcher
        value = labels.get(found[1], "")
        equal = bool(re.fullmatch(found[3], value)) if "~" in found[2] else value == found[3]
        if equal == found[2].startswith("!"):
            return False
    return True


def inhibits(rule: dict[str, Any], source: Labels, target: Labels) -> bool:
    """Whether a firing alert holds another one back; see the documentation of Alertmanager."""
    sources, targets = rule["source_matchers"], rule["target_matchers"]
    if not matches(sources, source) or not matches(targets, target):
        return False
    if matches(sources, target) and matches(targets, source):
        return False
    return all(source.get(label, "") == target.get(label, "") for label in rule["equal"])


def notified(*firing: Labels) -> list[str]:
    """The names of the alerts that are not held back."""
    return [
        target["alertname"]
        for target in firing
        if not any(
            inhibits(rule, source, target)
            for rule in CONFIGURATION["inhibit_rules"]
            for source in firing
        )
    ]


def alert(name: str, instance: str = "node-1:10067", **more: str) -> Labels:
    labels = {"alertname": name, "severity": ALERTING[name].severity, "job": "nvmeof", **more}
    return {**labels, "instance": instance} if instance else labels


def of_subsystem(name: str, nqn: str = "nqn.example:a", **more: str) -> Labels:
    return alert(name, nqn=nqn, **more)


@pytest.mark.parametrize(
    "worse", ["NVMeoFNoUsablePath", "NVMeoFRedundancyLost", "NVMeoFPathDegraded"]
)
def test_a_path_that_is_gone_is_told_of_by_its_subsystem(worse: str) -> None:
    missing = of_subsystem("NVMeoFPathMissing", path="tcp:10.0.0.2:4420")
    assert notified(of_subsystem(worse), missing) == [worse]
    assert notified(missing) == ["NVMeoFPathMissing"]


def test_nothing_else_of_a_subsystem_is_held_back() -> None:
    """Alertmanager never tells the end of what ends meanwhile; the rules do it instead."""
    names = [name for name in ALERTING if name != "NVMeoFPathMissing"]
    of_one = [
        of_subsystem(name)
        for name in names
        if not name.startswith("NVMeoFExporter") and name != "NVMeoFDrillRunning"
    ]
    assert notified(*of_one) == [target["alertname"] for target in of_one]


def test_another_subsystem_or_node_holds_nothing_back() -> None:
    assert notified(
        of_subsystem("NVMeoFNoUsablePath"),
        of_subsystem("NVMeoFRedundancyLost", nqn="nqn.example:b"),
        of_subsystem("NVMeoFRedundancyLost", instance="node-2:10067"),
    ) == ["NVMeoFNoUsablePath", "NVMeoFRedundancyLost", "NVMeoFRedundancyLost"]


def test_a_silent_exporter_holds_back_its_warnings_and_nobody_elses() -> None:
    assert notified(
        alert("NVMeoFExporterDown"),
        of_subsystem("NVMeoFPathDegraded"),
        alert("NVMeoFLinkDown", netdev="h0"),
        alert("NVMeoFExporterDown", instance="node-2:10067"),
        alert("NVMeoFReconnectStorm", instance=""),
    ) == ["NVMeoFExporterDown", "NVMeoFExporterDown", "NVMeoFReconnectStorm"]


def test_a_silent_exporter_hides_no_page() -> None:
    pages = [name for name, rule in ALERTING.items() if rule.severity == "critical"]
    for page in pages:
        assert notified(alert("NVMeoFExporterDown"), of_subsystem(page)) == [
            "NVMeoFExporterDown",
            page,
        ]


def test_a_node_that_is_down_holds_everything_back() -> None:
    down = {"alertname": "NodeDown", "severity": "critical", "instance": "node-1:10067"}
    assert notified(down, of_subsystem("NVMeoFNoUsablePath"), alert("NVMeoFExporterDown")) == [
        "NodeDown"
    ]


def test_the_next_page_of_a_group_waits_for_a_minute_at_most() -> None:
    (pager,) = [r for r in CONFIGURATION["route"]["routes"] if r["receiver"] == "storage-pager"]
    assert (pager["group_wait"], pager["group_interval"]) == ("10s", "1m")


def test_many_nodes_that_reconnect_are_told_once() -> None:
    assert notified(
        alert("NVMeoFReconnectStorm", instance=""),
        alert("NVMeoFReconnectStorm", instance="node-1:10067"),
        alert("NVMeoFReconnectStorm", instance="node-2:10067"),
    ) == ["NVMeoFReconnectStorm"]


def test_a_drill_holds_back_warnings_of_its_node_and_no_page() -> None:
    assert notified(
        alert("NVMeoFDrillRunning"),
        of_subsystem("NVMeoFPathDegraded"),
        of_subsystem("NVMeoFNoUsablePath", nqn="nqn.example:b"),
        alert("NVMeoFExporterStale"),
        of_subsystem("NVMeoFPathDegraded", instance="node-2:10067"),
    ) == [
        "NVMeoFDrillRunning",
        "NVMeoFNoUsablePath",
        "NVMeoFExporterStale",
        "NVMeoFPathDegraded",
    ]


def test_inhibitions_name_alerts_that_there_are() -> None:
    """Each matcher of a name of ours that is spelled out, or a choice, finds all it means."""
    matchers = [
        matcher
        for rule in CONFIGURATION["inhibit_rules"]
        for matcher in (*rule["source_matchers"], *rule["target_matchers"])
        if "NVMeoF" in matcher and "NVMeoF.+" not in matcher
    ]
    for matcher in matchers:
        pattern = matcher.split('"')[1]
        choice = re.fullmatch(r"NVMeoF\((.*)\)", pattern)
        names = [f"NVMeoF{word}" for word in choice[1].split("|")] if choice else [pattern]
        for name in names:
            assert any(re.fullmatch(name, known) for known in ALERTING), name


def test_what_is_told_by_subsystem_or_node_is_grouped_over_all_of_them() -> None:
    """One notification when a switch takes a path of many nodes."""
    assert CONFIGURATION["route"]["group_by"] == ["cluster", "job", "alertname"]
    assert all("group_by" not in route for route in CONFIGURATION["route"]["routes"])
