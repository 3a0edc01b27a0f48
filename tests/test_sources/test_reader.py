from __future__ import annotations

import errno
import os
import resource
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.sources import decode
from nvmeof_exporter.sources.nvme import NvmeSource
from nvmeof_exporter.sources.reader import (
    FORBIDDEN,
    ForbiddenAttributeError,
    Reader,
    raise_descriptor_limit,
)
from tests.fixtures.node_files import FaultyReader, NodeFiles

if TYPE_CHECKING:
    from pathlib import Path

#: What a file answers whose device went away: counted, and told as a change of topology.
GONE = {errno.ENODEV, errno.ENOENT, errno.ENXIO}

ERRNOS = (
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.EINVAL,
    errno.EAGAIN,
    errno.EOPNOTSUPP,
    errno.ENODEV,
    errno.ENOENT,
    errno.ENXIO,
    errno.EMFILE,
)


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def reader() -> FaultyReader:
    return FaultyReader()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "nvme0" / "kato"
    path.parent.mkdir()
    path.write_bytes(b"5\n")
    return path


class TestWhatIsRead:
    def test_a_value_is_read_and_follows_its_file(self, reader: FaultyReader, file: Path) -> None:
        attribute = reader.attribute(str(file), decode.counter)
        assert (attribute.refresh(), attribute.value) == (True, 5)
        assert (attribute.refresh(), attribute.value) == (False, 5)
        file.write_bytes(b"30\n")
        assert (attribute.refresh(), attribute.value) == (True, 30)

    def test_unchanged_bytes_are_not_decoded_again(self, reader: FaultyReader, file: Path) -> None:
        decoded: list[bytes] = []

        def decode_once(raw: bytes) -> int:
            decoded.append(raw)
            return 5

        attribute = reader.attribute(str(file), decode_once)
        for _ in range(3):
            attribute.refresh()
        assert decoded == [b"5\n"]

    def test_a_kept_descriptor_is_opened_once(self, reader: FaultyReader, file: Path) -> None:
        attribute = reader.attribute(str(file), decode.counter)
        before = open_descriptors()
        for _ in range(10):
            attribute.refresh()
        assert open_descriptors() == before + 1
        attribute.close()
        assert open_descriptors() == before

    def test_content_longer_than_the_usual_is_read_whole(
        self, reader: FaultyReader, file: Path
    ) -> None:
        file.write_bytes(b"x" * 4000)
        attribute = reader.attribute(str(file), decode.text, size=64)
        attribute.refresh()
        assert attribute.value == "x" * 4000

    def test_more_than_a_page_is_no_attribute(self, reader: FaultyReader, file: Path) -> None:
        file.write_bytes(b"1" * 4097)
        attribute = reader.attribute(str(file), decode.text, size=64)
        attribute.refresh()
        assert attribute.value is None
        assert reader.errors == 1

    def test_nul_padding_is_no_content(self, reader: FaultyReader, file: Path) -> None:
        file.write_bytes(b"5\n".ljust(4096, b"\0"))
        attribute = reader.attribute(str(file), decode.counter)
        attribute.refresh()
        assert attribute.value == 5

    def test_bytes_that_are_no_utf8_are_replaced(self, reader: FaultyReader, file: Path) -> None:
        file.write_bytes(b"caf\xe9\n")
        attribute = reader.attribute(str(file), decode.text)
        attribute.refresh()
        assert attribute.value == "caf\ufffd"

    def test_an_absent_file_is_no_error(self, reader: FaultyReader, tmp_path: Path) -> None:
        attribute = reader.attribute(str(tmp_path / "kato"), decode.counter)
        attribute.refresh()
        assert (attribute.value, attribute.absent, reader.errors) == (None, True, 0)

    def test_a_file_that_appears_is_found_after_a_retry(
        self, reader: FaultyReader, tmp_path: Path
    ) -> None:
        attribute = reader.attribute(str(tmp_path / "kato"), decode.counter)
        attribute.refresh()
        (tmp_path / "kato").write_bytes(b"5\n")
        attribute.refresh()
        assert attribute.value is None
        attribute.retry()
        attribute.refresh()
        assert attribute.value == 5


class TestWhatGoesWrong:
    @pytest.mark.parametrize("number", ERRNOS, ids=errno.errorcode.__getitem__)
    def test_a_failing_read_costs_one_value_one_count_and_one_line(
        self, reader: FaultyReader, file: Path, number: int
    ) -> None:
        attribute = reader.attribute(str(file), decode.counter)
        attribute.refresh()
        reader.answers[str(file)] = number
        assert attribute.refresh()
        assert attribute.value is None
        assert attribute.last == 5
        assert reader.errors == 1
        told = [] if number in GONE else [(str(file), errno.errorcode[number])]
        assert reader.told == told

    @pytest.mark.parametrize(
        "number", sorted(set(ERRNOS) - {errno.ENOENT}), ids=errno.errorcode.get
    )
    def test_a_failing_open_costs_the_same_and_is_not_absence(
        self, reader: FaultyReader, file: Path, number: int
    ) -> None:
        reader.fails_to_open[str(file)] = number
        attribute = reader.attribute(str(file), decode.counter)
        for _ in range(5):
            attribute.refresh()
        assert (attribute.value, attribute.absent) == (None, False)
        assert reader.errors == 1
        assert reader.told == [(str(file), errno.errorcode[number])]

    def test_a_file_that_failed_to_open_is_read_after_a_retry(
        self, reader: FaultyReader, file: Path
    ) -> None:
        reader.fails_to_open[str(file)] = errno.EMFILE
        attribute = reader.attribute(str(file), decode.counter)
        attribute.refresh()
        reader.fails_to_open.clear()
        attribute.retry()
        attribute.refresh()
        assert attribute.value == 5

    @pytest.mark.parametrize("keep", [True, False])
    def test_each_failure_counts_but_is_told_once_per_errno(
        self, reader: FaultyReader, file: Path, keep: bool
    ) -> None:
        attribute = reader.attribute(str(file), decode.counter, keep=keep)
        for number in (errno.EIO, errno.EIO, errno.EINVAL, errno.EIO, errno.EINVAL):
            reader.answers[str(file)] = number
            attribute.refresh()
        assert reader.errors == 5
        assert [reason for _, reason in reader.told] == ["EIO", "EINVAL"]

    def test_a_value_comes_back_when_its_file_answers_again(
        self, reader: FaultyReader, file: Path
    ) -> None:
        attribute = reader.attribute(str(file), decode.counter)
        reader.answers[str(file)] = errno.EAGAIN
        attribute.refresh()
        reader.answers.clear()
        assert attribute.refresh()
        assert attribute.value == 5

    def test_a_device_gone_under_its_descriptor_gives_it_back(
        self, reader: FaultyReader, file: Path
    ) -> None:
        before = open_descriptors()
        attribute = reader.attribute(str(file), decode.counter)
        attribute.refresh()
        reader.answers[str(file)] = errno.ENODEV
        for _ in range(5):
            attribute.refresh()
        assert attribute.gone
        assert reader.errors == 1
        assert open_descriptors() == before

    @pytest.mark.parametrize("content", [b"", b"\n", b"\0\0\0", b"five\n", b"-1\n", b"9" * 400])
    def test_content_that_is_no_value_costs_one_count_however_often_it_is_read(
        self, reader: FaultyReader, file: Path, content: bytes
    ) -> None:
        file.write_bytes(content)
        attribute = reader.attribute(str(file), decode.seconds)
        for _ in range(3):
            attribute.refresh()
        assert attribute.value is None
        assert (reader.errors, len(reader.told)) == (1, 1)

    def test_a_changing_nonsense_is_told_once(self, reader: FaultyReader, file: Path) -> None:
        attribute = reader.attribute(str(file), decode.counter)
        for number in range(10):
            file.write_bytes(b"x%d" % number)
            attribute.refresh()
        assert (reader.errors, len(reader.told)) == (10, 1)

    def test_a_directory_that_cannot_be_listed_is_empty_and_counted(
        self, reader: FaultyReader, tmp_path: Path
    ) -> None:
        assert reader.names(str(tmp_path / "absent")) == []
        assert reader.errors == 0
        looping = tmp_path / "loop"
        looping.symlink_to(looping)
        assert reader.names(str(looping)) == []
        assert reader.told == [(str(looping), "ELOOP")]

    def test_what_was_told_of_a_device_is_forgotten_with_it(
        self, reader: FaultyReader, file: Path
    ) -> None:
        diag = file.parent / "diag" / "count"
        reader.failed(str(file), "EIO")
        reader.failed(str(diag), "EIO")
        reader.failed(str(file.parent) + "1/kato", "EIO")
        reader.forget({str(file.parent)})
        for path in (str(file), str(diag), str(file.parent) + "1/kato"):
            reader.failed(path, "EIO")
        assert [path for path, _ in reader.told[3:]] == [str(file), str(diag)]


class TestWhatIsNeverRead:
    @pytest.mark.parametrize("name", sorted(FORBIDDEN))
    def test_a_forbidden_file_is_refused_wherever_it_is(
        self, reader: FaultyReader, name: str
    ) -> None:
        for place in ("/sys/block/nvme0n1", "/sys/class/nvme/nvme0"):
            with pytest.raises(ForbiddenAttributeError):
                reader.attribute(f"{place}/{name}", decode.text)

    def test_the_list_holds_what_hangs_or_is_secret(self) -> None:
        assert {"nuse", "dhchap_secret", "dhchap_ctrl_secret", "tls_key"} <= FORBIDDEN

    @pytest.mark.parametrize("path", ["hwmon3/temp1_input", "hwmon/hwmon3/temp1_alarm"])
    def test_nothing_below_hwmon_is_read(self, reader: FaultyReader, path: str) -> None:
        with pytest.raises(ForbiddenAttributeError):
            reader.attribute(f"/sys/class/nvme/nvme0/{path}", decode.text)

    def test_a_source_opens_none_of_them(self, tmp_path: Path) -> None:
        node = NodeFiles.load("four-gateways", tmp_path / "sys")
        forbidden = []
        for directory, _, _ in os.walk(node.sysfs):
            for name in (*FORBIDDEN, "hwmon1/temp1_input"):
                path = os.path.join(directory, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="ascii") as file:
                    file.write("1\n")
                forbidden.append(path)
        reader = FaultyReader()
        source = NvmeSource(reader, node.sysfs, pcie=True)
        source.poll(1.0, 1.0)
        source.rescan()
        assert reader.reads
        assert not set(forbidden) & set(reader.reads)


class TestDescriptors:
    def test_beyond_the_budget_files_are_opened_for_each_read(self, tmp_path: Path) -> None:
        reader = Reader(descriptors=3)
        before = open_descriptors()
        attributes = []
        for number in range(10):
            (tmp_path / str(number)).write_bytes(b"%d\n" % number)
            attributes.append(reader.attribute(str(tmp_path / str(number)), decode.counter))
        for _ in range(3):
            for attribute in attributes:
                attribute.refresh()
        assert [attribute.value for attribute in attributes] == list(range(10))
        assert open_descriptors() == before + 3
        for attribute in attributes:
            attribute.close()
        assert (open_descriptors(), reader.kept) == (before, 0)

    def test_devices_that_come_and_go_a_thousand_times_leave_none_behind(
        self, tmp_path: Path
    ) -> None:
        node = NodeFiles.load("unseen-reconnect", tmp_path / "sys")
        reader = FaultyReader()
        source = NvmeSource(reader, node.sysfs)
        source.poll(0.0, 0.0)
        before = (open_descriptors(), reader.kept)
        links = [node.root / "class/nvme/nvme2", node.place("nvme-subsys1") / "nvme2"]
        targets = [link.readlink() for link in links]
        for time in range(1000):
            for link in links:
                link.unlink()
            source.rescan()
            assert len(source.poll(time + 0.3, 0.0).subsystems[0].controllers) == 1
            for link, target in zip(links, targets, strict=True):
                link.symlink_to(target)
            source.rescan()
            assert len(source.poll(time + 0.6, 0.0).subsystems[0].controllers) == 2
        assert (open_descriptors(), reader.kept) == before
        source.close()
        assert reader.kept == 0

    def test_an_attribute_that_nobody_closed_takes_its_descriptor_along(
        self, reader: FaultyReader, file: Path
    ) -> None:
        before = open_descriptors()
        attribute = reader.attribute(str(file), decode.counter)
        attribute.refresh()
        assert open_descriptors() == before + 1
        del attribute
        assert (open_descriptors(), reader.kept) == (before, 0)

    def test_the_limit_is_raised_as_far_as_allowed(self) -> None:
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, before[1]), before[1]))
            assert raise_descriptor_limit() == before[1]
            assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == before[1]
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
