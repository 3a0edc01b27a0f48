"""What the paths of a namespace add up to: derived from one snapshot, no history.

Kernel source of the rules: ``__nvme_find_path`` and ``nvme_path_is_disabled``
in drivers/nvme/host/multipath.c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from nvmeof_exporter.model import Controller, Namespace, NamespacePath, Subsystem

__all__ = [
    "CONDITIONS",
    "LEVELS",
    "can_tell",
    "condition_counts",
    "conditions",
    "is_coming_back",
    "level",
    "level_of",
    "usable_paths",
    "worst_level",
]

#: What one path is to its namespace.
CONDITIONS = ("optimized", "non-optimized", "standby", "unusable")

#: While a path's controller is in one of these, a namespace without a usable path lets its I/O
#: wait, else it fails it (``nvme_available_path``, same file; ``delayed_removal_secs`` apart).
_COMING_BACK = frozenset({"live", "resetting", "connecting"})

#: How a namespace would take the next failure, best first.
LEVELS = ("redundant", "degraded", "at-risk", "lost")


def conditions(namespace: Namespace) -> list[str]:
    """Return the condition of each of the namespace's paths, in their order.

    ``""`` for a path of which nothing could be read yet: it is not counted.
    A live path whose ANA state is inaccessible is a *standby* only while
    another path is usable: the target keeps it for taking over. With none
    usable it is what it looks like, no way to the data.
    """
    some_usable = any(path.usable for path in namespace.paths)
    return [_condition(path, some_usable=some_usable) for path in namespace.paths]


def _condition(path: NamespacePath, *, some_usable: bool) -> str:
    if not path.known:
        return ""
    if path.usable:
        return "optimized" if path.optimized else "non-optimized"
    # Like ``usable``, by the last state known where none can be read now.
    state = path.controller.raw_state or path.controller.state
    if some_usable and state == "live" and path.ana == "inaccessible":
        return "standby"
    return "unusable"


def can_tell(namespace: Namespace) -> bool:
    """Whether enough could be read to say if the namespace can be reached.

    With no usable path among those that could be read, one that could not may
    be the one that carries the I/O.
    """
    paths = namespace.paths
    return any(path.usable for path in paths) or all(path.known for path in paths)


def is_coming_back(controller: Controller) -> bool | None:
    """Whether the kernel lets I/O wait for it, fast_io_fail_tmo apart; None where unreadable."""
    state = controller.raw_state or controller.state
    return state in _COMING_BACK if state else None


def condition_counts(namespace: Namespace) -> dict[str, int]:
    """Count the namespace's paths by condition; every condition is present."""
    found = conditions(namespace)
    return {condition: found.count(condition) for condition in CONDITIONS}


def usable_paths(subsystem: Subsystem) -> list[Controller]:
    """Return the controllers that can carry I/O for every namespace they hold.

    A controller that holds no namespace counts when its state alone allows I/O.
    """
    unusable = {
        path.controller.name
        for namespace in subsystem.namespaces
        for path in namespace.paths
        if not path.usable
    }
    return [c for c in subsystem.controllers if c.usable and c.name not in unusable]


def level(usable: int, standby: int, *, complete: bool) -> str:
    """Name the redundancy of one namespace.

    Args:
        usable: paths that carry I/O now.
        standby: live paths that the target can open.
        complete: every expected path is connected and usable or standby.

    """
    if usable == 0:
        return "lost"
    if usable + standby == 1:
        return "at-risk"
    return "redundant" if complete else "degraded"


def level_of(
    subsystems: Collection[Subsystem],
    expected: int | None,
    superseded: frozenset[str] = frozenset(),
) -> str | None:
    """Name the redundancy of one NQN that should have so many paths (None: nobody knows).

    See ``worst_level`` for the rest.
    """
    here = sum(c.name not in superseded for s in subsystems for c in s.controllers)
    complete = expected is None or here >= expected
    return worst_level(subsystems, complete=complete, superseded=superseded)


def worst_level(
    subsystems: Iterable[Subsystem], *, complete: bool, superseded: frozenset[str] = frozenset()
) -> str | None:
    """Name the redundancy of all directories of one NQN: the worst namespace decides.

    Args:
        subsystems: every subsystem directory of the NQN.
        complete: no expected path is missing from the kernel.
        superseded: names of controllers whose successors took over: their
            being down degrades nothing.

    Returns:
        None when it is not the kernel's to tell (native multipath is off), or
        when there is no directory and none is expected: a volume was detached.

    """
    levels: list[str] = []
    untold = False
    own = list(subsystems)
    if not own and complete:
        return None
    for subsystem in own:
        if not subsystem.multipath:
            continue
        for namespace in subsystem.namespaces:
            if not can_tell(namespace):
                untold = True
                continue
            names = [path.controller.name for path in namespace.paths]
            found = conditions(namespace)
            down = any(
                condition == "unusable" and name not in superseded
                for condition, name in zip(found, names, strict=True)
            )
            usable, standby = sum(path.usable for path in namespace.paths), found.count("standby")
            if usable + standby == 1 and "" in found:
                untold = True  # one that could not be read may be the second
                continue
            levels.append(level(usable, standby, complete=complete and not down))
    if levels:
        return max(levels, key=LEVELS.index)
    if untold or any(not subsystem.multipath for subsystem in own):
        return None
    # No namespace anywhere: the controllers alone tell.
    controllers = [c for subsystem in own for c in subsystem.controllers]
    usable = sum(controller.usable for controller in controllers)
    if usable <= 1 and any(not (c.state or c.raw_state) for c in controllers):
        return None  # one that could not be read may be the one that carries the I/O, or a second
    return level(usable, 0, complete=complete and usable == len(controllers))
