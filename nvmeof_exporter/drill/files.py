"""The few operations that a checkpoint is made of, and how a real file system does them.

They are a seam: what becomes of data that was not synchronized can only be shown
on a file system that loses it.
"""

from __future__ import annotations

import errno
import mmap
import os
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    Block = bytes | bytearray | memoryview | mmap.mmap

__all__ = [
    "BLOCK_BYTES",
    "Files",
    "Output",
    "RealFiles",
    "is_plain_name",
    "open_direct",
    "read_blocks",
    "write_all",
]

#: What a request of the drill moves: the size that data loaders read in.
BLOCK_BYTES = 1 << 20


class Output(Protocol):
    """A file that is being written from its beginning to its end."""

    def write(self, block: Block) -> None:
        """Append ``block``, all of it. Raises OSError."""

    def synchronize(self) -> None:
        """Return once what was written would survive a loss of power. Raises OSError."""

    def close(self) -> None:
        """Give the descriptor back; makes nothing durable."""


class Files(Protocol):
    """A file system, as far as a writer of checkpoints needs it. All raise OSError."""

    def make_directory(self, path: str) -> None:
        """Make a directory that is not there yet."""

    def create(self, path: str, *, direct: bool) -> Output:
        """Make a file that is not there yet; ``direct``: past the page cache, where possible.

        Direct writes want page-aligned blocks whose sizes are multiples of the device's.
        """

    def rename(self, old: str, new: str) -> None:
        """Give a file or directory another name in the same directory, at once or not at all."""

    def names(self, path: str) -> list[str]:
        """List a directory."""

    def remove(self, path: str) -> None:
        """Remove a file."""

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""

    def synchronize_directory(self, path: str) -> None:
        """Return once the names in a directory would survive a loss of power."""


class RealFiles:
    """The file system of this machine."""

    def make_directory(self, path: str) -> None:
        """Make a directory that is not there yet."""
        os.mkdir(path)

    def create(self, path: str, *, direct: bool) -> RealOutput:
        """Make a file that is not there yet."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        if not direct:
            return RealOutput(os.open(path, flags | os.O_CLOEXEC, 0o644))
        descriptor, _ = open_direct(path, flags)
        return RealOutput(descriptor)

    def rename(self, old: str, new: str) -> None:
        """Give a file or directory another name in the same directory."""
        os.rename(old, new)

    def names(self, path: str) -> list[str]:
        """List a directory."""
        return sorted(os.listdir(path))

    def remove(self, path: str) -> None:
        """Remove a file."""
        os.unlink(path)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        os.rmdir(path)

    def synchronize_directory(self, path: str) -> None:
        """Make the names in a directory durable."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class RealOutput:
    """A file that is being written; owns ``descriptor``."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._end = 0

    def write(self, block: Block) -> None:
        """Append ``block``, all of it."""
        write_all(self._descriptor, block, self._end)
        self._end += len(block)

    def synchronize(self) -> None:
        """Make what was written durable."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._descriptor)


def is_plain_name(name: str) -> bool:
    """Whether a name out of a file can only mean a file in the same directory."""
    return name not in {"", ".", ".."} and "/" not in name and "\0" not in name


def write_all(descriptor: int, block: Block, offset: int) -> None:
    """Write all of ``block`` at ``offset``. Raises OSError, also where nothing more goes in."""
    rest = memoryview(block)
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        if written == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        rest = rest[written:]
        offset += written


def open_direct(path: str, flags: int) -> tuple[int, bool]:
    """Open a file past the page cache where its file system can do so.

    Returns the descriptor, and whether it is direct. Raises OSError.
    """
    flags |= os.O_CLOEXEC
    try:
        return os.open(path, flags | os.O_DIRECT, 0o644), True
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    # A file system that refuses has made the file all the same (open(2), O_DIRECT).
    return os.open(path, flags & ~os.O_EXCL, 0o644), False


def read_blocks(path: str, block_bytes: int = BLOCK_BYTES) -> Iterator[memoryview]:
    """Yield a file's content as the storage has it, not as memory remembers it.

    The blocks are views of one buffer: each is good until the next is asked for.

    Args:
        path: the file.
        block_bytes: the greatest size of a block, a multiple of the page size.

    Raises:
        OSError: it cannot be opened or read.

    """
    descriptor, direct = open_direct(path, os.O_RDONLY)
    buffer = mmap.mmap(-1, block_bytes)
    try:
        if not direct:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        offset = 0
        while offset < os.fstat(descriptor).st_size:
            count = os.preadv(descriptor, [buffer], offset)
            if count == 0:
                return
            yield memoryview(buffer)[:count]
            offset += count
    finally:
        os.close(descriptor)
