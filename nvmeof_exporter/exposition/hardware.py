"""What paths run over, told: their links' carrier, RDMA ports, links, and what they share.

Everything here is made of immutable values, so no lock is held meanwhile.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nvmeof_exporter.monitor.shared_fate import distinct
from nvmeof_exporter.sources.rdma_counters import PHYSICAL_STATES, PORT_STATES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nvmeof_exporter.exposition.sheet import Sheet
    from nvmeof_exporter.exposition.state import Standing
    from nvmeof_exporter.hardware import Link, RdmaPort
    from nvmeof_exporter.model import Controller, Subsystem
    from nvmeof_exporter.surroundings import Surroundings

__all__ = ["add_hardware", "add_path_link", "add_shared_fate"]


def add_path_link(sheet: Sheet, controller: Controller, around: Surroundings) -> None:
    """Add whether the link of a path is up, where that is known."""
    up = around.path_link_up(controller)
    sheet.add_known("nvmeof_path_link_up", (controller.nqn, str(controller.path)), up)


def add_shared_fate(
    sheet: Sheet,
    nqn: str,
    subsystems: Iterable[Subsystem],
    standings: Iterable[Standing],
    around: Surroundings,
) -> None:
    """Add what the paths of one NQN share; ``standings`` are of its subsystems."""
    made_of = (
        *standings,
        *[around.port(c) for subsystem in subsystems for c in subsystem.controllers],
        around.switches,
    )
    sheet.part(("shared fate", nqn), made_of, _shared_fate, nqn, subsystems, around)


def _shared_fate(
    sheet: Sheet, nqn: str, subsystems: Iterable[Subsystem], around: Surroundings
) -> None:
    for resource, count in distinct(subsystems, around.port, around.switches).items():
        sheet.add("nvmeof_subsystem_distinct", (nqn, resource), count)


def add_hardware(sheet: Sheet, around: Surroundings) -> None:
    """Add RDMA ports and links."""
    for port in around.rdma_ports:
        sheet.part(("port", port.device, port.port), (port,), _rdma_port, port)
    for netdev in around.netdevs:
        up = around.link_up(netdev)
        sheet.add_known("nvmeof_link_up", (netdev,), up)
        link = around.links.get(netdev)
        if link is not None:
            # Some drivers (veth) tell a speed whether they are up or not.
            _link(sheet, link if up is not False else replace(link, speed=None))


def _rdma_port(sheet: Sheet, port: RdmaPort) -> None:
    key = (port.device, port.port)
    if port.port:  # else the device as a whole, which has statistics only
        about = (",".join(port.netdevs), port.link_layer, port.firmware, port.hca)
        sheet.add("nvmeof_rdma_port_info", (*key, *about), 1)
    if port.state:
        sheet.add_states("nvmeof_rdma_port_state", key, PORT_STATES, port.state)
    if port.physical_state:
        sheet.add_states(
            "nvmeof_rdma_port_physical_state", key, PHYSICAL_STATES, port.physical_state
        )
    sheet.add_alike(
        key,
        (
            ("nvmeof_rdma_port_rate_bytes_per_second", port.rate),
            ("nvmeof_rdma_port_received_bytes_total", port.received_bytes),
            ("nvmeof_rdma_port_transmitted_bytes_total", port.transmitted_bytes),
            ("nvmeof_rdma_port_received_packets_total", port.received_packets),
            ("nvmeof_rdma_port_transmitted_packets_total", port.transmitted_packets),
        ),
    )
    for statistic, count in port.statistics:
        sheet.add("nvmeof_rdma_port_statistic_total", (*key, statistic), count)


def _link(sheet: Sheet, link: Link) -> None:
    netdev = link.netdev
    sheet.add_known("nvmeof_link_carrier_changes_total", (netdev,), link.carrier_changes)
    sheet.add_known("nvmeof_link_speed_bytes_per_second", (netdev,), link.speed)
    for pause in link.pauses:
        key = (netdev, pause.direction, pause.priority)
        sheet.add_known("nvmeof_link_pause_frames_total", key, pause.frames)
        sheet.add_known("nvmeof_link_pause_seconds_total", key, pause.seconds)
