"""The file of remembered paths: what this node once had, kept over restarts and reboots.

A path that is gone can only be reported missing by whoever remembers it. The file
lives in the state directory and is shared by the daemon and ``nvmeof-exporter forget``;
an advisory lock on a file beside it keeps each from undoing the other's changes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import heapq
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from nvmeof_exporter.model import PathId  # noqa: TC001 - msgspec reads the annotations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "FILE_NAME",
    "MAX_PATHS",
    "Memory",
    "MemoryWriteFailed",
    "RememberedPath",
    "RememberedSubsystem",
    "load",
    "save",
    "update",
]

FILE_NAME = "paths.json"
MAX_PATHS = 4096

_VERSION = 1
#: Written anew by every save under the lock, so that a killed one leaves no litter behind.
_TEMPORARY_NAME = "paths.json.new"
_LOCK_NAME = "paths.lock"
_LOCK_SECONDS = 1.0
_LOCK_RETRY_SECONDS = 0.02
_MAX_FILE_BYTES = 16 << 20


class MemoryWriteFailed(Exception):  # noqa: N818 - named like the other conditions to live with
    """The file was not replaced and is as it was; the text says which and why."""


class RememberedPath(msgspec.Struct, frozen=True):
    """A path this node has had. Times are wall clock seconds since the epoch.

    ``retiring``: it is gone for a good reason, and will be forgotten soon.
    """

    id: PathId
    first_seen: float
    last_seen: float
    retiring: bool = False


class RememberedSubsystem(msgspec.Struct, frozen=True):
    """The paths of one subsystem NQN and the most of them that were ever held at once."""

    most_at_once: int
    paths: tuple[RememberedPath, ...] = ()


class Memory(msgspec.Struct, frozen=True):
    """Everything remembered, by subsystem NQN."""

    version: int = _VERSION
    subsystems: dict[str, RememberedSubsystem] = {}

    def bounded(self) -> Memory:
        """The same in a stable order, with the MAX_PATHS paths seen last, and no empty subsystem.

        How many were held at once stays: it is a fact about the past.
        """
        everything = [
            (path.last_seen, nqn, path)
            for nqn, subsystem in self.subsystems.items()
            for path in subsystem.paths
        ]
        kept: dict[str, list[RememberedPath]] = {}
        for _, nqn, path in heapq.nlargest(MAX_PATHS, everything, key=lambda entry: entry[0]):
            kept.setdefault(nqn, []).append(path)
        return Memory(
            subsystems={
                nqn: RememberedSubsystem(
                    self.subsystems[nqn].most_at_once,
                    tuple(sorted(kept[nqn], key=lambda path: path.id)),
                )
                for nqn in sorted(kept)
            }
        )


def load(directory: str | os.PathLike[str]) -> tuple[Memory, str | None]:
    """Return what is remembered in ``directory``, and a warning where that could not be read.

    No file, no directory: nothing is remembered. A file that is corrupt, unreadable or of
    another version is set aside as ``paths.json.corrupt-SECONDS``, and nothing is remembered.
    """
    file = Path(directory) / FILE_NAME
    try:
        return _decode(_read(file)), None
    except (FileNotFoundError, NotADirectoryError):
        return Memory(), None
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        return Memory(), f"{file}: {reason}; starting with no remembered paths; {_set_aside(file)}"


def save(directory: str | os.PathLike[str], memory: Memory) -> None:
    """Replace what is remembered in ``directory``, whole or not at all.

    Waits for a disk, and up to a second for the lock. Raises MemoryWriteFailed.
    """
    with _failures(directory), _locked(Path(directory)):
        _write(Path(directory), memory)


def update(
    directory: str | os.PathLike[str],
    change: Callable[[Memory], Memory],
    *,
    patience: float = _LOCK_SECONDS,
) -> tuple[Memory, str | None]:
    """Load, change and save under the lock, so that no other process's change is lost.

    Returns the memory as it is now and load()'s warning. Nothing is written when ``change``
    returns what it was given. ``patience`` is how long to wait for the lock, in seconds.
    Raises MemoryWriteFailed, and whatever ``change`` raises: then nothing is written.
    """
    place = Path(directory)
    with _failures(directory), _locked(place, patience):
        before, warning = load(place)
        after = change(before)
        if after != before:
            _write(place, after)
    return after, warning


def _read(file: Path) -> bytes:
    with file.open("rb") as opened:
        raw = opened.read(_MAX_FILE_BYTES + 1)
    if len(raw) > _MAX_FILE_BYTES:
        raise ValueError(f"larger than {_MAX_FILE_BYTES} bytes")
    return raw


class _Versioned(msgspec.Struct):
    """Enough of a file of any version to tell which it is."""

    version: int


def _decode(raw: bytes) -> Memory:
    """Decode the file's bytes; raises ValueError (which msgspec's errors are)."""
    version = msgspec.json.decode(raw, type=_Versioned).version
    if version != _VERSION:
        raise ValueError(f"version {version}, where this release reads {_VERSION}")
    return msgspec.json.decode(raw, type=Memory)


def _set_aside(file: Path) -> str:
    aside = file.with_name(f"{file.name}.corrupt-{int(time.time())}")
    try:
        file.rename(aside)
    except OSError as error:
        return f"it cannot be set aside: {error.strerror}"
    return f"it is kept as {aside.name}"


@contextlib.contextmanager
def _failures(directory: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        place = error.filename or os.fspath(directory)
        raise MemoryWriteFailed(f"{place}: {error.strerror}") from error


@contextlib.contextmanager
def _locked(directory: Path, patience: float = _LOCK_SECONDS) -> Iterator[None]:
    """Hold the lock of ``directory``, which is made where it is missing; raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    lock = directory / _LOCK_NAME
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        _wait_for_lock(descriptor, lock, patience)
        yield
    finally:
        os.close(descriptor)


def _wait_for_lock(descriptor: int, lock: Path, patience: float) -> None:
    deadline = time.monotonic() + patience
    while not _try_lock(descriptor):
        if time.monotonic() >= deadline:
            reason = f"locked by another process for more than {patience:g} s"
            raise OSError(errno.EWOULDBLOCK, reason, str(lock))
        time.sleep(_LOCK_RETRY_SECONDS)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write(directory: Path, memory: Memory) -> None:
    """Write under another name, make it durable, and only then give it the name."""
    encoded = msgspec.json.format(msgspec.json.encode(memory.bounded()), indent=1) + b"\n"
    temporary = directory / _TEMPORARY_NAME
    try:
        with temporary.open("wb") as opened:
            opened.write(encoded)
            opened.flush()
            os.fsync(opened.fileno())
        temporary.chmod(0o644)
        temporary.replace(directory / FILE_NAME)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _synchronize(directory)


def _synchronize(directory: Path) -> None:
    """Make the new name durable; a file system that cannot do so has renamed all the same."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        os.close(descriptor)
