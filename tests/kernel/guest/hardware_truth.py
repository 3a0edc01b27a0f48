"""What paths run over, as iproute2, ethtool and the kernel's files tell it.

Expected samples have the names and labels of the metric reference. Programs ask the kernel by
netlink and ioctl, where the exporter reads files; files are read plainly where no program shows
a value.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.kernel.guest.exporter import Sample

__all__ = ["HARDWARE", "STATES", "ethtool_statistics", "expected_links", "expected_ports"]

_STATE = "nvmeof_rdma_port_state"
_PHYSICAL = "nvmeof_rdma_port_physical_state"

#: Metrics that have a sample per state, of which one is 1.
STATES = frozenset({_STATE, _PHYSICAL})

#: Every metric of a port or link, but of those in STATES the samples that are 1 only.
HARDWARE = STATES | {
    "nvmeof_rdma_port_info",
    "nvmeof_rdma_port_rate_bytes_per_second",
    "nvmeof_rdma_port_received_bytes_total",
    "nvmeof_rdma_port_transmitted_bytes_total",
    "nvmeof_rdma_port_received_packets_total",
    "nvmeof_rdma_port_transmitted_packets_total",
    "nvmeof_rdma_port_statistic_total",
    "nvmeof_link_up",
    "nvmeof_link_carrier_changes_total",
    "nvmeof_link_speed_bytes_per_second",
    "nvmeof_link_pause_frames_total",
    "nvmeof_link_pause_seconds_total",
}

#: Counters of soft RoCE (drivers/infiniband/sw/rxe): the file that is believed first, and what
#: one of its units is. The ones in ``counters`` are those of InfiniBand, in words of 4 octets.
_TRAFFIC = {
    "received_bytes": (("port_rcv_data", 4), ("rcvd_bytes", 1)),
    "transmitted_bytes": (("port_xmit_data", 4), ("sent_bytes", 1)),
    "received_packets": (("port_rcv_packets", 1), ("rcvd_pkts", 1)),
    "transmitted_packets": (("port_xmit_packets", 1), ("sent_pkts", 1)),
}

#: How long counters are cached, among the counters (drivers/infiniband/core/sysfs.c).
_NO_COUNTER = "lifespan"

#: What e1000e calls its pause frames (drivers/net/ethernet/intel/e1000e/ethtool.c): the requests
#: to stop. The statistics of a veth have none.
_PAUSES = {"rx_flow_control_xoff": "rx", "tx_flow_control_xoff": "tx"}

_GIGABIT, _MEGABIT = 125_000_000, 125_000  # bytes


def expected_ports(devices: Iterable[str]) -> dict[Sample, float]:
    """Every sample of these RDMA devices' ports, by ``rdma link`` and ``rdma statistic``."""
    samples: dict[Sample, float] = {}
    statistics = {_port(each): each for each in _asked("rdma", "-j", "statistic", "show")}
    wanted = set(devices)
    for link in _asked("rdma", "-j", "link", "show"):
        if link["ifname"] in wanted:
            samples.update(_expected_port(link, statistics.get(_port(link), {})))
    return samples


def expected_links(netdevs: Iterable[str]) -> dict[Sample, float]:
    """Every sample of these interfaces, by ``ip link``, ``ethtool -S`` and ``/sys/class/net``."""
    samples: dict[Sample, float] = {}
    shown = {link["ifname"]: link for link in _asked("ip", "-j", "link", "show")}
    for netdev in netdevs:
        flags = shown[netdev]["flags"]
        up = "UP" in flags and "LOWER_UP" in flags
        directory = Path("/sys/class/net") / netdev
        samples[_sample("nvmeof_link_up", netdev=netdev)] = up
        changes = float(_text(directory / "carrier_changes"))
        samples[_sample("nvmeof_link_carrier_changes_total", netdev=netdev)] = changes
        # A veth says what its speed would be; a link that is down has none.
        speed = _speed(directory) if up else -1
        if speed > 0:
            sample = _sample("nvmeof_link_speed_bytes_per_second", netdev=netdev)
            samples[sample] = speed * _MEGABIT
        for name, frames in ethtool_statistics(netdev).items():
            if name in _PAUSES:
                labels = {"netdev": netdev, "direction": _PAUSES[name], "priority": ""}
                samples[_sample("nvmeof_link_pause_frames_total", **labels)] = frames
    return samples


def ethtool_statistics(netdev: str) -> dict[str, float]:
    """The driver's statistics of ``netdev``, as ``ethtool -S`` prints them."""
    output = subprocess.run(
        ["ethtool", "-S", netdev], capture_output=True, text=True, check=True
    ).stdout
    pairs = (line.rpartition(":") for line in output.splitlines()[1:])
    return {name.strip(): float(value) for name, _, value in pairs}


def _expected_port(link: dict[str, Any], statistics: dict[str, Any]) -> dict[Sample, float]:
    device, port = _port(link)
    directory = Path("/sys/class/infiniband") / device
    of_port = {"device": device, "port": port}
    about = {
        "netdev": link["netdev"],
        "link_layer": _text(directory / "ports" / port / "link_layer"),
        "firmware": _text_or_none(directory / "fw_ver"),
        "hca": _text_or_none(directory / "hca_type"),
    }
    gigabits = float(_text(directory / "ports" / port / "rate").split(" ")[0])
    samples: dict[Sample, float] = {
        _sample("nvmeof_rdma_port_info", **of_port, **about): 1,
        _sample(_STATE, **of_port, state=link["state"].lower()): 1,
        _sample(_PHYSICAL, **of_port, state=link["physical_state"].lower().replace("_", "")): 1,
        _sample("nvmeof_rdma_port_rate_bytes_per_second", **of_port): gigabits * _GIGABIT,
    }
    counted = {
        **_files(directory / "ports" / port / "counters"),
        **{name: value for name, value in statistics.items() if isinstance(value, int)},
    }
    for name in ("port", "ifindex", _NO_COUNTER):
        counted.pop(name, None)
    for metric, files in _TRAFFIC.items():
        found = next(((file, unit) for file, unit in files if file in counted), None)
        if found:
            file, unit = found
            samples[_sample(f"nvmeof_rdma_port_{metric}_total", **of_port)] = (
                counted.pop(file) * unit
            )
    for name, value in counted.items():
        samples[_sample("nvmeof_rdma_port_statistic_total", **of_port, statistic=name)] = value
    return samples


def _asked(*command: str) -> list[dict[str, Any]]:
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    answer: list[dict[str, Any]] = json.loads(output or "[]")
    return answer


def _port(shown: dict[str, Any]) -> tuple[str, str]:
    return shown["ifname"], str(shown["port"])


def _files(directory: Path) -> dict[str, int]:
    """Numbers in the files of ``directory``; none where there is no such directory."""
    texts = {file.name: _text(file) for file in directory.glob("*")}
    return {name: int(text) for name, text in texts.items() if text.isdecimal()}


def _speed(directory: Path) -> int:
    """Megabits per second; -1 where the kernel does not say, as while the interface is down."""
    try:
        return int(_text(directory / "speed"))
    except OSError:
        return -1


def _sample(name: str, **labels: str) -> Sample:
    return name, frozenset(labels.items())


def _text(file: Path) -> str:
    return file.read_text().strip()


def _text_or_none(file: Path) -> str:
    """Soft RoCE has neither card nor firmware."""
    return _text(file) if file.exists() else ""
