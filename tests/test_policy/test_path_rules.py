from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter.model import PathSettings
from nvmeof_exporter.policy import Finding, Limits, Verdict
from nvmeof_exporter.policy.model import NO_LIMITS
from nvmeof_exporter.policy.path_rules import path_findings
from nvmeof_exporter.policy.rules import RULES
from tests.test_policy.looks import KERNEL_DEFAULTS, NQN, controller

PATH = "tcp:10.0.0.2:4420"
RECONNECT = "one path after the other: never disconnect the last usable one"


def judged(rule: str, limits: Limits, settings: PathSettings, state: str = "live") -> Finding:
    wanted = {**dict.fromkeys(RULES, NO_LIMITS), rule: limits}
    (finding,) = path_findings(controller(0, settings, state=state), wanted)
    return finding


@pytest.mark.parametrize(
    ("rule", "limits", "settings", "found", "wanted", "how"),
    [
        (
            "keep_alive",
            Limits(enabled=True, most=5),
            PathSettings(keep_alive_timeout=30),
            "30s",
            "at most 5s",
            (f"nvme connect --keep-alive-tmo=5, {RECONNECT}",),
        ),
        (
            "ctrl_loss_tmo",
            Limits(enabled=True, least=math.inf),
            PathSettings(ctrl_loss_timeout=600),
            "10m",
            "off",
            (
                "now: echo -1 > /sys/class/nvme/nvme0/ctrl_loss_tmo",
                "for good: nvme connect --ctrl-loss-tmo=-1",
            ),
        ),
        (
            "reconnect_delay",
            Limits(enabled=True, most=10),
            PathSettings(reconnect_delay=60),
            "1m",
            "at most 10s",
            (
                "now: echo 10 > /sys/class/nvme/nvme0/reconnect_delay",
                "for good: nvme connect --reconnect-delay=10",
            ),
        ),
        (
            "fast_io_fail_tmo",
            Limits(enabled=True, least=10, most=600),
            PathSettings(fast_io_fail_timeout=5),
            "5s",
            "at least 10s and at most 10m",
            (
                "now: echo 10 > /sys/class/nvme/nvme0/fast_io_fail_tmo",
                "for good: nvme connect --fast_io_fail_tmo=10",
            ),
        ),
        (
            "io_timeout",
            Limits(enabled=True, most=120),
            PathSettings(io_timeout=4294967295),
            "7101w3d6h28m15s",
            "at most 2m",
            (
                "for later connections: echo 120 > /sys/module/nvme_core/parameters/io_timeout",
                "for good: nvme_core.io_timeout=120 on the kernel's command line",
            ),
        ),
        (
            "queues",
            Limits(enabled=True, least=2),
            PathSettings(queues=1),
            "1",
            "at least 2",
            (f"nvme connect --nr-io-queues=1, {RECONNECT}",),
        ),
    ],
)
def test_a_violation_says_what_was_found_what_is_wanted_and_how_to_get_there(
    rule: str,
    limits: Limits,
    settings: PathSettings,
    found: str,
    wanted: str,
    how: tuple[str, ...],
) -> None:
    assert judged(rule, limits, settings) == Finding(
        rule, NQN, PATH, Verdict.VIOLATED, found, wanted, how
    )


def test_a_shorter_delay_must_not_shorten_what_the_kernel_counts_in_attempts() -> None:
    settings = PathSettings(reconnect_delay=60, ctrl_loss_timeout=600)
    found = judged("reconnect_delay", Limits(enabled=True, most=10), settings)
    assert found.how[0] == (
        "now: echo 10 > /sys/class/nvme/nvme0/reconnect_delay; "
        "echo 600 > /sys/class/nvme/nvme0/ctrl_loss_tmo"
    )


def test_no_keep_alive_is_longer_than_any() -> None:
    found = judged("keep_alive", Limits(enabled=True, most=30), PathSettings(keep_alive_timeout=0))
    assert (found.verdict, found.found) == (Verdict.VIOLATED, "off")


@pytest.mark.parametrize("rule", ["ctrl_loss_tmo", "fast_io_fail_tmo"])
def test_off_is_as_long_as_anyone_can_ask_for(rule: str) -> None:
    never = PathSettings(ctrl_loss_timeout=math.inf, fast_io_fail_timeout=math.inf)
    assert judged(rule, Limits(enabled=True, least=math.inf), never).verdict is Verdict.KEPT


def test_what_the_kernel_does_not_show_is_not_judged() -> None:
    found = judged("keep_alive", Limits(enabled=True, most=5), PathSettings())
    assert found == Finding(
        "keep_alive", NQN, PATH, Verdict.UNKNOWN, "the kernel shows none", "at most 5s"
    )


@pytest.mark.parametrize("state", ["connecting", "resetting", "deleting"])
def test_the_queues_of_a_path_that_is_down_say_nothing(state: str) -> None:
    found = judged("queues", Limits(enabled=True, least=2), PathSettings(queues=0), state)
    assert (found.verdict, found.found) == (
        Verdict.UNKNOWN,
        "not known while the path is down",
    )


def test_a_rule_that_is_off_says_nothing() -> None:
    limits = dict.fromkeys(RULES, Limits(enabled=False, most=0))
    assert list(path_findings(controller(), limits)) == []


def test_a_local_drive_has_no_connection_to_judge() -> None:
    limits = dict.fromkeys(RULES, Limits(enabled=True, most=0))
    assert list(path_findings(controller(transport="pcie"), limits)) == []


_SECONDS = st.floats(0.001, 1e9) | st.just(math.inf)


@given(value=_SECONDS, least=st.none() | _SECONDS, most=st.none() | _SECONDS)
def test_a_setting_is_as_wanted_exactly_between_its_limits(
    value: float, least: float | None, most: float | None
) -> None:
    limits = Limits(enabled=True, least=least, most=most)
    settings = replace(KERNEL_DEFAULTS, ctrl_loss_timeout=value)
    kept = (least is None or value >= least) and (most is None or value <= most)
    found = judged("ctrl_loss_tmo", limits, settings)
    assert found.verdict is (Verdict.KEPT if kept else Verdict.VIOLATED)
    assert bool(found.how) is not kept
