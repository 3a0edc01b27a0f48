"""A picture that is drawn again and again: in place on a terminal, one after another elsewhere."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nvmeof_exporter.terminal import rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

__all__ = ["watch"]

#: The other screen, without a cursor, where lines that are too long are cut; and back.
_ENTER = "\033[?1049h\033[?25l\033[?7l"
_LEAVE = "\033[?7h\033[?25h\033[?1049l"
_HOME = "\033[H"
_CLEAR_LINE = "\033[K"
_CLEAR_BELOW = "\033[J"


def watch(stream: TextIO, draw: Callable[[], str], interval: float, *, in_place: bool) -> None:
    """Draw until SIGINT or SIGTERM; leaves a terminal as it was.

    Args:
        stream: standard output.
        draw: makes the text.
        interval: seconds between two.
        in_place: it is a terminal that can show one over the other.

    """
    with _stopped_by_signals(), _screen(stream, in_place=in_place) as show:
        while True:
            show(draw())
            time.sleep(interval)


@contextmanager
def _screen(stream: TextIO, *, in_place: bool) -> Iterator[Callable[[str], None]]:
    if not in_place:
        yield lambda text: _write(stream, text)
        return
    try:
        stream.write(_ENTER)
        yield lambda text: _write(stream, _picture(text, rows()))
    finally:
        _write(stream, _LEAVE)


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)
    stream.flush()


def _picture(text: str, room: int) -> str:
    """Text from the top left corner on; what does not fit is counted in the last line."""
    lines = text.rstrip("\n").split("\n")
    if len(lines) > room:
        hidden = len(lines) - room + 1
        lines = [*lines[: room - 1], f"({hidden} more lines)"]
    return _HOME + "\n".join(line + _CLEAR_LINE for line in lines) + _CLEAR_BELOW


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    stopping = (signal.SIGINT, signal.SIGTERM)
    previous = [signal.signal(number, _stop) for number in stopping]
    try:
        yield
    except _StoppedError:
        return
    finally:
        for number, handler in zip(stopping, previous, strict=True):
            signal.signal(number, handler)


class _StoppedError(Exception):
    """Somebody wants no more pictures."""


def _stop(number: int, _frame: object) -> None:
    signal.signal(number, signal.SIG_IGN)  # once is enough: the terminal is put in order now
    raise _StoppedError
