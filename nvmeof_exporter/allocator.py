"""Advice to the C library's allocator: give memory back instead of keeping it for later.

An exposition is up to some megabytes, made now and then, each time in another thread. As it
comes, glibc keeps a pool for nearly every thread, and lets it grow to hold such blocks for
ever: half of the process's memory would be that (measured: docs/performance.md).
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

__all__ = ["spare_memory"]

#: Parameters of mallopt(3), from glibc's malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8

#: Larger blocks (bytes) are mapped, and unmapped when they are free: the initial value, which
#: glibc raises by itself unless it is set.
_LARGE = 128 * 1024

_ARENAS = 2


def spare_memory() -> None:
    """Give the advice; call it before there are threads. Other C libraries need none."""
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_ARENA_MAX, _ARENAS)
        mallopt(_M_MMAP_THRESHOLD, _LARGE)
        mallopt(_M_TRIM_THRESHOLD, _LARGE)
