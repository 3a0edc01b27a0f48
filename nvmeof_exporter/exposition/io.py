"""I/O counters, told: of a path or of a whole namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmeof_exporter.model import SECTOR_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvmeof_exporter.exposition.sheet import Sheet

__all__ = ["add_io"]

_MILLISECOND = 0.001


def add_io(
    sheet: Sheet, prefix: str, key: tuple[str, ...], totals: Sequence[int], in_flight: int
) -> None:
    """Add totals in the order of ``NamespaceRecord.FIELDS``, in the kernel's units."""
    reads, read_sectors, read_ms, writes, write_sectors, write_ms = totals
    sheet.add_alike(
        key,
        (
            (f"{prefix}_reads_completed_total", reads),
            (f"{prefix}_writes_completed_total", writes),
            (f"{prefix}_read_bytes_total", read_sectors * SECTOR_BYTES),
            (f"{prefix}_written_bytes_total", write_sectors * SECTOR_BYTES),
            (f"{prefix}_read_time_seconds_total", read_ms * _MILLISECOND),
            (f"{prefix}_write_time_seconds_total", write_ms * _MILLISECOND),
            (f"{prefix}_io_now", in_flight),
        ),
    )
