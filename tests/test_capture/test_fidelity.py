"""What an unpacked capture shows is what its node showed, to the letter."""

from __future__ import annotations

import tarfile
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.capture.reading import read_whole
from nvmeof_exporter.capture.redact import Redactor
from nvmeof_exporter.demo.nodes import demo_node
from nvmeof_exporter.demo.tree import Tree
from tests.fixtures.node_files import NODES, FaultyReader, NodeFiles
from tests.fixtures.serving import Served, without_versions
from tests.test_capture.taking import TREES, taken

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.thorough


def shown(sysfs: str, reader: FaultyReader | None = None) -> str:
    served = Served(sysfs, reader, pcie=True)
    served.poll()
    served.poll(1.0)
    return without_versions(served.text())


def lines(text: str) -> list[str]:
    return sorted(text.splitlines())


@pytest.fixture(params=TREES, ids=lambda tree: f"{tree.parent.name}-{tree.name}")
def kernel_tree(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The tree of a real kernel."""
    directory = tmp_path / "original"
    with tarfile.open(request.param) as tar:
        tar.extractall(directory, filter="data")
    return directory / "sys"


class TestRealKernels:
    def test_a_capture_shows_the_same(self, kernel_tree: Path, tmp_path: Path) -> None:
        captured = taken(str(kernel_tree), tmp_path / "unpacked")
        assert shown(str(captured)) == shown(str(kernel_tree))

    def test_a_redacted_one_shows_the_same_under_other_names(
        self, kernel_tree: Path, tmp_path: Path
    ) -> None:
        redactor = Redactor(b"a key")
        captured = taken(str(kernel_tree), tmp_path / "unpacked", redactor=redactor)
        original = shown(str(kernel_tree))
        renamed = redactor.text(original.encode()).decode()
        assert lines(shown(str(captured))) == lines(renamed)
        assert "nqn" not in original or renamed != original


class TestMakeBelieveNodes:
    @pytest.mark.parametrize("name", sorted(path.stem for path in NODES.glob("*.node")))
    def test_a_capture_shows_the_same_errors_too(self, name: str, tmp_path: Path) -> None:
        node = NodeFiles.load(name, tmp_path / "sys")
        faulty = FaultyReader(node.errors)

        def read(path: str) -> bytes:
            if path in node.errors:
                raise OSError(node.errors[path], "as the node has it")
            return read_whole(path)

        captured = taken(node.sysfs, tmp_path / "unpacked", read)
        assert shown(str(captured)) == shown(node.sysfs, faulty)

    @pytest.mark.parametrize("kernel", ["6.1", "7.3"])
    def test_so_does_one_of_the_demonstration(self, kernel: str, tmp_path: Path) -> None:
        node = demo_node(kernel)
        with closing(Tree(node, tmp_path / "demo")) as tree:
            node.port_removed(node.connection("tcp:10.0.0.2:4420%h0"))
            node.advance(2.0)
            tree.sync()
            captured = taken(tree.sysfs, tmp_path / "unpacked")
            assert shown(str(captured)) == shown(tree.sysfs)

    def test_a_capture_of_a_capture_is_the_same_again(self, tmp_path: Path) -> None:
        node = NodeFiles.load("odd-texts", tmp_path / "sys")
        first = taken(node.sysfs, tmp_path / "first")
        second = taken(str(first), tmp_path / "second")
        assert shown(str(second)) == shown(str(first))
