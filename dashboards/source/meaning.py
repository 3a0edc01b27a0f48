"""What colours mean, and the words behind the numbers that queries answer with.

Green can carry I/O, yellow is there and does not (standby, or being put right),
orange needs a look, red is lost. Blue says which one, and nothing about how it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from grafana_foundation_sdk.models.dashboard import (
    DashboardRegexMapOptions as RegexOptions,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardSpecialValueMapOptions as SpecialOptions,
)
from grafana_foundation_sdk.models.dashboard import (
    RegexMap,
    SpecialValueMap,
    SpecialValueMatch,
    Threshold,
    ValueMap,
    ValueMappingResult,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grafana_foundation_sdk.models.dashboard import ValueMapping

__all__ = [
    "ANA",
    "BLUE",
    "CONDITION",
    "GREEN",
    "GREY",
    "IO",
    "LEVEL",
    "LOST",
    "NAMES",
    "OBJECTIVE",
    "ORANGE",
    "PHASE",
    "PORT",
    "RED",
    "SEVERITY",
    "WORKS",
    "YELLOW",
    "Word",
    "endless",
    "nothing",
    "steps",
    "words",
]

GREEN = "green"
YELLOW = "yellow"
ORANGE = "orange"
RED = "red"
LOST = "dark-red"
BLUE = "blue"
GREY = "#8e8e8e"


@dataclass(frozen=True, slots=True)
class Word:
    """What a number stands for."""

    code: int
    text: str
    colour: str
    state: str = ""


#: Of a path, the first that holds: see ``queries.path_condition``.
CONDITION = (
    Word(0, "usable", GREEN),
    Word(1, "I/O stuck", ORANGE),
    Word(2, "standby", YELLOW),
    Word(3, "resetting", ORANGE, "resetting"),
    Word(4, "connecting", RED, "connecting"),
    Word(5, "deleting", LOST, "deleting"),
    Word(6, "dead", LOST, "dead"),
    Word(7, "missing", LOST, "missing"),
    Word(8, "new", BLUE, "new"),
    Word(9, "unknown", GREY, "unknown"),
)

ANA = (
    Word(0, "optimized", GREEN, "optimized"),
    Word(1, "non-optimized", YELLOW, "non-optimized"),
    Word(2, "inaccessible", ORANGE, "inaccessible"),
    Word(3, "change", ORANGE, "change"),
    Word(4, "persistent-loss", LOST, "persistent-loss"),
    Word(5, "unknown", GREY, "unknown"),
)

#: Of a subsystem; the higher, the worse.
LEVEL = (
    Word(0, "redundant", GREEN, "redundant"),
    Word(1, "degraded", YELLOW, "degraded"),
    Word(2, "at risk", ORANGE, "at-risk"),
    Word(3, "lost", RED, "lost"),
)

IO = (
    Word(0, "idle", BLUE),
    Word(1, "flows", GREEN),
    Word(2, "stuck on a path", ORANGE),
    Word(3, "stands still", RED),
)

#: Of a failover; what each means is in docs/failover.md.
PHASE = (
    Word(0, "all is well", GREEN),
    Word(1, "failback", YELLOW),
    Word(2, "reconnect", YELLOW),
    Word(3, "reroute", ORANGE),
    Word(4, "detection", ORANGE),
    Word(5, "no usable path", RED),
)

OBJECTIVE = (
    Word(0, "met", GREEN),
    Word(1, "running", ORANGE),
    Word(2, "missed", RED),
)

#: Of the exporter's sources.
WORKS = (Word(0, "fails", RED), Word(1, "works", GREEN))

#: Of RDMA ports; links are either up or down.
PORT = (
    Word(0, "active", GREEN, "active"),
    Word(1, "active, deferred", YELLOW, "active_defer"),
    Word(2, "armed", YELLOW, "armed"),
    Word(3, "init", ORANGE, "init"),
    Word(4, "down", RED, "down"),
    Word(5, "no state", GREY, "nop"),
    Word(6, "unknown", GREY, "unknown"),
    Word(7, "up", GREEN),
)


def words(known: Iterable[Word]) -> list[ValueMapping]:
    """Return the mapping that shows words, each in its colour, in place of numbers."""
    return [
        ValueMap(
            options={
                str(word.code): ValueMappingResult(text=word.text, color=word.colour, index=number)
                for number, word in enumerate(known)
            }
        )
    ]


def nothing(text: str) -> ValueMapping:
    """Return the mapping that shows ``text``, in no colour that means anything, without a value."""
    result = ValueMappingResult(text=text, color=GREY)
    return SpecialValueMap(
        options=SpecialOptions(match=SpecialValueMatch.NULL_AND_NAN, result=result)
    )


def endless(text: str) -> list[ValueMapping]:
    """Return the mapping that shows ``text`` for +Inf, which some settings use."""
    return [
        ValueMap(options={"Infinity": ValueMappingResult(text=text)}),
        nothing("unknown"),
    ]


#: Of an alert.
SEVERITY: list[ValueMapping] = [
    ValueMap(
        options={
            "critical": ValueMappingResult(text="critical", color=RED, index=0),
            "warning": ValueMappingResult(text="warning", color=ORANGE, index=1),
            "none": ValueMappingResult(text="none", color=GREY, index=2),
        }
    )
]


def steps(first: str, *more: tuple[float, str]) -> list[Threshold]:
    """Return thresholds: the colour of small values, then each limit with that from there on."""
    return [Threshold(value=None, color=first)] + [
        Threshold(value=limit, color=colour) for limit, colour in more
    ]


def _short(pattern: str, text: str) -> RegexMap:
    return RegexMap(options=RegexOptions(pattern=pattern, result=ValueMappingResult(text=text)))


#: How people name a subsystem (the end of its NQN) and a path, in the cells of tables.
NAMES: list[ValueMapping] = [
    _short(r"/^nqn\..*:([^:]+)$/", "$1"),
    _short(r"/^(\w+):(.+?)(?::4420)?%([^%\]]+)$/", "$1 $2 via $3"),
    _short(r"/^(tcp|rdma|fc|loop|pcie):(.+?)(?::4420)?$/", "$1 $2"),
]
