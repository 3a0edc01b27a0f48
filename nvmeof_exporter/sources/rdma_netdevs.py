"""Which network interfaces an RDMA port serves, looked for now and then.

RoCE and iWARP: those of its GIDs. Soft-RoCE names its interface, also while that has no
address. InfiniBand: those of the same PCI function whose ``dev_port`` is this port.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmeof_exporter.sources import decode
from nvmeof_exporter.sources.gid_netdevs import GidNetdevs
from nvmeof_exporter.sources.once import read_once

if TYPE_CHECKING:
    from nvmeof_exporter.sources.reader import Reader

__all__ = ["PortNetdevs"]

#: Interfaces come and go seldom: they are looked for at each so many reads of the port.
_READS_PER_SCAN = 12


class PortNetdevs:
    """The interfaces of one port, in the order of its GIDs.

    Args:
        reader: reads.
        device: directory of the RDMA device.
        port: number of the port.

    """

    def __init__(self, reader: Reader, device: str, port: str) -> None:
        self._reader = reader
        self._device = device
        self._gids = GidNetdevs(reader, f"{device}/ports/{port}/gid_attrs/ndevs")
        self._port = port
        self._reads = 0
        self._found: tuple[str, ...] = ()

    def read(self) -> tuple[str, ...]:
        """Return the interfaces, as they were found last."""
        if self._reads % _READS_PER_SCAN == 0:
            self._found = self._gids.read() or self._of_parent() or self._of_device()
        self._reads += 1
        return self._found

    def _of_parent(self) -> tuple[str, ...]:
        name = read_once(self._reader, f"{self._device}/parent", decode.text)
        return (name,) if name else ()

    def _of_device(self) -> tuple[str, ...]:
        directory = f"{self._device}/device/net"
        number = int(self._port) - 1
        return tuple(
            name
            for name in sorted(self._reader.names(directory))
            if read_once(self._reader, f"{directory}/{name}/dev_port", decode.counter) == number
        )
