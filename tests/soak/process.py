"""What a process holds: memory, descriptors, threads."""

from __future__ import annotations

import ctypes
import gc
import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["Held", "held"]

_PAGE = os.sysconf("SC_PAGE_SIZE")


class Held(NamedTuple):
    """Bytes of memory in use, open descriptors, threads."""

    memory: int
    descriptors: int
    threads: int


def held(pid: int | None = None) -> Held:
    """Look at a process; at this one after everything that can be freed was."""
    if pid is None:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
    process = Path(f"/proc/{pid or 'self'}")
    return Held(
        memory=int((process / "statm").read_text().split()[1]) * _PAGE,
        descriptors=len(os.listdir(process / "fd")),
        threads=len(os.listdir(process / "task")),
    )
