"""Subsystems over soft-RoCE paths that name the host's address, as an administrator would.

Both ends of such a path are on one device of this machine, since soft RoCE of old kernels
knows the first network namespace only. The route to the target is then the loopback
interface's, and only the host's address tells which port is used.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kernel.guest import initiator, network
from tests.kernel.guest.fabric import Fabric, FabricSettings
from tests.kernel.guest.initiator import ConnectOptions, FabricPath
from tests.kernel.guest.lab import load_modules
from tests.kernel.guest.target import SERVICE
from tests.kernel.guest.waiting import await_

if TYPE_CHECKING:
    from tests.kernel.guest.lab import Lab

__all__ = [
    "CARD",
    "CARD_LINKS",
    "VETH_LINKS",
    "RdmaFabric",
    "RdmaSettings",
    "create_card_links",
    "create_veth_links",
]

#: Links over veth pairs, each with a soft-RoCE device.
VETH_LINKS = network.LINKS

#: Links over the two ports of one card, each with a soft-RoCE device.
CARD_LINKS = (3, 4)

_SLOT = 8

#: QEMU's arguments for that card: two functions of one PCI device, each an e1000e on a
#: network of its own where nobody else is.
CARD = tuple(
    argument
    for function in range(len(CARD_LINKS))
    for argument in (
        *("-netdev", f"hubport,id=port{function},hubid={function}"),
        "-device",
        f"e1000e,netdev=port{function},addr={_SLOT:x}.{function},multifunction=on,romfile=",
    )
)


@dataclass(frozen=True)
class RdmaSettings(FabricSettings):
    """Two paths over ``numbers``.

    Keep-alives are so rare that counters of an idle port stand still, and a path that lost its
    link is not tried again (RDMA_LINK_LOSS tells why).
    """

    numbers: tuple[int, ...] = VETH_LINKS
    transport: str = "rdma"
    namespaces: int = 2
    iopolicy: str = "round-robin"
    options: ConnectOptions = field(
        default_factory=lambda: ConnectOptions(keep_alive=60, reconnect_delay=60)
    )

    @property
    def links(self) -> tuple[int, ...]:
        return self.numbers


@dataclass(frozen=True)
class _HostOptions(ConnectOptions):
    host_traddr: str = ""

    def __str__(self) -> str:
        return f"{super().__str__()},host_traddr={self.host_traddr}"


class RdmaFabric(Fabric):
    """A subsystem of ``name`` whose paths are connected from an address of the host."""

    def __init__(self, lab: Lab, name: str, settings: RdmaSettings) -> None:
        super().__init__(
            f"nqn.2014-08.org.nvmexpress:lab-{name}", settings, lab.disks, lab.black_hole
        )

    def label(self, link: int) -> str:
        return f"rdma:{self.address(link)}:{SERVICE}@{self.address(link)}"

    def connect(self, link: int) -> None:
        options = _HostOptions(**asdict(self.settings.options), host_traddr=self.address(link))
        controller = initiator.connect(self.nqn, "rdma", self.address(link), options)
        self.paths[link] = FabricPath(controller, link)


@cache
def create_veth_links() -> None:
    """Make VETH_LINKS, once."""
    _load_drivers("veth")
    network.create_rdma_links()


@cache
def create_card_links() -> None:
    """Give the card's ports the names that links have, and soft-RoCE devices; once."""
    _load_drivers("e1000e")
    for function, link in enumerate(CARD_LINKS):
        (former,) = os.listdir(f"/sys/bus/pci/devices/0000:00:{_SLOT:02x}.{function}/net")
        for command in (
            f"ip link set {former} name r{link}",
            f"ip address add 10.1.{link}.1/24 dev r{link}",
            f"ip link set r{link} up",
            f"rdma link add rxe{link} type rxe netdev r{link}",
        ):
            subprocess.run(command.split(), check=True)
    carriers = [Path(f"/sys/class/net/r{link}/carrier") for link in CARD_LINKS]
    await_(
        lambda: all(carrier.read_text() == "1\n" for carrier in carriers), 20, "the card's links"
    )


def _load_drivers(card: str) -> None:
    load_modules(card, "rdma_rxe", "nvmet-rdma", "nvme-rdma")
