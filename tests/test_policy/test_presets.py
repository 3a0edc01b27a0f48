from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.config import ConfigError
from nvmeof_exporter.model import HostIdentity, Snapshot, Subsystem
from nvmeof_exporter.policy import PRESETS, RULES, Facts, Verdict, evaluate, preset_policy
from nvmeof_exporter.policy.model import limits_of
from tests.test_policy.looks import (
    KERNEL_DEFAULTS,
    NQN,
    controller,
    look,
    namespace,
    verdicts,
    violated,
)

if TYPE_CHECKING:
    from pathlib import Path

    from nvmeof_exporter.model import PathSettings

_UUID = "11111111-2222-3333-4444-555555555555"
_HOST = HostIdentity(f"nqn.2014-08.org.nvmexpress:uuid:{_UUID}", _UUID)
_APART = {"netdev": 2, "nic": 2, "target_address": 2}


def facts(
    settings: PathSettings = KERNEL_DEFAULTS,
    *,
    model: str = "Example Array",
    iopolicy: str = "numa",
    transport: str = "tcp",
) -> Facts:
    """A node with nothing wrong but what its settings may be."""
    controllers = tuple(controller(n, settings, transport=transport) for n in (0, 1))
    subsystem = Subsystem(
        "nvme-subsys0",
        NQN,
        model=model,
        iopolicy=iopolicy,
        controllers=controllers,
        namespaces=(namespace(controllers),),
    )
    snapshot = Snapshot(0.0, 0.0, (subsystem,), (_HOST,), multipath_enabled=True)
    return Facts(snapshot, {NQN: 2}, {NQN: "redundant"}, {NQN: _APART})


@pytest.mark.parametrize("preset", [name for name in PRESETS if name != "gpu-training"])
def test_the_kernels_own_defaults_violate_nothing(preset: str) -> None:
    assert violated(evaluate(facts(), preset_policy(preset, "test"))) == {}


def test_before_a_training_run_the_kernels_defaults_lack_only_a_spreading_iopolicy() -> None:
    policy = preset_policy("gpu-training", "test")
    assert violated(evaluate(facts(), policy)) == {"iopolicy": "numa"}
    assert violated(evaluate(facts(iopolicy="round-robin"), policy)) == {}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_says_of_every_rule_whether_it_is_on_and_what_it_wants(preset: str) -> None:
    limits = limits_of(PRESETS[preset])
    assert set(limits) == set(RULES)
    assert all(one.enabled is not None for one in limits.values())


@pytest.mark.parametrize(
    ("preset", "model", "transport"),
    [
        ("dell-powerstore", "dellemc-powerstore", "tcp"),
        ("hpe-alletra", "HPE Alletra", "tcp"),
        ("netapp-ontap", "NetApp ONTAP Controller", "tcp"),
        ("vast", "VASTData", "tcp"),
        ("vast", "VASTData", "rdma"),
    ],
)
def test_a_vendor_that_never_gives_paths_up_wants_ctrl_loss_tmo_off(
    preset: str, model: str, transport: str
) -> None:
    policy = preset_policy(preset, "test")
    given_up = facts(model=model, iopolicy="round-robin", transport=transport)
    assert violated(evaluate(given_up, policy)) == {"ctrl_loss_tmo": "10m"}
    never = replace(KERNEL_DEFAULTS, ctrl_loss_timeout=math.inf)
    kept = facts(never, model=model, iopolicy="round-robin", transport=transport)
    assert violated(evaluate(kept, policy)) == {}


@pytest.mark.parametrize(
    ("preset", "model"),
    [
        ("hpe-alletra", "HPE Alletra"),
        ("netapp-e-series", "NetApp E-Series"),
        ("netapp-ontap", "NetApp ONTAP Controller"),
        ("vast", "VASTData"),
    ],
)
def test_a_vendor_that_sets_an_iopolicy_wants_it(preset: str, model: str) -> None:
    never = replace(KERNEL_DEFAULTS, ctrl_loss_timeout=math.inf)
    found = evaluate(facts(never, model=model), preset_policy(preset, "test"))
    assert violated(found) == {"iopolicy": "numa"}


def test_fibre_channel_to_ontap_may_give_paths_up() -> None:
    found = facts(model="NetApp ONTAP Controller", iopolicy="queue-depth", transport="fc")
    assert violated(evaluate(found, preset_policy("netapp-ontap", "test"))) == {}


def test_everything_at_once(tmp_path: Path) -> None:
    snapshot = look("against-policy", tmp_path)
    found = Facts(snapshot, {NQN: 2}, {NQN: "degraded"}, {NQN: {"netdev": 1, "nic": 1}})
    host = _HOST.hostnqn
    both = f"{host} with host IDs {_UUID} and 99999999{_UUID[8:]}"
    assert violated(evaluate(found, preset_policy("conservative", "test"))) == {
        "host_identity": both,
        "shared_fate": "1 netdev",
        "equal_settings": (
            "keep_alive 5s on tcp:10.0.0.2:4420, off on tcp:10.0.1.2:4420; "
            "reconnect_delay 10s on tcp:10.0.0.2:4420, 1m on tcp:10.0.1.2:4420; "
            "ctrl_loss_tmo 10m on tcp:10.0.0.2:4420, 1m on tcp:10.0.1.2:4420; "
            "fast_io_fail_tmo off on tcp:10.0.0.2:4420, 5s on tcp:10.0.1.2:4420; "
            "queues 9 on tcp:10.0.0.2:4420, 1 on tcp:10.0.1.2:4420"
        ),
        "keep_alive": "off",
        "ctrl_loss_tmo": "1m",
        "reconnect_delay": "1m",
        "fast_io_fail_tmo": "5s",
        "io_timeout": "4m15s",
        "queues": "1",
    }
    assert violated(evaluate(found, preset_policy("gpu-training", "test"))) == {
        **violated(evaluate(found, preset_policy("conservative", "test"))),
        "redundancy": "degraded",
        "shared_fate": "1 netdev, 1 nic",
        "iopolicy": "numa",
    }


def test_an_old_kernel_that_shows_little_is_judged_by_what_it_shows(tmp_path: Path) -> None:
    found = evaluate(Facts(look("old-kernel", tmp_path)), preset_policy("conservative", "test"))
    assert violated(found) == {}
    assert verdicts(found)["fast_io_fail_tmo"] is Verdict.UNKNOWN


def test_an_unknown_preset_is_refused_with_what_there_is() -> None:
    with pytest.raises(ConfigError) as error:
        preset_policy("gpu-trainin", "--preset")
    assert str(error.value) == (
        '--preset: found "gpu-trainin", expected one of conservative, gpu-training, '
        "dell-powerstore, hpe-alletra, netapp-e-series, netapp-ontap, vast; "
        "did you mean gpu-training?"
    )
