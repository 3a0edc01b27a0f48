"""How far the node keeps its policy, told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmeof_exporter.policy import Facts, lasting_facts, lasting_verdicts

if TYPE_CHECKING:
    from nvmeof_exporter.exposition.sheet import Sheet
    from nvmeof_exporter.exposition.state import Expected
    from nvmeof_exporter.model import Snapshot
    from nvmeof_exporter.policy import Policy

__all__ = ["add_policy"]


def add_policy(sheet: Sheet, snapshot: Snapshot, expected: Expected, policy: Policy) -> None:
    """Add each rule about a setting that could be judged.

    Judging takes longer than all the rest of a scrape, and settings hardly ever change.
    """
    counts = {s.nqn: count for s in snapshot.subsystems if (count := expected.counts.get(s.nqn))}
    facts = Facts(snapshot, counts)
    sheet.part(("policy",), (*lasting_facts(facts), policy), _verdicts, facts, policy)


def _verdicts(sheet: Sheet, facts: Facts, policy: Policy) -> None:
    for nqn, path, rule, violated in lasting_verdicts(facts, policy):
        sheet.add("nvmeof_policy_violation", (nqn, path, rule), violated)
