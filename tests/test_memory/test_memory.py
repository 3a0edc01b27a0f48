from __future__ import annotations

import contextlib
import fcntl
import json
import signal
import subprocess
import sys
import textwrap
import threading
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter.memory import (
    FILE_NAME,
    MAX_PATHS,
    Memory,
    MemoryWriteFailed,
    RememberedPath,
    RememberedSubsystem,
    load,
    save,
    update,
)
from nvmeof_exporter.model import PathId
from tests.test_sources.privileges import CAP_SYS_ADMIN, has_capabilities

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NQN = "nqn.2024-01.org.example:a"


def path(number: int = 1, *, first: float = 1000.0, last: float = 2000.0) -> RememberedPath:
    return RememberedPath(PathId("tcp", f"10.0.0.{number}", "4420"), first, last)


def memory(*paths: RememberedPath, most: int = 2, nqn: str = NQN) -> Memory:
    return Memory(subsystems={nqn: RememberedSubsystem(most, paths)})


TWO_PATHS = memory(path(1), path(2))


def names_in(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


texts = st.text(st.characters(exclude_categories=["Cs"]))
times = st.floats(0, 1e11)
path_ids = st.builds(PathId, texts, texts, texts, texts, texts, st.integers(1, 9))
paths = st.lists(
    st.builds(RememberedPath, path_ids, times, times), min_size=1, unique_by=lambda one: one.id
)
subsystems = st.builds(
    lambda most, held: RememberedSubsystem(most, tuple(sorted(held, key=lambda one: one.id))),
    st.integers(0, 4096),
    paths,
)
memories = st.builds(
    lambda entries: Memory(subsystems=entries), st.dictionaries(texts, subsystems, max_size=4)
)


class TestAMemory:
    @given(memories)
    def test_comes_back_as_it_was_kept(
        self, tmp_path_factory: pytest.TempPathFactory, kept: Memory
    ) -> None:
        directory = tmp_path_factory.mktemp("state")
        save(directory, kept)
        assert load(directory) == (kept, None)

    def test_makes_the_directory_it_is_kept_in(self, tmp_path: Path) -> None:
        save(tmp_path / "lib" / "exporter", TWO_PATHS)
        assert load(tmp_path / "lib" / "exporter") == (TWO_PATHS, None)

    def test_has_the_same_bytes_in_whatever_order_it_was_made(self, tmp_path: Path) -> None:
        one = Memory(
            subsystems={**memory(path(2), path(1), nqn="b").subsystems, **TWO_PATHS.subsystems}
        )
        other = Memory(
            subsystems={**TWO_PATHS.subsystems, **memory(path(1), path(2), nqn="b").subsystems}
        )
        save(tmp_path / "one", one)
        save(tmp_path / "other", other)
        assert (tmp_path / "one" / FILE_NAME).read_bytes() == (
            tmp_path / "other" / FILE_NAME
        ).read_bytes()

    def test_is_readable_by_people_and_other_programs(self, tmp_path: Path) -> None:
        save(tmp_path, TWO_PATHS)
        file = tmp_path / FILE_NAME
        assert file.stat().st_mode & 0o777 == 0o644
        assert json.loads(file.read_text())["subsystems"][NQN]["most_at_once"] == 2

    def test_keeps_the_paths_seen_last_when_there_are_too_many(self, tmp_path: Path) -> None:
        many = tuple(
            RememberedPath(PathId("tcp", f"host-{number:05}"), 0.0, float(number))
            for number in range(MAX_PATHS + 100)
        )
        save(tmp_path, memory(*many, most=MAX_PATHS + 100))
        subsystem = load(tmp_path)[0].subsystems[NQN]
        assert len(subsystem.paths) == MAX_PATHS
        assert min(one.last_seen for one in subsystem.paths) == 100.0
        assert subsystem.most_at_once == MAX_PATHS + 100

    def test_leaves_no_other_files_than_the_lock(self, tmp_path: Path) -> None:
        save(tmp_path, TWO_PATHS)
        assert names_in(tmp_path) == ["paths.json", "paths.lock"]


class TestNothingToLoad:
    def test_no_file_is_an_empty_memory(self, tmp_path: Path) -> None:
        assert load(tmp_path) == (Memory(), None)

    def test_no_directory_is_an_empty_memory(self, tmp_path: Path) -> None:
        assert load(tmp_path / "missing") == (Memory(), None)


def corrupt_files(directory: Path) -> list[Path]:
    return list(directory.glob(f"{FILE_NAME}.corrupt-*"))


class TestAFileThatCannotBeUsed:
    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "truncated"),
            (b"\x00" * 4096, "malformed"),
            (b"\xff\xfe", "malformed"),
            (b"[]", "Expected `object`"),
            (b'{"version": 2, "subsystems": []}', "version 2, where this release reads 1"),
            (b'{"subsystems": {}}', "missing required field `version`"),
            (b'{"version": 1, "subsystems": {"n": {}}}', "most_at_once"),
            (b'{"version": 1, "x": ' + b"[" * 100_000, "recursion"),
        ],
    )
    def test_is_set_aside_and_said_so(self, tmp_path: Path, content: bytes, reason: str) -> None:
        (tmp_path / FILE_NAME).write_bytes(content)
        found, warning = load(tmp_path)
        assert found == Memory()
        assert warning is not None
        assert reason in warning
        (aside,) = corrupt_files(tmp_path)
        assert aside.read_bytes() == content
        assert aside.name in warning
        assert abs(int(aside.name.rpartition("-")[2]) - time.time()) < 60

    def test_does_not_come_back(self, tmp_path: Path) -> None:
        (tmp_path / FILE_NAME).write_bytes(b"?")
        load(tmp_path)
        assert load(tmp_path) == (Memory(), None)

    def test_of_absurd_size_is_not_taken_in(self, tmp_path: Path) -> None:
        with (tmp_path / FILE_NAME).open("wb") as file:
            file.truncate(1 << 40)
        _, warning = load(tmp_path)
        assert warning is not None
        assert "larger than" in warning

    def test_that_is_a_directory_is_set_aside(self, tmp_path: Path) -> None:
        (tmp_path / FILE_NAME).mkdir()
        _, warning = load(tmp_path)
        assert warning is not None
        assert "Is a directory" in warning
        save(tmp_path, TWO_PATHS)
        assert load(tmp_path) == (TWO_PATHS, None)

    @given(content=st.binary())
    def test_may_hold_any_bytes(
        self, tmp_path_factory: pytest.TempPathFactory, content: bytes
    ) -> None:
        directory = tmp_path_factory.mktemp("state")
        (directory / FILE_NAME).write_bytes(content)
        found, warning = load(directory)
        assert (found, warning is None) in [(Memory(), False), (Memory(), True)]


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of eight pages."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "tiny", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


def too_much() -> Memory:
    return memory(*(path(number) for number in range(1000)))


needs_privileges = pytest.mark.skipif(
    not has_capabilities(CAP_SYS_ADMIN), reason="mounts a file system (CAP_SYS_ADMIN)"
)


class TestAWriteThatFails:
    @needs_privileges
    def test_on_a_full_disk_leaves_the_old_file(self, tiny_disk: Path) -> None:
        save(tiny_disk, TWO_PATHS)
        with pytest.raises(MemoryWriteFailed, match="No space left on device"):
            save(tiny_disk, too_much())
        assert load(tiny_disk) == (TWO_PATHS, None)
        assert names_in(tiny_disk) == ["paths.json", "paths.lock"]

    @needs_privileges
    def test_on_a_read_only_file_system_says_so(self, tiny_disk: Path) -> None:
        save(tiny_disk, TWO_PATHS)
        subprocess.run(["mount", "-o", "remount,ro", tiny_disk], check=True)
        with pytest.raises(MemoryWriteFailed, match=f"{tiny_disk}.*Read-only file system"):
            save(tiny_disk, memory(path(3)))
        assert load(tiny_disk) == (TWO_PATHS, None)

    @needs_privileges
    def test_a_corrupt_file_on_a_read_only_file_system_is_left_where_it_is(
        self, tiny_disk: Path
    ) -> None:
        (tiny_disk / FILE_NAME).write_bytes(b"?")
        subprocess.run(["mount", "-o", "remount,ro", tiny_disk], check=True)
        found, warning = load(tiny_disk)
        assert found == Memory()
        assert warning is not None
        assert "it cannot be set aside: Read-only file system" in warning

    def test_in_a_place_that_is_no_directory_says_so(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(MemoryWriteFailed, match=r"file: .*(File exists|Not a directory)"):
            save(tmp_path / "file", TWO_PATHS)

    def test_killed_before_the_file_has_its_name_leaves_the_old_one(self, tmp_path: Path) -> None:
        save(tmp_path, TWO_PATHS)
        script = f"""
            import os, pathlib, signal
            from nvmeof_exporter.memory import Memory, save
            pathlib.Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
            save({str(tmp_path)!r}, Memory())
        """
        killed = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False)
        assert killed.returncode == -signal.SIGKILL
        assert load(tmp_path) == (TWO_PATHS, None)
        save(tmp_path, memory(path(3)))
        assert load(tmp_path) == (memory(path(3)), None)
        assert names_in(tmp_path) == ["paths.json", "paths.lock"]


@contextlib.contextmanager
def locked_by_another(directory: Path) -> Iterator[None]:
    # flock(2) locks belong to the open file: a second one here is as good as another process.
    directory.mkdir(exist_ok=True)
    with (directory / "paths.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class TestAnUpdate:
    def test_is_made_on_what_is_in_the_file(self, tmp_path: Path) -> None:
        save(tmp_path, TWO_PATHS)
        more = memory(path(1), path(2), path(3), most=3)

        def change(before: Memory) -> Memory:
            assert before == TWO_PATHS
            return more

        assert update(tmp_path, change) == (more, None)
        assert load(tmp_path) == (more, None)

    def test_that_changes_nothing_writes_nothing(self, tmp_path: Path) -> None:
        save(tmp_path, TWO_PATHS)
        before = (tmp_path / FILE_NAME).stat()
        update(tmp_path, lambda memory: memory)
        after = (tmp_path / FILE_NAME).stat()
        assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)

    def test_of_a_corrupt_file_warns_and_begins_anew(self, tmp_path: Path) -> None:
        (tmp_path / FILE_NAME).write_bytes(b"?")
        after, warning = update(tmp_path, lambda _: TWO_PATHS)
        assert after == TWO_PATHS
        assert warning is not None
        assert load(tmp_path) == (TWO_PATHS, None)

    def test_that_fails_leaves_the_file_and_the_lock_alone(self, tmp_path: Path) -> None:
        save(tmp_path, TWO_PATHS)

        def fail(_: Memory) -> Memory:
            raise KeyError("no such path")

        with pytest.raises(KeyError):
            update(tmp_path, fail)
        assert load(tmp_path) == (TWO_PATHS, None)
        save(tmp_path, TWO_PATHS)

    def test_by_several_at_once_loses_none(self, tmp_path: Path) -> None:
        def add(number: int) -> None:
            def change(before: Memory) -> Memory:
                held = before.subsystems.get(NQN, RememberedSubsystem(0))
                return memory(*held.paths, path(number))

            update(tmp_path, change, patience=30.0)

        workers = [threading.Thread(target=add, args=(number,)) for number in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert len(load(tmp_path)[0].subsystems[NQN].paths) == 8

    def test_gives_up_when_the_lock_is_held_and_writes_nothing(self, tmp_path: Path) -> None:
        with locked_by_another(tmp_path):
            started = time.monotonic()
            with pytest.raises(MemoryWriteFailed, match=r"paths\.lock: locked by another process"):
                update(tmp_path, lambda _: TWO_PATHS)
            assert time.monotonic() - started < 2
        assert load(tmp_path) == (Memory(), None)

    def test_without_patience_does_not_wait(self, tmp_path: Path) -> None:
        with locked_by_another(tmp_path):
            started = time.monotonic()
            with pytest.raises(MemoryWriteFailed):
                update(tmp_path, lambda _: TWO_PATHS, patience=0)
            assert time.monotonic() - started < 0.5
