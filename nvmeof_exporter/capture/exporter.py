"""What a running exporter tells of itself: its metrics, its events, the node as it sees it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from nvmeof_exporter.client import Exporter, NoAnswer
from nvmeof_exporter.exposition.paths import EVENTS_PATH, STATUS_PATH
from nvmeof_exporter.view.events import MOST_EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Answer", "ask", "names_in"]

_STATUS = "exporter/status.json"


class _Path(msgspec.Struct):
    switches: tuple[str, ...] = ()


class _Subsystem(msgspec.Struct):
    paths: tuple[_Path, ...] = ()


class _Status(msgspec.Struct):
    """The part of a status that names hosts and switches, and the tree it is of."""

    node: str = ""
    sysfs: str = ""
    subsystems: tuple[_Subsystem, ...] = ()


class Answer(NamedTuple):
    """What was answered under a name; ``problem`` says why there is no content."""

    name: str
    content: bytes
    problem: str = ""


def ask(exporter: Exporter, metrics: str, sysfs: str | None = None) -> tuple[Answer, ...]:
    """Ask for everything there is.

    Args:
        exporter: who is asked.
        metrics: the path of the metrics.
        sysfs: the tree that is meant: what is told of another is left out. None: any is.

    """
    paths = {
        "exporter/metrics.prom": metrics,
        "exporter/events.json": f"{EVENTS_PATH}?limit={MOST_EVENTS}",
        _STATUS: STATUS_PATH,
    }
    answers = tuple(_answer(name, path, exporter.get) for name, path in paths.items())
    watched = _status(answers[-1].content).sysfs
    if sysfs is None or not watched or os.path.realpath(watched) == os.path.realpath(sysfs):
        return answers
    problem = f"the exporter at {exporter} watches {watched}, not {sysfs}"
    return tuple(
        answer if answer.problem else Answer(answer.name, b"", problem) for answer in answers
    )


def names_in(name: str, content: bytes) -> set[str]:
    """Return the hosts and switches that an answer of that name speaks of."""
    if name != _STATUS:
        return set()
    status = _status(content)
    paths = (path for subsystem in status.subsystems for path in subsystem.paths)
    names = {status.node, *(switch for path in paths for switch in path.switches)}
    return names - {""}


def _status(content: bytes) -> _Status:
    """Return what a status says; what is none says nothing."""
    try:
        return msgspec.json.decode(content, type=_Status)
    except ValueError:
        return _Status()


def _answer(name: str, path: str, get: Callable[[str], bytes]) -> Answer:
    try:
        return Answer(name, get(path))
    except NoAnswer as reason:
        return Answer(name, b"", str(reason))
