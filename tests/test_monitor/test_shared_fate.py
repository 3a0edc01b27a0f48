"""What one failure would take: counted over the paths that bear the namespaces."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter.hardware import PathPort
from nvmeof_exporter.model import Controller, Namespace, NamespacePath, PathId, Subsystem
from nvmeof_exporter.monitor.shared_fate import RESOURCES, distinct

if TYPE_CHECKING:
    from collections.abc import Mapping

NQN = "nqn.2026-01.org.example:array1"

#: Two ports of one card, and one of another, each on a switch of its own but the first two.
ETH0 = PathPort(
    netdev="eth0",
    members=("eth0",),
    nics=("0000:3b:00",),
    rdma_device="mlx5_0",
    rdma_port="1",
    subnet="10.0.1.0/24",
)
ETH1 = PathPort(
    netdev="eth1",
    members=("eth1",),
    nics=("0000:3b:00",),
    rdma_device="mlx5_1",
    rdma_port="1",
    subnet="10.0.2.0/24",
)
ETH2 = PathPort(
    netdev="eth2",
    members=("eth2",),
    nics=("0000:5e:00",),
    rdma_device="mlx5_2",
    rdma_port="1",
    subnet="10.0.2.0/24",
)
BOND = PathPort(
    netdev="bond0",
    members=("eth0", "eth2"),
    nics=("0000:3b:00", "0000:5e:00"),
    rdma_device="mlx5_bond_0",
    rdma_port="1",
    subnet="10.0.3.0/24",
)
SWITCHES = {"eth0": "mac 02:00:00:00:00:01", "eth1": "mac 02:00:00:00:00:01", "eth2": "local leaf2"}


def controller(number: int, path: PathId | None = None, state: str | None = "live") -> Controller:
    identity = path or PathId("tcp", f"192.0.2.{number}", "4420")
    return Controller(f"nvme{number}", NQN, identity, state, state or "")


def namespace(
    *controllers: Controller, ana: Mapping[str, str | None] | None = None, nsid: str = "1"
) -> Namespace:
    states = ana or {}
    return Namespace(
        NQN,
        nsid,
        f"nvme0n{nsid}",
        paths=tuple(
            NamespacePath(f"nvme0c{c.name[4:]}n{nsid}", c, states.get(c.name, "optimized"))
            for c in controllers
        ),
    )


def subsystem(*namespaces: Namespace, multipath: bool = True) -> Subsystem:
    controllers = {p.controller.name: p.controller for n in namespaces for p in n.paths}
    return Subsystem(
        "nvme-subsys0",
        NQN,
        multipath=multipath,
        controllers=tuple(controllers.values()),
        namespaces=namespaces,
    )


def over(
    *ports: PathPort, switches: Mapping[str, str] = SWITCHES, transport: str = "tcp"
) -> dict[str, int]:
    """What one namespace shares, with a path of its own over each of the ports."""
    controllers = [
        controller(n, PathId(transport, f"192.0.2.{n}", "4420")) for n in range(len(ports))
    ]
    named = {c.name: port for c, port in zip(controllers, ports, strict=True)}
    return distinct([subsystem(namespace(*controllers))], lambda c: named[c.name], switches)


class TestTheResources:
    def test_two_ports_of_one_card_share_it_and_its_switch(self) -> None:
        assert over(ETH0, ETH1) == {
            "netdev": 2,
            "nic": 1,
            "rdma_device": 2,
            "subnet": 2,
            "switch": 1,
            "target_address": 2,
        }

    def test_two_cards_on_two_switches_may_share_a_subnet(self) -> None:
        assert over(ETH1, ETH2) == {
            "netdev": 2,
            "nic": 2,
            "rdma_device": 2,
            "subnet": 1,
            "switch": 2,
            "target_address": 2,
        }

    def test_a_single_path_shares_everything_with_itself(self) -> None:
        assert over(ETH0) == dict.fromkeys(RESOURCES, 1)

    def test_two_vlans_of_one_port_are_one_cable(self) -> None:
        red = PathPort("eth0.10", ("eth0",), ETH0.nics, subnet="10.0.10.0/24")
        blue = PathPort("eth0.20", ("eth0",), ETH0.nics, subnet="10.0.20.0/24")
        assert over(red, blue) == {
            "netdev": 1,
            "nic": 1,
            "subnet": 2,
            "switch": 1,
            "target_address": 2,
        }

    def test_a_bond_over_two_cards_is_no_single_point(self) -> None:
        assert over(BOND, BOND) == {
            "netdev": 2,
            "nic": 2,
            "rdma_device": 1,
            "subnet": 1,
            "switch": 2,
            "target_address": 2,
        }

    def test_a_path_beside_a_bond_survives_through_the_member_they_do_not_share(self) -> None:
        assert over(BOND, ETH0)["nic"] == 2

    @pytest.mark.parametrize(
        ("first", "second", "expected"),
        [
            ("192.0.2.1", "192.0.2.1", 1),
            ("192.0.2.1", "192.0.2.2", 2),
            ("192.0.2.1", "::ffff:192.0.2.1", 1),
            ("2001:db8::1", "[2001:0DB8:0:0:0:0:0:1]", 1),
            ("fe80::1%eth0", "fe80::1%eth1", 1),
            ("fe80::1%eth0", "fe80::2%eth0", 2),
            ("storage.example.org", "Storage.example.org", 1),
        ],
    )
    def test_a_target_address_is_a_host_whatever_its_spelling_port_or_scope(
        self, first: str, second: str, expected: int
    ) -> None:
        paths = [
            controller(0, PathId("tcp", first, "4420")),
            controller(1, PathId("tcp", second, "4421")),
        ]
        told = distinct([subsystem(namespace(*paths))], lambda _: PathPort(), {})
        assert told == {"target_address": expected}

    def test_every_interface_has_a_link_local_network_of_its_own(self) -> None:
        first = PathPort(netdev="eth0", subnet="fe80::/64")
        second = PathPort(netdev="eth1", subnet="fe80::/64")
        assert over(first, second)["subnet"] == 2
        assert over(first, first)["subnet"] == 1
        assert over(first, PathPort(netdev="bond0", subnet="fe80::/64%eth0"))["subnet"] == 1
        assert over(first, PathPort(netdev="eth0", subnet="fe80::/64%eth1"))["subnet"] == 2
        assert "subnet" not in over(PathPort(subnet="169.254.0.0/16"))

    def test_an_address_in_the_place_of_a_network_counts_as_its_network(self) -> None:
        first = PathPort(subnet="10.0.1.7/24")
        assert over(first, PathPort(subnet="10.0.1.0/24"))["subnet"] == 1

    def test_fibre_channel_tells_of_the_targets_ports_only(self) -> None:
        paths = [
            controller(n, PathId("fc", f"nn-0x2001:pn-0x10{n}", host_traddr="nn-0x1:pn-0x2"))
            for n in range(2)
        ]
        told = distinct([subsystem(namespace(*paths))], lambda _: PathPort(), SWITCHES)
        assert told == {"target_address": 2}

    @pytest.mark.parametrize("transport", ["pcie", "loop", "apple-nvme"])
    def test_a_drive_of_this_host_shares_the_host_and_nothing_is_told(self, transport: str) -> None:
        assert over(ETH0, ETH1, transport=transport) == {}


class TestWhatIsNotKnown:
    def test_one_path_of_which_a_resource_is_not_known_leaves_it_untold(self) -> None:
        unknown = PathPort(netdev="eth9", members=("eth9",))
        assert over(ETH0, unknown) == {"netdev": 2, "target_address": 2}

    def test_a_bond_of_which_one_switch_is_not_known_leaves_the_switch_untold(self) -> None:
        assert "switch" not in over(BOND, ETH1, switches={"eth0": "a", "eth1": "b"})

    def test_an_interface_whose_cables_are_not_known_leaves_them_untold(self) -> None:
        assert over(PathPort(netdev="eth0.10")) == {"target_address": 1}

    def test_nothing_is_told_of_a_subsystem_without_a_target_address(self) -> None:
        path = controller(0, PathId("tcp", ""))
        assert distinct([subsystem(namespace(path))], lambda _: PathPort(), {}) == {}

    def test_a_path_that_could_not_be_read_leaves_everything_untold(self) -> None:
        paths = [controller(0), controller(1, state=None)]
        assert distinct([subsystem(namespace(*paths))], lambda _: ETH0, SWITCHES) == {}

    def test_without_native_multipath_it_is_not_the_kernels_to_tell(self) -> None:
        own = subsystem(namespace(controller(0)), multipath=False)
        assert distinct([own], lambda _: ETH0, SWITCHES) == {}


class TestThePathsThatCount:
    def told(self, *subsystems: Subsystem, resource: str = "nic") -> int | None:
        ports = {"nvme0": ETH0, "nvme1": ETH1, "nvme2": ETH2}
        return distinct(subsystems, lambda c: ports[c.name], SWITCHES).get(resource)

    def test_a_path_that_is_down_holds_nothing_up(self) -> None:
        up, down = controller(0), controller(2, state="connecting")
        assert self.told(subsystem(namespace(up, down))) == 1
        assert self.told(subsystem(namespace(up, controller(2)))) == 2

    def test_a_standby_holds_up_what_it_can_take_over(self) -> None:
        paths = controller(0), controller(2)
        assert self.told(subsystem(namespace(*paths, ana={"nvme2": "inaccessible"}))) == 2

    def test_a_path_that_the_target_gave_up_does_not(self) -> None:
        paths = controller(0), controller(2)
        assert self.told(subsystem(namespace(*paths, ana={"nvme2": "persistent-loss"}))) == 1

    def test_four_gateways_that_share_the_namespaces_out_are_no_single_points(self) -> None:
        paths = [controller(0), controller(2)]
        first = namespace(*paths, ana={"nvme2": "inaccessible"}, nsid="1")
        second = namespace(*paths, ana={"nvme0": "inaccessible"}, nsid="2")
        assert self.told(subsystem(first, second)) == 2

    def test_with_no_usable_path_nothing_is_told(self) -> None:
        down = [controller(n, state="connecting") for n in range(2)]
        assert distinct([subsystem(namespace(*down))], lambda _: ETH0, SWITCHES) == {}
        closed = {"nvme0": "inaccessible", "nvme2": "inaccessible"}
        assert self.told(subsystem(namespace(controller(0), controller(2), ana=closed))) is None

    def test_the_namespace_with_the_fewest_decides(self) -> None:
        narrow = namespace(controller(0), controller(1), nsid="1")
        wide = namespace(controller(0), controller(2), nsid="2")
        assert self.told(subsystem(narrow, wide)) == 1

    def test_a_namespace_that_is_lost_does_not_hide_the_others(self) -> None:
        lost = namespace(controller(1, state="connecting"), nsid="1")
        assert self.told(subsystem(lost, namespace(controller(0), controller(2), nsid="2"))) == 2

    def test_of_two_directories_of_one_nqn_the_worse_decides(self) -> None:
        wide = subsystem(namespace(controller(0), controller(2)))
        assert self.told(wide, subsystem(namespace(controller(1)))) == 1

    def test_without_namespaces_the_controllers_alone_tell(self) -> None:
        controllers = controller(0), controller(2), controller(1, state="connecting")
        own = Subsystem("nvme-subsys0", NQN, controllers=controllers)
        assert self.told(own) == 2
        assert self.told(own, resource="subnet") == 2
        assert self.told() is None
        assert self.told(Subsystem("nvme-subsys0", NQN)) is None


def lost(members: tuple[str, ...], failed: frozenset[str]) -> bool:
    """Whether a path over these has fallen: a bond does with the last of its members."""
    return failed.issuperset(members)


@given(
    st.lists(
        st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True).map(tuple),
        min_size=1,
        max_size=4,
    )
)
def test_it_is_how_many_must_fail_before_the_last_path_is_lost(
    bonds: list[tuple[str, ...]],
) -> None:
    ports = [PathPort(netdev=f"bond{n}", members=bond) for n, bond in enumerate(bonds)]
    fewest = min(
        size
        for size in range(1, 5)
        for failed in combinations("abcd", size)
        if all(lost(bond, frozenset(failed)) for bond in bonds)
    )
    assert over(*ports, switches={})["netdev"] == fewest


PORTS = st.builds(
    PathPort,
    netdev=st.sampled_from(["", "eth0", "bond0"]),
    members=st.lists(st.sampled_from(["eth0", "eth1", ""]), max_size=3).map(tuple),
    nics=st.lists(st.sampled_from(["0000:3b:00", "0000:5e:00", ""]), max_size=3).map(tuple),
    rdma_device=st.sampled_from(["", "mlx5_0", "mlx5_1"]),
    subnet=st.sampled_from(["", "10.0.0.0/8", "fe80::/64", "no network"]) | st.text(),
)
STATES = st.sampled_from(["live", "deleting", "connecting", "resetting", None])
ANA = st.sampled_from(["", "optimized", "non-optimized", "inaccessible", "change", None])


@given(st.lists(st.tuples(PORTS, STATES, ANA, st.text()), max_size=4))
def test_a_count_lies_between_one_and_all_that_there_is(
    paths: list[tuple[PathPort, str | None, str | None, str]],
) -> None:
    controllers = [
        controller(n, PathId("rdma", traddr), state)
        for n, (_, state, _, traddr) in enumerate(paths)
    ]
    ports = {c.name: path[0] for c, path in zip(controllers, paths, strict=True)}
    ana = {c.name: path[2] for c, path in zip(controllers, paths, strict=True)}
    own = subsystem(namespace(*controllers, ana=ana))
    told = distinct([own], lambda c: ports[c.name], {"eth0": "leaf1", "eth1": "leaf1"})
    assert told.keys() <= set(RESOURCES)
    most = {
        "netdev": sum(len(port.members) for port in ports.values()),
        "nic": sum(len(port.nics) for port in ports.values()),
        "switch": 1,
    }
    for resource, count in told.items():
        assert 1 <= count <= most.get(resource, len(paths))


@given(st.permutations([ETH0, ETH1, ETH2, BOND]), st.integers(min_value=1, max_value=4))
def test_another_path_never_lowers_a_count_and_their_order_is_no_matter(
    ports: list[PathPort], size: int
) -> None:
    few, all_told = over(*ports[:size]), over(*ports)
    assert all(few[resource] <= all_told[resource] for resource in RESOURCES)
    assert all_told == over(ETH0, ETH1, ETH2, BOND)
