from __future__ import annotations

import math

import pytest

from nvmeof_exporter.config import ConfigError
from nvmeof_exporter.model import Subsystem
from nvmeof_exporter.policy import PRESETS, Layer, Limits, Policy
from tests.test_policy.looks import NQN, policy

ARRAY = Subsystem("nvme-subsys0", NQN)


def test_every_part_of_the_section_counts() -> None:
    assert policy(
        """
        policy:
          preset: gpu-training
          rules:
            keep_alive: {least: 1500ms, most: 5s}
            ctrl_loss_tmo: {least: off}
            queues: {least: 9}
            iopolicy: {one_of: [queue-depth]}
            shared_fate: {all_of: [nic, switch]}
            host_id_matches: off
          subsystems:
            - nqn: nqn.2026-01.org.example:scratch*
              rules:
                keep_alive: {most: 30s}
        """
    ) == Policy(
        "gpu-training",
        PRESETS["gpu-training"],
        (
            Layer(
                {
                    "keep_alive": Limits(enabled=True, least=1.5, most=5.0),
                    "ctrl_loss_tmo": Limits(enabled=True, least=math.inf),
                    "queues": Limits(enabled=True, least=9.0),
                    "iopolicy": Limits(enabled=True, one_of=("queue-depth",)),
                    "shared_fate": Limits(enabled=True, one_of=("nic", "switch")),
                    "host_id_matches": Limits(enabled=False),
                }
            ),
            Layer(
                {"keep_alive": Limits(enabled=True, most=30.0)},
                nqn="nqn.2026-01.org.example:scratch*",
            ),
        ),
    )


@pytest.mark.parametrize("text", ["policy:", "policy: {}", "policy: {rules: , subsystems: }"])
def test_nothing_said_is_the_default(text: str) -> None:
    found = policy(text)
    assert found.preset == "conservative"
    assert found.limits(ARRAY, "tcp") == Policy("", PRESETS["conservative"]).limits(ARRAY, "tcp")


def test_one_threshold_changes_and_the_presets_others_stay() -> None:
    limits = policy("policy: {rules: {keep_alive: {least: 2s}}}").limits(ARRAY, "tcp")
    assert limits["keep_alive"] == Limits(enabled=True, least=2.0, most=30.0)
    assert limits["io_timeout"] == Limits(enabled=True, most=120.0)


def test_a_rule_is_switched_on_with_the_presets_limits() -> None:
    limits = policy("policy: {rules: {paths: on}}").limits(ARRAY)
    assert limits["paths"] == Limits(enabled=True, least=2.0)


def test_a_subsystem_is_held_to_its_own_preset_and_rules() -> None:
    found = policy(
        f"""
        policy:
          rules: {{keep_alive: off}}
          subsystems:
            - nqn: {NQN}
              preset: gpu-training
              rules: {{reconnect_delay: {{most: 5s}}}}
        """
    )
    mine, other = found.limits(ARRAY, "tcp"), found.limits(Subsystem("", "nqn.other"), "tcp")
    assert mine["keep_alive"] == Limits(enabled=True, most=5.0)
    assert mine["reconnect_delay"] == Limits(enabled=True, most=5.0)
    assert other["keep_alive"] == Limits(enabled=False, most=30.0)
    assert other["reconnect_delay"] == Limits(enabled=True, most=30.0)
    assert found.limits()["host_id_matches"].enabled is False


def test_a_vendors_preset_for_one_subsystem_still_looks_at_the_model() -> None:
    found = policy(f"policy: {{subsystems: [{{nqn: '{NQN}', preset: vast}}]}}")
    vast = Subsystem("nvme-subsys0", NQN, model="VASTData")
    assert found.limits(vast, "tcp")["ctrl_loss_tmo"].least == math.inf
    assert found.limits(ARRAY, "tcp")["ctrl_loss_tmo"].least == 120.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("policy: strict", 'policy: found "strict", expected a mapping of policy settings'),
        (
            "policy: {presets: vast}",
            'unknown key "policy.presets", expected one of preset, rules, subsystems; '
            "did you mean preset?",
        ),
        (
            "policy: {preset: vest}",
            'policy.preset: found "vest", expected one of conservative, gpu-training, '
            "dell-powerstore, hpe-alletra, netapp-e-series, netapp-ontap, vast; "
            "did you mean vast?",
        ),
        ("policy: {preset: }", "policy.preset: found nothing, expected the name of a preset"),
        (
            "policy: {rules: {keepalive: off}}",
            'unknown key "policy.rules.keepalive", expected one of native_multipath, '
            "host_identity, host_id_matches, redundancy, shared_fate, paths, iopolicy, "
            "equal_settings, keep_alive, reconnect_delay, ctrl_loss_tmo, fast_io_fail_tmo, "
            "io_timeout, queues; "
            "did you mean keep_alive?",
        ),
        (
            "policy: {rules: {keep_alive: 5s}}",
            'policy.rules.keep_alive: found "5s", expected on, off or a mapping with least and '
            "most",
        ),
        (
            "policy: {rules: {keep_alive: {most: 5}}}",
            'policy.rules.keep_alive.most: found "5", expected a duration with a unit, such as '
            "5ms or 5s, or off",
        ),
        (
            "policy: {rules: {keep_alive: {}}}",
            "policy.rules.keep_alive: found a mapping, expected on, off or a mapping with least "
            "and most",
        ),
        (
            "policy: {rules: {keep_alive: [5s]}}",
            "policy.rules.keep_alive: found a list, expected on, off or a mapping with least "
            "and most",
        ),
        (
            "policy: {rules: {keep_alive: {least: 1m}}}",
            "policy.rules.keep_alive: nothing can be at least 60 and at most 30, the limits of "
            "the preset included",
        ),
        (
            "policy: {rules: {queues: {least: many}}}",
            'policy.rules.queues.least: found "many", expected a whole number from 0 to 65535',
        ),
        (
            "policy: {rules: {redundancy: {one_of: [redundand]}}}",
            'policy.rules.redundancy.one_of[0]: found "redundand", expected one of redundant, '
            "degraded, at-risk, lost; did you mean redundant?",
        ),
        (
            "policy: {rules: {redundancy: {one_of: []}}}",
            "policy.rules.redundancy.one_of: found an empty list, expected at least one word",
        ),
        (
            "policy: {rules: {redundancy: {one_of: lost}}}",
            'policy.rules.redundancy.one_of: found "lost", expected a list of words, such as '
            "[degraded, at-risk]",
        ),
        (
            "policy: {rules: {shared_fate: {all_of: [nic, nic]}}}",
            'policy.rules.shared_fate.all_of[1]: "nic" is given twice',
        ),
        (
            "policy: {rules: {equal_settings: {most: 1}}}",
            "policy.rules.equal_settings: found a mapping, expected on or off",
        ),
        (
            "policy: {subsystems: {nqn: x}}",
            "policy.subsystems: found a mapping, expected a list of subsystems",
        ),
        ("policy: {subsystems: [{preset: vast}]}", "policy.subsystems[0]: nqn is missing"),
        (
            "policy: {subsystems: [{nqn: x}]}",
            "policy.subsystems[0]: expected preset or rules beside nqn",
        ),
        (
            "policy: {subsystems: [{nqn: '', preset: vast}]}",
            'policy.subsystems[0].nqn: found "", expected a subsystem NQN or a pattern of it',
        ),
        (
            "policy: {subsystems: [{nqn: x, rules: {native_multipath: off}}]}",
            'unknown key "policy.subsystems[0].rules.native_multipath", expected one of '
            "redundancy, shared_fate, paths, iopolicy, equal_settings, keep_alive, "
            "reconnect_delay, ctrl_loss_tmo, fast_io_fail_tmo, io_timeout, queues",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        policy(text)
    assert str(error.value) == f"policy.yaml:1: {message}"


def test_the_line_is_that_of_the_fault() -> None:
    with pytest.raises(ConfigError, match=r"^policy\.yaml:4: policy\.rules\.queues\.most: "):
        policy("policy:\n  rules:\n    queues:\n      most: x\n")
