"""Which RDMA port is behind an interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.sources.rdma_ports import RdmaPorts
from nvmeof_exporter.sources.stack import read_stack
from tests.test_sources.net_tree import KernelReader, NetTree

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tree(tmp_path: Path) -> NetTree:
    return NetTree(tmp_path / "sys")


class Node:
    """Asks for ports, as often as a test likes, with one memory."""

    def __init__(self, tree: NetTree) -> None:
        self.reader = KernelReader()
        self._tree = tree
        self._rdma = RdmaPorts(self.reader, tree.sysfs)

    def port(self, netdev: str) -> tuple[str, str] | None:
        self._rdma.refresh()
        return self._rdma.port(read_stack(self.reader, self._tree.sysfs, netdev))


def port_of(tree: NetTree, netdev: str) -> tuple[str, str] | None:
    node = Node(tree)
    found = node.port(netdev)
    assert node.reader.errors == 0
    return found


class TestHardware:
    def test_with_one_port_is_found_by_its_pci_device(self, tree: NetTree) -> None:
        tree.netdev("eth0", "0000:3b:00.0")
        tree.netdev("eth1", "0000:3b:00.1")
        tree.rdma("mlx5_0", "0000:3b:00.0")
        tree.rdma("mlx5_1", "0000:3b:00.1")
        assert port_of(tree, "eth0") == ("mlx5_0", "1")
        assert port_of(tree, "eth1") == ("mlx5_1", "1")

    def test_with_two_ports_is_found_by_the_port_of_the_interface(self, tree: NetTree) -> None:
        tree.netdev("eth0", "0000:82:00.0")
        tree.netdev("eth1", "0000:82:00.0", dev_port=1)
        tree.rdma("mlx4_0", "0000:82:00.0", ports=2)
        assert port_of(tree, "eth0") == ("mlx4_0", "1")
        assert port_of(tree, "eth1") == ("mlx4_0", "2")

    def test_of_old_drivers_tells_the_port_by_dev_id(self, tree: NetTree) -> None:
        (tree.netdev("ib1", "0000:82:00.0") / "dev_id").write_text("0x1\n")
        tree.rdma("mlx4_0", "0000:82:00.0", ports=2)
        assert port_of(tree, "ib1") == ("mlx4_0", "2")

    def test_without_any_gid_is_found_for_ipoib(self, tree: NetTree) -> None:
        tree.netdev("ib0", "0000:18:00.0")
        tree.rdma("mlx5_0", "0000:18:00.0", places=0)
        assert port_of(tree, "ib0") == ("mlx5_0", "1")

    def test_with_a_port_on_another_pci_function_is_found_by_gid(self, tree: NetTree) -> None:
        tree.netdev("eth0", "0000:3b:00.0")
        tree.netdev("eth1", "0000:3b:00.1")
        tree.rdma("mlx5_0", "0000:3b:00.0", ports=2)
        tree.gids("mlx5_0", {0: "eth0"})
        tree.gids("mlx5_0", {0: "eth1"}, port=2)
        assert port_of(tree, "eth0") == ("mlx5_0", "1")
        assert port_of(tree, "eth1") == ("mlx5_0", "2")

    def test_is_believed_by_pci_against_a_container_with_an_interface_of_that_name(
        self, tree: NetTree
    ) -> None:
        tree.netdev("eth0", "0000:3b:00.0")
        tree.rdma("bnxt_re0", "0000:3b:00.0")
        tree.rdma("mlx5_7", "0000:af:00.0")
        tree.gids("mlx5_7", {3: "eth0"})
        assert port_of(tree, "eth0") == ("bnxt_re0", "1")

    def test_that_dangles_or_has_no_ports_is_passed_over(self, tree: NetTree) -> None:
        tree.netdev("eth0", "0000:3b:00.0")
        (tree.root / "class/infiniband/scif0").symlink_to("../../devices/scif0")
        tree.rdma("empty0", "0000:3b:00.0", ports=0)
        assert port_of(tree, "eth0") is None

    def test_is_none_behind_a_card_without_rdma(self, tree: NetTree) -> None:
        tree.netdev("eth0", "0000:3b:00.0")
        assert port_of(tree, "eth0") is None

    def test_is_none_where_an_interface_tells_a_port_that_is_not_there(self, tree: NetTree) -> None:
        tree.netdev("eth5", "0000:82:00.0", dev_port=5)
        tree.rdma("mlx4_0", "0000:82:00.0", ports=2)
        assert port_of(tree, "eth5") is None


class TestStacks:
    @pytest.fixture
    def bond(self, tree: NetTree) -> NetTree:
        tree.netdev("eth0", "0000:3b:00.0")
        tree.netdev("eth1", "0000:3b:00.1")
        tree.netdev("bond0", lower=["eth0", "eth1"])
        tree.netdev("bond0.5", lower=["bond0"])
        return tree

    def test_that_the_card_knows_of_have_one_port(self, bond: NetTree) -> None:
        bond.rdma("mlx5_bond_0", "0000:3b:00.0")
        bond.gids("mlx5_bond_0", {0: "bond0", 1: "bond0"})
        assert port_of(bond, "bond0") == ("mlx5_bond_0", "1")
        assert port_of(bond, "bond0.5") == ("mlx5_bond_0", "1")

    def test_whose_vlan_has_a_gid_are_found_by_the_vlan(self, bond: NetTree) -> None:
        bond.rdma("mlx5_0", "0000:3b:00.0")
        bond.rdma("mlx5_1", "0000:3b:00.1")
        bond.gids("mlx5_1", {2: "bond0.5"})
        assert port_of(bond, "bond0.5") == ("mlx5_1", "1")

    def test_that_the_cards_do_not_know_of_have_none_for_sure(self, bond: NetTree) -> None:
        bond.rdma("mlx5_0", "0000:3b:00.0")
        bond.rdma("mlx5_1", "0000:3b:00.1")
        assert port_of(bond, "bond0") is None
        bond.gids("mlx5_0", {0: "bond0"})
        bond.gids("mlx5_1", {0: "bond0"})
        assert port_of(bond, "bond0") is None


class TestSoftware:
    def test_is_found_by_its_gids(self, tree: NetTree) -> None:
        tree.netdev("veth0")
        tree.rdma("siw0")
        tree.gids("siw0", {0: "veth0"})
        assert port_of(tree, "veth0") == ("siw0", "1")

    def test_is_found_by_its_parent_while_it_has_no_gid(self, tree: NetTree) -> None:
        tree.netdev("veth0")
        tree.rdma("rxe0", parent="veth0")
        assert port_of(tree, "veth0") == ("rxe0", "1")

    def test_stands_back_behind_hardware_on_the_same_interface(self, tree: NetTree) -> None:
        tree.netdev("eth0", "0000:3b:00.0")
        tree.rdma("arxe", parent="eth0")
        tree.rdma("mlx5_0", "0000:3b:00.0")
        for device in ("arxe", "mlx5_0"):
            tree.gids(device, {0: "eth0"})
        assert port_of(tree, "eth0") == ("mlx5_0", "1")

    def test_listed_with_hardware_by_old_kernels_stands_back_as_well(self, tree: NetTree) -> None:
        tree.netdev("eth0", "0000:3b:00.0")
        tree.rdma("arxe", "0000:3b:00.0", parent="eth0")
        tree.rdma("mlx5_0", "0000:3b:00.0")
        assert port_of(tree, "eth0") == ("mlx5_0", "1")


class TestATableOfManyUnsetGids:
    @pytest.fixture
    def rxe(self, tree: NetTree) -> NetTree:
        tree.netdev("veth0")
        tree.netdev("veth1")
        tree.rdma("rxe0", places=1024)
        tree.gids("rxe0", {0: "veth0", 1: "veth0"})
        return tree

    def test_is_read_once_and_then_in_a_few_places(self, rxe: NetTree) -> None:
        node = Node(rxe)
        assert node.port("veth0") == ("rxe0", "1")
        assert node.reader.opened > 1024
        node.reader.opened = 0
        for _ in range(10):
            assert node.port("veth0") == ("rxe0", "1")
        assert node.reader.opened < 10 * 16
        assert node.reader.errors == 0

    def test_shows_a_new_gid_at_once(self, rxe: NetTree) -> None:
        node = Node(rxe)
        assert node.port("veth1") is None
        rxe.gids("rxe0", {2: "veth1"})
        assert node.port("veth1") == ("rxe0", "1")

    def test_shows_a_gid_that_goes_at_once(self, rxe: NetTree) -> None:
        node = Node(rxe)
        node.port("veth0")
        rxe.gids("rxe0", {0: "", 1: ""})
        assert node.port("veth0") is None

    def test_is_found_far_behind(self, rxe: NetTree) -> None:
        rxe.gids("rxe0", {1000: "veth1"})
        assert port_of(rxe, "veth1") == ("rxe0", "1")

    def test_shows_even_a_change_far_behind_after_a_while(self, rxe: NetTree) -> None:
        node = Node(rxe)
        node.port("veth0")
        rxe.gids("rxe0", {1000: "veth1"})
        assert ("rxe0", "1") in [node.port("veth1") for _ in range(60)]

    def test_of_a_device_made_anew_is_read_anew(self, rxe: NetTree) -> None:
        node = Node(rxe)
        node.port("veth0")
        old = rxe.root / "devices/virtual/infiniband/rxe0"
        old.rename(old.with_name("gone"))
        (rxe.root / "class/infiniband/rxe0").unlink()
        rxe.rdma("rxe0", places=1024)
        rxe.gids("rxe0", {1000: "veth1"})
        assert node.port("veth1") == ("rxe0", "1")
