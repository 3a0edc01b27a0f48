"""The one kind of error that bad input ends in."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ConfigError", "quoted", "suggestion"]

_LONGEST_QUOTE = 80


class ConfigError(Exception):
    """What was configured cannot be used; the message is one line for the user.

    It names the flag, the variable or ``file:line``, what was found there and
    what is expected.
    """


def quoted(text: str) -> str:
    """User input as it may stand in a message: one line, bounded, in double quotes."""
    if len(text) > _LONGEST_QUOTE:
        text = text[:_LONGEST_QUOTE] + "…"
    return json.dumps(text, ensure_ascii=not text.isprintable())


def suggestion(word: str, known: Iterable[str]) -> str:
    """``; did you mean …?`` where one of the known words is near, else nothing."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""
