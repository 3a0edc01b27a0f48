"""Sizes in bytes, as people write and read them."""

from __future__ import annotations

import re

__all__ = ["parse_size", "size_of"]

_KILO = 1024
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_SIZE = re.compile(r"(\d{1,9})(B|KiB|MiB|GiB|TiB)", re.ASCII)


def size_of(count: float) -> str:
    """Write a number of bytes with a unit that suits it: ``256 MiB``, ``1.5 GiB``."""
    unit = _UNITS[0]
    for unit in _UNITS:  # the one that is left is used
        if abs(count) < _KILO or unit == _UNITS[-1]:
            break
        count /= _KILO
    return f"{count:.0f} {unit}" if round(count, 1).is_integer() else f"{count:.1f} {unit}"


def parse_size(text: str) -> int:
    """Bytes from a text such as ``64MiB``. Raises ValueError, which says what is expected."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError("a size such as 64MiB or 1GiB")
    return int(match[1]) * int(_KILO ** _UNITS.index(match[2]))
