"""How much of it: a little in every test run, a lot in ``make soak``."""

from __future__ import annotations

import os

__all__ = ["amount"]

#: The share of the whole that is wanted, such as 0.01; unset where there is no soak.
_VARIABLE = "NVMEOF_SOAK"


def amount(short: int, soak: int) -> int:
    """Return ``short``, or in a soak the wanted share of ``soak``."""
    share = os.environ.get(_VARIABLE, "")
    return max(short, round(soak * float(share))) if share else short
