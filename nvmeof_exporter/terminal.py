"""What standard output can take: colours, columns, and which characters are harmless."""

from __future__ import annotations

import os
import shutil
import unicodedata
from contextlib import contextmanager
from io import TextIOWrapper
from typing import TYPE_CHECKING

from nvmeof_exporter.config.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import TextIO

__all__ = [
    "columns",
    "obeys",
    "printable",
    "rows",
    "shortened",
    "wants_colour",
    "width",
    "writing",
]

_ELLIPSIS = "…"

#: Characters that take two columns (Unicode Standard Annex 11).
_WIDE = frozenset({"W", "F"})


def obeys(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether it is a terminal that moves its cursor and shows colours."""
    return stream.isatty() and environ.get("TERM") != "dumb"


def wants_colour(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether it shows colours, and nobody said NO_COLOR."""
    return obeys(stream, environ) and not environ.get("NO_COLOR")


def columns(stream: TextIO) -> int | None:
    """How many columns a terminal has; None where the stream is none."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def rows() -> int:
    """How many rows the terminal has."""
    return shutil.get_terminal_size().lines


@contextmanager
def writing(stream: TextIO | None) -> Iterator[TextIO]:
    """Write to standard output; that nobody reads on is no error.

    Raises:
        ConfigError: it cannot be written, or a file not be read meanwhile.

    """
    if stream is None:  # the process was started without one
        raise ConfigError("standard output is closed")
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="replace")  # names are UTF-8 whatever the terminal's is
    try:
        yield stream
        stream.flush()
    except BrokenPipeError:
        # What is still buffered must go somewhere when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except OSError as error:
        # A stream that cannot be written names no file; what is read on the way does.
        where = "standard output" if error.filename is None else repr(error.filename)
        raise ConfigError(f"{where}: {error.strerror or error}") from error


def printable(text: str) -> str:
    """Text that may stand in a line: names come from the other end of a cable."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def width(text: str) -> int:
    """How many columns printable text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(one) else 1 + (unicodedata.east_asian_width(one) in _WIDE)
        for one in text
    )


def shortened(text: str, room: int) -> str:
    """Leave out the middle of what is too long: addresses differ at both ends."""
    if width(text) <= room:
        return text
    if room <= len(_ELLIPSIS):
        return _ELLIPSIS[:room]
    head, tail = text, ""
    while width(head) > (room - 1) // 2:
        head = head[:-1]
    for one in reversed(text):
        if width(head) + 1 + width(one + tail) > room:
            break
        tail = one + tail
    return head + _ELLIPSIS + tail
