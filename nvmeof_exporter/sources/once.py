"""Reading a file once: for what is read seldom, or answers with an errno as a matter of course."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, TypeVar

from nvmeof_exporter.sources.reader import errno_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvmeof_exporter.sources.reader import Reader

__all__ = ["read_once"]

T = TypeVar("T")

#: What drivers answer when they have nothing to tell, and what a device that went away answers.
_NOTHING_TO_TELL = frozenset(
    {
        errno.EINVAL,
        errno.EISDIR,
        errno.ENODEV,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.ENXIO,
        errno.EOPNOTSUPP,
    }
)

_PAGE = 4096


def read_once(reader: Reader, path: str, decode: Callable[[bytes], T]) -> T | None:
    """Open, read, decode and close a file; None when there is nothing to tell.

    A file that is not there or does not apply (EINVAL, EOPNOTSUPP) is no error; any
    other failure, and content that is no value, is counted by the reader.
    """
    try:
        descriptor = reader.open(path)
        try:
            raw = reader.read(descriptor, _PAGE, 0)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _NOTHING_TO_TELL:
            reader.failed(path, errno_name(error))
        return None
    try:
        return decode(raw)
    except ValueError as error:
        reader.failed(path, str(error), kind="content")
        return None
