"""What a drill may run on, and what it refuses, over make-believe machines."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.drill.mounts import Mount, mounts_of
from nvmeof_exporter.drill.target import (
    Machine,
    Refused,
    claim_device,
    find_device,
    find_directory,
)
from nvmeof_exporter.sources.nvme import NvmeSource
from tests.fixtures.node_files import FaultyReader, NodeFiles
from tests.test_drill.board import FakeBlock

if TYPE_CHECKING:
    from pathlib import Path

NQN = "nqn.2026-01.org.example:array"
NODE = f"""
parameter multipath=Y
subsystem nvme-subsys0 subsysnqn={NQN} iopolicy=numa
controller nvme0 in nvme-subsys0 transport=tcp state=live address=traddr=10.0.0.2
path nvme0c0n1 of nvme0 nsid=1 ana_state=optimized
head nvme0n1 in nvme-subsys0 nsid=1 size=2097152
"""


class Board:
    """A machine whose disks, stacks and mounts are put together by hand."""

    def __init__(self, root: Path, node: str = NODE) -> None:
        self.node = NodeFiles(node, root / "sys")
        self.sysfs = root / "sys"
        self.procfs = root / "proc"
        (self.sysfs / "dev/block").mkdir(parents=True)
        (self.procfs / "self").mkdir(parents=True)
        self.mounts: list[str] = []
        self.head = self.node.place("nvme0n1")
        self.number(self.head, "259:1")

    def number(self, place: Path, number: str) -> None:
        """Let the kernel know a disk by its number."""
        (self.sysfs / "dev/block" / number).symlink_to(place)

    def disk(self, name: str, number: str, *slaves: Path) -> Path:
        """Add a disk that is stacked on others."""
        place = self.sysfs / "devices/virtual/block" / name
        (place / "slaves").mkdir(parents=True)
        for slave in slaves:
            (place / "slaves" / slave.name).symlink_to(slave)
        self.number(place, number)
        return place

    def partition(self, number: str) -> Path:
        """Divide the head."""
        place = self.head / "nvme0n1p1"
        place.mkdir()
        (place / "partition").write_text("1\n")
        self.number(place, number)
        return place

    def mount(self, number: str, point: str, source: str, options: str = "rw") -> None:
        """Add a line of mountinfo."""
        self.mounts.append(
            f"30 1 {number} / {point} {options} shared:1 - ext4 {source} rw,errors=continue\n"
        )
        (self.procfs / "self/mountinfo").write_text("".join(self.mounts))

    @property
    def machine(self) -> Machine:
        with closing(NvmeSource(FaultyReader(), str(self.sysfs))) as source:
            return Machine(str(self.sysfs), str(self.procfs), source.poll(1.0, 1.0))


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path / "board")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory of this machine; the board tells what it is on."""
    path = tmp_path / "here"
    path.mkdir()
    return path


def number_of(path: Path) -> str:
    found = os.stat(path).st_dev
    return f"{os.major(found)}:{os.minor(found)}"


def refusal(board: Board, path: Path, wanted: int = 0) -> str:
    with pytest.raises(Refused) as refused:
        find_directory(board.machine, str(path), wanted)
    return str(refused.value).replace(str(path), "HERE")


class TestADirectory:
    def on(self, board: Board, here: Path, place: Path | None) -> None:
        """Let the directory's file system be on a disk of the board."""
        number = number_of(here)
        board.mount(number, "/", "/dev/disk")
        if place is not None:
            board.number(place, number)

    def test_on_a_namespace_is_found(self, board: Board, here: Path) -> None:
        self.on(board, here, board.head)
        found = find_directory(board.machine, str(here), 0)
        assert (found.disks, found.namespaces) == (("nvme0n1",), ((NQN, "1"),))
        assert (found.file_system, found.is_device, found.remarks) == ("ext4", False, ())

    def test_on_a_partition_of_one_is_found(self, board: Board, here: Path) -> None:
        self.on(board, here, board.partition("259:2"))
        assert find_directory(board.machine, str(here), 0).disks == ("nvme0n1",)

    def test_on_a_volume_that_is_stacked_on_one_is_found(self, board: Board, here: Path) -> None:
        lower = board.disk("dm-0", "253:0", board.partition("259:2"))
        self.on(board, here, board.disk("dm-1", "253:1", lower))
        assert find_directory(board.machine, str(here), 0).disks == ("nvme0n1",)

    def test_on_a_volume_that_is_partly_elsewhere_is_refused(
        self, board: Board, here: Path
    ) -> None:
        local = board.disk("sda", "8:0")
        self.on(board, here, board.disk("md0", "9:0", local, board.head))
        assert refusal(board, here) == (
            "HERE lies on sda, which is no namespace over NVMe over Fabrics: "
            "there is nothing to fail over"
        )

    def test_on_no_disk_is_refused(self, board: Board, here: Path) -> None:
        self.on(board, here, None)
        assert refusal(board, here) == ("HERE lies on ext4 (/dev/disk), which is on no disk here")

    def test_with_too_little_space_is_refused(self, board: Board, here: Path) -> None:
        self.on(board, here, board.head)
        assert refusal(board, here, 1 << 60).startswith(
            "HERE: the drill needs 1099511627776 MiB and there is room for "
        )

    def test_mounted_read_only_is_refused(self, board: Board, here: Path) -> None:
        board.mount(number_of(here), "/", "/dev/disk", "ro,relatime")
        board.number(board.head, number_of(here))
        assert refusal(board, here) == "HERE: / is mounted read-only"

    def test_that_is_none_is_refused(self, board: Board, here: Path) -> None:
        assert refusal(board, here / "none") == "HERE: No such file or directory"

    def test_without_native_multipath_is_told(self, tmp_path: Path, here: Path) -> None:
        board = Board(
            tmp_path / "plain",
            NODE.replace("path nvme0c0n1 of nvme0 nsid=1 ana_state=optimized", "")
            .replace("multipath=Y", "multipath=N")
            .replace("head nvme0n1 in nvme-subsys0", "disk nvme0n1 of nvme0"),
        )
        self.on(board, here, board.head)
        assert find_directory(board.machine, str(here), 0).remarks == (
            "nvme0n1 is a path of its own: native multipath is off, and nothing fails over",
        )


class TestADevice:
    @pytest.fixture
    def device(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        path = tmp_path / "nvme0n1"
        path.write_bytes(bytes(4 << 20))
        monkeypatch.setattr("os.stat", FakeBlock(path, (259, 1)))
        return path

    def refusal(self, board: Board, device: Path, again: str | None = None, size: int = 0) -> str:
        if not board.mounts:
            board.mount("8:1", "/", "/dev/sda1")
        with pytest.raises(Refused) as refused:
            find_device(board.machine, str(device), again or str(device), size)
        return str(refused.value).replace(str(device), "DEV")

    def test_that_is_whole_and_unused_is_found(self, board: Board, device: Path) -> None:
        board.mount("8:1", "/", "/dev/sda1")
        found = find_device(board.machine, str(device), str(device), 1 << 20)
        assert (found.disks, found.namespaces, found.is_device) == (
            ("nvme0n1",),
            ((NQN, "1"),),
            True,
        )
        assert found.bytes == (1 << 30) - (2 << 20)

    def test_that_is_named_once_is_refused(self, board: Board, device: Path) -> None:
        assert self.refusal(board, device, "/dev/null") == (
            "DEV would be written over: name it a second time with --destroy DEV"
        )

    def test_that_is_mounted_is_refused(self, board: Board, device: Path) -> None:
        board.mount("259:1", "/data", "/dev/nvme0n1")
        assert self.refusal(board, device) == "DEV is mounted at /data"

    def test_that_is_mounted_by_its_name_is_refused(self, board: Board, device: Path) -> None:
        board.mount("0:44", "/data", str(device))
        assert self.refusal(board, device) == "DEV is mounted at /data"

    def test_that_is_partitioned_is_refused(self, board: Board, device: Path) -> None:
        board.partition("259:2")
        assert self.refusal(board, device) == "DEV is partitioned (nvme0n1p1)"

    def test_that_something_is_stacked_on_is_refused(self, board: Board, device: Path) -> None:
        (board.head / "holders/dm-0").mkdir(parents=True)
        assert self.refusal(board, device) == "DEV is used by dm-0"

    def test_that_is_too_small_is_refused(self, board: Board, device: Path) -> None:
        assert self.refusal(board, device, size=1 << 30) == (
            "DEV: the drill needs 1026 MiB and it has 1024 MiB"
        )

    def test_that_is_no_device_is_refused(self, board: Board, tmp_path: Path) -> None:
        assert self.refusal(board, tmp_path) == "DEV: expected a block device"

    def test_that_is_blank_can_be_claimed(self, device: Path) -> None:
        os.close(claim_device(str(device)))

    @pytest.mark.parametrize("offset", [0, 1080, (1 << 20) - 1, 3 << 20, (4 << 20) - 1])
    def test_with_anything_at_its_beginning_or_end_is_refused(
        self, device: Path, offset: int
    ) -> None:
        with device.open("r+b") as opened:
            opened.seek(offset)
            opened.write(b"x")
        with pytest.raises(Refused, match=r"not blank: its first and last MiB are not all zeros"):
            claim_device(str(device))


class TestMounts:
    def test_are_read_as_the_kernel_writes_them(self, tmp_path: Path) -> None:
        (tmp_path / "self").mkdir()
        (tmp_path / "self/mountinfo").write_text(
            "36 35 98:0 /mnt1 /mnt\\0402 ro,noatime master:1 - ext3 /dev/a\\134b rw,errors=x\n"
            "37 35 0:5 / /p rw - tmpfs tmpfs rw\n"
            "nonsense\n"
        )
        assert mounts_of(str(tmp_path)) == [
            Mount("98:0", "/mnt 2", "ext3", "/dev/a\\b", read_only=True),
            Mount("0:5", "/p", "tmpfs", "tmpfs", read_only=False),
        ]
