from __future__ import annotations

import pytest

from nvmeof_exporter.model import HostIdentity, Snapshot, Subsystem
from nvmeof_exporter.policy import Finding, Limits, Verdict
from nvmeof_exporter.policy.model import NO_LIMITS
from nvmeof_exporter.policy.rules import RULES
from nvmeof_exporter.policy.subsystem_rules import host_findings
from tests.test_policy.looks import NQN, controller, verdicts

PREFIX = "nqn.2014-08.org.nvmexpress:uuid:"
ONE = "11111111-aaaa-4aaa-8aaa-111111111111"
TWO = "22222222-bbbb-4bbb-8bbb-222222222222"


def judged(
    rule: str,
    *hosts: tuple[str, str],
    multipath: bool | None = True,
    transport: str = "tcp",
) -> list[Finding]:
    wanted = {**dict.fromkeys(RULES, NO_LIMITS), rule: Limits(enabled=True)}
    subsystem = Subsystem("nvme-subsys0", NQN, controllers=(controller(transport=transport),))
    identities = tuple(sorted(HostIdentity(*host) for host in hosts))
    return list(host_findings(Snapshot(0, 0, (subsystem,), identities, multipath), wanted))


class TestHostIdentity:
    def test_two_host_ids_of_one_host_nqn_look_like_two_hosts(self) -> None:
        (found,) = judged("host_identity", ("nqn.a", ONE), ("nqn.a", TWO))
        assert (found.verdict, found.found) == (
            Verdict.VIOLATED,
            f"nqn.a with host IDs {ONE} and {TWO}",
        )

    def test_one_host_id_of_two_host_nqns_is_shared(self) -> None:
        (found,) = judged("host_identity", ("nqn.a", ONE), ("nqn.b", ONE.upper()))
        assert (found.verdict, found.found) == (
            Verdict.VIOLATED,
            f"host ID {ONE} with nqn.a and nqn.b",
        )

    def test_two_hosts_on_one_node_may_be_meant(self) -> None:
        (found,) = judged("host_identity", ("nqn.a", ONE), ("nqn.b", TWO))
        assert (found.verdict, found.found) == (Verdict.KEPT, "2 pairs")

    def test_a_kernel_that_shows_no_host_id_leaves_it_open(self) -> None:
        (found,) = judged("host_identity", ("nqn.a", ""))
        assert found.verdict is Verdict.UNKNOWN

    def test_without_any_connection_there_is_nothing_to_say(self) -> None:
        assert judged("host_identity") == []


class TestHostIdMatches:
    def test_the_uuid_of_the_host_nqn_should_be_the_host_id(self) -> None:
        (found,) = judged("host_id_matches", (PREFIX + ONE, TWO))
        assert (found.verdict, found.found) == (
            Verdict.VIOLATED,
            f"host ID {TWO} with UUID {ONE}",
        )

    def test_letter_case_is_no_difference(self) -> None:
        (found,) = judged("host_id_matches", (PREFIX + ONE.upper(), ONE))
        assert found.verdict is Verdict.KEPT

    def test_a_host_nqn_without_uuid_has_nothing_to_match(self) -> None:
        assert judged("host_id_matches", ("nqn.2026-01.org.example:node7", ONE)) == []


class TestNativeMultipath:
    @pytest.mark.parametrize(
        ("multipath", "verdict"),
        [(True, Verdict.KEPT), (False, Verdict.VIOLATED), (None, Verdict.UNKNOWN)],
    )
    def test_it_should_be_on(self, multipath: bool | None, verdict: Verdict) -> None:
        found = judged("native_multipath", multipath=multipath)
        assert verdicts(found) == {"native_multipath": verdict}

    def test_a_node_with_local_drives_only_may_have_it_off(self) -> None:
        assert judged("native_multipath", multipath=False, transport="pcie") == []
