"""Keeps the monitor's memory of paths on disk, off the poll loop.

The disk may be slow, full, read-only or itself on a lost path: writing happens
in a thread of its own, and polling never waits for it.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

import structlog

from nvmeof_exporter import memory
from nvmeof_exporter.monitor.expectations import KnownPath, KnownSubsystem

if TYPE_CHECKING:
    from nvmeof_exporter.model import PathId
    from nvmeof_exporter.monitor.expectations import Expectations

__all__ = ["MemoryKeeper", "recalled", "remembered"]

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()

#: A memory that could not be written is tried again after this long (seconds).
_RETRY_SECONDS = 60.0

#: How often the writer looks whether ``forget`` has changed the file (seconds).
_LOOK_SECONDS = 1.0


class MemoryKeeper:
    """Loads at start, saves on change, and follows what ``forget`` drops meanwhile.

    Args:
        directory: where the file is; ``""`` keeps nothing.

    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._on_disk = memory.Memory()
        self._wanted: memory.Memory | None = None
        self._forgotten: list[tuple[str, PathId]] = []
        self._signature: tuple[int, int] | None = None
        self._changed_outside = False
        self._failing = False
        self._stopping = False
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None

    @property
    def works(self) -> bool | None:
        """Whether the newest memory is on disk or on its way there; None where none is kept."""
        return not self._failing if self._directory else None

    @property
    def has_news(self) -> bool:
        """Whether ``forget`` has changed the file, so that ``synchronize`` is worth calling."""
        return bool(self._forgotten) or self._changed_outside

    def load(self) -> dict[str, KnownSubsystem]:
        """Read what an earlier run remembered; a warning is logged, never raised."""
        if not self._directory:
            return {}
        self._on_disk, warning = memory.load(self._directory)
        self._signature = self._stat()
        if warning is not None:
            _log.error("memory of paths not usable", reason=warning)
        return recalled(self._on_disk, time.monotonic() - time.time())

    def start(self) -> None:
        """Start the writing thread."""
        if self._directory and self._thread is None:
            self._thread = threading.Thread(target=self._write_on_demand, name="memory")
            self._thread.daemon = True  # a disk that hangs must not keep the process alive
            self._thread.start()

    def stop(self, patience: float = 2.0) -> None:
        """Write what is left, waiting at most ``patience`` seconds for the disk."""
        with self._condition:
            self._stopping = True
            self._condition.notify()
        if self._thread is not None:
            self._thread.join(patience)

    def synchronize(self, expectations: Expectations) -> None:
        """Hand changes over to the writer, and take over what was forgotten from outside.

        Touches no file: that is the writer's, for the disk may hang.
        """
        if not self._directory:
            return
        with self._condition:
            forgotten, self._forgotten = self._forgotten, []
            outside, self._changed_outside = self._changed_outside, False
        for nqn, path in forgotten:
            expectations.forget(nqn, path)
        if expectations.changed or outside:
            expectations.changed = False
            with self._condition:
                self._wanted = remembered(expectations)
                self._condition.notify()

    def _write_on_demand(self) -> None:
        while True:
            with self._condition:
                if self._wanted is None and not self._stopping:
                    self._condition.wait(_LOOK_SECONDS)
                wanted, self._wanted = self._wanted, None
                stopping = self._stopping
            if wanted is not None and not self._write(wanted) and not stopping:
                self._keep_for_later(wanted)
            elif wanted is None and self._stat() != self._signature:
                self._changed_outside = True
            if stopping:
                return

    def _keep_for_later(self, wanted: memory.Memory) -> None:
        with self._condition:
            if self._wanted is None:
                self._wanted = wanted
            if not self._stopping:
                self._condition.wait(_RETRY_SECONDS)

    def _write(self, wanted: memory.Memory) -> bool:
        try:
            os.makedirs(self._directory, exist_ok=True)
            after, dropped = self._merge(wanted)
        except (memory.MemoryWriteFailed, OSError) as error:
            if not self._failing:
                _log.error("memory of paths not written", reason=str(error))
            self._failing = True
            return False
        if self._failing:
            _log.info("memory of paths written again")
        self._failing = False
        with self._condition:
            self._on_disk = after
            self._signature = self._stat()
            self._forgotten.extend(dropped)
        return True

    def _merge(self, wanted: memory.Memory) -> tuple[memory.Memory, list[tuple[str, PathId]]]:
        """Write what is wanted, less what ``forget`` has dropped since; return both.

        Only a file that is there and sound can say that something was dropped:
        one that vanished or broke is written anew. Raises MemoryWriteFailed.
        """
        dropped: list[tuple[str, PathId]] = []
        if self._stat() is None:
            memory.save(self._directory, wanted)
            return wanted, dropped

        def change(before: memory.Memory) -> memory.Memory:
            dropped.extend(_dropped(self._on_disk, before))
            return _without(wanted, dropped)

        after, warning = memory.update(self._directory, change)
        if warning is not None:
            _log.error("memory of paths not usable", reason=warning)
            memory.save(self._directory, wanted)
            return wanted, []
        return after, dropped

    def _stat(self) -> tuple[int, int] | None:
        try:
            found = os.stat(os.path.join(self._directory, memory.FILE_NAME))
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns


def recalled(found: memory.Memory, to_monotonic: float) -> dict[str, KnownSubsystem]:
    """Return what the monitor knows, by NQN, when it begins with what was ``found``.

    A path that was retiring goes on retiring: its time began when it was last seen, in
    seconds of the wall clock, to which ``to_monotonic`` is added.
    """
    return {
        nqn: KnownSubsystem(
            {
                path.id: KnownPath(
                    path.first_seen,
                    path.last_seen,
                    path.last_seen + to_monotonic if path.retiring else None,
                )
                for path in subsystem.paths
            },
            subsystem.most_at_once,
        )
        for nqn, subsystem in found.subsystems.items()
    }


def remembered(expectations: Expectations) -> memory.Memory:
    """Return what of ``expectations`` outlives this process."""
    return memory.Memory(
        subsystems={
            nqn: memory.RememberedSubsystem(
                known.most,
                tuple(
                    memory.RememberedPath(
                        path,
                        entry.first_seen,
                        entry.last_seen,
                        retiring=entry.retiring_since is not None,
                    )
                    for path, entry in known.paths.items()
                ),
            )
            for nqn, known in expectations.known.items()
        }
    ).bounded()


def _dropped(ours: memory.Memory, theirs: memory.Memory) -> list[tuple[str, PathId]]:
    """Return the paths that were on disk when last seen and are not any more."""
    left = {(n, path.id) for n, known in theirs.subsystems.items() for path in known.paths}
    return [
        (nqn, path.id)
        for nqn, known in ours.subsystems.items()
        for path in known.paths
        if (nqn, path.id) not in left
    ]


def _without(wanted: memory.Memory, dropped: list[tuple[str, PathId]]) -> memory.Memory:
    gone = set(dropped)
    kept = {}
    for nqn, known in wanted.subsystems.items():
        paths = tuple(path for path in known.paths if (nqn, path.id) not in gone)
        if paths:
            kept[nqn] = memory.RememberedSubsystem(min(known.most_at_once, len(paths)), paths)
    return memory.Memory(subsystems=kept)
