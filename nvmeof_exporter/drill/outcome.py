"""From what was recorded to the figures that are judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmeof_exporter.drill.findings import Condition
from nvmeof_exporter.drill.objectives import Figures
from nvmeof_exporter.drill.phases import Phase

if TYPE_CHECKING:
    from nvmeof_exporter.drill.findings import Finding
    from nvmeof_exporter.drill.phases import Course
    from nvmeof_exporter.drill.recorder import Recorder

__all__ = ["figures_of"]


def figures_of(course: Course, recorder: Recorder, findings: list[Finding] | None) -> Figures:
    """Take the figures of a drill that is over.

    A pause counts for the time that it touched: what ended before the fault is the
    baseline's, what began after the fault was being undone is the failback's, and the rest
    the fault's, also where it began just before.

    Args:
        course: how it went.
        recorder: what the load felt.
        findings: the checkpoints, None where none were written or looked at.

    """
    start, end = course.marks[Phase.BASELINE], course.marks[Phase.OVER]
    struck = course.marks.get(Phase.FAULT)
    undone = course.undone
    fault = (struck if struck is not None else end, undone if undone is not None else end)
    failed_before = sum(failure.time <= fault[0] for failure in recorder.failures)
    return Figures(
        struck=course.struck is not None,
        baseline_pause=_ended_before(recorder, fault[0]),
        baseline_errors=failed_before,
        baseline_rate=recorder.moved(start, fault[0]),
        fault_pause=_longest(recorder, fault, end, whole=False) if struck is not None else None,
        fault_whole=_longest(recorder, fault, end, whole=True) if struck is not None else None,
        failback_pause=_began_after(recorder, undone, end, whole=False),
        failback_whole=_began_after(recorder, undone, end, whole=True),
        survivor_rate=recorder.moved(course.marks[Phase.RECOVERY], fault[1])
        if Phase.RECOVERY in course.marks and course.plan.survivors
        else None,
        failback_rate=recorder.moved(undone, end) if undone is not None else None,
        resumed=course.resumed is not None,
        errors=recorder.failed - failed_before,
        back_seconds=course.back - undone
        if course.back is not None and undone is not None
        else None,
        undone=undone is not None,
        **_checkpoints(findings),
    )


def _ended_before(recorder: Recorder, moment: float) -> float:
    """The longest pause of a worker that was over by then."""
    kept = (p.seconds for p in recorder.pauses if p.worker and p.end <= moment)
    return max(kept, default=0.0)


def _longest(recorder: Recorder, window: tuple[float, float], end: float, *, whole: bool) -> float:
    return recorder.longest(window[1], window[0], end, whole=whole)


def _began_after(
    recorder: Recorder, moment: float | None, end: float, *, whole: bool
) -> float | None:
    if moment is None:
        return None
    pauses = [p for p in [*recorder.pauses, *recorder.ongoing(end)] if p.start >= moment]
    return max((p.seconds for p in pauses if whole is not bool(p.worker)), default=0.0)


def _checkpoints(findings: list[Finding] | None) -> dict[str, int | None]:
    if findings is None:
        return {"whole": None, "broken": None, "unknown": None}
    conditions = [finding.condition for finding in findings]
    return {
        "whole": conditions.count(Condition.WHOLE),
        "broken": conditions.count(Condition.BROKEN) + conditions.count(Condition.LOST),
        "unknown": conditions.count(Condition.UNKNOWN),
    }
