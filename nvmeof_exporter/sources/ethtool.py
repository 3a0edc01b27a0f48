"""A driver's own statistics, as ``ethtool -S`` shows them, by three read-only ioctls.

An ioctl, for no other way has them all: ethtool's netlink interface has neither these
statistics nor, for most drivers, priority pause. Done by hand, because importing any part of
pyroute2 (0.9.7) costs 24 MB and 0.25 s; this costs nothing beyond the standard library.

Layouts: ``ethtool_sset_info``, ``ethtool_gstrings``, ``ethtool_stats`` in
include/uapi/linux/ethtool.h and ``ifreq`` in include/uapi/linux/if.h.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import socket
import struct
from contextlib import closing
from typing import TYPE_CHECKING

from nvmeof_exporter.sources.pauses import is_pause, pauses
from nvmeof_exporter.sources.reader import errno_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvmeof_exporter.hardware import Pause
    from nvmeof_exporter.sources.reader import Reader

__all__ = ["PauseSource", "statistics"]

_SIOCETHTOOL = 0x8946
_ETHTOOL_GSTRINGS, _ETHTOOL_GSTATS, _ETHTOOL_GSSET_INFO = 0x1B, 0x1D, 0x37
_ETH_SS_STATS = 1
_NAME_BYTES = 32

_IFREQ = struct.Struct("@16sP16x")  # ifr_name, ifr_data
_SSET_INFO = struct.Struct("=IIQI")  # command, reserved, mask of sets, size of the one set
_STRINGS = struct.Struct("=III")  # command, set, number
_STATISTICS = struct.Struct("=II")  # command, number
_IFNAMSIZ = 16

#: More than any driver has (mlx5: some thousands, by its rings).
_MOST_STATISTICS = 1 << 16

#: The kernel writes as many as the driver has *then*, not as many as were asked for, and the
#: number changes with the rings. So there is room for twice the most; pages that are not
#: written take no memory.
_BUFFER_BYTES = 2 * _MOST_STATISTICS * _NAME_BYTES

#: The driver has none, or the interface has gone (or is being reset).
_NONE = frozenset({errno.EOPNOTSUPP, errno.ENODEV})

#: A driver without pause statistics is asked again at each so many reads: by then it may be
#: another one (an interface of the same name), or set up to count.
_READS_PER_TRY = 60

#: Interfaces of containers come and go: beyond so many, what was learned of them is forgotten.
_MOST_REMEMBERED = 1024


class _Interface:
    """Asks one interface; methods raise OSError."""

    def __init__(self, netdev: str) -> None:
        name = os.fsencode(netdev)
        if not 0 < len(name) < _IFNAMSIZ:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV), netdev)
        self._name = name
        self._memory = mmap.mmap(-1, _BUFFER_BYTES)
        # A view that ctypes holds would keep the memory from being closed.
        anchor = ctypes.c_char.from_buffer(self._memory)
        self._address = ctypes.addressof(anchor)
        del anchor
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)

    def close(self) -> None:
        """Give back the socket and the memory."""
        self._socket.close()
        self._memory.close()

    def count(self) -> int:
        """Return how many statistics there are."""
        self._ask(_SSET_INFO.pack(_ETHTOOL_GSSET_INFO, 0, 1 << _ETH_SS_STATS, 0))
        _, _, mask, size = _SSET_INFO.unpack_from(self._memory)
        return size if mask else 0

    def names(self, count: int) -> bytes | None:
        """Return their names, each padded to 32 bytes; None when there are no longer so many."""
        self._ask(_STRINGS.pack(_ETHTOOL_GSTRINGS, _ETH_SS_STATS, count))
        number = _STRINGS.unpack_from(self._memory)[2]
        return self._after(_STRINGS.size, count * _NAME_BYTES) if number == count else None

    def values(self, count: int) -> tuple[int, ...] | None:
        """Return their values; None when there are no longer so many."""
        self._ask(_STATISTICS.pack(_ETHTOOL_GSTATS, count))
        number = _STATISTICS.unpack_from(self._memory)[1]
        if number != count:
            return None
        return struct.unpack(f"={count}Q", self._after(_STATISTICS.size, count * 8))

    def _ask(self, request: bytes) -> None:
        self._memory[: len(request)] = request
        fcntl.ioctl(self._socket, _SIOCETHTOOL, _IFREQ.pack(self._name, self._address))

    def _after(self, offset: int, length: int) -> bytes:
        return self._memory[offset : offset + length]


def statistics(
    netdev: str, wanted: Callable[[str], bool] = lambda _: True
) -> list[tuple[str, int]] | None:
    """Ask a driver for its statistics; returns names and values of those wanted.

    Their names can change while they are read (mlx5 shows the priorities that pause is
    enabled for): then the answer is None, rather than values under names of others.

    Raises:
        OSError: EOPNOTSUPP where the driver has none, ENODEV without such an interface.

    """
    with closing(_Interface(netdev)) as interface:
        count = interface.count()
        if not 0 < count <= _MOST_STATISTICS:
            return []
        names = interface.names(count)
        values = interface.values(count)
        if names is None or values is None or interface.names(count) != names:
            return None
    found = []
    for index, value in enumerate(values):
        raw = names[index * _NAME_BYTES : (index + 1) * _NAME_BYTES]
        # cxgb4 pads its names with blanks.
        name = raw.partition(b"\0")[0].decode("utf-8", "replace").rstrip()
        if wanted(name):
            found.append((name, value))
    return found


class PauseSource:
    """Pause statistics of the interfaces in this network namespace.

    Different interfaces may be asked at the same time. What a driver does not tell is no
    error; it is asked again now and then.

    Args:
        reader: counts what fails.

    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._skip: dict[str, int] = {}

    def read(self, netdev: str) -> tuple[Pause, ...]:
        """Ask for the pauses of one interface; ``()`` where the driver counts none."""
        skip = self._skip.get(netdev, 0)
        if skip:
            self._skip[netdev] = skip - 1
            return ()
        try:
            told = statistics(netdev, is_pause)
        except OSError as error:
            if error.errno not in _NONE:
                self._reader.failed(f"ethtool statistics of {netdev}", errno_name(error))
            # Any other error may be over at the next read.
            told = [] if error.errno == errno.EOPNOTSUPP else None
        if told is None:
            return ()
        found = pauses(told)
        if not found:
            if len(self._skip) >= _MOST_REMEMBERED:
                self._skip.clear()
            self._skip[netdev] = _READS_PER_TRY - 1
        return found
