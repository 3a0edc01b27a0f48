"""Paths as they are viewed: what the kernel shows of each, what it runs over, how it fared."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from nvmeof_exporter.monitor.redundancy import conditions
from nvmeof_exporter.view.model import PathHistoryView, PathView, SettingsView

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nvmeof_exporter.model import (
        Controller,
        Namespace,
        NamespacePath,
        PathSettings,
        Subsystem,
    )
    from nvmeof_exporter.view.moment import Moment

__all__ = ["Way", "missing_view", "path_view", "ways_of"]


class Way(NamedTuple):
    """A path to one namespace, and what it is to it (``""``: not known)."""

    namespace: Namespace
    path: NamespacePath
    condition: str


def ways_of(subsystems: Iterable[Subsystem]) -> dict[str, list[Way]]:
    """Every way, by the name of its controller."""
    found: dict[str, list[Way]] = {}
    for namespace in (n for subsystem in subsystems for n in subsystem.namespaces):
        for path, condition in zip(namespace.paths, conditions(namespace), strict=True):
            way = Way(namespace, path, condition)
            found.setdefault(path.controller.name, []).append(way)
    return found


def path_view(moment: Moment, controller: Controller, ways: Sequence[Way]) -> PathView:
    """View a path that the kernel shows; ``ways`` are those over its controller."""
    path = controller.path
    carries = [moment.carries_io(way.namespace, way.path) for way in ways]
    stalled = [moment.path_stalled(way.namespace, controller) for way in ways]
    port = moment.around.port(controller)
    switches = (moment.around.switches.get(member) for member in port.members)
    return PathView(
        path=str(path),
        state=controller.state,
        raw_state=controller.raw_state or None,
        since=_since(moment, controller.nqn, str(path)),
        last_seen=round(moment.snapshot.wall, 3),
        superseded=controller.name in moment.expected.superseded.get(controller.nqn, ()),
        usable=_usable(controller, [way.path for way in ways]),
        conditions=dict(Counter(way.condition for way in ways if way.condition)),
        ana=dict(Counter(way.path.ana_state for way in ways if way.path.ana_state)),
        carries_io=_any(carries),
        stalled_seconds=max((s for s in stalled if s is not None), default=None),
        controller=controller.name,
        cntlid=controller.cntlid or None,
        transport=path.transport or None,
        traddr=path.traddr or None,
        trsvcid=path.trsvcid or None,
        host_traddr=path.host_traddr or None,
        host_iface=path.host_iface or None,
        src_addr=controller.src_addr or None,
        netdev=moment.around.netdev(controller) or None,
        members=port.members,
        nics=port.nics,
        rdma_device=port.rdma_device or None,
        rdma_port=port.rdma_port or None,
        subnet=port.subnet or None,
        switches=tuple(dict.fromkeys(switch for switch in switches if switch)),
        link_up=moment.around.path_link_up(controller),
        settings=_settings(controller.settings),
        history=_history(moment, controller.nqn, str(path)),
    )


def missing_view(moment: Moment, nqn: str, label: str) -> PathView:
    """View a path that the kernel does not show and should."""
    view = PathView(
        path=label,
        state="missing",
        since=_since(moment, nqn, label),
        usable=False,
        carries_io=False,
        history=_history(moment, nqn, label),
    )
    remembered = moment.history.remembered.get(nqn, {})
    known = next((path for path in remembered if str(path) == label), None)
    if known is None:  # configured, and never there
        return view
    return msgspec.structs.replace(
        view,
        last_seen=round(remembered[known], 3),
        transport=known.transport or None,
        traddr=known.traddr or None,
        trsvcid=known.trsvcid or None,
        host_traddr=known.host_traddr or None,
        host_iface=known.host_iface or None,
    )


def _usable(controller: Controller, ways: Sequence[NamespacePath]) -> bool | None:
    """Whether it can carry I/O for every namespace it holds, None when too little is known."""
    if any(way.known and not way.usable for way in ways):
        return False
    if not (controller.state or controller.raw_state) or not all(way.known for way in ways):
        return None
    return controller.usable


def _any(answers: Sequence[bool | None]) -> bool | None:
    """Whether any is yes; None when that is not known."""
    if any(answers):
        return True
    return None if None in answers or not answers else False


def _since(moment: Moment, nqn: str, label: str) -> float | None:
    past = moment.path_past(nqn, label)
    return round(past.changed, 3) if past is not None and past.changed is not None else None


def _history(moment: Moment, nqn: str, label: str) -> PathHistoryView | None:
    past = moment.path_past(nqn, label)
    if past is None:
        return None
    return PathHistoryView(
        watched_since=moment.wall(past.watched),
        transitions=past.transitions,
        resets=past.resets,
        reconnect_attempts=past.reconnect_attempts,
        errors=past.errors,
        timeline=tuple((moment.wall(time), state) for time, state in past.timeline),
    )


def _settings(settings: PathSettings) -> SettingsView:
    return SettingsView(
        keep_alive_timeout_seconds=_or_off(settings.keep_alive_timeout),
        ctrl_loss_timeout_seconds=_or_off(settings.ctrl_loss_timeout),
        reconnect_delay_seconds=_or_off(settings.reconnect_delay),
        fast_io_fail_timeout_seconds=_or_off(settings.fast_io_fail_timeout),
        io_timeout_seconds=_or_off(settings.io_timeout),
        queues=settings.queues,
    )


def _or_off(seconds: float | None) -> float | Literal["off"] | None:
    """JSON has no infinity."""
    return "off" if seconds is not None and math.isinf(seconds) else seconds
