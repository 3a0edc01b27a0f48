"""I/O counters, told: of a path or of a whole namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmeof_exporter.monitor.records import NamespaceRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nvmeof_exporter.exposition.sheet import Sheet

__all__ = ["add_io"]

_SECTOR_BYTES = 512
_MILLISECOND = 0.001


def add_io(
    sheet: Sheet, prefix: str, key: tuple[str, ...], totals: Iterable[int], in_flight: int
) -> None:
    """Add totals in the order of ``NamespaceRecord.FIELDS``, in the kernel's units."""
    io = dict(zip(NamespaceRecord.FIELDS, totals, strict=True))
    sheet.add(f"{prefix}_reads_completed_total", key, io["reads"])
    sheet.add(f"{prefix}_writes_completed_total", key, io["writes"])
    sheet.add(f"{prefix}_read_bytes_total", key, io["read_sectors"] * _SECTOR_BYTES)
    sheet.add(f"{prefix}_written_bytes_total", key, io["write_sectors"] * _SECTOR_BYTES)
    sheet.add(f"{prefix}_read_time_seconds_total", key, io["read_ms"] * _MILLISECOND)
    sheet.add(f"{prefix}_write_time_seconds_total", key, io["write_ms"] * _MILLISECOND)
    sheet.add(f"{prefix}_io_now", key, in_flight)
