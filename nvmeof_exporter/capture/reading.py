"""Reading a file of ``/sys`` that may never answer, without waiting for it for ever.

A read that hangs in a driver cannot be interrupted, not even by SIGKILL, and a process
with such a thread cannot end. So another process reads: this one waits for it so long,
leaves it behind then, and starts a new one for the files that follow.

Run as a module, this is that other process: names in, contents out.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import struct
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from nvmeof_exporter.sources.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MOST_BYTES", "CannotReadError", "NoAnswerError", "PatientReader", "read_whole", "serve"]

#: An attribute of sysfs has a page at most; files of copied trees may be of any size.
MOST_BYTES = 64 << 10

_SECONDS = 2.0
_MOMENT_SECONDS = 0.1

#: Each process that is left behind stays for as long as its device does not answer.
_MOST_LEFT_BEHIND = 8

#: errno (0: none) and length of what follows.
_ANSWER = struct.Struct("=iI")
_END = b"\0"


class CannotReadError(Exception):
    """The process that reads cannot be started, so nothing can be read without a risk."""


class NoAnswerError(OSError):
    """The file did not answer in time, or was not tried because too many others did not."""


class PatientReader:
    """Reads whole files with the help of a process, which ``close`` ends.

    Args:
        seconds: how long one file may take.
        most_left_behind: after so many files without an answer no other is tried.
        command: the other process.

    """

    def __init__(
        self,
        seconds: float = _SECONDS,
        most_left_behind: int = _MOST_LEFT_BEHIND,
        command: Sequence[str] = (sys.executable, "-m", __name__),
    ) -> None:
        self._command = command
        self._seconds = seconds
        self._chances = most_left_behind
        self._child: subprocess.Popen[bytes] | None = None
        self._left_behind: list[subprocess.Popen[bytes]] = []

    def __call__(self, path: str) -> bytes:
        """Return the contents of a regular file, its first MOST_BYTES.

        Raises:
            CannotReadError: there can be no process that reads.
            NoAnswerError: it took too long, or would not have been tried.
            OSError: it could not be opened or read.

        """
        if self._chances <= 0:
            raise NoAnswerError("not tried: too many files did not answer")
        if self._child is not None and self._child.poll() is not None:
            self._leave(self._child)
        if self._child is None:
            self._child = self._start()
        try:
            error, content = self._ask(self._child, path)
        except NoAnswerError:
            self._chances -= 1
            self._leave(self._child)
            raise
        if error:
            raise OSError(error, os.strerror(error))
        return content

    def close(self) -> None:
        """End the process that reads, and wait a moment for those that were left behind."""
        if self._child is not None:
            self._leave(self._child)
        for child in self._left_behind:
            with suppress(subprocess.TimeoutExpired):
                child.wait(_MOMENT_SECONDS)

    def _start(self) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        try:
            return subprocess.Popen(self._command, stdin=pipe, stdout=pipe)
        except OSError as error:
            raise CannotReadError(f"{self._command[0]}: {error.strerror}") from error

    def _leave(self, child: subprocess.Popen[bytes]) -> None:
        """Have a process end once it can: while its read hangs, not even SIGKILL ends it."""
        child.kill()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()
        self._left_behind.append(child)
        self._child = None

    def _ask(self, child: subprocess.Popen[bytes], path: str) -> tuple[int, bytes]:
        assert child.stdin is not None  # noqa: S101 (for mypy: pipes were asked for)
        assert child.stdout is not None  # noqa: S101
        ends = time.monotonic() + self._seconds
        child.stdin.write(os.fsencode(path) + _END)
        child.stdin.flush()
        error, length = _ANSWER.unpack(_receive(child.stdout.fileno(), _ANSWER.size, ends))
        return error, _receive(child.stdout.fileno(), length, ends)


def read_whole(path: str) -> bytes:
    """Read a regular file up to MOST_BYTES, waiting as long as it takes. Raises OSError."""
    descriptor = Reader(None, 0).open(path)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("is no regular file")
        content = b""
        while len(content) < MOST_BYTES:
            more = os.read(descriptor, MOST_BYTES - len(content))
            if not more:
                break
            content += more
        return content
    finally:
        os.close(descriptor)


def _receive(descriptor: int, length: int, ends: float) -> bytes:
    received = b""
    answers = select.poll()  # select() knows the first 1,024 descriptors only
    answers.register(descriptor, select.POLLIN)
    while len(received) < length:
        if not answers.poll(max(ends - time.monotonic(), 0) * 1000):
            raise NoAnswerError("no answer")
        more = os.read(descriptor, length - len(received))
        if not more:
            raise NoAnswerError("the process that reads has ended")
        received += more
    return received


def serve() -> None:
    """Be the other process: answer names on standard input until it ends."""
    asked = b""
    while more := os.read(0, MOST_BYTES):
        *paths, asked = (asked + more).split(_END)
        for path in paths:
            answer = _answer(os.fsdecode(path))
            while answer:
                answer = answer[os.write(1, answer) :]


def _answer(path: str) -> bytes:
    try:
        content = read_whole(path)
    except OSError as error:
        return _ANSWER.pack(error.errno or errno.EIO, 0)
    return _ANSWER.pack(0, len(content)) + content


if __name__ == "__main__":
    serve()
