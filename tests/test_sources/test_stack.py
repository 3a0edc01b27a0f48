"""From an interface down to its members and their PCI devices."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.sources.reader import Reader
from nvmeof_exporter.sources.stack import Stack, nic, read_stack
from tests.test_sources.net_tree import NetTree, link
from tests.test_sources.network_namespaces import Namespace, needs_privileges

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def tree(tmp_path: Path) -> NetTree:
    return NetTree(tmp_path / "sys")


def stack_of(tree: NetTree, netdev: str) -> Stack:
    reader = Reader()
    found = read_stack(reader, tree.sysfs, netdev)
    assert reader.errors == 0
    return found


class TestTheStackBelowAnInterface:
    def test_of_a_plain_one_is_itself(self, tree: NetTree) -> None:
        tree.netdev("eth0", "0000:3b:00.0")
        assert stack_of(tree, "eth0") == Stack((("eth0",),), ("eth0",))

    def test_of_a_vlan_over_a_bond_ends_at_the_slaves(self, tree: NetTree) -> None:
        tree.netdev("eth0", "0000:3b:00.0")
        tree.netdev("eth1", "0000:3b:00.1")
        tree.netdev("bond0", lower=["eth1", "eth0"])
        tree.netdev("bond0.5", lower=["bond0"])
        layers = (("bond0.5",), ("bond0",), ("eth0", "eth1"))
        assert stack_of(tree, "bond0.5") == Stack(layers, ("eth0", "eth1"))

    def test_of_a_vrf_goes_through_the_interface_in_it(self, tree: NetTree) -> None:
        tree.netdev("eth0", "0000:3b:00.0")
        tree.netdev("blue", lower=["eth0"])
        assert stack_of(tree, "blue").members == ("eth0",)

    def test_of_a_bridge_ends_at_its_hardware_and_not_at_its_guests(self, tree: NetTree) -> None:
        tree.netdev("eth0", "0000:3b:00.0")
        tree.netdev("veth7")
        tree.netdev("br0", lower=["veth7", "eth0"])
        assert stack_of(tree, "br0").members == ("eth0",)

    def test_of_virtual_ones_only_ends_at_those(self, tree: NetTree) -> None:
        tree.netdev("veth0")
        tree.netdev("veth1")
        tree.netdev("bond0", lower=["veth0", "veth1"])
        assert stack_of(tree, "bond0").members == ("veth0", "veth1")

    def test_of_a_vlan_whose_parent_is_in_another_namespace_is_itself(self, tree: NetTree) -> None:
        tree.netdev("eth0.5")
        assert stack_of(tree, "eth0.5").members == ("eth0.5",)

    def test_of_hardware_over_hardware_ends_at_the_lower_one(self, tree: NetTree) -> None:
        # The synthetic interface of Hyper-V over its virtual function.
        tree.netdev("enP1s1", "0001:00:02.0")
        link(tree.netdev("eth0", lower=["enP1s1"]) / "device", tree.root / "devices/vmbus")
        assert stack_of(tree, "eth0").members == ("enP1s1",)

    def test_that_bites_its_tail_is_survived(self, tree: NetTree) -> None:
        one, two = tree.netdev("one"), tree.netdev("two")
        link(one / "lower_two", two)
        link(two / "lower_one", one)
        assert stack_of(tree, "one") == Stack((("one",), ("two",)), ("one",))

    def test_met_on_two_ways_is_told_once(self, tree: NetTree) -> None:
        tree.netdev("eth0", "0000:3b:00.0")
        tree.netdev("eth0.5", lower=["eth0"])
        tree.netdev("br0", lower=["eth0", "eth0.5"])
        assert stack_of(tree, "br0").members == ("eth0",)

    def test_of_an_interface_that_is_gone_is_itself(self, tree: NetTree) -> None:
        tree.netdev("bond0", lower=["eth9"])
        assert stack_of(tree, "eth8").members == ("eth8",)
        assert stack_of(tree, "bond0").members == ("eth9",)

    @pytest.mark.parametrize("name", ["", ".", "..", "../net", "a/b"])
    def test_of_what_is_no_name_reads_nothing(self, tree: NetTree, name: str) -> None:
        tree.netdev("b")
        assert stack_of(tree, name) == Stack(((name,),), (name,))

    def test_without_links_is_told_by_bridge_and_bond_themselves(self, tree: NetTree) -> None:
        tree.netdev("eth0", "0000:3b:00.0")
        tree.netdev("eth1", "0000:3b:00.1")
        bonding = tree.netdev("bond0") / "bonding"
        bonding.mkdir()
        (bonding / "slaves").write_text("eth1 eth0\n")
        (tree.netdev("br0") / "brif/bond0").mkdir(parents=True)
        assert stack_of(tree, "br0").members == ("eth0", "eth1")

    def test_of_endless_depth_is_followed_within_bounds(
        self, tree: NetTree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("nvmeof_exporter.sources.stack._MOST_INTERFACES", 8)
        for number in range(12):
            tree.netdev(f"v{number}", lower=[f"v{number + 1}"])
        assert len(stack_of(tree, "v0").layers) == 8


class TestTheNicOfAnInterface:
    def test_is_its_pci_device_without_the_function(self, tree: NetTree) -> None:
        tree.netdev("eth0", "0000:3b:00.0")
        tree.netdev("eth1", "0000:3b:00.1")
        assert {nic(tree.sysfs, name) for name in ("eth0", "eth1")} == {"0000:3b:00"}

    def test_of_a_virtual_function_is_the_card_it_is_a_part_of(self, tree: NetTree) -> None:
        link(tree.pci("0000:3b:02.1") / "physfn", tree.pci("0000:3b:00.0"))
        tree.netdev("eth0v9", "0000:3b:02.1")
        assert nic(tree.sysfs, "eth0v9") == "0000:3b:00"

    def test_keeps_the_long_domain_of_a_volume_management_device(self, tree: NetTree) -> None:
        tree.netdev("eth0", "10000:01:00.0")
        assert nic(tree.sysfs, "eth0") == "10000:01:00"

    def test_of_virtio_and_sub_functions_is_the_pci_device_that_they_hang_on(
        self, tree: NetTree
    ) -> None:
        below = tree.pci("0000:00:03.0") / "virtio2"
        path = below / "net/ens3"
        path.mkdir(parents=True)
        link(path / "device", below)
        link(tree.root / "class/net/ens3", path)
        assert nic(tree.sysfs, "ens3") == "0000:00:03"

    def test_is_read_off_a_link_that_leads_nowhere(self, tree: NetTree) -> None:
        path = tree.netdev("eth0")
        (path / "device").symlink_to("../../../pci0000:00/0000:3b:00.0")
        assert nic(tree.sysfs, "eth0") == "0000:3b:00"

    @pytest.mark.parametrize("name", ["bond0", "eth9", "", "../x"])
    def test_of_anything_else_is_not_told(self, tree: NetTree, name: str) -> None:
        tree.netdev("bond0")
        assert nic(tree.sysfs, name) == ""

    def test_on_another_bus_is_not_told(self, tree: NetTree) -> None:
        link(tree.netdev("eth0") / "device", tree.root / "devices/platform/hns3")
        assert nic(tree.sysfs, "eth0") == ""


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    made = Namespace()
    yield made
    made.close()


@needs_privileges
class TestRealStacks:
    def members(self, namespace: Namespace, sysfs: str, netdev: str) -> tuple[str, ...]:
        return namespace.call(read_stack, Reader(), sysfs, netdev).members

    def test_a_bridge_leads_to_its_ports(self, namespace: Namespace, tmp_path: Path) -> None:
        namespace.ip(
            "link add here type veth peer name there",
            "link add br0 type bridge",
            "link set here master br0",
        )
        sysfs = namespace.mount_sysfs(tmp_path / "sys")
        assert self.members(namespace, sysfs, "br0") == ("here",)

    def test_a_macvlan_leads_to_its_parent(self, namespace: Namespace, tmp_path: Path) -> None:
        namespace.ip(
            "link add here type veth peer name there", "link add mv0 link here type macvlan"
        )
        sysfs = namespace.mount_sysfs(tmp_path / "sys")
        assert self.members(namespace, sysfs, "mv0") == ("here",)

    def test_an_interface_renamed_below_is_followed(
        self, namespace: Namespace, tmp_path: Path
    ) -> None:
        namespace.ip(
            "link add here type veth peer name there",
            "link add mv0 link here type macvlan",
            "link set here name storage0",
        )
        sysfs = namespace.mount_sysfs(tmp_path / "sys")
        assert self.members(namespace, sysfs, "mv0") == ("storage0",)

    def test_a_vlan_in_a_vrf_over_a_bond_leads_to_the_slaves(
        self, namespace: Namespace, tmp_path: Path
    ) -> None:
        namespace.ip_or_skip("link add bond0 type bond mode active-backup")
        namespace.ip(
            "link add cable0 type veth peer name end0",
            "link add cable1 type veth peer name end1",
            "link set cable0 master bond0",
            "link set cable1 master bond0",
        )
        namespace.ip_or_skip("link add link bond0 name bond0.5 type vlan id 5")
        namespace.ip_or_skip("link add blue type vrf table 10")
        namespace.ip("link set bond0.5 master blue")
        sysfs = namespace.mount_sysfs(tmp_path / "sys")
        for netdev in ("blue", "bond0.5", "bond0"):
            assert self.members(namespace, sysfs, netdev) == ("cable0", "cable1")

    def test_a_vlan_whose_parent_stays_behind_is_a_bottom(
        self, namespace: Namespace, tmp_path: Path
    ) -> None:
        outside = Namespace()
        try:
            outside.ip("link add here type veth peer name there")
            outside.ip_or_skip("link add link here name here.5 type vlan id 5")
            inside = namespace.call(threading.get_native_id)
            outside.ip(f"link set here.5 netns {inside}")
            sysfs = namespace.mount_sysfs(tmp_path / "sys")
            assert self.members(namespace, sysfs, "here.5") == ("here.5",)
        finally:
            outside.close()
