from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from alerts.generate import RUNBOOKS, files
from tests.alerts.rule_files import ALERTING, ALERTS_DIRECTORY

PROJECT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", files())
def test_the_committed_file_is_what_the_source_says(name: str) -> None:
    committed = (ALERTS_DIRECTORY / name).read_text(encoding="utf-8")
    assert committed == files()[name], "run: python -m alerts.generate"


def test_the_operators_manifest_holds_the_groups_of_both_rule_files() -> None:
    texts = {name: yaml.safe_load(text) for name, text in files().items()}
    manifest = texts.pop("prometheus-operator/nvmeof-exporter.yaml")
    assert (manifest["apiVersion"], manifest["kind"]) == (
        "monitoring.coreos.com/v1",
        "PrometheusRule",
    )
    assert manifest["spec"]["groups"] == [g for text in texts.values() for g in text["groups"]]


def test_a_base_for_runbooks_goes_into_every_link() -> None:
    found = files("https://wiki.example.org/nvmeof/")["nvmeof.rules.yaml"]
    links = re.findall(r"runbook_url: (\S+)", found)
    assert links == [f"https://wiki.example.org/nvmeof/{name}.md" for name in ALERTING]


@pytest.mark.parametrize("name", ALERTING)
def test_every_alert_has_its_runbook(name: str) -> None:
    assert (PROJECT / RUNBOOKS / f"{name}.md").is_file()


def test_no_runbook_is_without_its_alert() -> None:
    found = {path.stem for path in (PROJECT / RUNBOOKS).glob("NVMeoF*.md")}
    assert found == set(ALERTING)


def test_folding_keeps_template_actions_on_one_line() -> None:
    text = (ALERTS_DIRECTORY / "nvmeof.rules.yaml").read_text(encoding="utf-8")
    summaries = [
        rule["annotations"]["summary"]
        for group in yaml.safe_load(text)["groups"]
        for rule in group["rules"]
        if "alert" in rule
    ]
    assert summaries == [alert.summary for alert in ALERTING.values()]
