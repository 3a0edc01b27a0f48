"""From the interface that the network stack uses down to where the cables are.

``/sys/class/net/X/lower_Y`` says that Y carries X: the slaves of a bond or team, the
parent of a VLAN or macvlan, the ports of a bridge, the interfaces in a VRF
(``netdev_adjacent_sysfs_add`` in net/core/dev.c). There is no such link between
network namespaces: a VLAN whose parent is in another one looks like a bottom.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nvmeof_exporter.sources.decode import text
from nvmeof_exporter.sources.once import read_once

if TYPE_CHECKING:
    from nvmeof_exporter.sources.reader import Reader

__all__ = ["Stack", "directory", "nic", "read_stack"]

_LOWER = "lower_"

#: A node's stacks have two or three layers; a bridge may have hundreds of ports.
_MOST_INTERFACES = 1024

_PCI_ADDRESS = re.compile(r"([0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2})\.[0-7]", re.ASCII)


@dataclass(frozen=True, slots=True)
class Stack:
    """An interface, those that carry it layer by layer, and those at the bottom.

    ``members`` are the bottom interfaces with hardware behind them: a bridge's
    port to the network, not the virtual machines beside it. Only where none has,
    they are the virtual ones (veth).
    """

    layers: tuple[tuple[str, ...], ...]
    members: tuple[str, ...]


def directory(sysfs: str, netdev: str) -> str:
    """Name the directory of an interface; ``""`` for what cannot be one's name."""
    if not netdev or "/" in netdev or netdev in {".", ".."}:
        return ""
    return f"{sysfs}/class/net/{netdev}"


def read_stack(reader: Reader, sysfs: str, netdev: str) -> Stack:
    """Follow an interface down; survives loops, and interfaces that vanish meanwhile."""
    seen = {netdev: None}
    layers: list[tuple[str, ...]] = [(netdev,)]
    bottom: list[str] = []
    while layers[-1] and len(seen) < _MOST_INTERFACES:
        below: dict[str, None] = {}
        for name in layers[-1]:
            lower = _lower(reader, directory(sysfs, name))
            if not lower:
                bottom.append(name)
            below.update(dict.fromkeys(lower))
        layers.append(tuple(name for name in below if name not in seen))
        seen.update(below)
    physical = [name for name in bottom if os.path.lexists(f"{directory(sysfs, name)}/device")]
    return Stack(tuple(filter(None, layers)), tuple(physical or bottom or [netdev]))


def nic(sysfs: str, netdev: str) -> str:
    """Return the PCI device of an interface without its function (``0000:3b:00``), else ``""``.

    A virtual function counts as the card it is a part of, where that is shown
    (``physfn``). An interface that is not on PCI itself (virtio, a sub-function,
    USB) counts as the PCI device that it hangs on.
    """
    device = f"{directory(sysfs, netdev)}/device"
    if not os.path.lexists(device):
        return ""
    card = f"{device}/physfn"
    place = os.path.realpath(card if os.path.lexists(card) else device)
    addresses = filter(None, map(_PCI_ADDRESS.fullmatch, reversed(place.split("/"))))
    return next((match[1] for match in addresses), "")


def _lower(reader: Reader, path: str) -> list[str]:
    """List what carries an interface."""
    if not path:
        return []
    entries = reader.names(path)
    linked = [name.removeprefix(_LOWER) for name in entries if name.startswith(_LOWER)]
    if linked:
        return sorted(linked)
    # Kernels before 3.14 have no such links, and copies of /sys may have lost them.
    if "brif" in entries:
        return sorted(reader.names(f"{path}/brif"))
    if "bonding" in entries:
        return sorted((read_once(reader, f"{path}/bonding/slaves", text) or "").split())
    return []
