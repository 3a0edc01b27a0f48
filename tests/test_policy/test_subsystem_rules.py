from __future__ import annotations

from dataclasses import replace

import pytest

from nvmeof_exporter.model import Namespace, NamespacePath, Subsystem
from nvmeof_exporter.policy import Finding, Limits, Verdict
from nvmeof_exporter.policy.model import NO_LIMITS
from nvmeof_exporter.policy.rules import RULES
from nvmeof_exporter.policy.subsystem_rules import subsystem_findings
from tests.test_policy.looks import KERNEL_DEFAULTS, NQN, controller, namespace

SPREADING = Limits(enabled=True, one_of=("round-robin", "queue-depth"))


def judged(rule: str, limits: Limits, *subsystems: Subsystem, expected: int = 0) -> list[Finding]:
    wanted = {**dict.fromkeys(RULES, NO_LIMITS), rule: limits}
    return list(subsystem_findings(NQN, subsystems, wanted, expected))


def array(iopolicy: str = "numa", *ana_states: str, multipath: bool = True) -> Subsystem:
    """A subsystem with one path for each ANA state of its namespace."""
    controllers = tuple(controller(number) for number in range(len(ana_states)))
    paths = tuple(
        NamespacePath(f"nvme0c{c.name[4:]}n1", c, ana)
        for c, ana in zip(controllers, ana_states, strict=True)
    )
    return Subsystem(
        "nvme-subsys0",
        NQN,
        iopolicy=iopolicy,
        multipath=multipath,
        controllers=controllers,
        namespaces=(Namespace(NQN, "1", "nvme0n1", paths=paths),),
    )


class TestIopolicy:
    def test_numa_over_several_optimized_paths_leaves_all_but_one_idle(self) -> None:
        assert judged("iopolicy", SPREADING, array("numa", "optimized", "optimized")) == [
            Finding(
                "iopolicy",
                NQN,
                "",
                Verdict.VIOLATED,
                "numa",
                "round-robin or queue-depth",
                (
                    "now: echo round-robin | tee /sys/class/nvme-subsystem/nvme-subsys0/iopolicy",
                    "for good: a udev rule that does so",
                ),
            )
        ]

    @pytest.mark.parametrize("iopolicy", ["round-robin", "queue-depth"])
    def test_a_spreading_policy_is_as_wanted(self, iopolicy: str) -> None:
        (found,) = judged("iopolicy", SPREADING, array(iopolicy, "optimized", "optimized"))
        assert found.verdict is Verdict.KEPT

    def test_paths_without_ana_are_all_optimized(self) -> None:
        (found,) = judged("iopolicy", SPREADING, array("numa", "", ""))
        assert found.verdict is Verdict.VIOLATED

    def test_with_one_optimized_path_of_four_gateways_every_policy_is_the_same(self) -> None:
        gateways = array("numa", "optimized", "inaccessible", "inaccessible", "inaccessible")
        (found,) = judged("iopolicy", SPREADING, gateways)
        assert (found.verdict, found.found) == (Verdict.KEPT, "numa (one optimized path)")

    def test_the_verdict_stays_while_a_path_is_down(self) -> None:
        whole = array("numa", "optimized", "optimized")
        down = replace(whole.controllers[1], state="connecting", raw_state="connecting")
        first, second = whole.namespaces[0].paths
        paths = (first, replace(second, controller=down))
        failing = replace(
            whole,
            controllers=(whole.controllers[0], down),
            namespaces=(replace(whole.namespaces[0], paths=paths),),
        )
        (found,) = judged("iopolicy", SPREADING, failing)
        assert found.verdict is Verdict.VIOLATED

    def test_a_policy_that_nobody_knows_is_not_judged(self) -> None:
        (found,) = judged("iopolicy", SPREADING, array("latency", "optimized", "optimized"))
        assert (found.verdict, found.found) == (
            Verdict.UNKNOWN,
            "latency, which this version does not know",
        )

    def test_it_is_when_it_is_asked_for(self) -> None:
        wanted = Limits(enabled=True, one_of=("latency",))
        (found,) = judged("iopolicy", wanted, array("latency", "optimized", "optimized"))
        assert found.verdict is Verdict.KEPT

    def test_a_policy_that_could_not_be_read_is_not_judged(self) -> None:
        (found,) = judged("iopolicy", SPREADING, array("", "optimized", "optimized"))
        assert (found.verdict, found.found) == (Verdict.UNKNOWN, "the kernel shows none")

    def test_without_native_multipath_there_is_none(self) -> None:
        assert judged("iopolicy", SPREADING, array("numa", "", "", multipath=False)) == []


class TestEqualSettings:
    ON = Limits(enabled=True)

    @staticmethod
    def connected(*settings: float, state: str = "live", transport: str = "tcp") -> Subsystem:
        first, *others = settings
        own = [controller(0, replace(KERNEL_DEFAULTS, keep_alive_timeout=first))]
        for number, seconds in enumerate(others, 1):
            different = replace(KERNEL_DEFAULTS, keep_alive_timeout=seconds, queues=number)
            same = replace(KERNEL_DEFAULTS, keep_alive_timeout=seconds)
            used = same if state == "live" else different
            own.append(controller(number, used, state=state, transport=transport))
        return Subsystem("nvme-subsys0", NQN, controllers=tuple(own))

    def test_the_odd_ones_are_named_and_many_are_counted(self) -> None:
        (found,) = judged("equal_settings", self.ON, self.connected(30, 5, 5, 5, 5))
        assert found.found == (
            "keep_alive 30s on tcp:10.0.0.2:4420, 5s on tcp:10.0.1.2:4420 and "
            "tcp:10.0.2.2:4420 and tcp:10.0.3.2:4420 and 1 more"
        )

    def test_the_same_everywhere_is_as_wanted(self) -> None:
        (found,) = judged("equal_settings", self.ON, self.connected(5, 5))
        assert (found.verdict, found.found) == (Verdict.KEPT, "no difference")

    def test_queues_are_not_compared_with_those_of_a_path_that_is_down(self) -> None:
        (found,) = judged("equal_settings", self.ON, self.connected(5, 5, state="connecting"))
        assert found.verdict is Verdict.KEPT

    def test_another_transport_may_have_other_settings(self) -> None:
        (found,) = judged("equal_settings", self.ON, self.connected(5, 30, transport="rdma"))
        assert found.verdict is Verdict.KEPT

    def test_one_path_has_nothing_to_differ_from(self) -> None:
        assert judged("equal_settings", self.ON, self.connected(5)) == []


class TestPaths:
    TWO = Limits(enabled=True, least=2)

    def one_path(self) -> Subsystem:
        own = (controller(0),)
        return Subsystem("nvme-subsys0", NQN, controllers=own, namespaces=(namespace(own),))

    def test_one_path_is_an_outage_waiting(self) -> None:
        (found,) = judged("paths", self.TWO, self.one_path())
        assert (found.verdict, found.found, found.wanted) == (Verdict.VIOLATED, "1", "at least 2")

    def test_a_path_that_is_lost_for_now_is_still_one_that_was_set_up(self) -> None:
        (found,) = judged("paths", self.TWO, self.one_path(), expected=2)
        assert (found.verdict, found.found) == (Verdict.KEPT, "2")
