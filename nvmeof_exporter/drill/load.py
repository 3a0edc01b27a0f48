"""The load: workers that read in large pieces as data loaders do, and one that checkpoints.

Each worker is a thread with one request at a time, past the page cache. A request that the
storage does not answer cannot be taken back: its thread waits in the kernel, and ``stop``
says which do.
"""

from __future__ import annotations

import errno
import mmap
import os
import threading
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from nvmeof_exporter.drill.checkpoint import Content, commit, final_name, retire, step_of
from nvmeof_exporter.drill.files import BLOCK_BYTES, RealFiles, open_direct, write_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvmeof_exporter.drill.checkpoint import Shape
    from nvmeof_exporter.drill.files import Block, Files, Output
    from nvmeof_exporter.drill.record import Record
    from nvmeof_exporter.drill.recorder import Recorder

__all__ = [
    "KEPT_CHECKPOINTS",
    "Burster",
    "Checkpointer",
    "Load",
    "Reader",
    "Timed",
    "TimedFiles",
    "Worker",
    "prepare_file",
]

#: After a request that failed, so long (seconds): errors are told, not hammered.
_AFTER_FAILURE_SECONDS = 0.05

#: How many committed checkpoints are kept.
KEPT_CHECKPOINTS = 2


class Worker(Protocol):
    """Something to do over and over until ``stopping`` is set."""

    name: str

    def run(self, stopping: threading.Event) -> None:
        """Do it. OSError is recorded, not raised."""


class Load:
    """Runs workers, each in a thread of its own."""

    def __init__(self, workers: list[Worker]) -> None:
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(
                target=worker.run, args=(self._stopping,), name=worker.name, daemon=True
            )
            for worker in workers
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self, patience: float) -> list[str]:
        """End; returns the names of the workers that still wait for the storage.

        Args:
            patience: how long to wait for them all together, seconds.

        """
        self._stopping.set()
        deadline = time.monotonic() + patience
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(deadline - time.monotonic(), 0.0))
        return [thread.name for thread in self._threads if thread.is_alive()]


@dataclass(slots=True)
class Timed:
    """Times what one worker asks for."""

    recorder: Recorder
    worker: str
    clock: Callable[[], float] = time.monotonic

    def do(self, kind: str, action: Callable[[], int]) -> int:
        """Do ``action``, which returns how many bytes it moved. Raises OSError as it does."""
        begun = self.clock()
        self.recorder.begin(self.worker, begun)
        moved, error = 0, errno.EIO
        try:
            moved = action()
            error = 0
        except OSError as failure:
            error = failure.errno or errno.EIO
            raise
        finally:
            self.recorder.end(self.worker, kind, begun, self.clock(), moved, error)
        return moved


class Reader:
    """Reads a file or device from end to end, over and over.

    Args:
        name: the worker's.
        path: what is read; it is opened when the worker runs.
        span: the bytes that are read, from offset and of length, multiples of BLOCK_BYTES.
        recorder: told of every request.

    """

    def __init__(self, name: str, path: str, span: tuple[int, int], recorder: Recorder) -> None:
        self.name = name
        self._path = path
        self._first, self._length = span
        self._buffer = mmap.mmap(-1, BLOCK_BYTES)
        self._descriptor = -1
        self._direct = False
        self._timed = Timed(recorder, name)

    def run(self, stopping: threading.Event) -> None:
        """Read until told to stop."""
        offset = 0
        while not stopping.is_set():
            try:
                self._timed.do("read", partial(self._read, self._first + offset))
            except OSError:
                stopping.wait(_AFTER_FAILURE_SECONDS)
            offset = (offset + BLOCK_BYTES) % self._length
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def _read(self, offset: int) -> int:
        if self._descriptor < 0:
            self._descriptor, self._direct = open_direct(self._path, os.O_RDONLY)
        count = os.preadv(self._descriptor, [self._buffer], offset)
        if count < BLOCK_BYTES:
            # Neither a file nor a device shrinks while it is read.
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if not self._direct:
            # What was read must not come from memory the next time.
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return count


class TimedFiles(RealFiles):
    """The real file system, everything that may wait for the storage or fail recorded."""

    def __init__(self, timed: Timed) -> None:
        self._timed = timed

    def make_directory(self, path: str) -> None:
        """Make a directory that is not there yet."""
        self._timed.do("name", _moving_nothing(super().make_directory, path))

    def create(self, path: str, *, direct: bool) -> Output:  # type: ignore[override]
        """Make a file whose writes are recorded."""
        made: list[Output] = []

        def create() -> int:
            made.append(super(TimedFiles, self).create(path, direct=direct))
            return 0

        self._timed.do("name", create)
        return _TimedOutput(made[0], self._timed)

    def rename(self, old: str, new: str) -> None:
        """Give a file or directory another name in the same directory."""
        self._timed.do("name", _moving_nothing(super().rename, old, new))

    def remove(self, path: str) -> None:
        """Remove a file."""
        self._timed.do("name", _moving_nothing(super().remove, path))

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        self._timed.do("name", _moving_nothing(super().remove_directory, path))

    def synchronize_directory(self, path: str) -> None:
        """Make the names in a directory durable."""
        self._timed.do("sync", _moving_nothing(super().synchronize_directory, path))


def _moving_nothing(call: Callable[..., None], *given: object) -> Callable[[], int]:
    """Make an action for Timed of a call that moves no bytes."""

    def action() -> int:
        call(*given)
        return 0

    return action


class _TimedOutput:
    def __init__(self, output: Output, timed: Timed) -> None:
        self._output = output
        self._timed = timed
        self.close = output.close

    def write(self, block: Block) -> None:
        def write() -> int:
            self._output.write(block)
            return len(block)

        self._timed.do("write", write)

    def synchronize(self) -> None:
        self._timed.do("sync", _moving_nothing(self._output.synchronize))


class Checkpointer:
    """Commits a checkpoint every so often, and keeps the newest few.

    Args:
        directory: where; it must be there.
        shape: how large one is.
        interval: from the begin of one to the begin of the next, seconds, at least.
        files: the file system.
        record: where what was committed is noted.

    Attributes:
        committed: the steps that were, and when (monotonic seconds), oldest first.
        pinned: a step that is kept whatever comes after it, None while there is none.
        problems: what went wrong, and when.

    """

    def __init__(
        self, directory: str, shape: Shape, interval: float, files: Files, record: Record
    ) -> None:
        self.name = "checkpoint"
        self.committed: list[tuple[int, float]] = []
        self.problems: list[tuple[float, str]] = []
        self.pinned: int | None = None
        self._directory = directory
        self._content = Content(shape)
        self._interval = interval
        self._files = files
        self._record = record

    def run(self, stopping: threading.Event) -> None:
        """Write until told to stop; what is begun then is finished."""
        step = self._newest() + 1
        kept: list[int] = []
        while not stopping.is_set():
            begun = time.monotonic()
            try:
                digest = commit(self._files, self._directory, step, self._content, time.time())
                self._record.committed(step, digest)
                self.committed.append((step, time.monotonic()))
                kept.append(step)
                while len(kept) > KEPT_CHECKPOINTS:
                    self._retire(kept.pop(0))
            except OSError as error:
                self.problems.append((time.monotonic(), f"{final_name(step)}: {error.strerror}"))
                stopping.wait(_AFTER_FAILURE_SECONDS)
            step += 1
            stopping.wait(max(begun + self._interval - time.monotonic(), 0.0))

    def pin(self) -> None:
        """Keep the newest one that is committed now to the end, as the one before the fault."""
        if self.committed:
            self.pinned = self.committed[-1][0]

    def _retire(self, step: int) -> None:
        # The newest ones are not retired yet, so that it is not too late to pin one.
        if step != self.pinned:
            self._record.retired(step)
            retire(self._files, self._directory, step)

    def _newest(self) -> int:
        """Tell the newest step of which there is anything, 0 for none."""
        names = (name.partition(".")[0] for name in self._files.names(self._directory))
        return max((step_of(name) or 0 for name in names), default=0)


class Burster:
    """Writes bursts to a device: what checkpoints are to a storage, without a file system.

    Args:
        path: the device.
        burst: from which offset on, and how large one is.
        interval: from the begin of one to the begin of the next, seconds, at least.
        recorder: told of every request.

    """

    def __init__(
        self, path: str, burst: tuple[int, Shape], interval: float, recorder: Recorder
    ) -> None:
        self.name = "burst"
        self._path = path
        self._first, shape = burst
        self._blocks = shape.shards * shape.blocks
        self._content = Content(shape)
        self._interval = interval
        self._timed = Timed(recorder, self.name)
        self._descriptor = -1

    def run(self, stopping: threading.Event) -> None:
        """Write until told to stop; what is begun then is finished."""
        step = 0
        while not stopping.is_set():
            begun = time.monotonic()
            step += 1
            try:
                for index in range(self._blocks):
                    self._timed.do("write", partial(self._write, step, index))
                self._timed.do("sync", _moving_nothing(os.fsync, self._descriptor))
            except OSError:
                stopping.wait(_AFTER_FAILURE_SECONDS)
            stopping.wait(max(begun + self._interval - time.monotonic(), 0.0))
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def _write(self, step: int, index: int) -> int:
        if self._descriptor < 0:
            self._descriptor, _ = open_direct(self._path, os.O_WRONLY)
        block = self._content.block(step, 0, index)
        write_all(self._descriptor, block, self._first + index * len(block))
        return len(block)


def prepare_file(path: str, blocks: int, content: Content) -> None:
    """Write a file for a reader: every block of it, or reads would not reach the storage.

    Args:
        path: the file, which must not be there yet.
        blocks: its size, in blocks of BLOCK_BYTES.
        content: what is written.

    Raises:
        OSError: it cannot be written.

    """
    descriptor, _ = open_direct(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        for index in range(blocks):
            write_all(descriptor, content.block(0, 0, index), index * BLOCK_BYTES)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
