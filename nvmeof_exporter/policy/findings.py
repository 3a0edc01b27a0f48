"""What a rule says of one path, one subsystem or the host."""

from __future__ import annotations

import enum
import math
from typing import TYPE_CHECKING

import msgspec

from nvmeof_exporter.config.values import format_duration
from nvmeof_exporter.policy.rules import RULES, Kind

if TYPE_CHECKING:
    from nvmeof_exporter.policy.model import Limits

__all__ = ["OFF", "Finding", "Verdict", "seconds_text", "wanted_text", "within"]

OFF = "off"


class Verdict(enum.Enum):
    """How a rule was answered. UNKNOWN: what it asks for could not be read."""

    KEPT = "kept"
    VIOLATED = "violated"
    UNKNOWN = "unknown"


class Finding(msgspec.Struct, frozen=True):
    """One verdict. ``path`` is ``""`` when it is about a subsystem, ``nqn`` too when the host's.

    ``found`` says why, where nothing is known. ``how`` are the steps that repair it,
    none unless violated. ``critical``: I/O is lost, or is with the next failure.
    """

    rule: str
    nqn: str
    path: str
    verdict: Verdict
    found: str
    wanted: str
    how: tuple[str, ...] = ()
    critical: bool = False


def seconds_text(seconds: float) -> str:
    """A time-out as people write it."""
    return OFF if math.isinf(seconds) else format_duration(seconds)


def within(value: float, limits: Limits) -> bool:
    """Whether a value keeps both limits."""
    return (limits.least is None or value >= limits.least) and (
        limits.most is None or value <= limits.most
    )


def wanted_text(rule: str, limits: Limits) -> str:
    """What the limits of a rule with least and most ask for, in words."""
    text = seconds_text if RULES[rule].kind is Kind.DURATION else "{:g}".format
    if limits.least is not None and math.isinf(limits.least):
        return OFF
    parts = []
    if limits.least:
        parts.append(f"at least {text(limits.least)}")
    if limits.most is not None and not math.isinf(limits.most):
        parts.append(f"at most {text(limits.most)}")
    open_ended = bool(limits.least) and limits.most is None and RULES[rule].kind is Kind.DURATION
    return (" and ".join(parts) or "anything") + (", or off" if open_ended else "")
