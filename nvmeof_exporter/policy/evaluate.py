"""Holds a look at the machine against a policy. Pure: no clock, no file, no state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nvmeof_exporter.model import Subsystem
from nvmeof_exporter.monitor.redundancy import is_coming_back
from nvmeof_exporter.policy.condition_rules import Condition, condition_findings
from nvmeof_exporter.policy.findings import Finding, Verdict
from nvmeof_exporter.policy.path_rules import FABRICS, judge_path, path_findings
from nvmeof_exporter.policy.subsystem_rules import host_findings, subsystem_findings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nvmeof_exporter.model import Controller, Snapshot
    from nvmeof_exporter.policy.model import Limits, Policy

__all__ = ["Facts", "evaluate", "lasting_facts", "lasting_verdicts"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a policy is held against. Everything but the snapshot goes by NQN.

    ``expected`` are the paths there should be, ``levels`` the redundancy (one of
    ``monitor.redundancy.LEVELS``, also of a subsystem that is gone), ``distinct`` what
    ``monitor.shared_fate.distinct`` counted. What is left out is not known.
    """

    snapshot: Snapshot
    expected: Mapping[str, int] = field(default_factory=dict)
    levels: Mapping[str, str] = field(default_factory=dict)
    distinct: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def evaluate(facts: Facts, policy: Policy) -> list[Finding]:
    """Every verdict of every rule that is on: the host's first, then by NQN."""
    findings = list(host_findings(facts.snapshot, policy.limits()))
    for nqn, subsystems in _by_nqn(facts).items():
        limits = policy.limits(_whole(nqn, subsystems))
        expected = facts.expected.get(nqn, 0)
        controllers = [c for subsystem in subsystems for c in subsystem.controllers]
        condition = Condition(
            facts.levels.get(nqn),
            expected,
            facts.distinct.get(nqn, {}),
            multipath=all(subsystem.multipath for subsystem in subsystems),
            gone=not subsystems,
            connected=bool(controllers) and all(c.state == "live" for c in controllers),
            given_up=all(is_coming_back(c) is False for c in controllers),
        )
        findings.extend(condition_findings(nqn, condition, limits))
        findings.extend(subsystem_findings(nqn, subsystems, limits, expected))
        for controller, wanted in _paths(subsystems, policy):
            findings.extend(path_findings(controller, wanted))
    return findings


def lasting_facts(facts: Facts) -> tuple[object, ...]:
    """All that ``lasting_verdicts`` looks at: while it stays equal, so do the verdicts."""
    snapshot = facts.snapshot
    return (
        snapshot.hosts,
        snapshot.multipath_enabled,
        facts.expected,
        [
            (
                (s.nqn, s.name, s.model, s.iopolicy, s.multipath, s.controllers),
                [
                    [p.ana_state if p.ana_state is not None else p.last_ana_state for p in n.paths]
                    for n in s.namespaces
                ],
            )
            for s in snapshot.subsystems
        ],
    )


def lasting_verdicts(facts: Facts, policy: Policy) -> list[tuple[str, str, str, bool]]:
    """``(nqn, path, rule, violated)`` of each lasting rule that could be judged.

    Lasting rules judge how the node is set up; its present condition has metrics of its
    own, so ``levels`` and ``distinct`` are not needed.
    """
    findings = list(host_findings(facts.snapshot, policy.limits()))
    of_paths: list[tuple[str, str, str, Verdict]] = []
    for nqn, subsystems in _by_nqn(facts).items():
        limits = policy.limits(_whole(nqn, subsystems))
        findings.extend(subsystem_findings(nqn, subsystems, limits, facts.expected.get(nqn, 0)))
        of_paths.extend(
            (nqn, str(controller.path), judged.rule, judged.verdict)
            for controller, wanted in _paths(subsystems, policy)
            for judged in judge_path(controller, wanted)
        )
    others = [(finding.nqn, finding.path, finding.rule, finding.verdict) for finding in findings]
    return [
        (nqn, path, rule, verdict is Verdict.VIOLATED)
        for nqn, path, rule, verdict in others + of_paths
        if verdict is not Verdict.UNKNOWN
    ]


def _by_nqn(facts: Facts) -> dict[str, list[Subsystem]]:
    """The directories of each NQN; none of one that is gone but told of. No local drives."""
    found: dict[str, list[Subsystem]] = {nqn: [] for nqn in (*facts.expected, *facts.levels)}
    for subsystem in facts.snapshot.subsystems:
        found.setdefault(subsystem.nqn, []).append(subsystem)
    return {
        nqn: own for nqn, own in sorted(found.items()) if not own or not all(map(_is_local, own))
    }


def _is_local(subsystem: Subsystem) -> bool:
    """Whether it is a drive in this machine: neither connected nor meant to have a second path."""
    transports = {controller.path.transport for controller in subsystem.controllers}
    return bool(transports) and not transports & FABRICS


def _whole(nqn: str, subsystems: list[Subsystem]) -> Subsystem:
    """The subsystem that stands for all directories of an NQN: they share what layers ask for."""
    return subsystems[0] if subsystems else Subsystem(name="", nqn=nqn)


def _paths(
    subsystems: list[Subsystem], policy: Policy
) -> Iterator[tuple[Controller, Mapping[str, Limits]]]:
    """Every controller, with what is wanted of it."""
    for subsystem in subsystems:
        by_transport: dict[str, Mapping[str, Limits]] = {}
        for controller in subsystem.controllers:
            transport = controller.path.transport
            if transport not in by_transport:
                by_transport[transport] = policy.limits(subsystem, transport)
            yield controller, by_transport[transport]
