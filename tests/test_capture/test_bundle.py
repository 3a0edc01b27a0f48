from __future__ import annotations

import errno
import os
import stat
import tarfile
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.capture.bundle import FileExists, archive, publish
from nvmeof_exporter.capture.entry import Entry, fingerprint

if TYPE_CHECKING:
    from pathlib import Path


def fail(number: int) -> object:
    def failing(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return failing


class TestArchive:
    def test_entries_stand_below_one_directory_and_belong_to_nobody(self, tmp_path: Path) -> None:
        file = tmp_path / "x.tar.xz"
        entries = [Entry("a", "d"), Entry("a/b", "f", b"text"), Entry("c", "l", b"a/b")]
        file.write_bytes(archive(entries, "node", 1_000.5))
        with tarfile.open(file) as tar:
            members = tar.getmembers()
        assert [(m.name, m.type, m.mode, m.size, m.linkname) for m in members] == [
            ("node", tarfile.DIRTYPE, 0o755, 0, ""),
            ("node/a", tarfile.DIRTYPE, 0o755, 0, ""),
            ("node/a/b", tarfile.REGTYPE, 0o644, 4, ""),
            ("node/c", tarfile.SYMTYPE, 0o777, 0, "a/b"),
        ]
        assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in members} == {
            (0, 0, "", "", 1000)
        }

    def test_the_fingerprint_tells_every_change_and_no_order(self) -> None:
        entries = [Entry("a", "d"), Entry("a/b", "f", b"text"), Entry("c", "l", b"a/b")]
        whole = fingerprint(entries)
        assert fingerprint(entries[::-1]) == whole
        for index in range(3):
            for other in (Entry("z", "d"), entries[index]._replace(content=b"other")):
                changed = [*entries[:index], other, *entries[index + 1 :]]
                assert fingerprint(changed) != whole


class TestPublish:
    def test_the_file_is_its_owners_alone(self, tmp_path: Path) -> None:
        file = tmp_path / "x.tar.xz"
        publish(str(file), b"content")
        assert file.read_bytes() == b"content"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert os.listdir(tmp_path) == ["x.tar.xz"]

    def test_what_appeared_meanwhile_is_not_overwritten(self, tmp_path: Path) -> None:
        file = tmp_path / "x.tar.xz"
        file.write_bytes(b"somebody else's")
        with pytest.raises(FileExists):
            publish(str(file), b"content")
        assert file.read_bytes() == b"somebody else's"
        assert os.listdir(tmp_path) == ["x.tar.xz"]

    def test_neither_is_a_link_to_nowhere(self, tmp_path: Path) -> None:
        file = tmp_path / "x.tar.xz"
        file.symlink_to(tmp_path / "target")
        with pytest.raises(FileExists):
            publish(str(file), b"content")
        assert os.listdir(tmp_path) == ["x.tar.xz"]

    def test_on_a_full_disk_nothing_is_left(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "fsync", fail(errno.ENOSPC))
        with pytest.raises(OSError, match="No space left"):
            publish(str(tmp_path / "x.tar.xz"), b"content")
        assert os.listdir(tmp_path) == []


class TestWithoutHardLinks:
    @pytest.fixture(autouse=True)
    def no_links(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "link", fail(errno.EPERM))

    def test_the_file_is_made_in_place(self, tmp_path: Path) -> None:
        file = tmp_path / "x.tar.xz"
        publish(str(file), b"content")
        assert file.read_bytes() == b"content"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert os.listdir(tmp_path) == ["x.tar.xz"]

    def test_nothing_is_overwritten_either(self, tmp_path: Path) -> None:
        file = tmp_path / "x.tar.xz"
        file.write_bytes(b"somebody else's")
        with pytest.raises(FileExists):
            publish(str(file), b"content")
        assert file.read_bytes() == b"somebody else's"

    def test_half_of_a_file_is_removed_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        synced = iter([None])

        def full_at_the_second(descriptor: int) -> None:
            if next(synced, "full"):
                raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full_at_the_second)
        with pytest.raises(OSError, match="No space left"):
            publish(str(tmp_path / "x.tar.xz"), b"content")
        assert os.listdir(tmp_path) == []
