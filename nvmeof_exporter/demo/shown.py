"""Devices as last shown on disk, and what of them must be written anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmeof_exporter.demo import attributes

if TYPE_CHECKING:
    from collections.abc import Hashable
    from pathlib import Path

    from nvmeof_exporter.demo.counters import DiskCounters
    from nvmeof_exporter.demo.files import Directory

__all__ = ["ShownDevice", "ShownDisk"]

_MAJOR = 259

#: Files emptied when their device goes, so that a kept descriptor tells.
_LAST_WORDS = ("state", "stat", "ana_state")


class ShownDevice:
    """A device's directory; ``link`` is the one below ``class/`` or ``block/``."""

    def __init__(self, directory: Directory, link: Path) -> None:
        self.directory = directory
        self.link = link
        self._moving: Hashable = None

    def moved(self, moving: Hashable) -> bool:
        """Whether ``moving`` differs from what the last call was given."""
        if moving == self._moving:
            return False
        self._moving = moving
        return True

    def vanish(self) -> None:
        """Remove the device."""
        self.link.unlink()
        self.directory.vanish(_LAST_WORDS)


class ShownDisk(ShownDevice):
    """A block device, with its line of ``/proc/diskstats``."""

    def __init__(self, directory: Directory, link: Path, minor: int) -> None:
        super().__init__(directory, link)
        self.minor = minor
        self.line = b""
        self._revision = -1

    def count(self, counters: DiskCounters, now: float) -> None:
        """Write the counters, should they have moved; the busy time does while any is in flight."""
        if counters.revision == self._revision and not counters.in_flight:
            return
        self._revision = counters.revision
        values = counters.values(now)
        self.directory.write(attributes.disk_counters(values, counters.reading))
        numbers = b" ".join(b"%d" % value for value in values)
        self.line = b"%4d %7d %s %s\n" % (
            _MAJOR,
            self.minor,
            self.link.name.encode(),
            numbers,
        )
