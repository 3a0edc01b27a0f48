"""Waiting for what a scenario expects, never longer than it may take."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["await_"]

_INTERVAL = 0.05


def await_(condition: Callable[[], bool], seconds: float, what: str) -> float:
    """Return after how many seconds ``condition`` held; raise TimeoutError naming ``what``."""
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > seconds:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(_INTERVAL)
    return time.monotonic() - started
