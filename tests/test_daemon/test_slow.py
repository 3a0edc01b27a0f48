"""Slow sources beside the poll loop: what they bring, and that they never hold it up."""

from __future__ import annotations

import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.hardware import Link, PathPort, RdmaPort
from nvmeof_exporter.model import EventKind
from nvmeof_exporter.slow import Sources
from nvmeof_exporter.sources.interfaces import PathPorts
from nvmeof_exporter.sources.lldp import LldpFailed, LldpUnavailable
from nvmeof_exporter.sources.netlink import Links
from tests.fixtures.node_files import FaultyReader, NodeFiles
from tests.test_daemon.looping import SLOW, looping
from tests.test_daemon.running import PATIENCE, eventually, running
from tests.test_sources.network_namespaces import Namespace, needs_privileges

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from nvmeof_exporter.model import Controller, PathId

NQN = "nqn.2026-01.org.example:two"
PATHS = ("tcp:10.0.0.2:4420%eth0", "tcp:10.0.1.2:4420%eth1")
NODE = f"""
subsystem nvme-subsys0 subsysnqn={NQN} iopolicy=numa
controller nvme0 in nvme-subsys0 transport=tcp state=live address=traddr=10.0.0.2,trsvcid=4420,host_iface=eth0
controller nvme1 in nvme-subsys0 transport=tcp state=live address=traddr=10.0.1.2,trsvcid=4420,host_iface=eth1
head nvme0n1 in nvme-subsys0 nsid=1
path nvme0c0n1 of nvme0 nsid=1 ana_state=optimized
path nvme0c1n1 of nvme1 nsid=1 ana_state=optimized
"""  # noqa: E501 - one line per device
SUCCESS = "nvmeof_exporter_collector_success"
CONNECTING = f'nvmeof_path_state{{nqn="{NQN}",path="{PATHS[0]}",state="connecting"}}'


def link_up(path: str) -> str:
    return f'nvmeof_path_link_up{{nqn="{NQN}",path="{path}"}}'


def success(collector: str) -> str:
    return f'{SUCCESS}{{collector="{collector}"}}'


class FakePaths:
    """Paths run over what the test says, by the interface given at connect time."""

    def __init__(self, **ports: PathPort) -> None:
        self.ports = ports
        self.asked = 0

    def netdev_of(self, controller: Controller) -> str:
        return controller.path.host_iface

    def refresh_rdma(self) -> None:
        """The ports are given."""

    def refresh(self, controllers: Iterable[Controller]) -> Mapping[tuple[str, PathId], PathPort]:
        self.asked += 1
        return {
            (c.nqn, c.path): self.ports[c.path.host_iface]
            for c in controllers
            if c.path.host_iface in self.ports
        }


class FakeRdma:
    """RDMA devices, of which some hang until the test is over."""

    def __init__(self, *devices: str, hanging: Iterable[str] = ()) -> None:
        self.names = list(devices)
        self.hanging = set(hanging)
        self.stuck = threading.Event()
        self.over = threading.Event()

    def devices(self) -> list[str]:
        return self.names

    def read(self, device: str) -> tuple[RdmaPort, ...]:
        if device in self.hanging:
            self.stuck.set()
            self.over.wait(60)
        return (RdmaPort(device, "1", state="active"),)


class FakeLinks:
    """Interfaces as their files tell."""

    def __init__(self, **up: bool) -> None:
        self.up = up
        self.read_ones: set[str] = set()

    def netdevs(self) -> list[str]:
        return sorted(self.up)

    def read(self, netdev: str) -> Link | None:
        self.read_ones.add(netdev)
        return Link(netdev, up=self.up[netdev]) if netdev in self.up else None


@pytest.fixture
def node(tmp_path: Path) -> NodeFiles:
    return NodeFiles(NODE, tmp_path / "sys")


@pytest.fixture
def rdma() -> Iterator[FakeRdma]:
    made = FakeRdma("mlx5_0", "mlx5_1", "mlx5_2", hanging={"mlx5_0"})
    yield made
    made.over.set()


PORTS = {
    "eth0": PathPort("eth0", ("eth0",), ("0000:3b:00",), "mlx5_0", "1"),
    "eth1": PathPort("bond0", ("eth1", "eth2"), ("0000:5e:00",), "mlx5_1", "1"),
}


class TestASourceThatHangs:
    def test_as_a_gid_table_does_costs_no_path_its_interface(self, node: NodeFiles) -> None:
        over = threading.Event()

        class Paths(FakePaths):
            def refresh_rdma(self) -> None:
                over.wait(60)

        flags = ("--poll.interval=20ms", "--poll.slow-interval=100ms", "--poll.slow-deadline=10ms")
        paths, rdma, links = Paths(**PORTS), FakeRdma("mlx5_0"), FakeLinks(eth0=True)
        with looping(node, *flags, slow=Sources(paths, rdma, links)) as loop:
            eventually(lambda: loop.value(success("ports")) == 0, "told as failed")
            asked = paths.asked
            eventually(lambda: paths.asked > asked + 1, "paths are looked at nevertheless")
            eventually(lambda: loop.value('nvmeof_link_up{netdev="eth0"}') == 1, "and links")
            eventually(lambda: 'device="mlx5_0"' in str(loop.told()), "and RDMA devices")
            over.set()

    def test_costs_a_path_change_not_a_single_poll(self, node: NodeFiles, rdma: FakeRdma) -> None:
        flags = ("--poll.interval=20ms", "--poll.slow-interval=100ms", "--poll.slow-deadline=10ms")
        with looping(node, *flags, slow=Sources(FakePaths(**PORTS), rdma)) as loop:
            assert rdma.stuck.wait(PATIENCE)
            polls = loop.source.snapshots
            before = len(polls)
            eventually(lambda: len(polls) > before + 10, "the rhythm goes on")
            eventually(lambda: loop.value(success("rdma")) == 0, "told as failed")
            before = len(polls)  # one more may have read the state already
            node.apply("set nvme0 state=connecting")
            eventually(lambda: loop.value(CONNECTING) == 1, "the path change")
            states = [poll.subsystems[0].controllers[0].state for poll in polls[before:]]
            assert states[: states.index("connecting")].count("live") <= 1
            assert not rdma.over.is_set()

    def test_leaves_the_others_alone_and_a_scrape_waits_for_none(
        self, node: NodeFiles, rdma: FakeRdma
    ) -> None:
        with looping(node, *SLOW, slow=Sources(FakePaths(**PORTS), rdma)) as loop:
            other = 'nvmeof_rdma_port_state{device="mlx5_1",port="1",state="active"}'
            eventually(lambda: loop.value(other) == 1, "the other device")
            assert not [series for series in loop.told() if '"mlx5_0",port="1",state' in series]
            assert loop.poller.health() is None

    def test_keeps_the_loop_from_no_end(self, node: NodeFiles, rdma: FakeRdma) -> None:
        with looping(node, slow=Sources(FakePaths(**PORTS), rdma)):
            assert rdma.stuck.wait(PATIENCE)
        assert not rdma.over.is_set()


class TestWhatIsRead:
    def test_is_by_default_what_carries_a_path_with_the_members_of_a_bond(
        self, node: NodeFiles
    ) -> None:
        links = FakeLinks(bond0=True, eth0=True, eth1=True, eth2=False, eth3=True, lo=True)
        sources = Sources(FakePaths(**PORTS), FakeRdma("mlx5_0", "mlx5_1", "mlx5_2"), links)
        with looping(node, *SLOW, slow=sources) as loop:
            eventually(lambda: loop.value('nvmeof_link_up{netdev="eth2"}') == 0, "links")
            eventually(lambda: 'device="mlx5_1"' in str(loop.told()), "ports")
            told = loop.told()
        assert {s: v for s, v in told.items() if s.startswith("nvmeof_link_up")} == {
            'nvmeof_link_up{netdev="bond0"}': 1,
            'nvmeof_link_up{netdev="eth0"}': 1,
            'nvmeof_link_up{netdev="eth1"}': 1,
            'nvmeof_link_up{netdev="eth2"}': 0,
        }
        assert links.read_ones == {"bond0", "eth0", "eth1", "eth2"}
        assert [s for s in told if s.startswith("nvmeof_rdma_port_info")] == [
            f'nvmeof_rdma_port_info{{device="mlx5_{n}",firmware="",hca="",link_layer="",'
            'netdev="",port="1"}'
            for n in (0, 1)
        ]

    def test_is_everything_when_asked_for(self, node: NodeFiles) -> None:
        links = FakeLinks(eth0=True, eth9=False)
        sources = Sources(FakePaths(), FakeRdma("mlx5_7"), links, every=True)
        with looping(node, *SLOW, slow=sources) as loop:
            eventually(lambda: loop.value('nvmeof_link_up{netdev="eth9"}') == 0, "links")
            eventually(lambda: 'device="mlx5_7"' in str(loop.told()), "ports")

    def test_follows_the_paths(self, node: NodeFiles) -> None:
        links = FakeLinks(eth0=True, eth1=True, eth2=True, bond0=True)
        sources = Sources(FakePaths(**PORTS), None, links)
        with looping(node, "--poll.rescan-interval=1h", slow=sources) as loop:
            eventually(lambda: loop.value('nvmeof_link_up{netdev="eth2"}') == 1, "links")
            node.apply("remove nvme1")
            loop.events.announce(EventKind.CONTROLLER_REMOVED)
            eventually(lambda: loop.value('nvmeof_link_up{netdev="eth2"}') is None, "gone")
            assert loop.value('nvmeof_link_up{netdev="eth0"}') == 1

    def test_is_known_soon_after_the_first_poll(self, node: NodeFiles) -> None:
        paths = FakePaths(**PORTS)
        with looping(node, *SLOW, "--poll.slow-interval=1h", slow=Sources(paths)) as loop:
            eventually(lambda: 'rdma_device="mlx5_0"' in str(loop.told()), "the path's port")
            assert paths.asked == 1


class TestThePathsLink:
    def test_is_the_carrier_of_its_own_interface_not_of_a_member(self, node: NodeFiles) -> None:
        ports = {**PORTS, "eth0": PathPort("eth0", ("eth4",))}
        links = FakeLinks(eth0=True, eth4=False, eth1=False)
        with looping(node, *SLOW, slow=Sources(FakePaths(**ports), None, links)) as loop:
            eventually(lambda: loop.value(link_up(PATHS[0])) == 1, "up")

    def test_is_not_told_where_nothing_is_known(self, node: NodeFiles) -> None:
        links = FakeLinks(eth9=True)
        with looping(node, *SLOW, slow=Sources(FakePaths(**PORTS), None, links)) as loop:
            eventually(lambda: "eth2" in links.read_ones, "asked")
            assert not [series for series in loop.told() if "link_up" in series]

    @pytest.mark.parametrize(
        ("state", "told"),
        [("active", 1), ("down", 0), ("init", 0), ("unknown", None), ("", None)],
    )
    def test_is_the_rdma_ports_state_where_that_is_all_there_is(
        self, node: NodeFiles, state: str, told: float | None
    ) -> None:
        class Rdma(FakeRdma):
            def read(self, device: str) -> tuple[RdmaPort, ...]:
                return (RdmaPort(device, "1", state=state), RdmaPort(device, "2", state="active"))

        with looping(node, *SLOW, slow=Sources(FakePaths(**PORTS), Rdma("mlx5_0"))) as loop:
            eventually(lambda: 'device="mlx5_0"' in str(loop.told()), "the port")
            assert loop.value(link_up(PATHS[0])) == told


class TestSwitches:
    NEIGHBOURS = (
        f'nvmeof_subsystem_distinct{{nqn="{NQN}",resource="switch"}}',
        {"eth0": "mac 02:00:00:00:00:01", "eth1": "mac 02:00:00:00:00:02", "eth2": "mac 02"},
    )

    def test_are_counted_where_lldpd_knows_them(self, node: NodeFiles) -> None:
        series, found = self.NEIGHBOURS
        sources = Sources(FakePaths(**PORTS), switches=lambda: found)
        with looping(node, *SLOW, slow=sources) as loop:
            eventually(lambda: loop.value(series) == 3, "switches")
            assert loop.value(success("lldp")) == 1

    def test_that_nobody_knows_are_no_failure_unless_asked_for(self, node: NodeFiles) -> None:
        asked = threading.Event()

        def none() -> dict[str, str]:
            asked.set()
            raise LldpUnavailable("lldpcli is not installed")

        with looping(node, *SLOW, slow=Sources(FakePaths(), switches=none)) as loop:
            assert asked.wait(PATIENCE)
            eventually(lambda: bool(loop.slow._switches.brought), "answered")
            assert loop.value(success("lldp")) is None
        wanted = Sources(FakePaths(), switches=none, switches_wanted=True)
        with looping(node, *SLOW, slow=wanted) as loop:
            eventually(lambda: loop.value(success("lldp")) == 0, "failed")

    def test_that_cannot_be_asked_for_are_a_failure(self, node: NodeFiles) -> None:
        def refuse() -> dict[str, str]:
            raise LldpFailed("permission denied")

        with looping(node, *SLOW, slow=Sources(FakePaths(), switches=refuse)) as loop:
            eventually(lambda: loop.value(success("lldp")) == 0, "failed")


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    made = Namespace()
    yield made
    made.close()


@needs_privileges
class TestWithRealInterfaces:
    @pytest.fixture
    def links(self, namespace: Namespace) -> Iterator[Links]:
        namespace.ip(
            "link add eth0 up type veth peer name far0",
            "link add eth1 up type veth peer name far1",
            "link set far0 up",
            "link set far1 up",
        )
        made = namespace.call(Links)
        yield made
        made.close()

    def sources(self, node: NodeFiles, links: Links) -> Sources:
        paths = PathPorts(FaultyReader(), node.sysfs, links.table)
        return Sources(paths, interfaces=links)

    def test_a_lost_carrier_is_told_by_the_poll_that_its_event_wakes(
        self, node: NodeFiles, namespace: Namespace, links: Links
    ) -> None:
        with looping(node, *SLOW, slow=self.sources(node, links), heard=(links,)) as loop:
            assert [loop.value(link_up(path)) for path in PATHS] == [1, 1]
            before = len(loop.source.snapshots)
            namespace.ip("link set far0 down")
            # No timer wakes the loop for a minute: what happens now is the event's doing.
            eventually(lambda: loop.value(link_up(PATHS[0])) == 0, "carrier lost")
            assert loop.value(link_up(PATHS[1])) == 1
            eventually(lambda: len(loop.source.snapshots) > before, "the poll that it woke")
            states = [c.state for c in loop.source.snapshots[-1].subsystems[0].controllers]
            assert states == ["live", "live"]
            namespace.ip("link set far0 up")
            eventually(lambda: loop.value(link_up(PATHS[0])) == 1, "carrier back")

    def test_a_lost_carrier_is_told_by_the_exporter_as_it_is_run(
        self, node: NodeFiles, namespace: Namespace, links: Links
    ) -> None:
        def inside() -> None:
            with running(f"--path.sysfs={node.sysfs}", "--collector.netlink", *SLOW) as exporter:
                exporter.await_sample(link_up(PATHS[0]), 1)
                subprocess.run(["ip", "link", "set", "far0", "down"], check=True)
                exporter.await_sample(link_up(PATHS[0]), 0)
                exporter.await_sample('nvmeof_link_up{netdev="eth0"}', 0)
                assert exporter.samples()[link_up(PATHS[1])] == 1

        namespace.ip("link set lo up")
        namespace.call(inside)

    def test_an_interface_that_has_gone_has_no_carrier(
        self, node: NodeFiles, namespace: Namespace, links: Links
    ) -> None:
        with looping(node, *SLOW, slow=self.sources(node, links), heard=(links,)) as loop:
            eventually(lambda: bool(loop.slow._told), "its interfaces are known")
            namespace.ip("link delete eth0")
            eventually(lambda: loop.value(link_up(PATHS[0])) == 0, "gone")

    def test_without_rtnetlink_any_more_nothing_is_known(
        self, node: NodeFiles, links: Links
    ) -> None:
        with looping(node, *SLOW, slow=self.sources(node, links), heard=(links,)) as loop:
            eventually(lambda: bool(loop.slow._told), "its interfaces are known")
            links.close()
            assert [loop.value(link_up(path)) for path in PATHS] == [None, None]
