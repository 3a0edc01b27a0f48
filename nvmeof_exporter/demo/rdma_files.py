"""What the files of RDMA devices hold: soft-RoCE over a virtual interface, mlx5 on a card.

Sources: drivers/infiniband/core/sysfs.c, sw/rxe/rxe_hw_counters.c and hw/mlx5/counters.c
beside it; compared with real trees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nvmeof_exporter.demo.devices import Netdev
    from nvmeof_exporter.demo.simulation import Node

__all__ = ["rdma_files", "rdma_moving"]

_PORT = "ports/1"

#: ``port_xmit_data`` counts words of four bytes.
_WORD = 4

#: How often NVMe's queue pairs repeat a message (``retry_count`` in drivers/nvme/host/rdma.c).
_RETRIES = 7

#: What carries a speed, in Mb/s; a card's port that is down says the last.
_LANES = {10_000: "1X FDR10", 100_000: "4X EDR", 200_000: "4X HDR", 400_000: "4X NDR"}
_RATE_WHILE_DOWN = "40 Gb/sec (4X QDR)"

#: ``counters/`` that never move here.
_PORT_ERRORS = (
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "multicast_rcv_packets",
    "multicast_xmit_packets",
    "port_rcv_constraint_errors",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_discards",
    "port_xmit_wait",
    "symbol_error",
)

_RXE_STILL = (
    "ack_deferred",
    "duplicate_request",
    "out_of_seq_request",
    "rcvd_rnr_err",
    "rcvd_seq_err",
    "rdma_recvs",
    "retry_rnr_exceeded_err",
    "send_err",
    "send_rnr_err",
)

_MLX5_STILL = (
    "duplicate_request",
    "implied_nak_seq_err",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "req_cqe_flush_error",
    "req_remote_access_errors",
    "req_remote_invalid_request",
    "resp_cqe_error",
    "resp_cqe_flush_error",
    "resp_local_length_error",
    "resp_remote_access_errors",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
    "roce_slow_restart",
    "roce_slow_restart_cnps",
    "roce_slow_restart_trans",
    "rp_cnp_handled",
    "rp_cnp_ignored",
    "rx_atomic_requests",
    "rx_icrc_encapsulated",
)


def rdma_files(node: Node, netdev: Netdev) -> dict[str, bytes]:
    """Return the files of the RDMA device on an interface, with its one port."""
    guid = _guid(netdev.address).encode() + b"\n"
    name = netdev.name.encode() + b"\n"
    files = {
        "node_guid": guid,
        "node_type": b"1: CA\n",
        "sys_image_guid": guid,
        f"{_PORT}/cap_mask": b"0x00010000\n",
        f"{_PORT}/lid": b"0x0\n",
        f"{_PORT}/link_layer": b"Ethernet\n",
        **{f"{_PORT}/gid_attrs/ndevs/{index}": name for index in range(2)},
        **{f"{_PORT}/gid_attrs/types/{index}": b"RoCE v2\n" for index in range(2)},
        f"{_PORT}/gids/0": b"fe80:0000:0000:0000:" + guid,
        f"{_PORT}/gids/1": _mapped(netdev.address).encode() + b"\n",
        **(_mlx5_files(node, netdev) if netdev.pci else _rxe_files(netdev)),
    }
    if _has_port_counters(node, netdev):
        files |= {f"{_PORT}/counters/{error}": b"0\n" for error in _PORT_ERRORS}
    return files | rdma_moving(node, netdev)


def rdma_moving(node: Node, netdev: Netdev) -> dict[str, bytes]:
    """Return the files of an RDMA device that can change."""
    up, flow = netdev.carrier, netdev.roce
    numbers = _mlx5_counters(node, netdev) if netdev.pci else _rxe_counters(node, netdev)
    if _has_port_counters(node, netdev):
        numbers |= {
            "counters/port_rcv_data": flow.received_bytes // _WORD,
            "counters/port_rcv_packets": flow.received_packets,
            "counters/port_xmit_data": flow.transmitted_bytes // _WORD,
            "counters/port_xmit_packets": flow.transmitted_packets,
            "counters/unicast_rcv_packets": flow.received_packets,
            "counters/unicast_xmit_packets": flow.transmitted_packets,
        }
    return {
        **{f"{_PORT}/{name}": b"%d\n" % number for name, number in numbers.items()},
        f"{_PORT}/phys_state": b"5: LinkUp\n" if up else b"3: Disabled\n",
        f"{_PORT}/rate": _rate(netdev),
        f"{_PORT}/state": b"4: ACTIVE\n" if up else b"1: DOWN\n",
    }


def _has_port_counters(node: Node, netdev: Netdev) -> bool:
    """Whether there is ``counters/``: soft-RoCE got it late."""
    return bool(netdev.pci) or node.kernel.diag


def _rxe_files(netdev: Netdev) -> dict[str, bytes]:
    return {
        "fw_ver": b"\n",
        "node_desc": b"rxe\n",
        "parent": netdev.name.encode() + b"\n",
        f"{_PORT}/hw_counters/lifespan": b"12\n",
        **{f"{_PORT}/hw_counters/{name}": b"0\n" for name in _RXE_STILL},
    }


def _rxe_counters(node: Node, netdev: Netdev) -> dict[str, int]:
    flow, retries = netdev.roce, netdev.retries_exceeded
    numbers = {
        "hw_counters/completer_retry_err": retries * _RETRIES,
        "hw_counters/link_downed": (netdev.carrier_changes - 1) // 2,
        "hw_counters/rcvd_pkts": flow.received_packets,
        "hw_counters/rdma_sends": flow.reads + flow.writes,
        "hw_counters/retry_exceeded_err": retries,
        "hw_counters/sent_pkts": flow.transmitted_packets,
    }
    if node.kernel.diag:
        numbers["hw_counters/rcvd_bytes"] = flow.received_bytes
        numbers["hw_counters/sent_bytes"] = flow.transmitted_bytes
    return numbers


def _mlx5_files(node: Node, netdev: Netdev) -> dict[str, bytes]:
    still = [*_MLX5_STILL, *(f"vendor_{n}" for n in range(1, netdev.vendor_counters + 1))]
    if node.kernel.csi:  # came with 6.7; no generation here lies between
        still.append("rx_dct_connect")
    if node.kernel.diag:
        still.append("req_rnr_retries_exceeded")
    return {
        "board_id": b"MT_0000000838\n",
        "fw_ver": b"28.41.1000\n",
        "hca_type": b"MT4129\n",
        "hw_rev": b"0\n",
        "node_desc": netdev.rdma.encode() + b"\n",
        f"{_PORT}/hw_counters/lifespan": b"10\n",
        **{f"{_PORT}/hw_counters/{name}": b"0\n" for name in still},
    }


def _mlx5_counters(node: Node, netdev: Netdev) -> dict[str, int]:
    """Count as the initiator: the target writes what is read here, and reads what is written."""
    flow, retries = netdev.roce, netdev.retries_exceeded
    numbers = {
        "hw_counters/local_ack_timeout_err": retries * _RETRIES,
        "hw_counters/req_cqe_error": retries,
        "hw_counters/rx_read_requests": flow.writes,
        "hw_counters/rx_write_requests": flow.reads,
    }
    if node.kernel.diag:
        numbers["hw_counters/req_transport_retries_exceeded"] = retries
    return numbers


def _rate(netdev: Netdev) -> bytes:
    if netdev.pci and not netdev.carrier:
        return _RATE_WHILE_DOWN.encode() + b"\n"
    return f"{netdev.speed // 1000} Gb/sec ({_LANES[netdev.speed]})\n".encode()


def _guid(address: str) -> str:
    """Make up an EUI-64 for the device at an IPv4 address."""
    return "0200:{:02x}ff:fe{:02x}:{:02x}{:02x}".format(*_octets(address))


def _mapped(address: str) -> str:
    """Write an IPv4 address as the GID of RoCE v2."""
    return "0000:0000:0000:0000:0000:ffff:{:02x}{:02x}:{:02x}{:02x}".format(*_octets(address))


def _octets(address: str) -> list[int]:
    return [int(octet) for octet in address.split(".")]
