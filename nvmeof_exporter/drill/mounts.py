"""What is mounted where, as ``/proc/self/mountinfo`` tells it. Source: proc_pid_mountinfo(5)."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

__all__ = ["Mount", "mounts_of"]

#: Fields before the optional ones, and after the lone "-" that ends them.
_LEAST_BEFORE, _LEAST_AFTER = 6, 2


class Mount(NamedTuple):
    """One mount. ``number`` is the device's ``MAJOR:MINOR``, ``source`` as it was mounted."""

    number: str
    point: str
    fstype: str
    source: str
    read_only: bool


def mounts_of(procfs: str) -> list[Mount]:
    """Return every mount that this process sees. Raises OSError."""
    with open(f"{procfs}/self/mountinfo", encoding="utf-8", errors="surrogateescape") as opened:
        return [mount for mount in map(_parsed, opened) if mount is not None]


def _parsed(line: str) -> Mount | None:
    before, _, after = line.rstrip("\n").partition(" - ")
    first, last = before.split(" "), after.split(" ")
    if len(first) < _LEAST_BEFORE or len(last) < _LEAST_AFTER:
        return None
    options = {*first[5].split(","), *(last[2].split(",") if len(last) > _LEAST_AFTER else ())}
    return Mount(first[2], _plain(first[4]), last[0], _plain(last[1]), "ro" in options)


def _plain(text: str) -> str:
    """Undo the escapes that keep blanks out of fields; they are of bytes."""
    raw = os.fsencode(text)
    return os.fsdecode(
        re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8) & 0xFF]), raw)
    )
