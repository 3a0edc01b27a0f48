"""How a node keeps its policy, as it is viewed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmeof_exporter.policy import evaluate, lasting_facts
from nvmeof_exporter.policy.findings import Verdict
from nvmeof_exporter.policy.report import STATUSES, Report, told
from nvmeof_exporter.view.model import PolicyView

if TYPE_CHECKING:
    from nvmeof_exporter.policy import Facts, Policy

__all__ = ["Judge", "judge"]


def judge(facts: Facts, policy: Policy) -> PolicyView:
    """Hold a node against its policy, as ``check`` does."""
    report = Report(policy.preset, evaluate(facts, policy))
    return PolicyView(
        name=report.policy,
        status=STATUSES[report.status],
        counts=report.counts(),
        violations=tuple(told(f) for f in report.findings if f.verdict is Verdict.VIOLATED),
    )


class Judge:
    """Judges anew only when something has changed: it takes a third of the time of a view."""

    def __init__(self) -> None:
        self._known: tuple[object, ...] | None = None
        self._judged: PolicyView | None = None

    def __call__(self, facts: Facts, policy: Policy) -> PolicyView:
        """Return what ``judge`` does."""
        known = (*lasting_facts(facts), facts.levels, facts.distinct, policy)
        if self._judged is None or known != self._known:
            self._known = known
            self._judged = judge(facts, policy)
        return self._judged
