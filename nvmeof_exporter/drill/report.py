"""The report of a drill, as JSON: its schema, and how it is made. See docs/drill.md.

Times are seconds since the load began, rates bytes per second. What is not known is null.
"""

from __future__ import annotations

import math
import os
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from nvmeof_exporter import __version__
from nvmeof_exporter.drill.latencies import PERCENTILES
from nvmeof_exporter.drill.objectives import Figures  # noqa: TC001 - msgspec reads it
from nvmeof_exporter.drill.phases import Phase
from nvmeof_exporter.drill.recorder import SLOTS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nvmeof_exporter.drill.findings import Finding
    from nvmeof_exporter.drill.latencies import Latencies
    from nvmeof_exporter.drill.objectives import Judgement
    from nvmeof_exporter.drill.phases import Course
    from nvmeof_exporter.drill.recorder import Recorder
    from nvmeof_exporter.drill.target import Target
    from nvmeof_exporter.drill.watch import Watch

__all__ = [
    "FORMAT",
    "VERDICTS",
    "VERSION",
    "Report",
    "ReportError",
    "decode",
    "encode",
    "report_of",
]

FORMAT = "nvmeof-exporter-drill-report"
VERSION = 1

#: The verdict in words, by exit status.
VERDICTS = ("pass", "fail", "could not judge")

#: The timeline has at most so many points, each of as many tenths of a second as that takes.
_POINTS = 1200

#: So many of the longest pauses, and of the first failures, are told one by one.
_TOLD = 100


class ReportError(ValueError):
    """A file is no report that this release reads; the text says why."""


class ObjectiveTold(msgspec.Struct, frozen=True):
    """One objective. ``verdict`` is ``met``, ``missed`` or ``not judged``."""

    objective: str
    verdict: str
    found: str
    wanted: str


class TargetTold(msgspec.Struct, frozen=True):
    """What the load ran on. ``namespaces`` are (nqn, nsid)."""

    path: str
    file_system: str
    disks: tuple[str, ...]
    namespaces: tuple[tuple[str, str], ...]


class LatenciesTold(msgspec.Struct, frozen=True):
    """Latencies of one kind of request, seconds. ``percentiles`` by percent, as a text."""

    count: int
    mean: float | None
    percentiles: dict[str, float | None]


class PauseTold(msgspec.Struct, frozen=True):
    """A pause of a worker, or (``worker`` is ``""``) of all together."""

    start: float
    seconds: float
    worker: str
    failed: bool


class FailureTold(msgspec.Struct, frozen=True):
    """A request that failed, and how."""

    at: float
    worker: str
    kind: str
    error: str


class Timeline(msgspec.Struct, frozen=True):
    """Points of ``step`` seconds each: bytes per second, worst latency, failed requests."""

    step: float
    read: tuple[float, ...]
    written: tuple[float, ...]
    worst: tuple[float, ...]
    failed: tuple[int, ...]


class SpanTold(msgspec.Struct, frozen=True):
    """A path's state from ``start`` on."""

    start: float
    state: str


class PathTold(msgspec.Struct, frozen=True):
    """What a path did, and its settings (seconds; a text for "off")."""

    path: str
    spans: tuple[SpanTold, ...]
    settings: dict[str, float | str | None]


class EventTold(msgspec.Struct, frozen=True):
    """What the exporter's own monitor told, which its metrics and log would say."""

    at: float
    kind: str
    nqn: str
    fields: dict[str, str | float]


class CheckpointTold(msgspec.Struct, frozen=True):
    """What became of a checkpoint."""

    name: str
    condition: str
    reason: str


class Report(msgspec.Struct, frozen=True):
    """One drill.

    ``marks`` are when each phase began; ``started`` is wall-clock seconds. ``exporter_pause``
    is the longest pause since the fault as the exporter tells it, to compare with
    ``figures.fault_whole``.
    """

    format: str
    version: int
    name: str
    scenario: str
    verdict: str
    started: float
    seconds: float
    target: TargetTold
    objectives: tuple[ObjectiveTold, ...]
    problems: tuple[str, ...]
    remarks: tuple[str, ...]
    marks: dict[str, float]
    figures: Figures
    exporter_pause: float | None
    latencies: dict[str, LatenciesTold]
    pauses: tuple[PauseTold, ...]
    failures: tuple[FailureTold, ...]
    timeline: Timeline
    paths: tuple[PathTold, ...]
    events: tuple[EventTold, ...]
    checkpoints: tuple[CheckpointTold, ...]
    commands: dict[str, str]
    load: dict[str, float]
    versions: dict[str, str]
    shared_fate: dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class About:
    """What is known of a drill before it runs. ``started`` is wall-clock seconds."""

    name: str
    scenario: str
    started: float
    target: Target
    commands: dict[str, str]
    load: dict[str, float]
    shared_fate: dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything that was recorded."""

    course: Course
    recorder: Recorder
    watch: Watch
    findings: list[Finding]
    remarks: tuple[str, ...] = ()


def report_of(
    about: About, seen: Seen, figures: Figures, judged: list[Judgement], status: int
) -> Report:
    """Put everything together."""
    course, recorder = seen.course, seen.recorder
    start, end = recorder.start, course.marks[Phase.OVER]
    pauses = sorted(
        [*recorder.pauses, *recorder.ongoing(end)], key=lambda pause: pause.seconds, reverse=True
    )
    target, marks = about.target, _marks(course, start)
    events = tuple(
        EventTold(round(one.wall - about.started, 3), one.kind, one.nqn, one.fields)
        for one in seen.watch.occurrences
    )
    return Report(
        format=FORMAT,
        version=VERSION,
        name=about.name,
        scenario=about.scenario,
        verdict=VERDICTS[status],
        started=about.started,
        seconds=round(end - start, 3),
        target=TargetTold(target.path, target.file_system, target.disks, target.namespaces),
        objectives=tuple(
            ObjectiveTold(one.objective, one.verdict.value, one.found, one.wanted) for one in judged
        ),
        problems=tuple(course.problems),
        remarks=seen.remarks,
        marks=marks,
        figures=figures,
        exporter_pause=_exporter_pause(events, marks.get(Phase.FAULT.value, math.inf)),
        latencies={kind: _latencies(kept) for kind, kept in recorder.latencies.items()},
        pauses=tuple(
            PauseTold(round(p.start - start, 3), round(p.seconds, 3), p.worker, p.failed)
            for p in pauses[:_TOLD]
        ),
        failures=tuple(
            FailureTold(round(f.time - start, 3), f.worker, f.kind, f.error)
            for f in recorder.failures[:_TOLD]
        ),
        timeline=_timeline(recorder, end),
        paths=_paths(seen.watch, start),
        events=events,
        checkpoints=tuple(
            CheckpointTold(one.name, one.condition.value, one.reason) for one in seen.findings
        ),
        commands=about.commands,
        load=about.load,
        versions={
            "exporter": __version__,
            "python": platform.python_version(),
            "kernel": os.uname().release,
        },
        shared_fate=about.shared_fate,
    )


def encode(report: Report) -> bytes:
    """Write a report as JSON."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"


def decode(raw: bytes) -> Report:
    """Read a report. Raises ReportError."""
    try:
        report = msgspec.json.decode(raw, type=Report)
    except (ValueError, RecursionError) as error:
        raise ReportError(f"no report of a drill: {error}") from error
    if (report.format, report.version) != (FORMAT, VERSION):
        raise ReportError("a report of another format or version")
    return report


def _marks(course: Course, start: float) -> dict[str, float]:
    marks = {phase.value: moment for phase, moment in course.marks.items()}
    extra = {
        "struck": course.struck,
        "resumed": course.resumed,
        "undone": course.undone,
        "back": course.back,
    }
    marks.update({name: moment for name, moment in extra.items() if moment is not None})
    return {name: round(moment - start, 3) for name, moment in marks.items()}


def _latencies(kept: Latencies) -> LatenciesTold:
    return LatenciesTold(
        kept.count,
        kept.total / kept.count if kept.count else None,
        {f"{share:g}": kept.percentile(share) for share in PERCENTILES},
    )


def _timeline(recorder: Recorder, end: float) -> Timeline:
    slots = max(int((end - recorder.start) * SLOTS_PER_SECOND), 1)
    width = -(-slots // _POINTS)
    step = width / SLOTS_PER_SECOND
    points = [recorder.total(first, first + width) for first in range(0, slots, width)]
    return Timeline(
        step,
        tuple(round(point.read_bytes / step) for point in points),
        tuple(round(point.written_bytes / step) for point in points),
        tuple(round(point.worst, 4) for point in points),
        tuple(point.failed for point in points),
    )


def _paths(watch: Watch, start: float) -> tuple[PathTold, ...]:
    settings = watch.settings()
    labels = dict.fromkeys(span.path for span in watch.spans)
    return tuple(
        PathTold(
            label,
            tuple(
                SpanTold(round(max(span.start - start, 0.0), 3), span.state)
                for span in watch.spans
                if span.path == label
            ),
            settings.get(label, {}),
        )
        for label in labels
    )


def _exporter_pause(events: Iterable[EventTold], since: float) -> float | None:
    """The longest pause that the exporter told after a moment, None where it told none."""
    told = [
        float(event.fields["seconds"])
        for event in events
        if event.kind == "I/O paused" and event.at >= since
    ]
    return max(told, default=None)
