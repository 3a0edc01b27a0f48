"""The view of a node as text."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, NamedTuple

from nvmeof_exporter.show.measures import age, pause, size
from nvmeof_exporter.show.table import Cell, Column, Paint, table
from nvmeof_exporter.terminal import printable
from nvmeof_exporter.view.verdict import named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nvmeof_exporter.view.model import (
        FailoverView,
        NamespaceView,
        NodeView,
        PathView,
        SubsystemView,
    )

__all__ = ["Layout", "node_text"]

_INDENT = "  "
_UNKNOWN = "?"

#: Room for text is at least this, on whatever terminal.
_LEAST_ROOM = 24

_LEVELS = {"redundant": "good", "degraded": "warning", "at-risk": "warning", "lost": "bad"}
#: With these there is nothing left to share.
_ALONE = frozenset({"at-risk", "lost"})

_STATES = {"live": "good", "missing": "bad", "dead": "bad"}
_ANA = {"optimized": "", "non-optimized": "", "inaccessible": "faint"}

_PATHS = (
    Column("PATH"),
    Column("STATE"),
    Column("SINCE", 2),
    Column("ANA", 3),
    Column("I/O", 1),
    Column("INTERFACE", 4),
    Column("RDMA", 5),
    Column("CONTROLLER", 6),
)
_PATHS_WIDE = (
    *(Column(column.title) for column in _PATHS),
    Column("LINK"),
    Column("SUBNET"),
    Column("NIC"),
    Column("SWITCH"),
    Column("KEEP-ALIVE"),
    Column("CTRL-LOSS"),
    Column("RECONNECT"),
    Column("FAST-FAIL"),
    Column("IO-TIMEOUT"),
    Column("QUEUES"),
    Column("TRANSITIONS"),
    Column("ATTEMPTS"),
)
_NAMESPACES = (
    Column("NAMESPACE"),
    Column("DEVICE", 5),
    Column("SIZE", 6),
    Column("USABLE", 2),
    Column("STANDBY", 3),
    Column("UNUSABLE", 4),
    Column("I/O OVER", 1),
)
_NAMESPACES_WIDE = (
    *(Column(column.title) for column in _NAMESPACES),
    Column("LAST I/O"),
    Column("IN FLIGHT"),
    Column("REQUEUED"),
    Column("FAILED"),
    Column("ID"),
)


class Layout(NamedTuple):
    """How a text is to look. ``columns``: of a terminal, None for lines of any length."""

    paint: Paint
    columns: int | None = None
    wide: bool = False

    def room(self, indent: str = "") -> int | None:
        """What is left of the columns beside an indent."""
        if self.columns is None or self.wide:
            return None
        return max(self.columns - len(indent), _LEAST_ROOM)

    def wrapped(self, text: str, indent: str, colour: str = "") -> list[str]:
        """Lines of a text below each other; the text need not be printable."""
        room = self.room(indent)
        plain = printable(text)
        lines = [plain]
        if room is not None:
            lines = textwrap.wrap(plain, room, break_on_hyphens=False, subsequent_indent=_INDENT)
        return [indent + self.paint(line, colour) for line in lines]


def node_text(view: NodeView, origin: str, layout: Layout) -> str:
    """Tell of a node.

    Args:
        view: what is known of it.
        origin: where that is from, in words.
        layout: how it is to look.

    """
    lines = layout.wrapped(f"{view.node}: {origin}", "", "faint")
    if view.health is not None and view.health.problem is not None:
        lines += layout.wrapped(f"the exporter is not healthy: {view.health.problem}", "", "bad")
    if view.multipath_enabled is False:
        lines += layout.wrapped("native multipath is off (nvme_core.multipath=N)", "", "warning")
    for subsystem in view.subsystems:
        lines += ["", *_subsystem(view, subsystem, layout)]
    if not view.subsystems:
        lines += ["", "no NVMe over Fabrics subsystem is connected"]
    lines += ["", *_policy(view, layout)]
    return "\n".join(lines) + "\n"


def _policy(view: NodeView, layout: Layout) -> list[str]:
    counts = view.policy.counts
    words = [f"{counts[w]} {w}" for w in ("critical", "warning", "unknown", "ok") if counts.get(w)]
    if not view.subsystems or not words:
        return layout.wrapped(f"policy {view.policy.name}: nothing to judge", "", "faint")
    colour = {"critical": "bad", "warning": "warning"}.get(view.policy.status, "faint")
    more = "; nvmeof-exporter check tells which" if view.policy.violations else ""
    return layout.wrapped(f"policy {view.policy.name}: {', '.join(words)}{more}", "", colour)


def _subsystem(view: NodeView, subsystem: SubsystemView, layout: Layout) -> Iterator[str]:
    paint = layout.paint
    level = subsystem.redundancy.level
    yield from layout.wrapped(subsystem.nqn, "", "strong")
    about = [subsystem.model, subsystem.iopolicy, *subsystem.directories]
    if layout.wide:
        about[1:1] = [subsystem.serial, subsystem.firmware]
    if any(about):
        yield from layout.wrapped(", ".join(one for one in about if one), _INDENT, "faint")
    told = f"{level.upper()}: " if level is not None else ""
    told += subsystem.redundancy.verdict
    yield from layout.wrapped(told, _INDENT, _LEVELS.get(level or "", "warning"))
    yield from _trouble(subsystem, layout)
    if subsystem.paths:
        columns = _PATHS_WIDE if layout.wide else _PATHS
        rows = [_path(view, path, wide=layout.wide) for path in subsystem.paths]
        yield from _indented(table(columns, rows, layout.room(_INDENT), paint))
    if subsystem.namespaces:
        columns = _NAMESPACES_WIDE if layout.wide else _NAMESPACES
        cells = [_namespace(view, one, wide=layout.wide) for one in subsystem.namespaces]
        yield from _indented(table(columns, cells, layout.room(_INDENT), paint))
    if subsystem.failovers:
        for line in _failover(view, subsystem.failovers[0]):
            yield from layout.wrapped(line, _INDENT)
    single = [resource for resource, count in subsystem.shared.items() if count == 1]
    if single and level not in _ALONE:
        shared = ", ".join(resource.replace("_", " ") for resource in single)
        yield from layout.wrapped(f"all paths share one: {shared}", _INDENT, "warning")


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (_INDENT + line for line in lines)


def _trouble(subsystem: SubsystemView, layout: Layout) -> Iterator[str]:
    """Tell what goes wrong at this moment."""
    stalled = {n.nsid: n.stalled_seconds for n in subsystem.namespaces if n.stalled_seconds}
    if stalled:
        told = f"I/O of namespace {named(list(stalled))} stands still"
        yield from layout.wrapped(
            f"{told}, for {pause(max(stalled.values()))} by now", _INDENT, "bad"
        )
    if subsystem.failover_in_progress:
        yield from layout.wrapped("a failover is going on", _INDENT, "bad")


def _path(view: NodeView, path: PathView, *, wide: bool) -> list[Cell]:
    rdma = f"{path.rdma_device}/{path.rdma_port}" if path.rdma_device else ""
    ana = path.ana or {}
    states = [f"{n} {state}" if len(ana) > 1 else state for state, n in sorted(ana.items())]
    worst = [state for state in ana if state not in _ANA] or list(ana)
    cells = [
        Cell(path.path),
        Cell(_state(path), _STATES.get(path.state or "", "warning")),
        Cell(_since(view, path)),
        Cell(", ".join(states), _ANA.get(worst[0], "warning") if worst else ""),
        _io(path),
        Cell(path.netdev or ""),
        Cell(rdma),
        Cell((path.controller or "") + (" (superseded)" if path.superseded else "")),
    ]
    return cells + _path_details(path) if wide else cells


def _state(path: PathView) -> str:
    """The state, in the kernel's words where it takes no requests while it is deleting."""
    state = path.raw_state if path.state == "deleting" else path.state
    return state or _UNKNOWN


def _path_details(path: PathView) -> list[Cell]:
    settings, history = path.settings, path.history
    cells = [
        Cell({None: "", True: "up", False: "down"}[path.link_up], "" if path.link_up else "bad"),
        Cell(path.subnet or ""),
        Cell(" ".join(path.nics)),
        Cell(" ".join(path.switches)),
    ]
    if settings is None:
        cells += [Cell("")] * 6
    else:
        cells += [
            _time_out(settings.keep_alive_timeout_seconds),
            _time_out(settings.ctrl_loss_timeout_seconds),
            _time_out(settings.reconnect_delay_seconds),
            _time_out(settings.fast_io_fail_timeout_seconds),
            _time_out(settings.io_timeout_seconds),
            _queues(path, settings.queues),
        ]
    if history is None:
        return [*cells, Cell(""), Cell("")]
    return [*cells, Cell(str(history.transitions)), Cell(str(history.reconnect_attempts))]


def _queues(path: PathView, queues: int | None) -> Cell:
    """Torn down while a path is down, whatever the kernel still shows."""
    if path.state != "live":
        return Cell(_UNKNOWN)
    return Cell(str(queues) if queues is not None else "")


def _time_out(seconds: float | str | None) -> Cell:
    return Cell(f"{seconds:g}s" if isinstance(seconds, float) else seconds or "")


def _since(view: NodeView, path: PathView) -> str:
    if path.since is not None:
        return age(view.time - path.since)
    if path.history is not None:
        return f">{age(view.time - path.history.watched_since)}"
    if path.state == "missing" and path.last_seen is not None:
        return f"<{age(view.time - path.last_seen)}"
    return ""


def _io(path: PathView) -> Cell:
    if path.stalled_seconds:
        return Cell(f"stalled {pause(path.stalled_seconds)}", "bad")
    if path.carries_io is None:
        return Cell(_UNKNOWN if path.state != "missing" else "")
    return Cell("yes" if path.carries_io else "no", "good" if path.carries_io else "")


def _namespace(view: NodeView, namespace: NamespaceView, *, wide: bool) -> list[Cell]:
    found = namespace.conditions
    usable = found["optimized"] + found["non-optimized"] if found is not None else None
    cells = [
        Cell(namespace.nsid),
        Cell(" ".join(namespace.devices)),
        Cell(size(namespace.size_bytes) if namespace.size_bytes is not None else ""),
        Cell(_count(usable), "" if usable or usable is None else "bad"),
        Cell(_count(found["standby"] if found is not None else None)),
        Cell(_count(found["unusable"] if found is not None else None)),
        _io_over(namespace),
    ]
    if not wide:
        return cells
    io = namespace.io
    last = age(view.time - namespace.last_io) if namespace.last_io is not None else ""
    return [
        *cells,
        Cell(last),
        Cell(_count(io.in_flight if io is not None else None)),
        Cell(_count(namespace.requeued)),
        Cell(_count(namespace.failed)),
        Cell(namespace.wwid or ""),
    ]


def _count(number: int | None) -> str:
    return _UNKNOWN if number is None else str(number)


def _io_over(namespace: NamespaceView) -> Cell:
    if namespace.stalled_seconds:
        return Cell(f"stalled {pause(namespace.stalled_seconds)}", "bad")
    carriers = [path.path for path in namespace.paths if path.carries_io]
    if len(carriers) == 1:
        return Cell(carriers[0])
    if carriers:
        return Cell(f"{len(carriers)} paths")
    unknown = any(path.carries_io is None for path in namespace.paths)
    return Cell(_UNKNOWN if unknown else "none seen", "" if unknown else "faint")


def _failover(view: NodeView, failover: FailoverView) -> Iterator[str]:
    when = age(view.time - failover.time)
    paths = ", ".join((failover.path, *failover.also))
    if failover.seconds is None:
        yield f"last failover {when} ago off {paths} ({failover.cause}): no I/O took part"
        return
    phases = ", ".join(f"{name} {pause(seconds)}" for name, seconds in failover.phases.items())
    yield f"last failover {when} ago off {paths} ({failover.cause}): {pause(failover.seconds)}"
    yield f"{_INDENT}{phases}"
