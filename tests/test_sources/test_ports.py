"""What a path runs over: from its controller to the PCI device, on trees and real interfaces."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.hardware import PathPort
from nvmeof_exporter.model import Controller, PathId
from nvmeof_exporter.sources.interfaces import PathPorts
from nvmeof_exporter.sources.netlink import Links
from nvmeof_exporter.sources.reader import Reader
from nvmeof_exporter.sources.routes import Route
from tests.test_sources.net_tree import KernelReader, NetTree
from tests.test_sources.network_namespaces import Namespace, needs_privileges
from tests.test_sources.test_interfaces import node
from tests.test_sources.waiting import events_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from nvmeof_exporter.sources.interface_table import InterfaceTable


def path_to(
    traddr: str,
    *,
    transport: str = "rdma",
    state: str = "live",
    host_traddr: str = "",
    host_iface: str = "",
) -> Controller:
    path = PathId(transport, traddr, "4420", host_traddr, host_iface)
    return Controller("nvme0", "nqn.x", path, state, state)


def port_of(ports: PathPorts, path: Controller) -> PathPort:
    ports.refresh_rdma()
    return ports.refresh([path])[path.nqn, path.path]


class TestOnATree:
    TABLE = node({"eth0": ["10.0.1.7/24"], "bond0.5": ["10.0.5.7/24"]})

    @pytest.fixture
    def tree(self, tmp_path: Path) -> NetTree:
        made = NetTree(tmp_path / "sys")
        made.netdev("eth0", "0000:3b:00.0")
        made.netdev("eth1", "0000:3b:00.1")
        made.netdev("eth2", "0000:af:00.0")
        made.netdev("bond0", lower=["eth1", "eth2"])
        made.netdev("bond0.5", lower=["bond0"])
        made.rdma("mlx5_0", "0000:3b:00.0")
        made.rdma("mlx5_bond_0", "0000:3b:00.1", places=256)
        made.gids("mlx5_0", {0: "eth0"})
        made.gids("mlx5_bond_0", {0: "bond0", 3: "bond0.5"})
        return made

    def ports(self, tree: NetTree, table: InterfaceTable | None = None) -> PathPorts:
        shown = table or self.TABLE
        return PathPorts(KernelReader(), tree.sysfs, lambda: shown, routes=lambda *_: None)

    def test_a_path_over_a_plain_interface_is_told_whole(self, tree: NetTree) -> None:
        assert port_of(self.ports(tree), path_to("10.0.1.9", host_traddr="10.0.1.7")) == PathPort(
            netdev="eth0",
            members=("eth0",),
            nics=("0000:3b:00",),
            rdma_device="mlx5_0",
            rdma_port="1",
            subnet="10.0.1.0/24",
        )

    def test_a_path_over_a_vlan_on_a_bond_is_told_whole(self, tree: NetTree) -> None:
        assert port_of(self.ports(tree), path_to("10.0.5.9", host_traddr="10.0.5.7")) == PathPort(
            netdev="bond0.5",
            members=("eth1", "eth2"),
            nics=("0000:3b:00", "0000:af:00"),
            rdma_device="mlx5_bond_0",
            rdma_port="1",
            subnet="10.0.5.0/24",
        )

    def test_cards_are_not_known_where_one_members_is_not(self, tree: NetTree) -> None:
        device = tree.root / "devices/platform/eth9"
        device.mkdir(parents=True)
        tree.netdev("eth9").joinpath("device").symlink_to(device)
        tree.netdev("bond1", lower=["eth0", "eth9"])
        found = port_of(self.ports(tree), path_to("10.0.1.9", host_iface="bond1"))
        assert (found.members, found.nics) == (("eth0", "eth9"), ())

    def test_a_tcp_path_has_the_rdma_port_of_the_same_cable(self, tree: NetTree) -> None:
        found = port_of(self.ports(tree), path_to("10.0.1.9", transport="tcp", host_iface="eth0"))
        assert (found.rdma_device, found.rdma_port) == ("mlx5_0", "1")

    def test_a_tree_without_a_machine_tells_all_but_the_subnet(self, tree: NetTree) -> None:
        ports = PathPorts(KernelReader(), tree.sysfs)
        assert port_of(ports, path_to("10.0.1.9", host_iface="eth0")) == PathPort(
            "eth0", ("eth0",), ("0000:3b:00",), "mlx5_0", "1"
        )

    def test_a_path_of_unknown_interface_has_nothing(self, tree: NetTree) -> None:
        assert port_of(self.ports(tree), path_to("10.0.1.9")) == PathPort()

    @pytest.mark.parametrize(("transport", "netdev"), [("rdma", "eth0"), ("tcp", "lo")])
    def test_a_target_on_this_host_is_reached_by_rdma_through_the_owner_of_its_address(
        self, tree: NetTree, transport: str, netdev: str
    ) -> None:
        shown = node({"eth0": ["10.0.1.7/24"], "lo": ["127.0.0.1/8"]}, kinds={"lo": "loopback"})
        route = Route(shown.index("lo"), "10.0.1.7")
        ports = PathPorts(KernelReader(), tree.sysfs, lambda: shown, routes=lambda *_: route)
        assert port_of(ports, path_to("10.0.1.7", transport=transport)).netdev == netdev

    @pytest.mark.parametrize("transport", ["pcie", "fc", "loop"])
    def test_a_path_over_no_interface_has_no_entry(self, tree: NetTree, transport: str) -> None:
        assert self.ports(tree).refresh([path_to("0000:01:00.0", transport=transport)]) == {}

    def test_an_interface_that_is_pulled_out_is_told_as_it_was(self, tree: NetTree) -> None:
        ports = self.ports(tree)
        path = path_to("10.0.1.9", host_traddr="10.0.1.7")
        before = port_of(ports, path)
        (tree.root / "class/net/eth0").unlink()
        assert port_of(ports, replace(path, state="connecting")) == before

    def test_an_interface_that_was_never_there_has_its_name_only(self, tree: NetTree) -> None:
        assert port_of(self.ports(tree), path_to("10.0.1.9", host_iface="eth9")) == PathPort("eth9")

    def test_an_rdma_port_whose_gids_went_with_the_link_is_told_as_it_was(
        self, tree: NetTree
    ) -> None:
        tree.netdev("veth0")
        tree.rdma("siw0")
        tree.gids("siw0", {0: "veth0"})
        ports = self.ports(tree)
        path = path_to("10.0.1.9", host_iface="veth0")
        assert port_of(ports, path).rdma_device == "siw0"
        tree.gids("siw0", {0: ""})
        assert port_of(ports, path).rdma_device == "siw0"

    def test_an_rdma_device_that_is_removed_is_told_no_more(self, tree: NetTree) -> None:
        ports = self.ports(tree)
        path = path_to("10.0.1.9", host_iface="eth0")
        port_of(ports, path)
        (tree.root / "class/infiniband/mlx5_0").unlink()
        assert port_of(ports, path).rdma_device == ""

    def test_a_subnet_whose_address_went_with_the_link_is_told_as_it_was(
        self, tree: NetTree
    ) -> None:
        shown = self.TABLE
        ports = PathPorts(KernelReader(), tree.sysfs, lambda: shown, routes=lambda *_: None)
        path = path_to("10.0.1.9", host_traddr="10.0.1.7")
        port_of(ports, path)
        shown = node({"eth0": []}, down=("eth0",))
        assert port_of(ports, path).subnet == "10.0.1.0/24"

    def test_what_was_handed_over_does_not_change(self, tree: NetTree) -> None:
        ports = self.ports(tree)
        first = ports.refresh([path_to("10.0.1.9", host_iface="eth0")])
        ports.refresh([])
        ports.refresh([path_to("10.0.1.9", host_iface="eth1")])
        assert [port.netdev for port in first.values()] == ["eth0"]


class Host:
    """A namespace with ``near`` to the target and ``far`` to the default gateway."""

    def __init__(self, namespace: Namespace, sysfs: str) -> None:
        self.namespace = namespace
        self.links = namespace.call(Links)
        self.ports = PathPorts(Reader(), sysfs, self.links.table)

    def port(self, path: Controller) -> PathPort:
        return self.namespace.call(port_of, self.ports, path)

    def until(self, shown: Callable[[InterfaceTable], bool]) -> None:
        """Let the loop hear of changes until this is shown."""
        self.namespace.call(events_until, self.links, lambda _: shown(self.links.table()))


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    made = Namespace()
    made.ip(
        "link add near type veth peer name near-end",
        "link add far type veth peer name far-end",
        *(f"link set {name} up" for name in ("lo", "near", "near-end", "far", "far-end")),
        "addr add 10.0.1.1/24 dev near",
        "addr add fd00:1::1/64 dev near nodad",
        "addr add 10.0.9.1/24 dev far",
        "route add default via 10.0.9.254",
    )
    yield made
    made.close()


@pytest.fixture
def host(namespace: Namespace, tmp_path: Path) -> Iterator[Host]:
    made = Host(namespace, namespace.mount_sysfs(tmp_path / "sys"))
    yield made
    made.links.close()


NEAR = PathPort("near", ("near",), subnet="10.0.1.0/24")
FAR = PathPort("far", ("far",), subnet="10.0.9.0/24")


@needs_privileges
class TestOnRealInterfaces:
    @pytest.mark.parametrize(
        ("path", "port"),
        [
            (path_to("10.0.1.9"), NEAR),
            (path_to("192.0.2.1"), FAR),
            (path_to("192.0.2.1", host_traddr="10.0.1.1"), NEAR),
            (path_to("10.0.1.9", host_iface="far"), FAR),
            (path_to("fd00:1::9"), replace(NEAR, subnet="fd00:1::/64")),
            (path_to("fd00:9::9"), PathPort()),
        ],
        ids=lambda value: str(value.path) if isinstance(value, Controller) else value.netdev,
    )
    def test_paths_are_found(self, host: Host, path: Controller, port: PathPort) -> None:
        assert host.port(path) == port

    def test_a_link_local_target_is_found_by_its_zone(self, host: Host) -> None:
        found = host.port(path_to("fe80::9%near"))
        assert found == replace(NEAR, subnet="fe80::/64%near")

    def test_an_interface_given_by_another_of_its_names_is_found(self, host: Host) -> None:
        host.namespace.ip(
            "link property add dev near altname enp59s0f0 altname enx0", "link set far-end down"
        )
        host.until(lambda table: table.canonical("enp59s0f0") == "near")
        assert host.port(path_to("10.0.1.9", host_iface="enp59s0f0")) == NEAR
        assert host.port(path_to("fe80::9%enx0")).netdev == "near"

    @pytest.mark.parametrize("how", ["link set near down", "link set near-end down"])
    def test_a_lost_link_does_not_move_the_path_to_the_gateway(self, host: Host, how: str) -> None:
        found = host.port(path_to("10.0.1.9"))
        assert found == NEAR
        host.namespace.ip(how)
        host.until(lambda table: table.carrier("near") is False)
        for state in ("live", "resetting", "connecting"):
            assert host.port(path_to("10.0.1.9", state=state)) == NEAR

    def test_an_interface_taken_away_is_told_as_it_was(self, host: Host) -> None:
        host.port(path_to("10.0.1.9"))
        host.namespace.ip("link delete near")
        host.until(lambda table: table.carrier("near") is None)
        assert host.port(path_to("10.0.1.9", state="connecting")) == NEAR

    def test_a_bridge_is_the_interface_and_its_port_the_member(self, host: Host) -> None:
        host.namespace.ip(
            "link add br0 type bridge",
            "link set near master br0",
            "addr flush dev near",
            "link set br0 up",
            "addr add 10.0.1.2/24 dev br0",
        )
        host.until(lambda table: table.owner("10.0.1.2") == "br0")
        assert host.port(path_to("10.0.1.9")) == replace(NEAR, netdev="br0")


@needs_privileges
class TestOnRealStacks:
    """Bond, VLAN and VRF: not every kernel has them."""

    @pytest.fixture
    def stacked(self, namespace: Namespace, tmp_path: Path) -> Iterator[Host]:
        """``bond0.5``, in the VRF ``blue``, over two cables."""
        namespace.ip_or_skip("link add bond0 type bond mode active-backup miimon 50")
        namespace.ip(
            "link add cable0 type veth peer name end0",
            "link add cable1 type veth peer name end1",
            "link set end0 up",
            "link set end1 up",
            "link set cable0 master bond0",
            "link set cable1 master bond0",
            "link set bond0 up",
        )
        namespace.ip_or_skip("link add link bond0 name bond0.5 type vlan id 5")
        namespace.ip("link set bond0.5 up", "addr add 10.0.5.1/24 dev bond0.5")
        made = Host(namespace, namespace.mount_sysfs(tmp_path / "sys"))
        yield made
        made.links.close()

    STACKED = PathPort("bond0.5", ("cable0", "cable1"), subnet="10.0.5.0/24")

    def test_a_vlan_over_a_bond_leads_to_the_slaves(self, stacked: Host) -> None:
        assert stacked.port(path_to("10.0.5.9")) == self.STACKED

    def test_a_slave_that_leaves_the_bond_is_a_member_no_more(self, stacked: Host) -> None:
        stacked.namespace.ip("link set cable1 nomaster")
        assert stacked.port(path_to("10.0.5.9")) == replace(self.STACKED, members=("cable0",))

    def test_a_path_in_a_vrf_uses_the_interface_in_it(self, stacked: Host) -> None:
        stacked.namespace.ip_or_skip("link add blue type vrf table 10")
        stacked.namespace.ip("link set blue up", "link set bond0.5 master blue")
        stacked.until(lambda table: table.is_vrf("blue"))
        assert stacked.port(path_to("10.0.5.9", host_iface="blue")) == self.STACKED
        assert stacked.port(path_to("10.0.5.9", host_traddr="10.0.5.1")) == self.STACKED


class TestTwoThreads:
    def test_the_loop_looks_while_a_worker_reads(self, tmp_path: Path) -> None:
        """The loop gets one of two whole answers, whatever the worker is doing."""
        tables = [node({"eth0": ["10.0.0.1/24"]}), node({"eth1": ["10.0.0.1/24"]})]
        ports = PathPorts(Reader(), str(tmp_path), lambda: tables[0], routes=lambda *_: None)
        paths = [path_to(f"192.0.2.{n}", host_traddr="10.0.0.1") for n in range(50)]
        failures: list[BaseException] = []

        def work() -> None:
            try:
                for _ in range(50):
                    ports.refresh(paths)
            except BaseException as error:  # noqa: BLE001 - told by the test's own thread
                failures.append(error)

        worker = threading.Thread(target=work)
        worker.start()
        found: set[str] = set()
        while worker.is_alive():
            tables.reverse()
            found.update(map(ports.netdev_of, paths))
        worker.join()
        assert failures == []
        assert found <= {"eth0", "eth1"}
