"""What can be said of a checkpoint, and of all that are in a directory."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Condition", "Finding", "exit_status", "os_reason"]

_PASS, _FAIL, _UNKNOWN = range(3)


class Condition(enum.Enum):
    """What a checkpoint is."""

    WHOLE = "whole"
    """Committed, and every byte has its checksum."""
    COMPLETE = "complete"
    """Committed, and nothing is missing; its format has no checksums to tell more by."""
    TORN = "torn"
    """Never committed: left aside."""
    BROKEN = "broken"
    """Committed, and not what was committed."""
    LOST = "lost"
    """Committed by the record, and not there."""
    UNKNOWN = "unknown"
    """It could not be read, or is of a form that is not understood."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One checkpoint.

    ``format`` is ``drill``, ``dcp``, ``safetensors`` or, where nothing tells, ``""``.
    ``step`` is known of the drill's own. ``bytes`` were read of shards, or measured
    where the format has no checksums. ``written`` is wall clock seconds, as the
    manifest says. ``reason`` says why it is not good, ``remarks`` what was not judged.
    """

    name: str
    format: str
    condition: Condition
    reason: str = ""
    step: int | None = None
    bytes: int = 0
    written: float | None = None
    remarks: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """Whether one would go on from it."""
        return self.condition in {Condition.WHOLE, Condition.COMPLETE}


def exit_status(findings: Iterable[Finding]) -> int:
    """0: what was committed is good; 1: something is not; 2: that cannot be said.

    Nothing committed at all is a 2: there was nothing to judge.
    """
    found = list(findings)
    conditions = {finding.condition for finding in found}
    if conditions & {Condition.BROKEN, Condition.LOST}:
        return _FAIL
    if Condition.UNKNOWN in conditions or not any(finding.good for finding in found):
        return _UNKNOWN
    return _PASS


def os_reason(error: OSError) -> str:
    """Say what a file system refused, without the path."""
    return error.strerror or str(error)
