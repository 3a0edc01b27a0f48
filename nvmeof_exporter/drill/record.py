"""The record of what was committed, kept away from the storage under test.

One JSON object a line, synchronized before anybody is told: ``{"committed": 12,
"digest": "…"}`` when a checkpoint is, ``{"retired": 11}`` before one is removed. A
storage that loses a whole checkpoint leaves no trace of it; the record does. The last
line may be cut off where the machine that writes it lost power.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from nvmeof_exporter.drill.files import RealFiles, write_all

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Record", "RecordError", "read_record"]


class RecordError(Exception):
    """The record cannot be read; the text says which, where and why."""


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    committed: int | None = None
    digest: str = ""
    retired: int | None = None


class Record:
    """Writes a new record at ``path``. Raises OSError, also where there is one already."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o644)
        self._end = 0
        RealFiles().synchronize_directory(str(path.parent))

    def committed(self, step: int, digest: str) -> None:
        """Note that the checkpoint ``step`` with this manifest is committed. Raises OSError."""
        self._append(_Entry(committed=step, digest=digest))

    def retired(self, step: int) -> None:
        """Note that the checkpoint ``step`` is about to be removed. Raises OSError."""
        self._append(_Entry(retired=step))

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._descriptor)

    def _append(self, entry: _Entry) -> None:
        line = msgspec.json.encode(entry) + b"\n"
        write_all(self._descriptor, line, self._end)
        self._end += len(line)
        os.fsync(self._descriptor)


def read_record(path: Path) -> dict[int, str]:
    """Return the digests of the checkpoints that must be there, by step.

    Raises:
        RecordError: there is no such file, or a line that says neither.

    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}") from error
    expected: dict[int, str] = {}
    lines = raw.split(b"\n")[:-1]  # what has no end was not finished: nobody was told yet
    for number, line in enumerate(lines, start=1):
        try:
            entry = msgspec.json.decode(line, type=_Entry)
        except ValueError as error:  # msgspec's and wrong UTF-8
            raise RecordError(f"{path}:{number}: {error}") from error
        if (entry.committed is None) is (entry.retired is None):
            raise RecordError(
                f'{path}:{number}: expected "committed" or "retired", and one of them'
            )
        if entry.committed is not None:
            expected[entry.committed] = entry.digest
        elif entry.retired is not None:
            expected.pop(entry.retired, None)
    return expected
