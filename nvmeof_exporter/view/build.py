"""From what is known of a node to its view. Pure: no clock, no file, no state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nvmeof_exporter import __version__
from nvmeof_exporter.monitor.records import PHASES
from nvmeof_exporter.monitor.redundancy import level_of, usable_paths
from nvmeof_exporter.monitor.shared_fate import RESOURCES, distinct
from nvmeof_exporter.policy import Facts
from nvmeof_exporter.view.model import (
    FORMAT,
    FailoverView,
    HostView,
    NodeView,
    PollView,
    RedundancyView,
    SubsystemView,
)
from nvmeof_exporter.view.namespaces import namespace_view
from nvmeof_exporter.view.paths import missing_view, path_view, ways_of
from nvmeof_exporter.view.verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nvmeof_exporter.model import Subsystem
    from nvmeof_exporter.monitor.records import ToldFailover
    from nvmeof_exporter.view.history import SubsystemPast
    from nvmeof_exporter.view.model import HealthView
    from nvmeof_exporter.view.moment import Moment

__all__ = ["Watch", "Where", "node_view"]


@dataclass(frozen=True, slots=True)
class Where:
    """Which node, by name, and which tree was looked at."""

    node: str
    sysfs: str


@dataclass(frozen=True, slots=True)
class Watch:
    """The run of the exporter that watches: its name, since when (wall clock), and how it fares."""

    instance: str
    started: float
    poll_interval: float
    health: HealthView


def node_view(moment: Moment, where: Where, now: float, watch: Watch | None = None) -> NodeView:
    """View a node.

    Args:
        moment: what is known of it.
        where: which it is.
        now: the time, in seconds of the monotonic clock that the snapshot was taken by.
        watch: who watches it; None when the tree was read for the occasion.

    """
    snapshot = moment.snapshot
    age = max(now - snapshot.monotonic, 0.0)
    present: dict[str, list[Subsystem]] = {}
    for subsystem in snapshot.subsystems:
        present.setdefault(subsystem.nqn, []).append(subsystem)
    nqns = sorted(present.keys() | moment.expected.counts.keys())
    subsystems = tuple(_subsystem(moment, nqn, present.get(nqn, [])) for nqn in nqns)
    return NodeView(
        format=FORMAT,
        version=__version__,
        source="sysfs" if watch is None else "exporter",
        node=where.node,
        sysfs=where.sysfs,
        instance=watch.instance if watch is not None else None,
        started=round(watch.started, 3) if watch is not None else None,
        time=round(snapshot.wall + age, 3),
        poll=PollView(
            time=round(snapshot.wall, 3),
            age_seconds=round(age, 3),
            interval_seconds=watch.poll_interval if watch is not None else None,
        ),
        health=watch.health if watch is not None else None,
        multipath_enabled=snapshot.multipath_enabled,
        discovery_controllers=snapshot.discovery_controllers,
        hosts=tuple(HostView(hostnqn=h.hostnqn, hostid=h.hostid) for h in snapshot.hosts),
        subsystems=subsystems,
        policy=moment.judge(_facts(moment, subsystems), moment.policy),
    )


def _subsystem(moment: Moment, nqn: str, own: Sequence[Subsystem]) -> SubsystemView:
    controllers = [controller for subsystem in own for controller in subsystem.controllers]
    ways = ways_of(own)
    paths = [path_view(moment, one, ways.get(one.name, [])) for one in controllers]
    paths += [missing_view(moment, nqn, label) for label in moment.expected.missing.get(nqn, ())]
    expected = moment.expected.counts.get(nqn)
    level = level_of(own, expected, moment.expected.superseded.get(nqn, frozenset()))
    counts = distinct(own, moment.around.port, moment.around.switches)
    past = moment.history.subsystems.get(nqn) if moment.watched else None
    return SubsystemView(
        nqn=nqn,
        directories=tuple(subsystem.name for subsystem in own if subsystem.name),
        model=_common(subsystem.model for subsystem in own),
        serial=_common(subsystem.serial for subsystem in own),
        firmware=_common(subsystem.firmware for subsystem in own),
        iopolicy=_common(subsystem.iopolicy for subsystem in own),
        multipath=all(subsystem.multipath for subsystem in own),
        redundancy=RedundancyView(
            level=level,
            verdict=verdict(
                level, own, paths, expected, now=moment.snapshot.wall, watched=moment.watched
            ),
            connected=len(controllers),
            usable=sum(len(usable_paths(subsystem)) for subsystem in own),
            expected=expected,
        ),
        shared={resource: counts.get(resource) for resource in RESOURCES},
        failover_in_progress=past.failing_over if past is not None else None,
        failovers=_failovers(past),
        paths=tuple(sorted(paths, key=lambda path: path.path)),
        namespaces=tuple(
            namespace_view(moment, namespace)
            for subsystem in own
            for namespace in subsystem.namespaces
        ),
    )


def _common(texts: Iterable[str]) -> str | None:
    """Return the text of all directories of an NQN, each different one where they differ."""
    return ", ".join(dict.fromkeys(text for text in texts if text)) or None


def _failovers(past: SubsystemPast | None) -> tuple[FailoverView, ...] | None:
    """Return them newest first, None when nobody watched."""
    if past is None:
        return None
    return tuple(_failover(failover) for failover in reversed(past.failovers))


def _failover(failover: ToldFailover) -> FailoverView:
    phases = {name: getattr(failover, name) for name in PHASES}
    return FailoverView(
        time=round(failover.wall, 3),
        start=round(failover.start, 3) if failover.start is not None else None,
        path=failover.path,
        also=failover.also,
        cause=failover.cause,
        seconds=round(failover.duration, 3) if failover.duration is not None else None,
        phases={name: round(value, 3) for name, value in phases.items() if value is not None},
    )


def _facts(moment: Moment, subsystems: Iterable[SubsystemView]) -> Facts:
    """What a policy is held against."""
    return Facts(
        moment.snapshot,
        {s.nqn: max(s.redundancy.expected or 0, s.redundancy.connected) for s in subsystems},
        {s.nqn: s.redundancy.level for s in subsystems if s.redundancy.level is not None},
        {s.nqn: {k: n for k, n in s.shared.items() if n is not None} for s in subsystems},
    )
