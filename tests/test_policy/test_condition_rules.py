from __future__ import annotations

import pytest

from nvmeof_exporter.model import Controller, PathId, Snapshot, Subsystem
from nvmeof_exporter.policy import Facts, Finding, Limits, Verdict, evaluate, preset_policy
from nvmeof_exporter.policy.condition_rules import Condition, condition_findings
from nvmeof_exporter.policy.model import NO_LIMITS
from nvmeof_exporter.policy.rules import RULES
from tests.test_policy.looks import NQN

WHOLE = Limits(enabled=True, one_of=("redundant",))
APART = Limits(enabled=True, one_of=("nic", "switch"))


def judged(rule: str, limits: Limits, condition: Condition) -> list[Finding]:
    wanted = {**dict.fromkeys(RULES, NO_LIMITS), rule: limits}
    return list(condition_findings(NQN, condition, wanted))


@pytest.mark.parametrize(
    ("level", "expected", "verdict", "critical"),
    [
        ("redundant", 2, Verdict.KEPT, False),
        ("degraded", 2, Verdict.VIOLATED, False),
        ("at-risk", 2, Verdict.VIOLATED, True),
        ("lost", 2, Verdict.VIOLATED, True),
        ("lost", 1, Verdict.VIOLATED, True),
        (None, 2, Verdict.UNKNOWN, False),
    ],
)
def test_redundancy_is_critical_when_io_stops_or_would(
    level: str | None, expected: int, verdict: Verdict, critical: bool
) -> None:
    (found,) = judged("redundancy", WHOLE, Condition(level, expected, {}))
    assert (found.verdict, found.critical) == (verdict, critical)


def test_one_path_where_there_never_were_more_is_a_warning() -> None:
    (found,) = judged("redundancy", WHOLE, Condition("at-risk", 1, {}))
    assert (found.verdict, found.critical) == (Verdict.VIOLATED, False)


def test_a_subsystem_that_is_gone_may_have_been_retired() -> None:
    (found,) = judged("redundancy", WHOLE, Condition("lost", 2, {}, gone=True))
    assert found.found == "lost, no path is connected"
    assert found.how == (
        "connect anew, for nothing reconnects any more: the links first, then the target's address "
        "and port, then nvme connect",
        "if it was retired on purpose: take it out of expected: in the configuration file where it "
        f"is there, and nvmeof-exporter forget {NQN}",
    )


def test_a_loss_that_no_connection_comes_back_from_is_connected_anew() -> None:
    (found,) = judged("redundancy", WHOLE, Condition("lost", 2, {}, given_up=True))
    assert [how.partition(",")[0] for how in found.how] == ["connect anew"]


def test_a_loss_while_connections_are_up_is_looked_for_at_the_target() -> None:
    (cut_off,) = judged("redundancy", WHOLE, Condition("lost", 2, {}))
    (refused,) = judged("redundancy", WHOLE, Condition("lost", 2, {}, connected=True))
    assert [how.partition(":")[0] for how in cut_off.how] == ["bring back a path"]
    assert [how.partition(":")[0] for how in refused.how] == [
        "connections are up, but no path may be used"
    ]


@pytest.mark.parametrize(
    ("states", "first"),
    [
        (("live", "live"), "connections are up"),
        (("live", "connecting"), "bring back"),
        (("connecting", "deleting"), "bring back"),
        (("deleting", "dead"), "connect anew"),
        ((), "connect anew"),
    ],
)
def test_one_path_that_is_down_may_be_the_one_that_is_needed(
    states: tuple[str, ...], first: str
) -> None:
    controllers = tuple(
        Controller(f"nvme{n}", NQN, PathId("tcp", f"10.0.0.{n}", "4420"), state)
        for n, state in enumerate(states)
    )
    subsystem = Subsystem("nvme-subsys0", NQN, controllers=controllers)
    facts = Facts(Snapshot(0.0, 0.0, (subsystem,)), levels={NQN: "lost"})
    found = evaluate(facts, preset_policy("conservative", "test"))
    (redundancy,) = [one for one in found if one.rule == "redundancy"]
    assert redundancy.how[0].startswith(first)


def test_redundancy_is_not_the_kernels_to_tell_without_native_multipath() -> None:
    (found,) = judged("redundancy", WHOLE, Condition(None, 2, {}, multipath=False))
    assert found.found == "not the kernel's to tell: no native multipath"


def test_what_all_paths_share_is_named_beside_what_they_do_not() -> None:
    (found,) = judged("shared_fate", APART, Condition("redundant", 2, {"nic": 1, "switch": 2}))
    assert found == Finding(
        "shared_fate",
        NQN,
        "",
        Verdict.VIOLATED,
        "1 nic, 2 switch",
        "more than one nic, switch",
        ("connect a path over another nic",),
    )


def test_what_is_not_asked_for_may_be_shared() -> None:
    counts = {"nic": 2, "switch": 3, "subnet": 1}
    (found,) = judged("shared_fate", APART, Condition("redundant", 2, counts))
    assert (found.verdict, found.found) == (Verdict.KEPT, "2 nic, 3 switch")


def test_nothing_shared_among_what_is_known_is_no_answer_while_something_is_not() -> None:
    (found,) = judged("shared_fate", APART, Condition("redundant", 2, {"nic": 2}))
    assert (found.verdict, found.found) == (Verdict.UNKNOWN, "switch not known; 2 nic")


def test_what_is_shared_is_said_though_something_is_not_known() -> None:
    (found,) = judged("shared_fate", APART, Condition("redundant", 2, {"nic": 1}))
    assert (found.verdict, found.found) == (Verdict.VIOLATED, "1 nic")


def test_what_nobody_knows_is_not_judged() -> None:
    (found,) = judged("shared_fate", APART, Condition("redundant", 2, {"subnet": 1}))
    assert found.verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("level", ["at-risk", "lost"])
def test_a_single_path_has_nobody_to_share_with(level: str) -> None:
    assert judged("shared_fate", APART, Condition(level, 2, {"nic": 1})) == []
