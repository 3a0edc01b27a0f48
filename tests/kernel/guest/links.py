"""What paths run over: served values against iproute2 and ethtool, and links that fail."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.kernel.guest import network
from tests.kernel.guest.fabric import FabricSettings
from tests.kernel.guest.hardware_compare import Traffic, compare
from tests.kernel.guest.hardware_truth import ethtool_statistics
from tests.kernel.guest.initiator import ConnectOptions
from tests.kernel.guest.link_watch import LinkWatch
from tests.kernel.guest.load import LoadSettings, start
from tests.kernel.guest.rdma_fabric import (
    CARD,
    CARD_LINKS,
    VETH_LINKS,
    RdmaFabric,
    RdmaSettings,
    create_card_links,
    create_veth_links,
)
from tests.kernel.guest.scenario import Registry
from tests.kernel.guest.waiting import await_

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kernel.guest.exporter import Scrape
    from tests.kernel.guest.fabric import Fabric
    from tests.kernel.guest.lab import Lab

__all__ = ["REGISTRY"]

REGISTRY = Registry(devices=CARD, scenario_seconds=120)

#: Some requests a second are enough: soft RoCE takes much of an emulated processor.
_LOAD = LoadSettings("randrw", think_ms=10)

#: Requests of half a second or so.
_FLOWING = 50


@REGISTRY.scenario
def two_soft_roce_paths(lab: Lab) -> Any:
    """Two soft-RoCE paths over veth pairs, idle, loaded and idle again."""
    create_veth_links()
    with RdmaFabric(lab, "veth", RdmaSettings()) as fabric:
        return _values(lab, fabric, "two_soft_roce_paths")


@REGISTRY.scenario
def two_ports_of_one_card(lab: Lab) -> Any:
    """The same over both ports of one PCI card, whose driver counts pause frames."""
    create_card_links()
    with RdmaFabric(lab, "card", RdmaSettings(numbers=CARD_LINKS)) as fabric:
        return _values(lab, fabric, "two_ports_of_one_card")


@REGISTRY.scenario
def an_idle_rdma_path_loses_its_link(lab: Lab) -> Any:
    """The interface under an idle soft-RoCE path goes down; the next requests show the loss."""
    create_veth_links()
    lost = VETH_LINKS[0]
    with RdmaFabric(lab, "rdma-idle", RdmaSettings()) as fabric:
        _await_link(lab, fabric, lost)
        loss = LinkWatch(lab.exporter, fabric, lost, partial(fabric.lower_link, lost))
        loss.until_told(up=False)
        with _load(lab, fabric, "an_idle_rdma_path_loses_its_link"):
            loss.until_given_up()
        down = compare(lab.exporter, fabric)
        back = LinkWatch(lab.exporter, fabric, lost, partial(fabric.raise_link, lost))
        back.until_told(up=True)
        fabric.replace_rdma_device(lost)
        up = compare(lab.exporter, fabric)
        return {"loss": loss.record, "back": back.record, "compared": [down, up]}


@REGISTRY.scenario
def an_rdma_path_loses_its_link_under_load(lab: Lab) -> Any:
    """The same under load, which the driver notices by the next request."""
    create_veth_links()
    lost = VETH_LINKS[0]
    with RdmaFabric(lab, "rdma-loaded", RdmaSettings()) as fabric:
        with _load(lab, fabric, "an_rdma_path_loses_its_link_under_load"):
            _await_flow(fabric, lost)
            fabric.lower_link(lost)
            causes = _causes(lab, fabric)
        down = compare(lab.exporter, fabric)
        fabric.raise_link(lost)
        fabric.replace_rdma_device(lost)
        return {"causes": causes, "compared": [down]}


@REGISTRY.scenario
def the_cable_of_a_tcp_path_is_pulled(lab: Lab) -> Any:
    """The far end of a TCP path's veth pair goes down under load: the carrier is lost."""
    lost = network.LINKS[0]
    settings = FabricSettings(iopolicy="round-robin", options=ConnectOptions(keep_alive=5))
    with lab.fabric(settings) as fabric:
        _await_link(lab, fabric, lost)
        with _load(lab, fabric, "the_cable_of_a_tcp_path_is_pulled"):
            _await_flow(fabric, lost)
            loss = LinkWatch(lab.exporter, fabric, lost, partial(_set_far_end, lost, up=False))
            loss.until_given_up()
            causes = _causes(lab, fabric)
        down = compare(lab.exporter, fabric)
        back = LinkWatch(lab.exporter, fabric, lost, partial(_set_far_end, lost, up=True))
        back.until_told(up=True)
        fabric.await_live(lost)
        up = compare(lab.exporter, fabric)
        return {
            "loss": loss.record,
            "causes": causes,
            "back": back.record,
            "compared": [down, up],
        }


@contextmanager
def _load(lab: Lab, fabric: Fabric, name: str) -> Iterator[None]:
    """Run an application on every disk of ``fabric`` while the block runs."""
    load = start(fabric.heads(), _LOAD, lab.scenario_directory(name))
    try:
        yield
        load.stop()
    finally:
        load.kill()


def _await_flow(fabric: Fabric, link: int) -> None:
    """Wait until the path over ``link`` has carried requests for several polls."""
    path = fabric.paths[link]
    wanted = path.completed() + _FLOWING
    await_(lambda: path.completed() >= wanted, 20, "requests over the path")


def _await_link(lab: Lab, fabric: Fabric, link: int) -> None:
    """Wait until the link of a path is known to be up."""
    path = fabric.label(link)
    lab.exporter.await_value("nvmeof_path_link_up", 1, nqn=fabric.nqn, path=path)


def _values(lab: Lab, fabric: Fabric, name: str) -> dict[str, Any]:
    """Everything of healthy paths and what they run over, around a load."""
    idle = compare(lab.exporter, fabric)
    scrape = lab.exporter.scrape()
    traffic = Traffic(lab.exporter, fabric)
    with _load(lab, fabric, name):
        traffic.await_growth()
    again = compare(lab.exporter, fabric)
    netdevs = [fabric.interface(link) for link in fabric.paths]
    return {
        "paths": {
            labels["path"]: [labels["netdev"], labels["rdma_device"], labels["rdma_port"]]
            for labels, _ in scrape.matching("nvmeof_path_info", nqn=fabric.nqn)
        },
        "distinct": {
            labels["resource"]: count
            for labels, count in scrape.matching("nvmeof_subsystem_distinct", nqn=fabric.nqn)
        },
        "pauses": sorted(
            [labels["netdev"], labels["direction"], labels["priority"]]
            for labels, _ in scrape.matching("nvmeof_link_pause_frames_total")
            if labels["netdev"] in netdevs
        ),
        "driver_statistics": {netdev: sorted(ethtool_statistics(netdev)) for netdev in netdevs},
        "traffic": traffic.record(),
        "compared": [idle, again],
    }


def _causes(lab: Lab, fabric: Fabric) -> dict[str, str]:
    """Causes of the failovers so far, by path, once there is one and none goes on."""

    def settled(scrape: Scrape) -> bool:
        served = scrape.matching("nvmeof_failovers_total", nqn=fabric.nqn)
        busy = scrape.value("nvmeof_failover_in_progress", nqn=fabric.nqn)
        return busy == 0 and any(count for _, count in served)

    scrape = lab.exporter.await_(settled, 20, "a failover", fabric.nqn)
    return {
        labels["path"]: labels["cause"]
        for labels, count in scrape.matching("nvmeof_failovers_total", nqn=fabric.nqn)
        if count
    }


def _set_far_end(link: int, *, up: bool) -> None:
    with network.target_side():
        network.set_link(f"t{link}", up=up)
