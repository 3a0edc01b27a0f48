from __future__ import annotations

import pytest

from nvmeof_exporter.exposition.collector import StateCollector
from nvmeof_exporter.exposition.published import CollectorStatus, Published, PublishedState
from nvmeof_exporter.hardware import Link, PathPort, Pause, RdmaPort
from nvmeof_exporter.model import Controller, Namespace, NamespacePath, PathId, Snapshot, Subsystem
from nvmeof_exporter.monitor.monitor import Monitor
from nvmeof_exporter.surroundings import Surroundings
from tests.fixtures.serving import told

NQN = "nqn.2026-01.org.example:a"
PATH = PathId("tcp", "10.0.0.2", "4420")
CONTROLLER = Controller("nvme0", NQN, PATH, "live")
NAMESPACE = Namespace(NQN, "1", "nvme0n1", paths=(NamespacePath("nvme0c0n1", CONTROLLER),))
SUBSYSTEM = Subsystem("nvme-subsys0", NQN, controllers=(CONTROLLER,), namespaces=(NAMESPACE,))
FIRST = 'device="mlx5_0",port="1"'


def served(around: Surroundings, name: str) -> dict[str, float]:
    """The series whose names begin so, of a node with one path."""
    state = PublishedState(Monitor(), 0.1, lambda: around)
    state.snapshot = Snapshot(0.0, 0.0, (SUBSYSTEM,))
    found = told(StateCollector(Published(state)))
    return {series: value for series, value in found.items() if series.startswith(name)}


def test_a_port_is_told_with_all_that_is_known_of_it() -> None:
    port = RdmaPort(
        "mlx5_0",
        "1",
        netdevs=("bond0", "bond0.7"),
        link_layer="Ethernet",
        firmware="28.41.1000",
        hca="MT4129",
        state="active",
        physical_state="linkup",
        rate=50e9,
        received_bytes=1,
        transmitted_bytes=2,
        received_packets=3,
        transmitted_packets=4,
        statistics=(("symbol_error", 65535), ("odd,name", 0)),
    )
    found = served(Surroundings(rdma_ports=(port,)), "nvmeof_rdma_port_")
    sets = {s: v for s, v in found.items() if "state=" in s}
    assert {s for s, v in sets.items() if v == 1} == {
        f'nvmeof_rdma_port_state{{{FIRST},state="active"}}',
        f'nvmeof_rdma_port_physical_state{{{FIRST},state="linkup"}}',
    }
    assert set(sets.values()) == {0, 1}
    assert {s: v for s, v in found.items() if s not in sets} == {
        'nvmeof_rdma_port_info{device="mlx5_0",firmware="28.41.1000",hca="MT4129",'
        'link_layer="Ethernet",netdev="bond0,bond0.7",port="1"}': 1,
        f"nvmeof_rdma_port_rate_bytes_per_second{{{FIRST}}}": 50e9,
        f"nvmeof_rdma_port_received_bytes_total{{{FIRST}}}": 1,
        f"nvmeof_rdma_port_transmitted_bytes_total{{{FIRST}}}": 2,
        f"nvmeof_rdma_port_received_packets_total{{{FIRST}}}": 3,
        f"nvmeof_rdma_port_transmitted_packets_total{{{FIRST}}}": 4,
        f'nvmeof_rdma_port_statistic_total{{{FIRST},statistic="symbol_error"}}': 65535,
        f'nvmeof_rdma_port_statistic_total{{{FIRST},statistic="odd,name"}}': 0,
    }


def test_what_a_port_does_not_say_has_no_series() -> None:
    found = served(Surroundings(rdma_ports=(RdmaPort("mlx5_0", "1"),)), "nvmeof_rdma_port_")
    assert list(found) == [
        'nvmeof_rdma_port_info{device="mlx5_0",firmware="",hca="",link_layer="",netdev="",port="1"}'
    ]


def test_an_empty_cage_has_a_rate_of_nothing() -> None:
    found = served(Surroundings(rdma_ports=(RdmaPort("mlx5_0", "1", rate=0.0),)), "nvmeof_rdma")
    assert found[f"nvmeof_rdma_port_rate_bytes_per_second{{{FIRST}}}"] == 0


def test_counters_of_a_whole_device_are_no_port() -> None:
    whole = RdmaPort("mlx5_0", "", statistics=(("resets", 2),))
    assert served(Surroundings(rdma_ports=(whole,)), "nvmeof_rdma_port_") == {
        'nvmeof_rdma_port_statistic_total{device="mlx5_0",port="",statistic="resets"}': 2
    }


def test_a_name_that_is_no_utf_8_is_told_with_what_it_has_of_it() -> None:
    around = Surroundings(
        netdevs=("eth\udcff",),
        carriers={"eth\udcff": True},
        ports={(NQN, PATH): PathPort("eth\udcff")},
    )
    assert served(around, "nvmeof_link_") == {'nvmeof_link_up{netdev="eth\ufffd"}': 1}
    (info,) = served(around, "nvmeof_path_info")
    assert 'netdev="eth\ufffd"' in info


def test_a_link_that_is_down_has_no_speed_whatever_its_driver_says() -> None:
    link = Link("veth0", up=True, carrier_changes=1, speed=1.25e9)
    around = Surroundings(netdevs=("veth0",), links={"veth0": link}, carriers={"veth0": False})
    assert served(around, "nvmeof_link_") == {
        'nvmeof_link_up{netdev="veth0"}': 0,
        'nvmeof_link_carrier_changes_total{netdev="veth0"}': 1,
    }


def test_a_link_is_told_with_its_pauses() -> None:
    link = Link(
        "eth0",
        up=True,
        carrier_changes=3,
        speed=12.5e9,
        pauses=(
            Pause("rx", "", frames=1),
            Pause("rx", "3", frames=2, seconds=0.5),
            Pause("tx", "3", seconds=0.25),
        ),
    )
    around = Surroundings(netdevs=("eth0",), links={"eth0": link})
    pause = 'netdev="eth0",priority='
    assert served(around, "nvmeof_link_") == {
        'nvmeof_link_up{netdev="eth0"}': 1,
        'nvmeof_link_carrier_changes_total{netdev="eth0"}': 3,
        'nvmeof_link_speed_bytes_per_second{netdev="eth0"}': 12.5e9,
        f'nvmeof_link_pause_frames_total{{direction="rx",{pause}""}}': 1,
        f'nvmeof_link_pause_frames_total{{direction="rx",{pause}"3"}}': 2,
        f'nvmeof_link_pause_seconds_total{{direction="rx",{pause}"3"}}': 0.5,
        f'nvmeof_link_pause_seconds_total{{direction="tx",{pause}"3"}}': 0.25,
    }


@pytest.mark.parametrize(
    ("carriers", "links", "told_up"),
    [
        ({"eth0": False}, {"eth0": Link("eth0", up=True)}, [0]),
        ({"eth0": True}, {}, [1]),
        ({"eth9": True}, {"eth0": Link("eth0", up=False)}, [0]),
        ({}, {"eth0": Link("eth0")}, []),
        ({}, {}, []),
    ],
    ids=["heard", "heard only", "read", "silent", "unknown"],
)
def test_a_link_is_up_as_heard_else_as_read(
    carriers: dict[str, bool], links: dict[str, Link], told_up: list[float]
) -> None:
    around = Surroundings(
        netdev_of=lambda _: "eth0", netdevs=("eth0",), carriers=carriers, links=links
    )
    assert list(served(around, "nvmeof_link_up").values()) == told_up
    assert list(served(around, "nvmeof_path_link_up").values()) == told_up


def test_a_path_is_told_with_its_interface_and_rdma_port() -> None:
    around = Surroundings(ports={(NQN, PATH): PathPort("eth0", ("eth0",), (), "mlx5_0", "2")})
    (info,) = served(around, "nvmeof_path_info")
    assert 'netdev="eth0"' in info
    assert 'rdma_device="mlx5_0",rdma_port="2"' in info


def test_what_paths_share_is_told_as_far_as_it_is_known() -> None:
    around = Surroundings(
        ports={(NQN, PATH): PathPort("bond0", ("eth0", "eth1"), ("0000:3b:00",))},
        switches={"eth0": "mac 02:00:00:00:00:01", "eth1": "mac 02:00:00:00:00:02"},
    )
    assert served(around, "nvmeof_subsystem_distinct") == {
        f'nvmeof_subsystem_distinct{{nqn="{NQN}",resource="{resource}"}}': count
        for resource, count in (
            ("netdev", 2),
            ("nic", 1),
            ("switch", 2),
            ("target_address", 1),
        )
    }


def test_slow_sources_are_collectors_like_any_other() -> None:
    status = CollectorStatus(success=False, seconds=2.5, errors=7)
    around = Surroundings(statuses={"rdma": status})
    assert {s: v for s, v in served(around, "nvmeof_exporter").items() if '"rdma"' in s} == {
        'nvmeof_exporter_collector_success{collector="rdma"}': 0,
        'nvmeof_exporter_collector_duration_seconds{collector="rdma"}': 2.5,
        'nvmeof_exporter_read_errors_total{collector="rdma"}': 7,
    }
