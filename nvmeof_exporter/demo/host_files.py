"""What the files of interfaces, RDMA devices and modules hold, as the kernel writes them.

Sources: net/core/net-sysfs.c, drivers/infiniband/core/sysfs.c,
drivers/infiniband/sw/rxe/rxe_hw_counters.c; compared with real trees.
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
    "rdma_files",
    "rdma_moving",
    "version",
]

#: A veth interface says 10 Gb/s, soft-RoCE over it 1X FDR10.
_SPEED = 10_000
_RATE = "10 Gb/sec (1X FDR10)"

#: ``port_xmit_data`` counts words of four bytes.
_WORD = 4

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

_RDMA_ERRORS = (
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "port_rcv_constraint_errors",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_discards",
    "port_xmit_wait",
    "symbol_error",
)

_RDMA_HARDWARE = (
    "completer_retry_err",
    "duplicate_request",
    "out_of_seq_request",
    "rcvd_rnr_err",
    "rcvd_seq_err",
    "retry_exceeded_err",
    "retry_rnr_exceeded_err",
    "send_err",
    "send_rnr_err",
)

_PORT = "ports/1"


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


def netdev_files(netdev: Netdev, number: int) -> dict[str, bytes]:
    """Return the files of an interface, whose index is ``number``."""
    return {
        "address": b"02:00:00:00:00:%02x\n" % (number % 256),
        "dev_id": b"0x0\n",
        "dev_port": b"0\n",
        "duplex": b"full\n",
        "ifindex": b"%d\n" % number,
        "iflink": b"%d\n" % number,
        "mtu": b"1500\n",
        "speed": b"%d\n" % _SPEED,
        "type": b"1\n",
        "uevent": f"INTERFACE={netdev.name}\nIFINDEX={number}\n".encode(),
        **{f"statistics/{name}": b"0\n" for name in _STATISTICS},
        **netdev_moving(netdev),
    }


def netdev_moving(netdev: Netdev) -> dict[str, bytes]:
    """Return the files of an interface that can change."""
    ups = netdev.carrier_changes // 2
    return {
        "carrier": b"%d\n" % netdev.carrier,
        "carrier_changes": b"%d\n" % netdev.carrier_changes,
        "carrier_down_count": b"%d\n" % (netdev.carrier_changes - ups),
        "carrier_up_count": b"%d\n" % ups,
        "flags": b"0x1003\n",
        "operstate": b"up\n" if netdev.carrier else b"down\n",
        "statistics/rx_bytes": b"%d\n" % netdev.received_bytes,
        "statistics/rx_packets": b"%d\n" % netdev.requests,
        "statistics/tx_bytes": b"%d\n" % netdev.transmitted_bytes,
        "statistics/tx_packets": b"%d\n" % netdev.requests,
    }


def rdma_files(node: Node, netdev: Netdev) -> dict[str, bytes]:
    """Return the files of the soft-RoCE device on an interface, with its one port."""
    guid = _guid(netdev.address).encode() + b"\n"
    files = {
        "fw_ver": b"\n",
        "node_desc": b"rxe\n",
        "node_guid": guid,
        "node_type": b"1: CA\n",
        "parent": netdev.name.encode() + b"\n",
        "sys_image_guid": guid,
        f"{_PORT}/cap_mask": b"0x00010000\n",
        f"{_PORT}/lid": b"0x0\n",
        f"{_PORT}/link_layer": b"Ethernet\n",
        f"{_PORT}/rate": _RATE.encode() + b"\n",
        f"{_PORT}/gid_attrs/ndevs/0": netdev.name.encode() + b"\n",
        f"{_PORT}/gid_attrs/ndevs/1": netdev.name.encode() + b"\n",
        f"{_PORT}/gid_attrs/types/0": b"RoCE v2\n",
        f"{_PORT}/gid_attrs/types/1": b"RoCE v2\n",
        f"{_PORT}/gids/0": b"fe80:0000:0000:0000:" + guid,
        f"{_PORT}/gids/1": _mapped(netdev.address).encode() + b"\n",
        **{f"{_PORT}/hw_counters/{name}": b"0\n" for name in _RDMA_HARDWARE},
        f"{_PORT}/hw_counters/lifespan": b"12\n",
        **rdma_moving(node, netdev),
    }
    if node.kernel.diag:
        files |= {f"{_PORT}/counters/{name}": b"0\n" for name in _RDMA_ERRORS}
    return files


def rdma_moving(node: Node, netdev: Netdev) -> dict[str, bytes]:
    """Return the files of an RDMA device that can change."""
    up = netdev.carrier
    requests = b"%d\n" % netdev.requests
    files = {
        f"{_PORT}/hw_counters/link_downed": b"%d\n" % ((netdev.carrier_changes - 1) // 2),
        f"{_PORT}/hw_counters/rcvd_pkts": requests,
        f"{_PORT}/hw_counters/sent_pkts": requests,
        f"{_PORT}/phys_state": b"5: LinkUp\n" if up else b"3: Disabled\n",
        f"{_PORT}/state": b"4: ACTIVE\n" if up else b"1: DOWN\n",
    }
    if node.kernel.diag:
        words = netdev.received_bytes // _WORD, netdev.transmitted_bytes // _WORD
        files[f"{_PORT}/counters/port_rcv_data"] = b"%d\n" % words[0]
        files[f"{_PORT}/counters/port_rcv_packets"] = requests
        files[f"{_PORT}/counters/port_xmit_data"] = b"%d\n" % words[1]
        files[f"{_PORT}/counters/port_xmit_packets"] = requests
    return files


def _guid(address: str) -> str:
    """Make up an EUI-64 for the device at an IPv4 address."""
    return "0200:{:02x}ff:fe{:02x}:{:02x}{:02x}".format(*_octets(address))


def _mapped(address: str) -> str:
    """Write an IPv4 address as the GID of RoCE v2."""
    return "0000:0000:0000:0000:0000:ffff:{:02x}{:02x}:{:02x}{:02x}".format(*_octets(address))


def _octets(address: str) -> list[int]:
    return [int(octet) for octet in address.split(".")]
