"""Which interfaces the GID table of an RDMA port names.

``ports/N/gid_attrs/ndevs/I`` names the interface of GID number I and answers
EINVAL for one that is not set (drivers/infiniband/core/sysfs.c). Soft RoCE lists
1024 of them, of which a handful are set, so not all of them are read each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmeof_exporter.sources.decode import text
from nvmeof_exporter.sources.once import read_once

if TYPE_CHECKING:
    from nvmeof_exporter.sources.reader import Reader

__all__ = ["GidNetdevs"]

#: A new GID takes the first place that is free (``find_gid`` in drivers/infiniband/core/cache.c),
#: after at most two that are reserved for each interface's default GIDs.
_WATCHED_FREE_PLACES = 8

#: Everything is read again at every so-manieth reading, lest something was overlooked.
_READINGS_PER_FULL_ONE = 60

_MOST_GIDS = 4096


class GidNetdevs:
    """The interfaces of one port, read anew by ``read``.

    Args:
        reader: opens the files.
        path: the directory ``gid_attrs/ndevs`` of a port.

    """

    def __init__(self, reader: Reader, path: str) -> None:
        self._reader = reader
        self._path = path
        self._places: list[int] = []
        self._found: dict[int, str] = {}
        self._readings = 0

    def read(self) -> tuple[str, ...]:
        """Return the interfaces, each once, in the table's order.

        Reads the places that were set and the first free ones; all of them at
        first, when one of those has changed, and once in a while.
        """
        full = self._readings % _READINGS_PER_FULL_ONE == 0 or self._watched_changed()
        self._readings += 1
        if full:
            names = self._reader.names(self._path)
            numbers = (int(name) for name in names if name.isascii() and name.isdecimal())
            self._places = sorted(numbers)[:_MOST_GIDS]
            self._found = self._read(self._places)
        return tuple(dict.fromkeys(self._found.values()))

    def _watched_changed(self) -> bool:
        free = [place for place in self._places if place not in self._found]
        watched = sorted([*self._found, *free[:_WATCHED_FREE_PLACES]])
        return self._read(watched) != self._found

    def _read(self, places: list[int]) -> dict[int, str]:
        read = ((place, read_once(self._reader, f"{self._path}/{place}", text)) for place in places)
        return {place: name for place, name in read if name}
