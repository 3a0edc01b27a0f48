from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.capture import tree as tree_module
from nvmeof_exporter.capture.reading import NoAnswerError, read_whole
from nvmeof_exporter.capture.tree import Tree, capture_tree
from tests.fixtures.node_files import NodeFiles

if TYPE_CHECKING:
    from pathlib import Path

NODE = """
subsystem nvme-subsys0 subsysnqn=nqn.2026-01.org.example:a serial=S1
controller nvme0 in nvme-subsys0 transport=tcp state=live dhchap_secret=DHHC-1:00:secret
set nvme0 dhchap_ctrl_secret=DHHC-1:00:other tls_key=1234 tls_configured_key=5678
set nvme0 firmware_of_the_future=what-may-this-be rescan_controller=
path nvme0c0n1 of nvme0 nsid=1 nuse=12345 ana_state=optimized
head nvme0n1 in nvme-subsys0 nsid=1
"""
CTL = "devices/virtual/nvme-fabrics/ctl/nvme0"


@pytest.fixture
def node(tmp_path: Path) -> NodeFiles:
    made = NodeFiles(NODE, tmp_path / "sys")
    hwmon = made.place("nvme0") / "hwmon3"
    hwmon.mkdir()
    (hwmon / "temp1_input").write_text("31000\n")
    return made


def contents(tree: Tree) -> dict[str, bytes]:
    return {entry.name: entry.content for entry in tree.entries if entry.kind == "f"}


class TestWhatIsTaken:
    def test_nothing_else_is_opened(self, node: NodeFiles) -> None:
        opened = []

        def read(path: str) -> bytes:
            opened.append(path.removeprefix(f"{node.sysfs}/"))
            return read_whole(path)

        capture_tree(node.sysfs, read)
        subsystem = "devices/virtual/nvme-subsystem/nvme-subsys0"
        assert sorted(opened) == [
            f"{CTL}/nvme0c0n1/ana_state",
            f"{CTL}/nvme0c0n1/nsid",
            f"{CTL}/nvme0c0n1/stat",
            f"{CTL}/state",
            f"{CTL}/transport",
            f"{subsystem}/nvme0n1/nsid",
            f"{subsystem}/nvme0n1/stat",
            f"{subsystem}/serial",
            f"{subsystem}/subsysnqn",
        ]

    def test_links_and_what_they_lead_to(self, node: NodeFiles) -> None:
        links = {
            entry.name: os.fsdecode(entry.content)
            for entry in capture_tree(node.sysfs, read_whole).entries
            if entry.kind == "l"
        }
        assert links == {
            "block/nvme0c0n1": f"../{CTL}/nvme0c0n1",
            "block/nvme0n1": "../devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1",
            "class/nvme-subsystem/nvme-subsys0": (
                "../../devices/virtual/nvme-subsystem/nvme-subsys0"
            ),
            "class/nvme/nvme0": f"../../{CTL}",
            "devices/virtual/nvme-subsystem/nvme-subsys0/nvme0": "../../nvme-fabrics/ctl/nvme0",
        }

    def test_a_link_out_of_the_tree_is_not_followed(self, node: NodeFiles, tmp_path: Path) -> None:
        secret = tmp_path / "elsewhere/nvme9"
        secret.mkdir(parents=True)
        (secret / "state").write_text("secret\n")
        os.symlink("../../../elsewhere/nvme9", f"{node.sysfs}/class/nvme/nvme9")
        os.symlink(secret, f"{node.sysfs}/class/nvme/nvme8")
        tree = capture_tree(node.sysfs, read_whole)
        assert tree.missing == (
            "leads out of the tree class/nvme/nvme8",
            "leads out of the tree class/nvme/nvme9",
        )
        assert not [entry for entry in tree.entries if "nvme9" in entry.name]

    def test_an_empty_tree_is_an_empty_capture(self, tmp_path: Path) -> None:
        assert capture_tree(str(tmp_path), read_whole) == Tree((), ())


class TestTrouble:
    def test_a_file_that_answers_with_an_error_becomes_a_directory(self, node: NodeFiles) -> None:
        def read(path: str) -> bytes:
            if path.endswith("ana_state"):
                raise OSError(errno.EIO, "broken")
            return read_whole(path)

        tree = capture_tree(node.sysfs, read)
        assert tree.missing == (f"EIO {CTL}/nvme0c0n1/ana_state",)
        kinds = {entry.name: entry.kind for entry in tree.entries}
        assert kinds[f"{CTL}/nvme0c0n1/ana_state"] == "d"

    def test_one_that_does_not_answer_costs_only_itself(self, node: NodeFiles) -> None:
        def read(path: str) -> bytes:
            if path.endswith("transport"):
                raise NoAnswerError("no answer")
            return read_whole(path)

        tree = capture_tree(node.sysfs, read)
        assert tree.missing == (f"no answer {CTL}/transport",)
        assert contents(tree)[f"{CTL}/state"] == b"live\n"

    def test_devices_may_vanish_at_any_moment(self, node: NodeFiles) -> None:
        """Whatever is read first is the last of it."""

        def read(path: str) -> bytes:
            if path.endswith(f"{CTL}/state"):
                node.apply("remove nvme0")
            return read_whole(path)

        tree = capture_tree(node.sysfs, read)
        assert tree.missing == ()
        assert f"{CTL}/state" not in contents(tree)
        assert any(name.endswith("subsysnqn") for name in contents(tree))

    def test_a_tree_that_is_too_large_is_cut_and_says_so(
        self, node: NodeFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tree_module, "_MOST_ENTRIES", 7)
        tree = capture_tree(node.sysfs, read_whole)
        assert len(tree.entries) == 7
        assert tree.missing == ("the rest: the bundle would have become too large",)

    def test_of_very_many_interfaces_those_with_hardware_are_taken(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tree_module, "_MOST_INTERFACES", 2)
        for name in ("bond0", "eth9", "veth1", "veth2"):
            place = tmp_path / "class/net" / name
            place.mkdir(parents=True)
            (place / "operstate").write_text("up\n")
        os.symlink("../../../devices/card", tmp_path / "class/net/eth9/device")
        os.symlink("../eth9", tmp_path / "class/net/bond0/lower_eth9")
        tree = capture_tree(str(tmp_path), read_whole)
        assert sorted(contents(tree)) == ["class/net/bond0/operstate", "class/net/eth9/operstate"]
        assert tree.missing == ("2 more interfaces class/net",)

    def test_unused_numbers_of_a_gid_table_are_left_out(self, tmp_path: Path) -> None:
        port = tmp_path / "class/infiniband/mlx5_0/ports/1"
        for name, content in (
            ("gid_attrs/ndevs/0", b"eth0\n"),
            ("gid_attrs/ndevs/1", b""),
            ("gids/0", b"fe80:0000:0000:0000:0000:0000:0000:0001\n"),
            ("gids/1", b"0000:0000:0000:0000:0000:0000:0000:0000\n"),
        ):
            (port / name).parent.mkdir(parents=True, exist_ok=True)
            (port / name).write_bytes(content)

        def read(path: str) -> bytes:
            if path.endswith("ndevs/1"):
                raise OSError(errno.EINVAL, "not set")
            return read_whole(path)

        tree = capture_tree(str(tmp_path), read)
        assert sorted(name.partition("ports/1/")[2] for name in contents(tree)) == [
            "gid_attrs/ndevs/0",
            "gids/0",
        ]
        assert tree.missing == ()
