"""Times and sizes as people read them."""

from __future__ import annotations

__all__ = ["age", "pause", "size"]

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_STEP = 1000

#: Below it (seconds) pauses are told in milliseconds.
_SHORT = 0.1


def age(seconds: float) -> str:
    """How long ago, in the two greatest units: ``42s``, ``5m03s``, ``3h12m``, ``2d04h``."""
    whole = max(int(seconds), 0)
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m{whole % _MINUTE:02d}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE:02d}m"
    return f"{whole // _DAY}d{whole % _DAY // _HOUR:02d}h"


def pause(seconds: float) -> str:
    """How long a pause was: ``3 ms``, ``0.52 s``, ``6.31 s``, ``5m03s``."""
    if seconds < _SHORT:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _MINUTE:
        return f"{seconds:.2f} s"
    return age(seconds)


def size(count: int) -> str:
    """Bytes as drives are sold: ``2.20 TB``."""
    amount = float(count)
    unit = 0
    while amount >= _STEP and unit < len(_UNITS) - 1:
        amount /= _STEP
        unit += 1
    return f"{amount:.2f} {_UNITS[unit]}" if unit else f"{count} B"
