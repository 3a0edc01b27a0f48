"""The part of the table about what paths run over: ports, links, and what paths share."""

from __future__ import annotations

from nvmeof_exporter.exposition.metric import Metric

__all__ = ["PORTS_AND_LINKS", "SHARED_FATE"]

_PORT = ("device", "port")
_LINK = ("netdev",)
_PAUSE = ("netdev", "direction", "priority")

PORTS_AND_LINKS = (
    Metric(
        "nvmeof_path_link_up",
        "gauge",
        "Whether the interface that the path uses, or last used, has a carrier (a bond: the bond"
        " itself), told with the first poll after rtnetlink announces it (the kernel may take"
        " a second), seconds before a keep-alive fails; without rtnetlink as for nvmeof_link_up."
        " Where only an RDMA port is known: whether that is active. No series when neither is"
        " known.",
        ("nqn", "path"),
    ),
    Metric(
        "nvmeof_rdma_port_info",
        "info",
        "An RDMA port: its interfaces (several are separated by commas), link layer, firmware"
        " and card.",
        (*_PORT, "netdev", "link_layer", "firmware", "hca"),
    ),
    Metric(
        "nvmeof_rdma_port_state",
        "gauge",
        "1 for the logical state of the port, 0 for the others; only active carries data.",
        (*_PORT, "state"),
    ),
    Metric(
        "nvmeof_rdma_port_physical_state",
        "gauge",
        "1 for the physical state of the port, 0 for the others.",
        (*_PORT, "state"),
    ),
    Metric(
        "nvmeof_rdma_port_rate_bytes_per_second",
        "gauge",
        "Signalling rate of the port as it is now; 0 for an empty cage.",
        _PORT,
    ),
    Metric(
        "nvmeof_rdma_port_received_bytes_total",
        "counter",
        "Bytes the port received, by whatever its driver counts them with; no series where it"
        " does not.",
        _PORT,
    ),
    Metric(
        "nvmeof_rdma_port_transmitted_bytes_total",
        "counter",
        "Bytes the port transmitted, as for received.",
        _PORT,
    ),
    Metric(
        "nvmeof_rdma_port_received_packets_total",
        "counter",
        "Packets the port received, as for bytes.",
        _PORT,
    ),
    Metric(
        "nvmeof_rdma_port_transmitted_packets_total",
        "counter",
        "Packets the port transmitted, as for bytes.",
        _PORT,
    ),
    Metric(
        "nvmeof_rdma_port_statistic_total",
        "counter",
        "Every other counter of the port, by the kernel's own name. Some of InfiniBand's error"
        " counters stop at 15, 255 or 65535 instead of wrapping.",
        (*_PORT, "statistic"),
    ),
    Metric(
        "nvmeof_link_up",
        "gauge",
        "Whether the interface is up and has a carrier; told with the first poll after rtnetlink"
        " announces a change, without rtnetlink every --poll.slow-interval.",
        _LINK,
    ),
    Metric(
        "nvmeof_link_carrier_changes_total",
        "counter",
        "How often the carrier came or went.",
        _LINK,
    ),
    Metric(
        "nvmeof_link_speed_bytes_per_second",
        "gauge",
        "Speed of the link; no series while nvmeof_link_up is 0 or the driver does not know.",
        _LINK,
    ),
    Metric(
        "nvmeof_link_pause_frames_total",
        "counter",
        "Pause frames by direction (rx: the peer asked this host to stop sending; tx: this host"
        ' asked the peer) and priority (""'
        ": global pause); no series where the driver does not tell.",
        _PAUSE,
    ),
    Metric(
        "nvmeof_link_pause_seconds_total",
        "counter",
        "Time that the sender was stopped by pause frames; labels as for frames.",
        _PAUSE,
    ),
)

SHARED_FATE = (
    Metric(
        "nvmeof_subsystem_distinct",
        "gauge",
        "How many different ones of a resource (netdev: ports at the bottom of bonds and VLANs,"
        " nic: PCI devices, rdma_device, subnet, switch, target_address) the paths run over that"
        " can carry I/O or take over; 1 is a single point of failure. No series unless it is"
        " known for each of them. It is advice: see docs/shared-fate.md.",
        ("nqn", "resource"),
    ),
)
