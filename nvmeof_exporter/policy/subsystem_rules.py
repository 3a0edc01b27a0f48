"""Rules about one subsystem, and about the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmeof_exporter.policy.findings import Finding, Verdict, wanted_text, within
from nvmeof_exporter.policy.path_rules import FABRICS, path_values, value_text
from nvmeof_exporter.policy.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nvmeof_exporter.model import Controller, HostIdentity, Namespace, Snapshot, Subsystem
    from nvmeof_exporter.policy.model import Limits

__all__ = ["host_findings", "subsystem_findings"]

_MOST_NAMED = 3

_UUID_HOSTNQN = "nqn.2014-08.org.nvmexpress:uuid:"


def subsystem_findings(
    nqn: str,
    subsystems: Sequence[Subsystem],
    limits: Mapping[str, Limits],
    expected: int,
) -> Iterator[Finding]:
    """What the lasting rules that are on say of a subsystem.

    Args:
        nqn: its NQN.
        subsystems: every directory of it; none when it is expected and not there.
        limits: by rule.
        expected: how many paths it should have, 0 where that is not known.

    """
    controllers = [c for subsystem in subsystems for c in subsystem.controllers]
    if limits["paths"].enabled:
        yield _paths(nqn, max(len(controllers), expected), limits["paths"])
    if limits["iopolicy"].enabled:
        yield from _iopolicy(nqn, subsystems, limits["iopolicy"])
    if limits["equal_settings"].enabled and len(controllers) > 1:
        yield _equal_settings(nqn, controllers)


def _paths(nqn: str, count: int, limits: Limits) -> Finding:
    wanted = wanted_text("paths", limits)
    if within(count, limits):
        return Finding("paths", nqn, "", Verdict.KEPT, str(count), wanted)
    how = ("nvme connect over another interface to another address of the target",)
    return Finding("paths", nqn, "", Verdict.VIOLATED, str(count), wanted, how)


def _iopolicy(nqn: str, subsystems: Sequence[Subsystem], limits: Limits) -> Iterator[Finding]:
    """Judge how I/O is spread, where there is more than one path to spread it over."""
    own = [subsystem for subsystem in subsystems if subsystem.multipath and subsystem.name]
    if not own:
        return
    allowed = limits.one_of or ()
    wanted = " or ".join(allowed)
    found = ", ".join(sorted({subsystem.iopolicy for subsystem in own} - {""}))
    odd = [s for s in own if s.iopolicy and s.iopolicy not in allowed]
    known = [s for s in odd if s.iopolicy in RULES["iopolicy"].words]
    if not any(_spreads(namespace) for s in own for namespace in s.namespaces):
        # One optimized path at a time, by the target's own choice: every policy is the same.
        yield Finding("iopolicy", nqn, "", Verdict.KEPT, f"{found} (one optimized path)", wanted)
    elif known:
        names = " ".join(f"/sys/class/nvme-subsystem/{s.name}/iopolicy" for s in known)
        word = allowed[0] if allowed else ""
        how = (f"now: echo {word} | tee {names}", "for good: a udev rule that does so")
        yield Finding("iopolicy", nqn, "", Verdict.VIOLATED, found, wanted, how)
    elif odd or not all(s.iopolicy for s in own):
        # A policy that nobody knew of when this was written may be as good as any.
        reason = f"{found}, which this version does not know" if found else "the kernel shows none"
        yield Finding("iopolicy", nqn, "", Verdict.UNKNOWN, reason, wanted)
    else:
        yield Finding("iopolicy", nqn, "", Verdict.KEPT, found, wanted)


def _spreads(namespace: Namespace) -> bool:
    """Whether several paths are optimized. Also those that are down: the verdict must last."""
    best = [
        path
        for path in namespace.paths
        if (path.ana_state if path.ana_state is not None else path.last_ana_state)
        in {"", "optimized"}
    ]
    return len(best) > 1


def _equal_settings(nqn: str, controllers: list[Controller]) -> Finding:
    odd: list[str] = []
    for transport in sorted({controller.path.transport for controller in controllers}):
        alike = [c for c in controllers if c.path.transport == transport]
        odd.extend(_differences(alike))
    wanted = "the same on every path of a transport"
    if not odd:
        return Finding("equal_settings", nqn, "", Verdict.KEPT, "no difference", wanted)
    how = ("connect the odd ones anew with the others' settings, one after the other",)
    return Finding("equal_settings", nqn, "", Verdict.VIOLATED, "; ".join(odd), wanted, how)


def _differences(controllers: list[Controller]) -> Iterator[str]:
    if controllers[0].path.transport not in FABRICS:
        return
    holders: dict[str, dict[float, list[str]]] = {}
    for controller in controllers:
        for rule, value in path_values(controller).items():
            if value is not None:
                by_value = holders.setdefault(rule, {})
                by_value.setdefault(value, []).append(str(controller.path))
    for rule, by_value in holders.items():
        if len(by_value) > 1:
            parts = [f"{value_text(rule, v)} on {_listed(some)}" for v, some in by_value.items()]
            yield f"{rule} {', '.join(parts)}"


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return " and ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def host_findings(snapshot: Snapshot, limits: Mapping[str, Limits]) -> Iterator[Finding]:
    """What the rules that are on say of the host."""
    fabric = any(
        controller.path.transport in FABRICS
        for subsystem in snapshot.subsystems
        for controller in subsystem.controllers
    )
    if limits["native_multipath"].enabled and fabric:
        yield _native_multipath(snapshot.multipath_enabled)
    if limits["host_identity"].enabled and snapshot.hosts:
        yield _host_identity(snapshot.hosts)
    if limits["host_id_matches"].enabled:
        yield from _host_id_matches(snapshot.hosts)


def _native_multipath(enabled: bool | None) -> Finding:  # noqa: FBT001 - a fact, not a switch
    rule, wanted = "native_multipath", "Y"
    if enabled is None:
        return Finding(rule, "", "", Verdict.UNKNOWN, "the kernel shows no such parameter", wanted)
    if enabled:
        return Finding(rule, "", "", Verdict.KEPT, "Y", wanted)
    how = ("nvme_core.multipath=Y on the kernel's command line, and a reboot",)
    return Finding(rule, "", "", Verdict.VIOLATED, "N", wanted, how)


def _host_identity(hosts: Sequence[HostIdentity]) -> Finding:
    """Hold host NQNs and host IDs against each other as nvmf_host_add of newer kernels does."""
    known = [host for host in hosts if host.hostnqn and host.hostid]
    rule, wanted = "host_identity", "one host ID to each host NQN, of its own"
    if not known:
        return Finding(rule, "", "", Verdict.UNKNOWN, "the kernel shows no host ID", wanted)
    ids: dict[str, set[str]] = {}
    nqns: dict[str, set[str]] = {}
    for host in known:
        ids.setdefault(host.hostnqn, set()).add(host.hostid.lower())
        nqns.setdefault(host.hostid.lower(), set()).add(host.hostnqn)
    odd = [
        f"{nqn} with host IDs {_listed(sorted(some))}"
        for nqn, some in sorted(ids.items())
        if len(some) > 1
    ] + [
        f"host ID {hostid} with {_listed(sorted(some))}"
        for hostid, some in sorted(nqns.items())
        if len(some) > 1
    ]
    if not odd:
        found = f"{len(known)} pair" + ("s" if len(known) > 1 else "")
        return Finding(rule, "", "", Verdict.KEPT, found, wanted)
    how = (
        "put one pair into /etc/nvme/hostnqn and /etc/nvme/hostid, and allow it at the target",
        "connect anew, one path after the other",
    )
    return Finding(rule, "", "", Verdict.VIOLATED, "; ".join(odd), wanted, how)


def _host_id_matches(hosts: Sequence[HostIdentity]) -> Iterator[Finding]:
    named = [
        (host.hostnqn.removeprefix(_UUID_HOSTNQN).lower(), host.hostid.lower())
        for host in hosts
        if host.hostnqn.startswith(_UUID_HOSTNQN) and host.hostid
    ]
    if not named:
        return
    rule, wanted = "host_id_matches", "the UUID of the host NQN as host ID"
    odd = [f"host ID {hostid} with UUID {uuid}" for uuid, hostid in named if uuid != hostid]
    if not odd:
        yield Finding(rule, "", "", Verdict.KEPT, "the same", wanted)
        return
    how = (
        "see whether another node has the same host NQN or host ID: if none has, this is harmless",
        "else make both anew on one of the two (nvme gen-hostnqn), and connect its paths anew",
    )
    yield Finding(rule, "", "", Verdict.VIOLATED, "; ".join(odd), wanted, how)
