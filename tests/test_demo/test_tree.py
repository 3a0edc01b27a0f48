"""The tree on disk: byte for byte as the kernel's, in step with the node, kind to open files."""

from __future__ import annotations

import os
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.demo.devices import Timeouts
from nvmeof_exporter.demo.load import Load
from nvmeof_exporter.demo.nodes import add_discovery, array_node, demo_node, sized_node
from nvmeof_exporter.demo.tree import Tree
from nvmeof_exporter.hardware import Link, PathPort
from nvmeof_exporter.sources.interfaces import PathPorts
from nvmeof_exporter.sources.links import LinkSource
from nvmeof_exporter.sources.nvme import NvmeSource
from nvmeof_exporter.sources.rdma import RdmaSource
from nvmeof_exporter.sources.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nvmeof_exporter.demo.simulation import Node

LOAD = Load(queue_depth=4, rate=400)
CTL = "sys/devices/virtual/nvme-fabrics/ctl"
HEADS = "sys/devices/virtual/nvme-subsystem/nvme-subsys0"


@pytest.fixture
def node() -> Node:
    return array_node(load=LOAD, timeouts=Timeouts(keep_alive=2))


@pytest.fixture
def tree(node: Node, tmp_path: Path) -> Iterator[Tree]:
    with closing(Tree(node, tmp_path / "tree")) as tree:
        yield tree


def text(tree: Tree, name: str) -> str:
    return (tree.root / name).read_text()


class TestFormats:
    def test_model_and_serial_are_padded_with_blanks(self, tree: Tree) -> None:
        assert text(tree, f"{CTL}/nvme0/model") == "ACME-Flash" + 30 * " " + "\n"
        assert len(text(tree, f"{HEADS}/serial")) == 21

    def test_stat_has_seventeen_right_aligned_columns(self, node: Node, tree: Tree) -> None:
        assert text(tree, f"{CTL}/nvme0/nvme0c0n1/stat") == " ".join(["       0"] * 17) + "\n"
        node.advance(1)
        tree.sync()
        columns = text(tree, f"{CTL}/nvme0/nvme0c0n1/stat").split()
        assert len(columns) == 17
        assert int(columns[0]) > 0

    def test_busy_time_goes_on_while_a_request_is_in_flight(self, node: Node, tree: Tree) -> None:
        node.advance(1)
        node.black_hole(node.subsystems[0].connections[0])
        shown = []
        for _ in range(2):
            node.advance(0.5)
            tree.sync()
            shown.append([int(n) for n in text(tree, f"{CTL}/nvme0/nvme0c0n1/stat").split()])
        before, after = shown
        assert before[8] == after[8] == LOAD.queue_depth
        assert after[9] - before[9] == 500
        assert before[:9] == after[:9]

    def test_src_addr_is_there_only_while_live(self, node: Node, tree: Tree) -> None:
        address = f"{CTL}/nvme0/address"
        assert text(tree, address) == "traddr=10.0.0.2,trsvcid=4420,src_addr=10.0.0.1\n"
        node.port_removed(node.subsystems[0].connections[0])
        node.advance(1)
        tree.sync()
        assert text(tree, address) == "traddr=10.0.0.2,trsvcid=4420\n"

    def test_rdma_has_no_src_addr(self, tmp_path: Path) -> None:
        with closing(Tree(array_node(transport="rdma"), tmp_path / "rdma")) as tree:
            assert text(tree, f"{CTL}/nvme0/address") == "traddr=10.0.0.2,trsvcid=4420\n"

    @pytest.mark.parametrize(
        ("policy", "depth", "nodes"),
        [("numa", "", "0\n"), ("round-robin", "", ""), ("queue-depth", "0\n", "")],
    )
    def test_queue_depth_and_numa_nodes_read_empty_unless_the_policy_uses_them(
        self, tmp_path: Path, policy: str, depth: str, nodes: str
    ) -> None:
        with closing(Tree(array_node(iopolicy=policy), tmp_path / policy)) as tree:
            disk = f"{CTL}/nvme0/nvme0c0n1"
            assert (text(tree, f"{disk}/queue_depth"), text(tree, f"{disk}/numa_nodes")) == (
                depth,
                nodes,
            )

    def test_timeouts_that_are_off_say_so(self, tmp_path: Path) -> None:
        node = array_node(timeouts=Timeouts(ctrl_loss=None))
        with closing(Tree(node, tmp_path / "off")) as tree:
            assert text(tree, f"{CTL}/nvme0/ctrl_loss_tmo") == "off\n"
            assert text(tree, f"{CTL}/nvme0/fast_io_fail_tmo") == "off\n"

    def test_diag_and_links_of_heads_belong_to_new_kernels(self, tmp_path: Path) -> None:
        with (
            closing(Tree(array_node("6.1"), tmp_path / "old")) as old,
            closing(Tree(array_node("7.3"), tmp_path / "new")) as new,
        ):
            assert not (old.root / CTL / "nvme0/diag").exists()
            assert not (old.root / HEADS / "nvme0n1/multipath").exists()
            assert text(new, f"{CTL}/nvme0/diag/reset_count") == "0\n"
            assert text(new, f"{CTL}/nvme0/io_timeout") == "30000\n"
            linked = (new.root / HEADS / "nvme0n1/multipath/nvme0c1n1").resolve()
            assert linked == new.root / CTL / "nvme1/nvme0c1n1"

    def test_relations_are_relative_links(self, tree: Tree) -> None:
        links = {
            "sys/class/nvme/nvme1": "../../devices/virtual/nvme-fabrics/ctl/nvme1",
            "sys/block/nvme0c1n1": "../devices/virtual/nvme-fabrics/ctl/nvme1/nvme0c1n1",
            "sys/block/nvme0n1": "../devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1",
            f"{HEADS}/nvme1": "../../nvme-fabrics/ctl/nvme1",
        }
        for name, target in links.items():
            assert (tree.root / name).readlink() == Path(target)
            assert (tree.root / name).exists()

    def test_diskstats_lists_hidden_paths_too(self, node: Node, tree: Tree) -> None:
        node.advance(1)
        tree.sync()
        lines = [line.split() for line in text(tree, "proc/diskstats").splitlines()]
        assert sorted(line[2] for line in lines) == ["nvme0c0n1", "nvme0c1n1", "nvme0n1"]
        assert {len(line) for line in lines} == {20}

    def test_a_link_that_is_down_says_so(self, node: Node, tree: Tree) -> None:
        node.link_down(node.netdevs["h0"])
        tree.sync()
        assert text(tree, "sys/class/net/h0/operstate") == "down\n"
        assert text(tree, "sys/class/net/h0/carrier_changes") == "3\n"

    def test_a_port_of_an_rdma_device_follows_its_link(self, tmp_path: Path) -> None:
        node = array_node(transport="rdma")
        with closing(Tree(node, tmp_path / "rdma")) as tree:
            port = "sys/class/infiniband/rxe0/ports/1"
            assert text(tree, f"{port}/state") == "4: ACTIVE\n"
            node.link_down(node.netdevs["h0"])
            tree.sync()
            assert text(tree, f"{port}/state") == "1: DOWN\n"
            assert text(tree, f"{port}/phys_state") == "3: Disabled\n"
            assert text(tree, f"{port}/hw_counters/link_downed") == "1\n"


class TestCards:
    """Ports of real hardware, as the demonstration's node has them."""

    H2 = "sys/devices/pci0000:16/0000:16:01.0/0000:17:00.1"
    PORT = "sys/class/infiniband/mlx5_2/ports/1"

    @pytest.fixture
    def node(self) -> Node:
        return demo_node()

    def test_interface_and_rdma_device_lie_below_one_pci_function(self, tree: Tree) -> None:
        links = {
            "sys/class/net/h2": f"{self.H2}/net/h2",
            "sys/class/net/h2/device": self.H2,
            "sys/class/net/h2/subsystem": "sys/class/net",
            "sys/class/infiniband/mlx5_2": f"{self.H2}/infiniband/mlx5_2",
            "sys/class/infiniband/mlx5_2/device": self.H2,
            "sys/class/infiniband/mlx5_2/subsystem": "sys/class/infiniband",
            "sys/bus/pci/devices/0000:17:00.1": self.H2,
            f"{self.H2}/driver": "sys/bus/pci/drivers/mlx5_core",
            f"{self.H2}/subsystem": "sys/bus/pci",
        }
        for name, target in links.items():
            assert (tree.root / name).resolve() == tree.root / target
            assert (tree.root / name).exists()

    def test_rdma_passes_the_interface_by_and_tcp_the_rdma_port(
        self, node: Node, tree: Tree
    ) -> None:
        node.advance(2)
        tree.sync()
        assert int(text(tree, "sys/class/net/h0/statistics/rx_bytes")) > 0
        assert text(tree, "sys/class/net/h2/statistics/rx_bytes") == "0\n"
        counters = {
            device: int(text(tree, f"sys/class/infiniband/{device}/ports/1/counters/port_rcv_data"))
            for device in ("mlx5_0", "mlx5_2")
        }
        assert counters["mlx5_0"] == 0
        assert counters["mlx5_2"] > 0

    def test_a_ports_counters_are_the_io_that_its_paths_carried(
        self, node: Node, tree: Tree
    ) -> None:
        node.advance(2)
        node.set_load(node.subsystems[1].namespaces[0], None)
        node.advance(1)
        tree.sync()
        (path,) = (p for p in node.subsystems[1].namespaces[0].paths if p.disk == "nvme2c2n1")
        io = path.counters.values(node.now)
        assert {
            name: int(text(tree, f"{self.PORT}/{name}"))
            for name in (
                "counters/port_rcv_data",
                "counters/port_xmit_data",
                "hw_counters/rx_write_requests",
                "hw_counters/rx_read_requests",
            )
        } == {
            "counters/port_rcv_data": io.read_sectors * 512 // 4,
            "counters/port_xmit_data": io.write_sectors * 512 // 4,
            "hw_counters/rx_write_requests": io.reads,
            "hw_counters/rx_read_requests": io.writes,
        }

    def test_a_port_follows_its_link_down_and_up(self, node: Node, tree: Tree) -> None:
        interface = "sys/class/net/h2"
        names = [f"{interface}/{n}" for n in ("carrier", "carrier_changes", "operstate", "speed")]
        names += [f"{self.PORT}/{name}" for name in ("state", "phys_state", "rate")]
        up = ["1", "2", "up", "100000", "4: ACTIVE", "5: LinkUp", "100 Gb/sec (4X EDR)"]
        assert [text(tree, name).strip() for name in names] == up
        node.link_down(node.netdevs["h2"])
        tree.sync()
        assert [text(tree, name).strip() for name in names] == [
            *("0", "3", "down", "-1"),
            *("1: DOWN", "3: Disabled", "40 Gb/sec (4X QDR)"),
        ]
        node.link_up(node.netdevs["h2"])
        tree.sync()
        up[1] = "4"
        assert [text(tree, name).strip() for name in names] == up

    def test_a_silent_peer_costs_retries_until_it_is_given_up(self, node: Node, tree: Tree) -> None:
        node.black_hole(node.connection("rdma:10.0.2.2:4420%h2"))
        node.advance(1)
        tree.sync()
        assert text(tree, f"{self.PORT}/hw_counters/local_ack_timeout_err") == "7\n"
        assert text(tree, f"{self.PORT}/hw_counters/req_transport_retries_exceeded") == "1\n"

    @pytest.mark.parametrize(("size", "ports"), [("small", 2), ("gpu-node", 8)])
    def test_a_port_of_a_load_test_has_sixty_counters_and_carries_io(
        self, tmp_path: Path, size: str, ports: int
    ) -> None:
        node = sized_node(size, load=Load(queue_depth=1, rate=100))
        with closing(Tree(node, tmp_path / size)) as tree:
            node.advance(1)
            tree.sync()
            devices = sorted((tree.root / "sys/class/infiniband").iterdir())
            assert len(devices) == ports
            moved = 0
            for device in devices:
                port = device / "ports/1"
                assert len([*port.glob("counters/*"), *port.glob("hw_counters/*")]) == 60
                moved += int((port / "counters/port_rcv_data").read_text()) > 0
            assert moved == min(ports, len(node.subsystems))


class TestOpenFiles:
    def test_a_kept_descriptor_sees_the_new_state(self, node: Node, tree: Tree) -> None:
        descriptor = os.open(tree.root / CTL / "nvme0/state", os.O_RDONLY)
        try:
            assert os.pread(descriptor, 64, 0) == b"live\n"
            node.port_removed(node.subsystems[0].connections[0])
            node.advance(1)
            tree.sync()
            assert os.pread(descriptor, 64, 0) == b"connecting\n"
        finally:
            os.close(descriptor)

    def test_no_file_is_ever_replaced(self, node: Node, tree: Tree) -> None:
        before = {path: path.stat().st_ino for path in tree.root.rglob("*") if path.is_file()}
        node.advance(1)
        node.black_hole(node.subsystems[0].connections[0])
        for _ in range(60):
            node.advance(0.1)
            tree.sync()
        after = {path: path.stat().st_ino for path in tree.root.rglob("*") if path.is_file()}
        assert after == before

    def test_content_that_shrinks_is_never_seen_with_the_end_of_the_old(
        self, node: Node, tree: Tree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen = []

        def truncate(descriptor: int, length: int) -> None:
            seen.append(os.pread(os.open(state, os.O_RDONLY), 64, 0))
            real(descriptor, length)

        state = tree.root / CTL / "nvme0/state"
        node.port_removed(node.subsystems[0].connections[0])
        node.advance(1)
        tree.sync()
        node.port_restored(node.subsystems[0].connections[0])
        node.advance(3)
        real = os.ftruncate
        monkeypatch.setattr(os, "ftruncate", truncate)
        tree.sync()
        assert b"live\n\0\0\0\0\0\0" in seen

    def test_a_descriptor_of_a_removed_device_reads_empty(self, node: Node, tree: Tree) -> None:
        kept = [
            os.open(tree.root / CTL / "nvme1" / name, os.O_RDONLY)
            for name in ("state", "nvme0c1n1/stat", "nvme0c1n1/ana_state")
        ]
        try:
            node.disconnect(node.subsystems[0].connections[1])
            node.advance(1)
            tree.sync()
            assert [os.pread(descriptor, 64, 0) for descriptor in kept] == [b"", b"", b""]
        finally:
            for descriptor in kept:
                os.close(descriptor)
        left = [name for name in tree.root.rglob("*nvme1*") if "nvme1" in name.parts[-1:]]
        assert left == []
        assert list((tree.root / HEADS / "nvme0n1/multipath").iterdir()) == [
            tree.root / HEADS / "nvme0n1/multipath/nvme0c0n1"
        ]


class TestAsTheExporterReadsIt:
    @pytest.mark.parametrize("kernel", ["6.1", "6.6", "6.12", "7.3"])
    def test_it_equals_the_snapshot_through_all_kinds_of_faults(
        self, kernel: str, tmp_path: Path
    ) -> None:
        node = demo_node(kernel)
        add_discovery(node)
        array, scratch = node.subsystems[:2]
        first, second = array.connections
        faults: list[Callable[[], object]] = [
            lambda: node.black_hole(first),
            lambda: node.set_ana(second, 2, "non-optimized"),
            lambda: node.link_down(node.netdevs["h2"]),
            lambda: node.disconnect(second),
            lambda: node.heal(first),
            lambda: node.connect(second, renumber=True),
            lambda: node.disable(scratch.namespaces[0]),
            lambda: node.enable(scratch.namespaces[0]),
            lambda: node.reset(scratch.connections[1]),
            lambda: node.link_up(node.netdevs["h2"]),
        ]
        reader = Reader()
        with closing(Tree(node, tmp_path / "tree")) as tree:
            source = NvmeSource(reader, tree.sysfs)
            with closing(source):
                for fault in faults:
                    fault()
                    for seconds in (0.0, 0.15, 2.1):
                        node.advance(seconds)
                        tree.sync()
                        source.poll(0, 0)  # descriptors of what is gone may fail once
                        source.rescan()
                        source.refresh_settings()
                        assert source.poll(node.now, 5) == node.snapshot(node.now, 5)

    def test_a_calm_tree_is_read_without_a_single_error(self, tree: Tree, node: Node) -> None:
        reader = Reader()
        with closing(NvmeSource(reader, tree.sysfs)) as source:
            for _ in range(10):
                node.advance(0.1)
                tree.sync()
                source.poll(0, 0)
        assert reader.errors == 0

    def test_paths_run_over_the_ports_that_it_shows(self, tmp_path: Path) -> None:
        node = demo_node()
        with closing(Tree(node, tmp_path / "tree")) as tree:
            reader = Reader()
            controllers = [c for s in node.snapshot(0, 0).subsystems for c in s.controllers]
            paths = PathPorts(reader, tree.sysfs)
            paths.refresh_rdma()
            ports = paths.refresh(controllers)
            assert reader.errors == 0
        assert {str(path): port for (_, path), port in ports.items()} == {
            "tcp:10.0.0.2:4420%h0": PathPort("h0", ("h0",), ("0000:17:00",), "mlx5_0", "1"),
            "tcp:10.0.1.2:4420%h1": PathPort("h1", ("h1",), ("0000:65:00",), "mlx5_1", "1"),
            "rdma:10.0.2.2:4420%h2": PathPort("h2", ("h2",), ("0000:17:00",), "mlx5_2", "1"),
            "rdma:10.0.3.2:4420%h3": PathPort("h3", ("h3",), ("0000:65:00",), "mlx5_3", "1"),
        }

    @pytest.mark.parametrize("kernel", ["6.1", "7.3"])
    @pytest.mark.parametrize("make", [demo_node, partial(array_node, transport="rdma")])
    def test_ports_and_links_are_read_without_a_single_error(
        self, kernel: str, make: Callable[[str], Node], tmp_path: Path
    ) -> None:
        node = make(kernel)
        netdev = node.netdevs["h1"]
        with closing(Tree(node, tmp_path / "tree")) as tree:
            reader = Reader()
            rdma, links = RdmaSource(reader, tree.sysfs), LinkSource(reader, tree.sysfs)
            assert links.read("h1") == Link(
                "h1", up=True, carrier_changes=2, speed=netdev.speed * 125e3
            )
            node.link_down(netdev)
            tree.sync()
            assert rdma.devices() == sorted(n.rdma for n in node.netdevs.values())
            (port,) = rdma.read(netdev.rdma)
            assert (port.netdevs, port.state, port.physical_state) == (("h1",), "down", "disabled")
            lost = links.read("h1")
            assert lost is not None
            assert (lost.up, lost.carrier_changes) == (False, 3)
            assert reader.errors == 0


def test_a_sync_of_a_node_at_rest_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = sized_node("gpu-node")
    with closing(Tree(node, tmp_path / "tree")) as tree:
        node.advance(1)
        tree.sync()
        monkeypatch.setattr(os, "open", _refuse)
        node.advance(1)
        tree.sync()


def test_a_temporary_tree_is_gone_after_its_close() -> None:
    tree = Tree(array_node())
    assert tree.root.is_dir()
    tree.close()
    assert not tree.root.exists()


def test_a_tree_that_was_asked_for_stays(tmp_path: Path) -> None:
    tree = Tree(array_node(), tmp_path / "kept")
    tree.close()
    assert (tmp_path / "kept/sys/class/nvme/nvme0/state").read_text() == "live\n"
    with pytest.raises(FileExistsError, match="not empty"):
        Tree(array_node(), tmp_path / "kept")


def _refuse(*arguments: object) -> int:
    raise AssertionError(f"opened {arguments}")
