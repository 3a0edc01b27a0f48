"""From a path to the pager: nodes that fail by script, and what people are told.

Every script runs at the same time, each in a cluster of its own, so that the whole takes
as long as its slowest: a killed exporter, from five minutes of silence to the message
that it is back. Rules and routes are the shipped ones. Only the wait for facts that change
with the configuration alone, twenty minutes for NVMeoFPolicyViolation, is shortened.
"""

from __future__ import annotations

import re
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.alerts.chain.expected import EXPECTED, NODES
from tests.alerts.chain.parts import (
    Alertmanager,
    Demo,
    Notification,
    Prometheus,
    Receiver,
    Target,
    free_address,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.alerts.chain.expected import Told

pytestmark = [
    pytest.mark.prometheus,
    pytest.mark.chain,
    pytest.mark.timeout(1200),
]

_ALERTS = Path(__file__).resolve().parents[3] / "alerts"

#: Tens of milliseconds matter to no alert; dense polls are nearly half of a lost node's cost.
_AT_EASE = "--poll.incident-interval=100ms"

_INTERVAL = 5.0  # between scrapes, and between evaluations
_KILLED_AT, _RESTARTED_AT = 20.0, 420.0
_END = 740.0

#: How much later than the sum of all waits a message may come, on a machine with other work.
_SLACK = 30.0

#: Instead of 15 minutes; see above.
_POLICY_FOR = "1m"

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _seconds(duration: str) -> float:
    return sum(float(n) * _SECONDS[unit] for n, unit in re.findall(r"(\d+)([smhd])", duration))


@dataclass(frozen=True)
class Chain:
    """What came of it all: every notification, and when each node began to live."""

    notifications: list[Notification]
    started: dict[str, float]

    def of(self, cluster: str) -> list[Notification]:
        """The notifications about one cluster, in order of time."""
        return [n for n in self.notifications if n.group.get("cluster") == cluster]

    def told(self, cluster: str, alert: str, status: str) -> dict[tuple[Any, ...], float]:
        """Of each alert of one name: when it was first told to be in ``status``, by its labels."""
        first: dict[tuple[Any, ...], float] = {}
        for notification in self.of(cluster):
            for one in notification.alerts:
                if one["labels"]["alertname"] == alert and one["status"] == status:
                    first.setdefault(_subject(one["labels"]), notification.time)
        return first


def _subject(labels: dict[str, str]) -> tuple[Any, ...]:
    left_out = ("alertname", "cluster", "job", "severity")
    return tuple(sorted((k, v) for k, v in labels.items() if k not in left_out))


@pytest.fixture(scope="module")
def rules() -> dict[str, dict[str, Any]]:
    """The shipped alerts, by name."""
    groups = yaml.safe_load((_ALERTS / "nvmeof.rules.yaml").read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    """Let every script run to the end of what is expected of it."""
    directory = tmp_path_factory.mktemp("chain")
    with ExitStack() as stack:
        receiver = stack.enter_context(closing(Receiver()))
        alertmanager = stack.enter_context(
            closing(Alertmanager(directory, _ALERTS / "alertmanager.example.yaml", receiver))
        )
        nodes = dict.fromkeys(NODES, "switch-down") | {
            script: script for script in EXPECTED if script != "switch-down"
        }
        targets = {node: Target(free_address(), nodes[node], node) for node in nodes}
        # Before the nodes: it must see them well, and they begin to fail after 20 s.
        stack.enter_context(
            closing(
                Prometheus(
                    directory,
                    [_shortened(directory), _ALERTS / "nvmeof-fleet.rules.yaml"],
                    list(targets.values()),
                    alertmanager.address,
                    f"{_INTERVAL:.0f}s",
                )
            )
        )
        demos = {node: _start(stack, target, directory) for node, target in targets.items()}
        for demo in demos.values():
            demo.ready()
        killed = demos["exporter-killed"]
        _until(killed.started + _KILLED_AT)
        killed.close()
        _until(killed.started + _RESTARTED_AT)
        _start(stack, targets["exporter-killed"], directory)
        _until(max(demo.started for demo in demos.values()) + _END)
        yield Chain(receiver.notifications, {node: demo.started for node, demo in demos.items()})


def _start(stack: ExitStack, target: Target, directory: Path) -> Demo:
    script = "calm" if target.cluster == "exporter-killed" else target.cluster
    file = Path(__file__).with_name(f"{script}.script.yaml")
    if file.exists():
        script = str(file)
    demo = Demo(script, target.instance, directory, target.address, _AT_EASE)
    return stack.enter_context(closing(demo))


def _shortened(directory: Path) -> Path:
    """The shipped rules, but for the quarter of an hour that a setting may be wrong."""
    rules = yaml.safe_load((_ALERTS / "nvmeof.rules.yaml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            if rule.get("alert") == "NVMeoFPolicyViolation":
                rule["for"] = _POLICY_FOR
    file = directory / "nvmeof.rules.yaml"
    file.write_text(yaml.safe_dump(rules, sort_keys=False))
    return file


def _until(moment: float) -> None:
    """Let the nodes live; what is told meanwhile, and not when it is looked at, is tested."""
    time.sleep(max(moment - time.time(), 0.0))


CASES = [(cluster, told) for cluster, expected in EXPECTED.items() for told in expected]
IDS = [f"{cluster}: {told.alert}" for cluster, told in CASES]


@pytest.mark.parametrize("cluster", EXPECTED)
def test_people_are_told_of_nothing_else(chain: Chain, cluster: str) -> None:
    told = {
        (n.receiver, one["labels"]["alertname"], one["labels"]["severity"])
        for n in chain.of(cluster)
        for one in n.alerts
    }
    assert told == {(t.receiver, t.alert, t.severity) for t in EXPECTED[cluster]}


@pytest.mark.parametrize(("cluster", "told"), CASES, ids=IDS)
def test_each_alert_names_what_it_is_about(chain: Chain, cluster: str, told: Told) -> None:
    # What begins after a group's first message is told with its next one, which comes a
    # group_interval later and may then tell of its end alone.
    firing, resolved = (chain.told(cluster, told.alert, s) for s in ("firing", "resolved"))
    assert firing
    assert firing.keys() | resolved.keys() == set(_subjects(cluster, told))


@pytest.mark.parametrize(("cluster", "told"), CASES, ids=IDS)
def test_a_message_comes_when_scrape_evaluation_and_waits_have_passed(
    chain: Chain, rules: dict[str, dict[str, Any]], cluster: str, told: Told
) -> None:
    wait = _seconds(_for(rules, told))
    firing = chain.told(cluster, told.alert, "firing")
    first = min(firing.values())
    starts = [start for node, start in chain.started.items() if node in _nodes(cluster)]
    assert first >= min(starts) + told.cause + wait
    latest = max(starts) + told.cause + told.detected + wait
    assert first <= latest + 2 * _INTERVAL + _group_wait(told) + _SLACK
    # Those of the same group that came later are told of with its next message.
    assert max(firing.values()) <= latest + 2 * _INTERVAL + _GROUP_INTERVAL[told.severity] + _SLACK


@pytest.mark.parametrize(("cluster", "told"), CASES, ids=IDS)
def test_its_end_is_told_in_time_and_never_before(
    chain: Chain, rules: dict[str, dict[str, Any]], cluster: str, told: Told
) -> None:
    resolved = chain.told(cluster, told.alert, "resolved")
    if told.over is None:
        assert resolved == {}
        return
    keep = _seconds(rules[told.alert].get("keep_firing_for", "0s"))
    starts = [start for node, start in chain.started.items() if node in _nodes(cluster)]
    assert set(resolved) == set(_subjects(cluster, told))
    assert min(resolved.values()) >= min(starts) + told.over - _MENDED_EARLIER + keep
    latest = max(starts) + told.over + keep + 2 * _INTERVAL + _GROUP_INTERVAL[told.severity]
    assert max(resolved.values()) <= latest + _SLACK


def test_a_switch_that_takes_a_path_of_eight_nodes_is_one_page(chain: Chain) -> None:
    """Silent paths are found a few seconds later: they may come as news of the same page.

    So may nodes: eight are not started, scraped and judged within the ten seconds for which a
    page waits for more.
    """
    mended = min(chain.started[node] for node in NODES) + 260.0
    pages = [n for n in chain.of("switch-down") if n.receiver == "storage-pager"]
    page, *news = [n for n in pages if n.time < mended]
    assert len(news) <= 1
    told = {one["labels"]["instance"] for each in (page, *news) for one in each.alerts}
    assert told == set(NODES)
    assert len({one["labels"]["instance"] for one in page.alerts}) > len(NODES) / 2
    assert all(n.group == page.group for n in news)


def test_every_message_says_what_to_do(chain: Chain) -> None:
    for notification in chain.notifications:
        for one in notification.alerts:
            annotations = one["annotations"]
            assert annotations.keys() == {"summary", "description", "runbook_url"}
            assert annotations["runbook_url"].endswith(f"/{one['labels']['alertname']}.md")
            for text in annotations.values():
                assert text
                assert "<no value>" not in text
                assert "error expanding" not in text


#: Between two messages of a group, by severity.
_GROUP_INTERVAL = {"critical": 60.0, "warning": 300.0}

#: A reconnect may come right after what lets it succeed.
_MENDED_EARLIER = 12.0


def _for(rules: dict[str, dict[str, Any]], told: Told) -> str:
    if told.alert == "NVMeoFPolicyViolation":
        return _POLICY_FOR
    return str(rules[told.alert].get("for", "0s"))


def _group_wait(told: Told) -> float:
    return 10.0 if told.severity == "critical" else 60.0


def _nodes(cluster: str) -> tuple[str, ...]:
    return NODES if cluster == "switch-down" else (cluster,)


def _subjects(cluster: str, told: Told) -> list[tuple[Any, ...]]:
    nodes = _nodes(cluster) if told.everywhere else ("",)
    return [
        tuple(sorted({**subject, **({"instance": node} if node else {})}.items()))
        for node in nodes
        for subject in told.subjects
    ]
