"""Redundancy in a sentence: what the next failure would do, and which paths are at fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmeof_exporter.monitor.redundancy import can_tell, conditions, is_coming_back

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from nvmeof_exporter.model import Controller, Namespace, Subsystem
    from nvmeof_exporter.view.model import PathView

__all__ = ["named", "verdict"]

#: So many paths or namespaces are named; more are counted.
_MOST_NAMED = 4


def verdict(
    level: str | None,
    subsystems: Sequence[Subsystem],
    paths: Collection[PathView],
    expected: int | None,
    *,
    now: float,
    watched: bool,
) -> str:
    """Say how one NQN would take the next failure.

    Args:
        level: its redundancy, None where that cannot be told.
        subsystems: every directory of it.
        paths: all its paths, missing ones included.
        expected: how many there should be.
        now: when it was looked at (wall clock).
        watched: whether a path that it had before would be known.

    """
    if level is None:
        return _untold(subsystems, paths)
    namespaces = [n for s in subsystems if s.multipath for n in s.namespaces if can_tell(n)]
    faults = _faults(subsystems, paths, expected)
    opened = ""
    if any(sum(path.usable for path in namespace.paths) == 1 for namespace in namespaces):
        opened = ", once the target opens another"
    if level == "redundant":
        return f"any one path may fail and I/O goes on{opened}"
    if level == "degraded":
        told = f"one more path may fail and I/O goes on{opened}"
    elif level == "lost":
        then = _then(subsystems, namespaces, paths, now)
        told = f"no path can carry I/O{_of(namespaces, _is_lost)}, and {then}"
    elif len(paths) == 1 and (expected or 0) <= 1 and not faults:
        more = "it has one path and never had more, and"
        if not watched:
            more = "it has one path, whether it had more is not known, and"
        told = f"{more} I/O stops when that fails"
    elif faults:
        left = _left(subsystems, namespaces)
        which = f" ({left[0]})" if len(left) == 1 else ""
        told = f"one path is left{_of(namespaces, _is_at_risk)}{which}, and I/O stops when it fails"
        return f"{told}; not usable: {named(faults)}"
    else:
        told = f"I/O{_of(namespaces, _is_at_risk)} has one path only, and stops when that fails"
    return told + (f": {named(faults)}" if faults else "")


def _then(
    subsystems: Sequence[Subsystem],
    namespaces: Sequence[Namespace],
    paths: Collection[PathView],
    now: float,
) -> str:
    """Say what becomes of I/O that no path can carry."""
    due = {one.controller: _fails_fast(one, now) for one in paths if one.state == "connecting"}
    ways = [[p.controller for p in n.paths] for n in namespaces if _is_lost(n)]
    if not ways:
        ways = [[c for subsystem in subsystems for c in subsystem.controllers]]
    fates = {_fate(way, due) for way in ways}
    if fates == {"waits"}:
        return "it waits for one"
    if fates == {"fails"}:
        return "it fails"
    if fates == {"waits", "fails"}:
        return "it waits for one where a connection is left, else it fails"
    return "whether it waits for one or fails is not known (fast_io_fail_tmo)"


def _fate(controllers: Sequence[Controller], due: Mapping[str | None, bool | None]) -> str:
    """Tell what the kernel does with I/O of a namespace that has these, none of them usable.

    ``due``: whether fast_io_fail_tmo of a connecting one has run out.
    """
    waits: set[bool | None] = set()
    for controller in controllers:
        coming, out = is_coming_back(controller), due.get(controller.name, False)
        waits.add(coming and (None if out is None else not out))
    if True in waits:
        return "waits"
    return "unknown" if None in waits else "fails"


def _fails_fast(path: PathView, now: float) -> bool | None:
    """Whether fast_io_fail_tmo of a connecting path has run out, None where that is not known."""
    seconds = path.settings.fast_io_fail_timeout_seconds if path.settings is not None else None
    if not isinstance(seconds, float):
        return False  # off, or a kernel before 5.11 that has none
    if path.since is None:
        return None
    return now - path.since > seconds


def _left(subsystems: Sequence[Subsystem], namespaces: Sequence[Namespace]) -> list[str]:
    """Name the paths that namespaces at risk, or the subsystem without any, are left with."""
    ways = [
        str(path.controller.path)
        for namespace in namespaces
        if _is_at_risk(namespace)
        for path, condition in zip(namespace.paths, conditions(namespace), strict=True)
        if condition not in {"unusable", ""}
    ]
    if not namespaces:
        ways = [str(c.path) for s in subsystems for c in s.controllers if c.usable]
    return list(dict.fromkeys(ways))


def _untold(subsystems: Sequence[Subsystem], paths: Collection[PathView]) -> str:
    if not subsystems:
        return "nothing is connected, and nothing is expected"
    if not all(subsystem.multipath for subsystem in subsystems):
        return "redundancy cannot be told: native multipath is off"
    unread = [one.path for one in paths if one.state is None]
    if unread and any(one.usable for one in paths):
        return f"at least one path carries I/O: the state of {named(unread)} could not be read"
    return "redundancy cannot be told: too little could be read"


def _is_lost(namespace: Namespace) -> bool:
    return not any(path.usable for path in namespace.paths)


def _is_at_risk(namespace: Namespace) -> bool:
    return sum(condition not in {"unusable", ""} for condition in conditions(namespace)) == 1


def _of(namespaces: Sequence[Namespace], concerned: Callable[[Namespace], bool]) -> str:
    """Name the namespaces that it is true of, where it is not true of all."""
    found = [namespace.nsid for namespace in namespaces if concerned(namespace)]
    return f" of namespace {named(found)}" if len(found) < len(namespaces) else ""


def _faults(
    subsystems: Sequence[Subsystem], paths: Collection[PathView], expected: int | None
) -> list[str]:
    """Tell of each path that neither carries I/O nor stands by for some namespace."""
    closed: dict[str, set[str]] = {}
    for namespace in (n for subsystem in subsystems for n in subsystem.namespaces):
        for path, condition in zip(namespace.paths, conditions(namespace), strict=True):
            if condition == "unusable":
                label = str(path.controller.path)
                closed.setdefault(label, set()).add(path.ana_state or "unusable")
    faults = []
    for one in paths:
        if one.superseded or one.state is None:
            continue
        if one.state != "live":
            # ``deleting (no IO)`` is published as ``deleting``, which takes requests.
            state = one.raw_state if one.state == "deleting" else one.state
            faults.append(f"{one.path} is {state}")
        elif one.path in closed:
            faults.append(f"{one.path} is {' or '.join(sorted(closed[one.path]))} (ANA)")
    staying = sum(path.state != "missing" and not path.superseded for path in paths)
    missing = sum(path.state == "missing" for path in paths)
    if expected is not None and staying + missing < expected:
        faults.append(f"{staying} of {expected} expected paths are there")
    return faults


def named(names: Sequence[str]) -> str:
    """Name the first few of them, and count the rest."""
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
