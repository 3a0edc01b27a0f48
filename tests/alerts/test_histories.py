from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest

from tests.alerts.rule_files import ALERTING, ALERTS_DIRECTORY, HISTORIES

TESTS: list[dict[str, Any]] = [test for history in HISTORIES.values() for test in history["tests"]]


def asserted(test: dict[str, Any], alert: str) -> list[list[dict[str, Any]]]:
    """What a history expects of an alert, one list per moment."""
    checks = test.get("alert_rule_test", [])
    return [check.get("exp_alerts") or [] for check in checks if check["alertname"] == alert]


@pytest.mark.parametrize("alert", ALERTING)
def test_an_alert_has_a_history_that_fires_with_its_labels_and_texts(alert: str) -> None:
    fired = [found for test in TESTS for moment in asserted(test, alert) for found in moment]
    assert fired
    for found in fired:
        assert found["exp_labels"]["severity"] == ALERTING[alert].severity
        assert set(found["exp_annotations"]) == {"summary", "description", "runbook_url"}


@pytest.mark.parametrize("alert", ALERTING)
def test_an_alert_has_a_history_that_looks_alike_and_does_not_fire(alert: str) -> None:
    quiet = [moments for test in TESTS if (moments := asserted(test, alert)) and not any(moments)]
    assert quiet


@pytest.mark.parametrize("alert", ALERTING)
def test_texts_name_only_labels_that_the_alert_has(alert: str) -> None:
    fired = [found for test in TESTS for moment in asserted(test, alert) for found in moment]
    labels = {label for found in fired for label in found["exp_labels"]}
    rule = ALERTING[alert]
    text = f"{rule.summary} {' '.join(rule.description)}"
    # A global pause has no priority, and Prometheus drops labels that are empty; so is a
    # cluster that nobody names, which is what queries then ask for.
    assert set(re.findall(r"\$labels\.(\w+)", text)) <= labels | {"cluster"}


@pytest.mark.prometheus
@pytest.mark.parametrize("name", HISTORIES)
def test_histories_end_as_they_should(name: str) -> None:
    ran = subprocess.run(
        ["promtool", "test", "rules", name],
        cwd=ALERTS_DIRECTORY / "tests",
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
