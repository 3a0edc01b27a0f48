"""Runs a drill: watches, leads it through its course, does what is due, and can be stopped.

Nothing here waits for the storage: the load has threads of its own, and the fault is caused
and undone by commands that are not waited for.
"""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from nvmeof_exporter.drill.commands import Command
from nvmeof_exporter.drill.phases import Course, Do, Observation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nvmeof_exporter.drill.phases import Plan
    from nvmeof_exporter.drill.recorder import Recorder, Sample
    from nvmeof_exporter.drill.watch import PathsSeen, Watch

__all__ = ["Runner", "Voice"]

#: How often the paths are looked at, and how often while something goes on (seconds).
_LOOK_SECONDS = 0.1
_DENSE_SECONDS = 0.02

#: How long a command may take (seconds).
COMMAND_SECONDS = 120.0

#: The first interrupt undoes the fault, the second ends without waiting for the paths, and
#: with so many the command that undoes it is not waited for either.
_IMPATIENT = 3

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Voice(Protocol):
    """Tells whoever runs the drill what goes on."""

    def say(self, text: str) -> None:
        """Tell something that happened or is due."""

    def progress(self, phase: str, since: float, sample: Sample, states: dict[str, str]) -> None:
        """Tell how things are, ``since`` seconds into a phase; once a second or so."""


class Runner:
    """One run.

    Args:
        plan: how long things take.
        commands: what causes the fault and what undoes it; None: people do.
        watch: sees the paths.
        recorder: is told by the load.
        voice: tells people.
        before_fault: called once, right before the fault is caused.

    Attributes:
        course: where it is, and how it went.

    """

    def __init__(
        self,
        plan: Plan,
        commands: tuple[str, str] | None,
        watch: Watch,
        recorder: Recorder,
        voice: Voice,
        before_fault: Callable[[], None],
    ) -> None:
        self.course = Course(plan, recorder.start)
        self._commands = commands
        self._watch = watch
        self._recorder = recorder
        self._voice = voice
        self._before_fault = before_fault
        self._running: Command | None = None
        self._undoing = False
        self._ended = False
        self._interrupts = 0
        self._heeded = 0
        self._told = float("-inf")

    def run(self) -> None:
        """Run to the end of the course. Signals end it early; must run in the main thread."""
        with self._interruptible():
            try:
                while not self._ended or self._running is not None:
                    self._round(time.monotonic())
                    time.sleep(_DENSE_SECONDS if self._watch.attention else _LOOK_SECONDS)
            except BaseException:
                self._put_right()
                raise

    def _round(self, now: float) -> None:
        self._heed_interrupts(now)
        seen = self._watch.look()
        now = time.monotonic()
        sample = self._recorder.sample(now)
        if not self._ended:
            self._do(
                self.course.observe(
                    Observation(
                        now,
                        sample.done,
                        self._recorder.waits(now),
                        seen.usable,
                        seen.preferred,
                        seen.carrying,
                        seen.changes,
                    )
                ),
                now,
            )
        self._follow_command(now)
        self._tell(now, sample, seen)

    def _do(self, do: Do | None, now: float) -> None:
        if do is Do.TRIGGER:
            self._before_fault()
            self._voice.say("the fault is due now")
            if self._commands is not None:
                self._start(self._commands[0], now)
            else:
                self._voice.say("CAUSE IT NOW, and leave it until you are asked to undo it")
        elif do is Do.RESTORE:
            self._voice.say("the fault is to be undone now")
            self._drop_command()
            self._undoing = True
            if self._commands is not None:
                self._start(self._commands[1], now)
            else:
                self._voice.say("UNDO IT NOW")
        elif do is Do.END:
            self._ended = True

    def _start(self, text: str, now: float) -> None:
        self._voice.say(f"running: {text}")
        self._running = Command(text, now, COMMAND_SECONDS)

    def _follow_command(self, now: float) -> None:
        if self._running is None:
            return
        problem = self._running.problem(now)
        if problem is None:
            return
        self._running.close()
        self._running = None
        if not problem:
            return
        if self._undoing:
            self.course.problems.append(f"undoing the fault: {problem}")
            self._voice.say(f"UNDO IT BY HAND: the command failed: {problem}")
        else:
            self._do(self.course.abort(now, f"causing the fault: {problem}"), now)

    def _put_right(self) -> None:
        """Undo the fault after a mistake of ours, whatever else cannot be done any more."""
        do = self.course.abort(time.monotonic(), "the drill itself failed")
        self._do(do, time.monotonic())
        while self._running is not None:
            self._follow_command(time.monotonic())
            time.sleep(_LOOK_SECONDS)

    def _drop_command(self) -> None:
        if self._running is not None:
            self._running.kill()
            self._running.close()
            self._running = None

    def _heed_interrupts(self, now: float) -> None:
        while self._heeded < self._interrupts:
            self._heeded += 1
            if not self._ended:
                self._voice.say("interrupted: nothing more is done than what puts things right")
                self._do(self.course.abort(now, "interrupted"), now)
            elif self._heeded >= _IMPATIENT and self._running is not None:
                self._drop_command()
                self.course.problems.append("undoing the fault was interrupted")

    def _tell(self, now: float, sample: Sample, seen: PathsSeen) -> None:
        if now - self._told >= 1.0:
            self._told = now
            phase = self.course.phase
            since = now - self.course.marks[phase]
            self._voice.progress(phase.value, since, sample, seen.states)

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        previous = [signal.signal(number, self._interrupt) for number in _STOPPING]
        try:
            yield
        finally:
            for number, handler in zip(_STOPPING, previous, strict=True):
                signal.signal(number, handler)

    def _interrupt(self, _number: int, _frame: object) -> None:
        self._interrupts += 1
