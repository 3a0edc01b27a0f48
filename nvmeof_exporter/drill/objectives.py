"""What a drill is judged by: each objective met, missed, or not to be judged, and why.

Pure: figures in, verdicts out. An objective whose figure is not known is never met.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "SCENARIOS",
    "Figures",
    "Judgement",
    "Objectives",
    "Scenario",
    "Verdict",
    "judge",
    "status_of",
]


class Verdict(enum.Enum):
    """What became of an objective."""

    MET = "met"
    MISSED = "missed"
    UNKNOWN = "not judged"


class Judgement(NamedTuple):
    """One objective: its name, what was found and what was wanted, in words."""

    objective: str
    verdict: Verdict
    found: str
    wanted: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """A kind of drill. ``survivors``: a path is meant to be left; ``objectives``: what counts."""

    name: str
    about: str
    survivors: bool
    objectives: tuple[str, ...]


_REROUTED = ("reroute", "errors", "back", "second-stall")

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            "controller-failover",
            "a controller of the array is switched off or restarted",
            survivors=True,
            objectives=(*_REROUTED, "checkpoints"),
        ),
        Scenario(
            "link-pull",
            "a cable is pulled, or a port shut",
            survivors=True,
            objectives=(*_REROUTED, "checkpoints"),
        ),
        Scenario(
            "checkpoint-power-loss",
            "the storage loses power while checkpoints are written",
            survivors=False,
            objectives=("errors", "resumed", "checkpoints"),
        ),
        Scenario(
            "failback",
            "a path comes back and is put to use again",
            survivors=True,
            objectives=(*_REROUTED, "share", "checkpoints"),
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Objectives:
    """Limits: ``pause`` seconds at most, ``share`` of the baseline's throughput at least."""

    pause: float = 5.0
    share: float = 0.8


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured; None where it could not be. Times in seconds, rates in bytes/second.

    Pauses are the longest that one worker felt: before the fault (``baseline_pause``), from
    the fault to its undoing (``fault_pause``), and after (``failback_pause``). ``fault_whole``
    and ``failback_whole``: the same of all workers together. ``resumed``: whether I/O went on.
    ``errors``: requests that failed since the fault. ``back_seconds``: from the undoing until
    everything was as before. ``whole``, ``broken``, ``unknown``: checkpoints that had been
    committed; None where they could not be looked at.
    """

    struck: bool
    baseline_pause: float | None
    baseline_errors: int
    baseline_rate: float | None
    fault_pause: float | None
    fault_whole: float | None
    failback_pause: float | None
    failback_whole: float | None
    survivor_rate: float | None
    failback_rate: float | None
    resumed: bool
    errors: int
    back_seconds: float | None
    undone: bool
    whole: int | None = None
    broken: int | None = None
    unknown: int | None = None


def judge(
    scenario: Scenario, wanted: Objectives, found: Figures, problems: Iterable[str] = ()
) -> list[Judgement]:
    """Judge every objective of a scenario.

    ``problems`` say why nothing can be judged at all; then nothing is met, but what was
    missed stays missed.
    """
    judged = [_JUDGES[name](wanted, found) for name in scenario.objectives]
    why = "; ".join(problems)
    if not why:
        return judged
    return [
        one._replace(verdict=Verdict.UNKNOWN, found=f"{one.found} ({why})")
        if one.verdict is Verdict.MET
        else one
        for one in judged
    ]


def status_of(judged: Iterable[Judgement]) -> int:
    """0: every objective is met; 1: one is missed; 2: one could not be judged."""
    verdicts = {one.verdict for one in judged}
    if Verdict.MISSED in verdicts:
        return 1
    return 2 if Verdict.UNKNOWN in verdicts or not verdicts else 0


def _reroute(wanted: Objectives, found: Figures) -> Judgement:
    limit = f"at most {wanted.pause:g} s"
    name = "reroute"
    if not found.struck:
        return Judgement(name, Verdict.UNKNOWN, "no path was lost", limit)
    if found.baseline_pause is not None and found.baseline_pause > wanted.pause:
        said = f"a request waited {_time(found.baseline_pause)} already before the fault"
        return Judgement(name, Verdict.UNKNOWN, said, limit)
    if found.fault_pause is None:
        return Judgement(name, Verdict.UNKNOWN, "no pause was measured", limit)
    said = _waits(found.fault_pause, found.fault_whole)
    if not found.resumed:
        return Judgement(name, Verdict.MISSED, f"I/O did not go on; {said}", limit)
    return Judgement(name, _met(found.fault_pause <= wanted.pause), said, limit)


def _errors(_: Objectives, found: Figures) -> Judgement:
    limit = "no request fails"
    if found.baseline_errors:
        said = f"{found.baseline_errors} failed already before the fault"
        return Judgement("errors", Verdict.UNKNOWN, said, limit)
    said = f"{found.errors} requests failed"
    if not found.struck and not found.errors:
        return Judgement("errors", Verdict.UNKNOWN, f"{said}, but no path was lost", limit)
    return Judgement("errors", _met(not found.errors), said, limit)


def _back(_: Objectives, found: Figures) -> Judgement:
    limit = "every path is back and used as before"
    if not found.undone:
        return Judgement("back", Verdict.UNKNOWN, "the fault was not undone", limit)
    if not found.struck:
        return Judgement("back", Verdict.UNKNOWN, "no path was lost", limit)
    if found.back_seconds is None:
        return Judgement("back", Verdict.MISSED, "not within the time given", limit)
    return Judgement("back", Verdict.MET, f"after {found.back_seconds:.1f} s", limit)


def _second_stall(wanted: Objectives, found: Figures) -> Judgement:
    limit = f"at most {wanted.pause:g} s"
    name = "second-stall"
    if not found.undone or not found.struck or found.failback_pause is None:
        return Judgement(name, Verdict.UNKNOWN, "there was no failback to look at", limit)
    said = _waits(found.failback_pause, found.failback_whole)
    return Judgement(name, _met(found.failback_pause <= wanted.pause), said, limit)


def _share(wanted: Objectives, found: Figures) -> Judgement:
    limit = f"at least {wanted.share * 100:g} % of the baseline"
    if not found.baseline_rate or found.failback_rate is None or not found.struck:
        return Judgement("share", Verdict.UNKNOWN, "the throughput was not measured", limit)
    share = found.failback_rate / found.baseline_rate
    said = f"{math.floor(share * 1000) / 10:g} % of the baseline"  # never better than it was
    return Judgement("share", _met(share >= wanted.share), said, limit)


def _resumed(_: Objectives, found: Figures) -> Judgement:
    limit = "I/O goes on once the storage is back"
    if not found.struck or not found.undone:
        return Judgement("resumed", Verdict.UNKNOWN, "no path was lost", limit)
    if not found.resumed:
        return Judgement("resumed", Verdict.MISSED, "it did not within the time given", limit)
    return Judgement("resumed", Verdict.MET, "it did", limit)


def _checkpoints(_: Objectives, found: Figures) -> Judgement:
    limit = "each one that was committed is whole, and the newest loads"
    counts = (found.whole, found.broken, found.unknown)
    if None in counts:
        return Judgement("checkpoints", Verdict.UNKNOWN, "they could not be looked at", limit)
    if not any(counts):
        return Judgement("checkpoints", Verdict.UNKNOWN, "none was committed", limit)
    said = f"{found.whole} whole, {found.broken} broken or lost, {found.unknown} not readable"
    if found.broken:
        return Judgement("checkpoints", Verdict.MISSED, said, limit)
    return Judgement("checkpoints", Verdict.UNKNOWN if found.unknown else Verdict.MET, said, limit)


def _waits(of_one: float, of_all: float | None) -> str:
    said = f"the longest wait of a worker was {_time(of_one)}"
    return said if of_all is None else f"{said}, of all together {_time(of_all)}"


def _time(seconds: float) -> str:
    """Pauses shorter than the recorder's threshold are told as 0."""
    return f"{seconds:.3f} s" if seconds else "less than 0.1 s"


def _met(holds: bool) -> Verdict:  # noqa: FBT001  # a condition is all there is to say
    return Verdict.MET if holds else Verdict.MISSED


_JUDGES = {
    "reroute": _reroute,
    "errors": _errors,
    "back": _back,
    "second-stall": _second_stall,
    "share": _share,
    "resumed": _resumed,
    "checkpoints": _checkpoints,
}
