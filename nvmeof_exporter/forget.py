"""The ``forget`` command: paths that were retired on purpose are missing no more."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING

from nvmeof_exporter.memory import (
    Memory,
    MemoryWriteFailed,
    RememberedPath,
    RememberedSubsystem,
    load,
    update,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Protocol

    class StateConfig(Protocol):
        """The part of the configuration that is used here."""

        @property
        def path_state(self) -> str:
            """The directory of the memory file; ``""`` when nothing is kept."""


__all__ = ["NotRemembered", "forgetting", "run"]

_EXIT_OK, _EXIT_FAILED, _EXIT_UNKNOWN = 0, 1, 2
_MOST_LISTED = 20


class NotRemembered(Exception):  # noqa: N818 - a wrong name given, told to the user
    """The subsystem or path to forget is not in the memory; the text lists what is."""


def run(config: StateConfig, nqn: str, path: str | None) -> int:
    """Drop a subsystem, or the one path with the label ``path``, and say what was dropped.

    Returns the exit status: 0, 1 when the memory cannot be written, 2 when it holds
    no such thing. A running daemon takes the change over; a path that is still
    connected is remembered anew by it.
    """
    if not config.path_state:
        return _fail("nothing is remembered: --path.state is empty", _EXIT_UNKNOWN)
    remembered, warning = load(config.path_state)
    if warning is not None:
        _say_error(warning)
    dropped: list[RememberedPath] = []

    def change(memory: Memory) -> Memory:
        after, gone = forgetting(memory, nqn, path)
        dropped.extend(gone)
        return after

    try:
        forgetting(remembered, nqn, path)  # a mistyped name touches nothing
        update(config.path_state, change)
    except NotRemembered as error:
        return _fail(f"{config.path_state}: {error}", _EXIT_UNKNOWN)
    except MemoryWriteFailed as error:
        return _fail(str(error), _EXIT_FAILED)
    for one in dropped:
        sys.stdout.write(f"forgot {_printable(f'{one.id}')} of {_printable(nqn)}\n")
    sys.stdout.write("a running exporter follows within a few seconds\n")
    return _EXIT_OK


def forgetting(
    memory: Memory, nqn: str, path: str | None
) -> tuple[Memory, tuple[RememberedPath, ...]]:
    """Return the memory without the subsystem (or the path of that label), and what was dropped.

    No more paths can then be expected at once than are remembered still.
    Raises NotRemembered.
    """
    subsystem = memory.subsystems.get(nqn)
    if subsystem is None:
        known = _listed(memory.subsystems)
        raise NotRemembered(f"no subsystem {_printable(nqn)} is remembered; there is {known}")
    dropped = tuple(one for one in subsystem.paths if path in {None, str(one.id)})
    if path is not None and not dropped:
        known = _listed(str(one.id) for one in subsystem.paths)
        raise NotRemembered(
            f"no path {_printable(path)} of {_printable(nqn)} is remembered; there is {known}"
        )
    kept = tuple(one for one in subsystem.paths if one not in dropped)
    remaining = {name: entry for name, entry in memory.subsystems.items() if name != nqn}
    if kept:
        most = min(subsystem.most_at_once, len(kept))
        remaining[nqn] = RememberedSubsystem(most, kept)
    return Memory(subsystems=remaining), dropped


def _listed(names: Iterable[str]) -> str:
    ordered = sorted(names)
    shown = [_printable(name) for name in itertools.islice(ordered, _MOST_LISTED)]
    more = len(ordered) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "") if ordered else "nothing"


def _printable(name: str) -> str:
    """Return the name, escaped where it would break the line or the terminal."""
    return name if name.isascii() and name.isprintable() else ascii(name)


def _fail(reason: str, status: int) -> int:
    _say_error(reason)
    return status


def _say_error(text: str) -> None:
    sys.stderr.write(f"nvmeof-exporter: error: {text}\n")
