"""Network interfaces as ``class/net`` shows them: carrier, its changes, and speed.

``net/core/net-sysfs.c``: while an interface is administratively down, ``carrier`` answers
EINVAL; ``speed`` does so for interfaces that have none, and may say -1.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nvmeof_exporter.hardware import Link
from nvmeof_exporter.sources import decode
from nvmeof_exporter.sources.once import read_once

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvmeof_exporter.hardware import Pause
    from nvmeof_exporter.sources.reader import Reader

__all__ = ["LinkSource", "speed"]

_MEGABIT_BYTES = 125_000

#: ``SPEED_UNKNOWN`` (-1), as kernels have printed it: signed, of 32 bits, of 16 bits.
_UNKNOWN_SPEEDS = frozenset({"-1", "4294967295", "65535"})

#: Words of ``operstate`` (RFC 2863) that say whether there is a carrier.
_OPERATIONAL = {"up": True, "down": False, "lowerlayerdown": False, "notpresent": False}


class LinkSource:
    """The interfaces below ``class/net``. Different ones may be read at the same time.

    Args:
        reader: counts what cannot be read.
        sysfs: where ``/sys`` is.
        pauses: asks for the pauses of an interface; None: they are not asked for.

    """

    def __init__(
        self,
        reader: Reader,
        sysfs: str,
        pauses: Callable[[str], tuple[Pause, ...]] | None = None,
    ) -> None:
        self._reader = reader
        self._class = f"{sysfs}/class/net"
        self._pauses = pauses

    def netdevs(self) -> list[str]:
        """List the interfaces, in order."""
        # bonding_masters is a file.
        names = self._reader.names(self._class)
        return sorted(name for name in names if os.path.isdir(f"{self._class}/{name}"))

    def read(self, netdev: str) -> Link | None:
        """Read one interface; None when there is none of that name."""
        base = f"{self._class}/{netdev}"
        if not os.path.isdir(base):
            return None
        return Link(
            netdev,
            up=self._up(base),
            carrier_changes=read_once(self._reader, f"{base}/carrier_changes", decode.counter),
            speed=read_once(self._reader, f"{base}/speed", speed),
            pauses=() if self._pauses is None else self._pauses(netdev),
        )

    def _up(self, base: str) -> bool | None:
        carrier = read_once(self._reader, f"{base}/carrier", decode.flag)
        if carrier is not None:
            return carrier
        state = read_once(self._reader, f"{base}/operstate", decode.text)
        return _OPERATIONAL.get(state or "")


def speed(raw: bytes) -> float | None:
    """Decode ``speed`` (Mb/s) into bytes per second; None for an unknown one."""
    own = decode.required_text(raw).strip()
    return None if own in _UNKNOWN_SPEEDS else float(decode.counter(raw) * _MEGABIT_BYTES)
