"""Runs slow sources beside the poll loop, each at its own risk.

Drivers and firmware answer when they like, or never: a call that does not return
costs its own values and nothing else. Tasks run one after another, so that they take
no more than one processor's time slices from the loop; one that waits for its device
lets the next begin. Past its deadline a task has failed. Its thread cannot be ended:
the device is left alone until the call returns, and what it then brings is as old as
the call and thrown away.

Values are immutable and handed over by replacing a mapping: who reads never waits.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import structlog

from nvmeof_exporter.exposition.published import CollectorStatus
from nvmeof_exporter.sources.events import SourceFailed, SourceUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["AGE_INTERVALS", "Group", "Worker"]

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()

#: Values vanish when they are older than this many intervals and one deadline.
AGE_INTERVALS = 3

#: A task that has run this long (seconds) waits for its device: the next one may begin.
_PROMPT_SECONDS = 0.1

#: A task begins at most once in this time (seconds), however often it is woken.
_SPACING_SECONDS = 1.0

#: Threads at most. Each device has one at most, so that this many devices must hang.
_MOST_THREADS = 64

#: What a source may raise; anything else is a defect of ours and logged with its trace.
_EXPECTED = (OSError, SourceFailed, SourceUnavailable)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Brought(Generic[T]):
    """A value and when the call that brought it began."""

    value: T
    began: float


class _Task(Generic[T]):
    """One source. ``began`` is None while no thread is in it."""

    __slots__ = ("began", "call", "due", "failure", "group", "last", "name", "overdue", "seconds",
                 "wanted")  # fmt: skip

    def __init__(self, group: Group[T], name: str, call: Callable[[], T], due: float) -> None:
        self.group = group
        self.name = name
        self.call = call
        self.due = due
        self.last = due - _SPACING_SECONDS
        self.began: float | None = None
        self.overdue = False
        self.wanted = True
        self.failure = ""
        self.seconds = 0.0


class Group(Generic[T]):
    """The tasks of one collector, which bring values of one type. Made by ``Worker.group``.

    Args:
        worker: who runs them.
        name: of the collector.
        interval: seconds between two runs of a task; None: the worker's.
        hurried: whether ``Worker.wake`` makes them due.

    """

    def __init__(self, worker: Worker, name: str, *, interval: float | None, hurried: bool) -> None:
        self.name = name
        self.hurried = hurried
        self.errors = 0
        self.tasks: dict[str, _Task[T]] = {}
        self.brought: dict[str, _Brought[T]] = {}
        self._interval = interval
        self._worker = worker

    @property
    def interval(self) -> float:
        """Seconds between two runs of a task."""
        return self._worker.interval if self._interval is None else self._interval

    @property
    def age(self) -> float:
        """How old a value may become (seconds) before it vanishes."""
        return AGE_INTERVALS * self.interval + self._worker.deadline

    def assign(self, calls: Mapping[str, Callable[[], T]]) -> None:
        """Run these from now on, by name, new ones at once; values of the others vanish."""
        self._worker.assign(self, calls)

    def values(self) -> dict[str, T]:
        """Return what was brought and is not too old, by name; never waits."""
        oldest = self._worker.clock() - self.age
        brought = self.brought
        return {name: one.value for name, one in brought.items() if one.began >= oldest}

    def status(self) -> CollectorStatus:
        """Tell how the tasks did when each last ended; their durations are summed."""
        tasks = [task for task in self.tasks.copy().values() if task.wanted]
        return CollectorStatus(
            success=not any(task.failure for task in tasks),
            seconds=sum(task.seconds for task in tasks),
            errors=self.errors,
        )


class Worker:
    """Runs the tasks of its groups until stopped.

    Args:
        interval: seconds between two runs of a task.
        deadline: seconds after which a task has failed.
        clock: monotonic seconds.

    """

    def __init__(
        self, interval: float, deadline: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.interval = interval
        self.deadline = deadline
        self.clock = clock
        self._groups: list[Group[Any]] = []
        self._lock = threading.Lock()
        self._nudge = threading.Event()
        self._woken = False
        self._stopping = False
        self._overseer = threading.Thread(target=self._oversee, name="slow sources", daemon=True)

    def group(
        self, name: str, *, interval: float | None = None, hurried: bool = True
    ) -> Group[Any]:
        """Make the group of a collector; its tasks come with ``Group.assign``."""
        made: Group[Any] = Group(self, name, interval=interval, hurried=hurried)
        with self._lock:
            self._groups.append(made)
        return made

    def start(self) -> None:
        """Run tasks from now on, in threads that do not keep the process alive."""
        if self._overseer.ident is None:
            self._overseer.start()

    def stop(self) -> None:
        """Begin no more tasks; those that run are left behind."""
        self._stopping = True
        self._nudge.set()
        if self._overseer.ident is not None:
            self._overseer.join()

    def run_all(self) -> None:
        """Run every task once, here and now: for who has no threads and can wait."""
        for group in self._groups:
            for task in list(group.tasks.values()):
                task.began = task.last = self.clock()
                self._call(task)

    def wake(self) -> None:
        """Run the hurried groups' tasks now: something has changed. Waits for nothing."""
        self._woken = True
        self._nudge.set()

    def configure(self, interval: float, deadline: float) -> None:
        """Take over new times (seconds)."""
        with self._lock:
            self.interval, self.deadline = interval, deadline
            for task in self._all():
                task.due = min(task.due, self.clock() + task.group.interval)
        self._nudge.set()

    def assign(self, group: Group[T], calls: Mapping[str, Callable[[], T]]) -> None:
        """Do what ``Group.assign`` says."""
        now = self.clock()
        with self._lock:
            for name, call in calls.items():
                task = group.tasks.get(name)
                if task is None:
                    group.tasks[name] = _Task(group, name, call, now)
                else:
                    task.call, task.wanted = call, True
            for name in group.tasks.keys() - calls.keys():
                self._drop(group.tasks[name])
        self._nudge.set()

    def _drop(self, task: _Task[T]) -> None:
        """Forget a task, but not that a thread is still in it."""
        task.wanted = False
        task.failure = ""
        group = task.group
        group.brought = {name: one for name, one in group.brought.items() if name != task.name}
        if task.began is None:
            del group.tasks[task.name]

    def _oversee(self) -> None:
        while not self._stopping:
            task, pause = self._look()
            if task is not None:
                self._begin_thread(task)
            self._nudge.wait(pause)
            self._nudge.clear()

    def _look(self) -> tuple[_Task[Any] | None, float | None]:
        """Return the task that a new thread is to run, and when to look again (seconds)."""
        with self._lock:
            now = self.clock()
            self._hurry(now)
            self._fail_overdue(now)
            return self._next(now), self._pause(now)

    def _all(self) -> list[_Task[Any]]:
        return [task for group in self._groups for task in group.tasks.values()]

    def _hurry(self, now: float) -> None:
        if self._woken:
            self._woken = False
            for task in self._all():
                if task.group.hurried:
                    task.due = min(task.due, max(now, task.last + _SPACING_SECONDS))

    def _fail_overdue(self, now: float) -> None:
        for task in self._all():
            if task.began is not None and not task.overdue and now - task.began >= self.deadline:
                task.overdue = True
                task.seconds = now - task.began
                if task.wanted:
                    self._fail(task, f"no answer within {self.deadline:g} s")

    def _next(self, now: float) -> _Task[Any] | None:
        """Mark the task that is due longest as begun, unless one runs that will soon be over."""
        tasks = self._all()
        running = [task.began for task in tasks if task.began is not None]
        due = [task for task in tasks if task.began is None and task.due <= now]
        if self._stopping or not due or any(now - began < _PROMPT_SECONDS for began in running):
            return None
        if len(running) >= _MOST_THREADS:
            for task in due:
                task.due = now + task.group.interval
                self._fail(task, f"{len(running)} other sources hang")
            return None
        task = min(due, key=lambda one: one.due)
        task.began = task.last = now
        task.due = now + task.group.interval
        return task

    def _pause(self, now: float) -> float | None:
        """Return the seconds until there is something to do, None for ever.

        While a task runs promptly its thread takes the next one: no need to look before.
        """
        moments = []
        prompt_until = now
        for task in self._all():
            if task.began is None:
                moments.append(task.due)
            else:
                prompt_until = max(prompt_until, task.began + _PROMPT_SECONDS)
                if not task.overdue:
                    moments.append(task.began + self.deadline)
        return max(min(moments), prompt_until) - now if moments else None

    def _begin_thread(self, task: _Task[Any]) -> None:
        name = f"{task.group.name}:{task.name}"
        try:
            threading.Thread(target=self._run, args=(task,), name=name, daemon=True).start()
        except RuntimeError as error:  # no more threads for this process
            self._end(task, failure=str(error))

    def _run(self, task: _Task[Any] | None) -> None:
        """Run one task, then what is due by then."""
        while task is not None:
            self._call(task)
            with self._lock:
                task = self._next(self.clock())
            self._nudge.set()  # the next turn of what has ended may come before all the others

    def _call(self, task: _Task[Any]) -> None:
        try:
            value = task.call()
        except _EXPECTED as error:
            self._end(task, failure=str(error) or type(error).__name__)
        except Exception as error:  # noqa: BLE001 (a defect in one source must not end the others)
            _log.exception("slow source failed", collector=task.group.name, source=task.name)
            self._end(task, failure=repr(error))
        else:
            self._end(task, value)

    def _end(self, task: _Task[Any], value: object = None, *, failure: str = "") -> None:
        now = self.clock()
        with self._lock:
            began = now if task.began is None else task.began
            overdue, task.overdue = task.overdue, False
            task.began = None
            task.seconds = now - began
            task.due = max(task.due, now + _SPACING_SECONDS)  # it may have been woken meanwhile
            if not task.wanted:
                del task.group.tasks[task.name]
            elif overdue:
                pass
            elif failure:
                self._fail(task, failure)
            else:
                self._succeed(task, _Brought(value, began))

    def _succeed(self, task: _Task[Any], brought: _Brought[Any]) -> None:
        group = task.group
        group.brought = {**group.brought, task.name: brought}
        if task.failure:
            task.failure = ""
            _log.info("slow source works again", collector=group.name, source=task.name)

    def _fail(self, task: _Task[Any], reason: str) -> None:
        task.group.errors += 1
        if task.failure != reason:
            task.failure = reason
            _log.warning(
                "slow source failed", collector=task.group.name, source=task.name, reason=reason
            )
