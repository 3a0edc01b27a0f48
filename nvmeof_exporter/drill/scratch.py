"""Where the load goes: a directory on a file system, or a device of its own.

A scratch place is prepared, gives the workers, is looked at when they have ended, and
cleaned up. Only a file system has checkpoints that can be whole or broken.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from nvmeof_exporter.drill.checkpoint import Content, Shape
from nvmeof_exporter.drill.files import BLOCK_BYTES, open_direct, write_all
from nvmeof_exporter.drill.findings import Condition
from nvmeof_exporter.drill.load import (
    KEPT_CHECKPOINTS,
    Burster,
    Checkpointer,
    Reader,
    Timed,
    TimedFiles,
    prepare_file,
)
from nvmeof_exporter.drill.record import Record, read_record
from nvmeof_exporter.drill.target import BLANK_BYTES, claim_device
from nvmeof_exporter.drill.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from nvmeof_exporter.drill.files import Files
    from nvmeof_exporter.drill.findings import Finding
    from nvmeof_exporter.drill.load import Worker
    from nvmeof_exporter.drill.recorder import Recorder

__all__ = ["DeviceScratch", "DirectoryScratch", "Interrupted", "LoadShape", "Scratch", "stoppable"]

_PREFIX = "nvmeof-exporter-drill-"
_CHECKPOINTS = "checkpoints"

#: Of checkpoints that failed, so many are told one by one.
_TOLD = 5

_EVIDENCE = frozenset({Condition.BROKEN, Condition.LOST, Condition.UNKNOWN})


class Interrupted(Exception):  # noqa: N818 - a wish, no mistake
    """Somebody wants what goes on to end."""


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Let signals end what is within, in the main thread. Raises Interrupted."""

    def stop(_number: int, _frame: object) -> None:
        raise Interrupted

    stopping = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    previous = [signal.signal(number, stop) for number in stopping]
    try:
        yield
    finally:
        for number, handler in zip(stopping, previous, strict=True):
            signal.signal(number, handler)


@dataclass(frozen=True, slots=True)
class LoadShape:
    """What the load is made of.

    ``readers`` workers read ``read_blocks`` blocks each, over and over; a checkpoint of
    ``shape`` is written every ``interval`` seconds.
    """

    readers: int = 4
    read_blocks: int = 1024
    shape: Shape = field(default_factory=Shape)
    interval: float = 10.0

    @property
    def bytes(self) -> int:
        """The room it needs: the kept and the pinned checkpoints, one that is written."""
        return self.readers * self.read_bytes + (KEPT_CHECKPOINTS + 2) * self.shape.bytes

    @property
    def read_bytes(self) -> int:
        """What one worker reads, in bytes."""
        return self.read_blocks * BLOCK_BYTES


class Scratch(Protocol):
    """A place for the load. ``path`` names it."""

    path: str

    def prepare(self) -> None:
        """Write what is read later. Raises OSError; nothing is left then."""

    def workers(self, recorder: Recorder) -> list[Worker]:
        """Make the workers."""

    def before_fault(self) -> None:
        """Keep what is there now for later."""

    def look(self) -> list[Finding]:
        """Judge what the workers left. Raises OSError."""

    def clean(self, findings: list[Finding] | None) -> tuple[str, ...]:
        """Remove what was made, or say why it stays; None: it could not be looked at."""

    def close(self) -> None:
        """Give everything back."""


class DirectoryScratch:
    """A directory of its own in ``parent``.

    Args:
        parent: where it is made.
        load: what is to be there.
        record: where what was committed is noted; it must not be there yet.
        keep: whether the checkpoints and the record stay.
        files: makes the file system that checkpoints are written through.

    """

    def __init__(
        self,
        parent: str,
        load: LoadShape,
        record: Path,
        *,
        keep: bool = False,
        files: Callable[[Timed], Files] = TimedFiles,
    ) -> None:
        self.path = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
        self._load = load
        self._record_path = record
        self._record: Record | None = None
        self._keep = keep
        self._files = files
        self._writer: Checkpointer | None = None

    def prepare(self) -> None:
        """Write a file for each reader."""
        try:
            os.mkdir(f"{self.path}/{_CHECKPOINTS}")
            content = Content(Shape(1, self._load.read_blocks))
            for number in range(self._load.readers):
                prepare_file(f"{self.path}/read-{number}", self._load.read_blocks, content)
            self._record = Record(self._record_path)
        except BaseException:
            shutil.rmtree(self.path, ignore_errors=True)
            raise

    def workers(self, recorder: Recorder) -> list[Worker]:
        """Make the readers and the writer of checkpoints."""
        assert self._record is not None  # noqa: S101  # prepare came first
        self._writer = Checkpointer(
            f"{self.path}/{_CHECKPOINTS}",
            self._load.shape,
            self._load.interval,
            self._files(Timed(recorder, "checkpoint")),
            self._record,
        )
        names = [f"read-{number}" for number in range(self._load.readers)]
        span = (0, self._load.read_bytes)
        return [*(Reader(n, f"{self.path}/{n}", span, recorder) for n in names), self._writer]

    def before_fault(self) -> None:
        """Keep the newest checkpoint to the end."""
        if self._writer is not None:
            self._writer.pin()

    def look(self) -> list[Finding]:
        """Judge the checkpoints."""
        return verify(f"{self.path}/{_CHECKPOINTS}", read_record(self._record_path))

    def clean(self, findings: list[Finding] | None) -> tuple[str, ...]:
        """Remove everything, unless it is wanted, is evidence, or would hang."""
        problems = self._writer.problems if self._writer is not None else []
        told = tuple(f"a checkpoint failed: {text}" for _, text in problems[:_TOLD])
        beside = f"with the record {self._record_path}"
        if findings is None or any(finding.condition in _EVIDENCE for finding in findings):
            return (*told, f"left as it is: {self.path}, {beside}")
        if self._keep:
            for name in os.listdir(self.path):
                if name != _CHECKPOINTS:
                    os.unlink(f"{self.path}/{name}")
            return (*told, f"kept: {self.path}/{_CHECKPOINTS}, {beside}")
        shutil.rmtree(self.path, ignore_errors=True)
        self._record_path.unlink(missing_ok=True)
        return told

    def close(self) -> None:
        """Close the record."""
        if self._record is not None:
            self._record.close()


class DeviceScratch:
    """A device that is written over, all but its first and last MiB: those tell that it is blank.

    Args:
        path: the device.
        load: what is to be there.

    Raises:
        Refused: it is in use, or not blank.

    """

    def __init__(self, path: str, load: LoadShape) -> None:
        self.path = path
        self._load = load
        self._claim = claim_device(path)

    def prepare(self) -> None:
        """Write what is read: reads of what was never written need not reach the storage."""
        content = Content(Shape(1, self._load.read_blocks))
        descriptor, _ = open_direct(self.path, os.O_WRONLY)
        try:
            for index in range(self._load.readers * self._load.read_blocks):
                write_all(descriptor, content.block(0, 0, index), BLANK_BYTES + index * BLOCK_BYTES)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def workers(self, recorder: Recorder) -> list[Worker]:
        """Make the readers and the writer of bursts."""
        size = self._load.read_bytes
        begins = [BLANK_BYTES + number * size for number in range(self._load.readers)]
        readers = (
            Reader(f"read-{number}", self.path, (begin, size), recorder)
            for number, begin in enumerate(begins)
        )
        burst = (BLANK_BYTES + self._load.readers * size, self._load.shape)
        return [*readers, Burster(self.path, burst, self._load.interval, recorder)]

    def before_fault(self) -> None:
        """There is nothing to keep."""

    def look(self) -> list[Finding]:
        """There is nothing to judge."""
        return []

    def clean(self, findings: list[Finding] | None) -> tuple[str, ...]:
        """Say what was written over."""
        del findings
        written = self._load.readers * self._load.read_bytes + self._load.shape.bytes
        return (f"{self.path} was written over: {written >> 20} MiB from 1 MiB on",)

    def close(self) -> None:
        """Let others use the device again."""
        os.close(self._claim)
