"""What the files of interfaces, their cards and modules hold, as the kernel writes them.

Sources: net/core/net-sysfs.c, drivers/pci/pci-sysfs.c; compared with real trees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nvmeof_exporter.demo.devices import Netdev
    from nvmeof_exporter.demo.simulation import Node

__all__ = [
    "module_files",
    "netdev_files",
    "netdev_moving",
    "pci_files",
    "version",
]

#: ``IFF_UP | IFF_BROADCAST | IFF_MULTICAST``: the administrator's part of the flags.
_FLAGS = b"0x1003\n"

#: A Mellanox ConnectX-7, an Ethernet controller, as the PCI IDs have it.
_VENDOR, _DEVICE, _CLASS = b"0x15b3\n", b"0x1021\n", b"0x020000\n"

_STATISTICS = (
    "collisions",
    "multicast",
    "rx_crc_errors",
    "rx_dropped",
    "rx_errors",
    "rx_fifo_errors",
    "rx_missed_errors",
    "tx_carrier_errors",
    "tx_dropped",
    "tx_errors",
    "tx_fifo_errors",
)


def module_files(node: Node) -> dict[str, bytes]:
    """Return ``module/nvme_core/parameters``."""
    return {
        "admin_timeout": b"60\n",
        "io_timeout": b"%d\n" % node.io_timeout,
        "iopolicy": b"numa\n",
        "max_retries": b"5\n",
        "multipath": b"Y\n",
        "shutdown_timeout": b"5\n",
    }


def version(node: Node) -> bytes:
    """Return ``/proc/version``."""
    return (f"Linux version {node.kernel.release} (make-believe) #1 SMP PREEMPT_DYNAMIC\n").encode()


def pci_files(function: str) -> dict[str, bytes]:
    """Return the files of a card's PCI function (``0000:3b:00.0``)."""
    return {
        "class": _CLASS,
        "device": _DEVICE,
        "numa_node": b"0\n",
        "uevent": f"DRIVER=mlx5_core\nPCI_SLOT_NAME={function}\n".encode(),
        "vendor": _VENDOR,
    }


def netdev_files(netdev: Netdev, number: int) -> dict[str, bytes]:
    """Return the files of an interface, whose index is ``number``."""
    return {
        "address": b"02:00:00:00:00:%02x\n" % (number % 256),
        "dev_id": b"0x0\n",
        "dev_port": b"0\n",
        "duplex": b"full\n",
        "flags": _FLAGS,
        "ifindex": b"%d\n" % number,
        "iflink": b"%d\n" % number,
        "mtu": b"1500\n",
        "type": b"1\n",
        "uevent": f"INTERFACE={netdev.name}\nIFINDEX={number}\n".encode(),
        **{f"statistics/{name}": b"0\n" for name in _STATISTICS},
        **netdev_moving(netdev),
    }


def netdev_moving(netdev: Netdev) -> dict[str, bytes]:
    """Return the files of an interface that can change.

    What a card's RDMA engine carries passes the interface by; soft-RoCE goes through it.
    """
    ups = netdev.carrier_changes // 2
    flows = (netdev.plain,) if netdev.pci else (netdev.plain, netdev.roce)
    unknown = netdev.pci and not netdev.carrier
    return {
        "carrier": b"%d\n" % netdev.carrier,
        "carrier_changes": b"%d\n" % netdev.carrier_changes,
        "carrier_down_count": b"%d\n" % (netdev.carrier_changes - ups),
        "carrier_up_count": b"%d\n" % ups,
        "operstate": b"up\n" if netdev.carrier else b"down\n",
        "speed": b"%d\n" % (-1 if unknown else netdev.speed),
        "statistics/rx_bytes": b"%d\n" % sum(flow.received_bytes for flow in flows),
        "statistics/rx_packets": b"%d\n" % sum(flow.received_packets for flow in flows),
        "statistics/tx_bytes": b"%d\n" % sum(flow.transmitted_bytes for flow in flows),
        "statistics/tx_packets": b"%d\n" % sum(flow.transmitted_packets for flow in flows),
    }
