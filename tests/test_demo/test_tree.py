"""The tree on disk: byte for byte as the kernel's, in step with the node, kind to open files."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.demo.devices import Timeouts
from nvmeof_exporter.demo.load import Load
from nvmeof_exporter.demo.nodes import add_discovery, array_node, demo_node, sized_node
from nvmeof_exporter.demo.tree import Tree
from nvmeof_exporter.sources.nvme import NvmeSource
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
