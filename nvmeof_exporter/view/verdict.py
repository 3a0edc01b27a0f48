"""Redundancy in a sentence: what the next failure would do, and which paths are at fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmeof_exporter.monitor.redundancy import can_tell, conditions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from nvmeof_exporter.model import Namespace, Subsystem
    from nvmeof_exporter.view.model import PathView

__all__ = ["named", "verdict"]

#: So many paths or namespaces are named; more are counted.
_MOST_NAMED = 4


def verdict(
    level: str | None,
    subsystems: Sequence[Subsystem],
    paths: Collection[PathView],
    expected: int | None,
) -> str:
    """Say how one NQN would take the next failure.

    Args:
        level: its redundancy, None where that cannot be told.
        subsystems: every directory of it.
        paths: all its paths, missing ones included.
        expected: how many there should be.

    """
    if level is None:
        return _untold(subsystems)
    namespaces = [n for s in subsystems if s.multipath for n in s.namespaces if can_tell(n)]
    faults = _faults(subsystems, paths, expected)
    if level == "redundant":
        return "any one path may fail and I/O goes on"
    if level == "degraded":
        told = "one more path may fail and I/O goes on"
    elif level == "lost":
        told = f"no path can carry I/O{_of(namespaces, _is_lost)}, and it waits for one"
    elif len(paths) == 1 and (expected or 0) <= 1 and not faults:
        told = "it has one path and never had more, and I/O stops when that fails"
    elif faults:
        told = f"one path is left{_of(namespaces, _is_at_risk)}, and I/O stops when it fails"
    else:
        told = f"I/O{_of(namespaces, _is_at_risk)} has one path only, and stops when that fails"
    return told + (f": {named(faults)}" if faults else "")


def _untold(subsystems: Sequence[Subsystem]) -> str:
    if not subsystems:
        return "nothing is connected, and nothing is expected"
    if not all(subsystem.multipath for subsystem in subsystems):
        return "redundancy cannot be told: native multipath is off"
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
            faults.append(f"{one.path} is {one.state}")
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
