"""A whole drill: prepares the load, runs the course, looks at what is left, cleans up.

What it makes on the target is removed at the end, unless the storage does not answer any
more, or a checkpoint is not what was committed: that is evidence.
"""

from __future__ import annotations

import dataclasses
import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nvmeof_exporter.drill.findings import os_reason
from nvmeof_exporter.drill.load import Load
from nvmeof_exporter.drill.objectives import Objectives, Scenario, judge, status_of
from nvmeof_exporter.drill.outcome import figures_of
from nvmeof_exporter.drill.recorder import Recorder
from nvmeof_exporter.drill.report import About, Seen, report_of
from nvmeof_exporter.drill.run import Runner
from nvmeof_exporter.drill.scratch import Interrupted, LoadShape, Scratch, stoppable

if TYPE_CHECKING:
    from nvmeof_exporter.drill.findings import Finding
    from nvmeof_exporter.drill.phases import Plan
    from nvmeof_exporter.drill.report import Report
    from nvmeof_exporter.drill.run import Voice
    from nvmeof_exporter.drill.target import Target
    from nvmeof_exporter.drill.watch import Watch

__all__ = ["Drill"]

#: How long the workers may take to end their last request (seconds).
_PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class Drill:
    """What is to be done.

    ``commands`` cause and undo the fault; None: people do. ``shared_fate`` is for the report:
    by NQN, how many of what must fail before the last path is lost.
    """

    name: str
    scenario: Scenario
    objectives: Objectives
    plan: Plan
    load: LoadShape
    target: Target
    commands: tuple[str, str] | None
    shared_fate: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict)

    @property
    def judged(self) -> Scenario:
        """The scenario with the objectives that the target lets one judge."""
        if not self.target.is_device:
            return self.scenario
        left = tuple(name for name in self.scenario.objectives if name != "checkpoints")
        return dataclasses.replace(self.scenario, objectives=left)

    def run(self, scratch: Scratch, watch: Watch, voice: Voice) -> tuple[Report, int]:
        """Do it, in the main thread. Returns the report and the exit status.

        Args:
            scratch: where the load goes; it is closed at the end.
            watch: sees the paths.
            voice: tells people.

        Raises:
            Interrupted: before the load ran.
            OSError: the target or the record cannot be written.

        """
        with closing(scratch):
            with stoppable():
                voice.say(
                    f"preparing {self.load.readers * self.load.read_blocks} MiB to read in "
                    f"{scratch.path}"
                )
                scratch.prepare()
            started, recorder = time.time(), Recorder(time.monotonic())
            runner = Runner(self.plan, self.commands, watch, recorder, voice, scratch.before_fault)
            load = Load(scratch.workers(recorder))
            load.start()
            try:
                runner.run()
            except BaseException:
                if not _stop(load, voice):
                    scratch.clean([])
                raise
            stuck = _stop(load, voice)
            problems = runner.course.problems
            findings = _look(scratch, stuck, problems, voice)
            remarks = self.target.remarks + scratch.clean(findings)
        figures = figures_of(runner.course, recorder, findings)
        judged = judge(self.judged, self.objectives, figures, problems)
        status = status_of(judged)
        seen = Seen(runner.course, recorder, watch, findings or [], remarks)
        return report_of(self._about(started), seen, figures, judged, status), status

    def _about(self, started: float) -> About:
        return About(
            self.name,
            self.scenario.name,
            started,
            self.target,
            dict(zip(("trigger", "restore"), self.commands or (), strict=False)),
            {
                "readers": self.load.readers,
                "read_bytes": self.load.read_bytes,
                "checkpoint_bytes": self.load.shape.bytes,
                "checkpoint_interval": self.load.interval,
            },
            self.shared_fate,
        )


def _look(
    scratch: Scratch, stuck: list[str], problems: list[str], voice: Voice
) -> list[Finding] | None:
    """Look at what the workers left; None, and a problem, where that cannot be done."""
    if stuck:
        problems.append(f"the storage does not answer {', '.join(stuck)}")
        return None
    voice.say("looking at the checkpoints")
    try:
        with stoppable():
            return scratch.look()
    except Interrupted:
        problems.append("interrupted while the checkpoints were looked at")
    except OSError as error:
        problems.append(f"the checkpoints cannot be listed: {os_reason(error)}")
    return None


def _stop(load: Load, voice: Voice) -> list[str]:
    """End the load; returns the workers that the storage does not answer."""
    voice.say("ending the load")
    try:
        with stoppable():
            return load.stop(_PATIENCE)
    except Interrupted:
        return load.stop(0.0)
