"""What a bundle consists of."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Entry", "fingerprint"]


class Entry(NamedTuple):
    """A file (its content), a link (its target) or a directory (``b""``): see ``kind``.

    ``kind`` is ``f``, ``l`` or ``d``; ``name`` is relative, its bytes as ``os.fsdecode`` has them.
    """

    name: str
    kind: str
    content: bytes = b""


def fingerprint(entries: Iterable[Entry]) -> tuple[int, str]:
    """Return how many entries there are, and a hash that tells whether two trees are the same."""
    count = 0
    whole = hashlib.sha256()
    for entry in sorted(entries):
        count += 1
        own = hashlib.sha256(entry.content).hexdigest()
        whole.update(f"{entry.kind} {own} ".encode() + os.fsencode(entry.name) + b"\0")
    return count, whole.hexdigest()
