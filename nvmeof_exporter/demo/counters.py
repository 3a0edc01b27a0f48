"""The counters of one block device, kept as the kernel keeps them.

Source: block/blk-core.c (``bdev_start_io_acct``, ``update_io_ticks``) and
block/genhd.c (``part_stat_show``).
"""

from __future__ import annotations

from nvmeof_exporter.model import IoCounters

__all__ = ["DiskCounters"]

#: ``io_ticks`` counts in jiffies: 4 ms at CONFIG_HZ=250, Debian's choice.
_JIFFIES_PER_SECOND = 250
_JIFFY_MS = 1000 // _JIFFIES_PER_SECOND


class DiskCounters:
    """Reads and writes of a disk. ``revision`` grows with every start and end."""

    __slots__ = (
        "_busy",
        "_busy_since",
        "read_seconds",
        "read_sectors",
        "reading",
        "reads",
        "revision",
        "write_seconds",
        "write_sectors",
        "writes",
        "writing",
    )

    def __init__(self) -> None:
        self.reads = self.writes = 0
        self.read_sectors = self.write_sectors = 0
        self.read_seconds = self.write_seconds = 0.0
        self.reading = self.writing = 0
        self.revision = 0
        self._busy = 0.0
        self._busy_since = 0.0

    @property
    def in_flight(self) -> int:
        """Requests started and not ended."""
        return self.reading + self.writing

    def start(self, now: float, *, read: bool) -> None:
        """Count a request that begins."""
        if not self.in_flight:
            self._busy_since = now
        self.revision += 1
        if read:
            self.reading += 1
        else:
            self.writing += 1

    def end(self, now: float, *, read: bool, sectors: int, waited: float) -> None:
        """Count a request that ends, truly or cancelled, after ``waited`` seconds.

        A cancelled one moves 0 sectors: its data was taken away from it to be
        sent elsewhere before it is ended (``blk_steal_bios``).
        """
        self.revision += 1
        if read:
            self.reads += 1
            self.read_sectors += sectors
            self.read_seconds += waited
            self.reading -= 1
        else:
            self.writes += 1
            self.write_sectors += sectors
            self.write_seconds += waited
            self.writing -= 1
        if not self.in_flight:
            self._busy += now - self._busy_since

    def values(self, now: float) -> IoCounters:
        """Return what ``stat`` shows at ``now``."""
        busy = self._busy + (now - self._busy_since if self.in_flight else 0.0)
        return IoCounters(
            reads=self.reads,
            read_merges=0,
            read_sectors=self.read_sectors,
            read_ms=int(self.read_seconds * 1000),
            writes=self.writes,
            write_merges=0,
            write_sectors=self.write_sectors,
            write_ms=int(self.write_seconds * 1000),
            in_flight=self.in_flight,
            busy_ms=int(busy * _JIFFIES_PER_SECOND) * _JIFFY_MS,
            queue_ms=int((self.read_seconds + self.write_seconds) * 1000),
        )
