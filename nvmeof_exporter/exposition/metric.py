"""What one row of the table of metrics says."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Metric"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric family.

    ``kind`` is ``gauge``, ``counter``, ``histogram`` or ``info`` (a gauge that is always 1).
    ``name`` is the sample's name: counters end in ``_total``, infos in ``_info``.
    """

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
