"""Rules about the present condition of a subsystem: its redundancy and what its paths share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nvmeof_exporter.policy.findings import Finding, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nvmeof_exporter.policy.model import Limits

__all__ = ["Condition", "condition_findings"]

_REPAIR = {
    "degraded": "bring back the path that is down or missing: nvme list-subsys shows which",
    "at-risk": "bring back the lost paths, or connect a second one, before anything else fails",
    "lost": "bring back a path: the links first, then the target's address and port",
}

#: For ``lost`` while connections are up.
_REPAIR_AT_THE_TARGET = (
    "connections are up, but no path may be used: see at the target why its namespaces are "
    "inaccessible here (ANA): a takeover under way, or access of this host's NQN"
)

#: For ``lost`` when the kernel has given up every connection: none comes back by itself.
_CONNECT_ANEW = (
    "connect anew, for nothing reconnects any more: the links first, then the target's address "
    "and port, then nvme connect"
)

#: With these there is nothing left to share.
_ALONE = frozenset({"at-risk", "lost"})


@dataclass(frozen=True, slots=True)
class Condition:
    """How a subsystem is now.

    ``level`` is its redundancy, None where that cannot be told; ``expected`` how many paths
    it should have, 0 where that is not known; ``distinct`` how many of each resource its
    paths run over, only what is known; ``multipath`` whether the kernel moves its I/O from
    path to path; ``gone``: the kernel shows nothing of it; ``connected``: all
    of its controllers are live; ``given_up``: none of them is, or is being brought back.
    """

    level: str | None
    expected: int
    distinct: Mapping[str, int]
    multipath: bool = True
    gone: bool = False
    connected: bool = False
    given_up: bool = False

    @property
    def unknown_because(self) -> str:
        """Why something cannot be told of it."""
        return "not known" if self.multipath else "not the kernel's to tell: no native multipath"


def condition_findings(
    nqn: str, condition: Condition, limits: Mapping[str, Limits]
) -> Iterator[Finding]:
    """What the rules that are on say of the present condition of a subsystem."""
    if limits["redundancy"].enabled:
        yield _redundancy(nqn, condition, limits["redundancy"])
    if limits["shared_fate"].enabled and condition.level not in _ALONE:
        yield _shared_fate(nqn, condition, limits["shared_fate"])


def _redundancy(nqn: str, condition: Condition, limits: Limits) -> Finding:
    rule, level = "redundancy", condition.level
    allowed = limits.one_of or ()
    wanted = " or ".join(allowed)
    if level is None:
        return Finding(rule, nqn, "", Verdict.UNKNOWN, condition.unknown_because, wanted)
    if level in allowed:
        return Finding(rule, nqn, "", Verdict.KEPT, level, wanted)
    # One path where there never were more is a choice, where there were it is a failure.
    critical = level == "lost" or (level == "at-risk" and condition.expected > 1)
    found = f"{level}, no path is connected" if condition.gone else level
    how = [_REPAIR[level]] if level in _REPAIR else []
    if level == "lost" and condition.connected:
        how = [_REPAIR_AT_THE_TARGET]
    if level == "lost" and (condition.given_up or condition.gone):
        how = [_CONNECT_ANEW]
    if condition.gone:
        how.append(
            "if it was retired on purpose: take it out of expected: in the configuration file "
            f"where it is there, and nvmeof-exporter forget {nqn}"
        )
    return Finding(rule, nqn, "", Verdict.VIOLATED, found, wanted, tuple(how), critical)


def _shared_fate(nqn: str, condition: Condition, limits: Limits) -> Finding:
    resources = limits.one_of or ()
    rule, wanted = "shared_fate", "more than one " + ", ".join(resources)
    known = {name: condition.distinct[name] for name in resources if name in condition.distinct}
    if not known:
        return Finding(rule, nqn, "", Verdict.UNKNOWN, condition.unknown_because, wanted)
    found = ", ".join(f"{count} {resource}" for resource, count in known.items())
    shared = [resource for resource, count in known.items() if count <= 1]
    unknown = [name for name in resources if name not in known]
    if not shared and unknown:
        found = f"{', '.join(unknown)} not known; {found}"
        return Finding(rule, nqn, "", Verdict.UNKNOWN, found, wanted)
    if not shared:
        return Finding(rule, nqn, "", Verdict.KEPT, found, wanted)
    how = (f"connect a path over another {' and another '.join(shared)}",)
    return Finding(rule, nqn, "", Verdict.VIOLATED, found, wanted, how)
