"""Reading files of ``/sys`` and ``/proc``: the only code that opens them.

A poll re-reads the same few files ten times a second, so descriptors are kept
(a re-read costs a tenth of opening anew) and bytes that did not change are not
decoded again. Whatever goes wrong with one file costs that file's value, one
count, and one log line per file and errno, however often it is tried.

Some files must never be read: see FORBIDDEN.
"""

from __future__ import annotations

import errno
import os
import resource
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

__all__ = [
    "FORBIDDEN",
    "RESERVED_DESCRIPTORS",
    "Attribute",
    "ForbiddenAttributeError",
    "Reader",
    "raise_descriptor_limit",
]

T = TypeVar("T")
N = TypeVar("N")

#: File names that are never opened, and why.
#: ``nuse`` sends an Identify command (D state behind a dead path);
#: the others are secrets, world-readable on some kernels.
FORBIDDEN = frozenset({"nuse", "dhchap_secret", "dhchap_ctrl_secret", "tls_key"})

#: Directories below which nothing is opened: ``hwmonN/temp1_*`` sends a
#: log-page command, which on a black-holed controller never returns.
_FORBIDDEN_DIRECTORY = "hwmon"

#: The device behind the file is gone; the descriptor will never answer again.
_GONE = frozenset({errno.ENODEV, errno.ENOENT, errno.ENXIO, errno.ESTALE, errno.EBADF})

#: A sysfs attribute is at most one page.
_PAGE = 4096

#: One more, to tell what fits from what does not.
_MORE_THAN_A_PAGE = _PAGE + 1

#: Descriptors left to clients (``server.MOST_CONNECTIONS``), logs and everything else.
RESERVED_DESCRIPTORS = 384

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class ForbiddenAttributeError(Exception):
    """Code asked for a file on the never-read list: a defect of ours, never of the machine."""


def raise_descriptor_limit() -> int:
    """Raise the soft limit on open files to the hard one and return it.

    Every path keeps a handful of descriptors; the usual soft limit of 1,024
    is made for ``select(2)``, which is not used here.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            return soft
        return hard
    return soft


class Reader:
    """Opens attributes, keeps count of what could not be read, and says so once.

    Args:
        on_error: called once per file and reason with the path and the reason
            (an errno name, or what was wrong with the content).
        descriptors: how many descriptors may be kept; above it, attributes are
            opened for each read. Default: the process's limit less a reserve.

    """

    def __init__(
        self,
        on_error: Callable[[str, str], None] | None = None,
        descriptors: int | None = None,
    ) -> None:
        self._on_error = on_error
        self._told: dict[str, set[str]] = {}
        self.errors = 0
        self.directories_unlisted = 0
        self.kept = 0
        self.descriptor_budget = (
            resource.getrlimit(resource.RLIMIT_NOFILE)[0] - RESERVED_DESCRIPTORS
            if descriptors is None
            else descriptors
        )

    def attribute(
        self,
        path: str,
        decode: Callable[[bytes], T],
        *,
        keep: bool = True,
        size: int = _MORE_THAN_A_PAGE,
    ) -> Attribute[T]:
        """Make the attribute at ``path``; nothing is opened before its first refresh.

        Args:
            path: the file.
            decode: bytes to value; raises ValueError for content that is no value.
            keep: hold the descriptor between reads (for files read at every poll).
            size: bytes usually enough; longer content, up to a page, costs a second read.

        Raises:
            ForbiddenAttributeError: the path is on the never-read list.

        """
        *_, above, parent, name = ("", "", *path.split("/"))
        if name in FORBIDDEN or any(d.startswith(_FORBIDDEN_DIRECTORY) for d in (above, parent)):
            raise ForbiddenAttributeError(path)
        return Attribute(self, path, decode, keep=keep, size=size)

    def names(self, directory: str) -> list[str]:
        """List a directory; empty when it is absent, or unreadable (which is counted)."""
        try:
            return os.listdir(directory)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self.unlisted(directory, error)
            return []

    def unlisted(self, directory: str, error: OSError) -> None:
        """Count a directory that did not tell what is in it: it may all be there still."""
        self.failed(directory, errno_name(error))
        if error.errno not in _GONE:
            self.directories_unlisted += 1

    def open(self, path: str) -> int:
        """Open a file for reading (the one call of ``open(2)``)."""
        return os.open(path, _FLAGS)

    #: Read a file: descriptor, size, offset (the one call of ``pread(2)``, thousands of times a
    #: second: no function of ours around it).
    read: Callable[[int, int, int], bytes] = staticmethod(os.pread)

    def refresh(self, attributes: Iterable[tuple[Attribute[Any], N]]) -> list[N]:
        """Re-read many attributes; return what is paired with those whose value changed.

        What ``Attribute.refresh`` does, with short cuts: nearly all of them did not change.
        """
        read = self.read
        changed = []
        for attribute, pair in attributes:
            if attribute.descriptor >= 0:
                try:
                    raw = read(attribute.descriptor, attribute.size, 0)
                except OSError as error:
                    differs = attribute.take_error(error)
                else:
                    if raw == attribute.raw:
                        continue
                    differs = attribute.take(raw)
            elif attribute.absent:
                continue
            else:
                differs = attribute.refresh()
            if differs:
                changed.append(pair)
        return changed

    def failed(self, path: str, reason: str, kind: str = "") -> None:
        """Count one failure; tell of it when this file has not failed so before.

        ``kind`` stands for the reason where the reason's own text varies.
        """
        self.errors += 1
        told = self._told.setdefault(path, set())
        if (kind or reason) not in told:
            told.add(kind or reason)
            if self._on_error is not None:
                self._on_error(path, reason)

    def forget(self, directories: Collection[str]) -> None:
        """Forget what was told of files below directories that are gone, to stay bounded."""
        gone = set(directories)
        for path in list(self._told):
            if not gone.isdisjoint({path, *map(str, PurePath(path).parents)}):
                del self._told[path]


class Attribute(Generic[T]):
    """One file, re-read in place; ``value`` is None when there is none to tell.

    ``last`` is the newest value that could be told, for what does not change
    while the device exists. ``absent`` says that the file does not exist (no
    error: kernels differ in what they show), ``gone`` that its device went
    away under an open descriptor (``descriptor``, -1 while closed). ``raw`` are
    the bytes read last.
    """

    __slots__ = (
        "_barred",
        "_decode",
        "_keep",
        "_reader",
        "absent",
        "descriptor",
        "gone",
        "last",
        "path",
        "raw",
        "size",
        "value",
    )

    def __init__(
        self,
        reader: Reader,
        path: str,
        decode: Callable[[bytes], T],
        *,
        keep: bool,
        size: int,
    ) -> None:
        self.path = path
        self.value: T | None = None
        self.last: T | None = None
        self.absent = False
        self.gone = False
        self._barred = False
        self._reader = reader
        self._decode = decode
        self._keep = keep
        # Of these the reader's short cuts know.
        self.size = size
        self.descriptor = -1
        self.raw: bytes | None = None

    def refresh(self) -> bool:
        """Re-read the file. Returns whether ``value`` changed. Never raises."""
        if self.descriptor < 0 and not self._open():
            return self._set(None, None)
        try:
            raw = self._reader.read(self.descriptor, self.size, 0)
        except OSError as error:
            return self.take_error(error)
        return self.take(raw)

    def take(self, raw: bytes) -> bool:
        """Take what a read of ``size`` bytes returned, as ``refresh`` does."""
        if len(raw) == self.size < _MORE_THAN_A_PAGE:
            try:
                raw = self._reader.read(self.descriptor, _MORE_THAN_A_PAGE, 0)
            except OSError as error:
                return self.take_error(error)
        if not self._keep:
            self._close_descriptor()
        if raw == self.raw:
            return False
        try:
            value = self._decoded(raw)
        except ValueError as error:
            if self.descriptor >= 0 and not os.fstat(self.descriptor).st_nlink:
                # A file of a tree that is no real /sys, unlinked while it was read.
                self.gone = True
                self._close_descriptor()
                return self._set(None, None)
            self._reader.failed(self.path, str(error), kind="content")
            # Remember the bytes nevertheless: the same nonsense is not decoded ten times a second.
            return self._set(raw, None)
        return self._set(raw, value)

    def take_error(self, error: OSError) -> bool:
        """Take that a read failed, as ``refresh`` does."""
        if error.errno in _GONE:
            # A device that went away is a change of topology, told as such.
            self.gone = True
            self._reader.errors += 1
        else:
            self._reader.failed(self.path, errno_name(error))
        if self.gone or not self._keep:
            self._close_descriptor()
        return self._set(None, None)

    def retry(self) -> None:
        """Look for the file again at the next refresh, whatever kept it from being read."""
        self.absent = self.gone = self._barred = False

    def close(self) -> None:
        """Give the descriptor back."""
        self._close_descriptor()

    def __del__(self) -> None:
        # Whatever becomes of its owner, a descriptor never outlives its attribute.
        self._close_descriptor()

    def _decoded(self, raw: bytes) -> T:
        if len(raw) > _PAGE:
            raise ValueError(f"longer than the {_PAGE} bytes of an attribute")
        return self._decode(raw)

    def _set(self, raw: bytes | None, value: T | None) -> bool:
        self.raw = raw
        changed = value != self.value
        self.value = value
        if value is not None:
            self.last = value
        return changed

    def _open(self) -> bool:
        if self.absent or self.gone or self._barred:
            return False
        try:
            self.descriptor = self._reader.open(self.path)
        except (FileNotFoundError, NotADirectoryError):
            self.absent = True
            return False
        except OSError as error:
            # Not tried again before the next rescan: an unreadable file is
            # counted at the pace of rescans, not of polls. It is not absent:
            # what the kernel says by leaving a file out must not be read from this.
            self._barred = True
            self._reader.failed(self.path, errno_name(error))
            return False
        self._reader.kept += 1
        if self._keep and self._reader.kept > self._reader.descriptor_budget:
            self._keep = False
        return True

    def _close_descriptor(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
            self._reader.kept -= 1


def errno_name(error: OSError) -> str:
    """Name an error as the manual does, e.g. ``EINVAL``."""
    return errno.errorcode.get(error.errno or 0, str(error))
