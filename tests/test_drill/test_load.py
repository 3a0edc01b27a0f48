"""The load on a real directory: what is read and written, and what is recorded of it."""

from __future__ import annotations

import errno
import os
import threading
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.drill.checkpoint import Content, Shape
from nvmeof_exporter.drill.files import BLOCK_BYTES, RealFiles, RealOutput
from nvmeof_exporter.drill.findings import Condition
from nvmeof_exporter.drill.load import (
    Burster,
    Checkpointer,
    Load,
    Reader,
    Timed,
    TimedFiles,
    prepare_file,
)
from nvmeof_exporter.drill.record import Record, read_record
from nvmeof_exporter.drill.recorder import Recorder
from nvmeof_exporter.drill.verify import verify

if TYPE_CHECKING:
    from pathlib import Path

SMALL = Shape(shards=2, blocks=2, block_bytes=4096)
PATIENCE = 30.0


class Until(threading.Event):
    """Set once it was asked so many times: a worker does that much, and ends."""

    def __init__(self, rounds: int) -> None:
        super().__init__()
        self._rounds = rounds

    def is_set(self) -> bool:
        self._rounds -= 1
        return self._rounds < 0

    def wait(self, timeout: float | None = None) -> bool:
        return False


@pytest.fixture
def recorder() -> Recorder:
    return Recorder(0.0)


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    prepare_file(str(path), 3, Content(Shape(1, 3)))
    return path


class TestAReader:
    def test_reads_a_whole_file_over_and_over_in_large_pieces(
        self, prepared: Path, recorder: Recorder
    ) -> None:
        Reader("read-0", str(prepared), (0, 3 * BLOCK_BYTES), recorder).run(Until(7))
        sample = recorder.sample(0.0)
        assert (sample.done, sample.read_bytes, sample.failed) == (7, 7 * BLOCK_BYTES, 0)
        assert recorder.latencies["read"].count == 7

    def test_records_what_fails_and_goes_on(self, prepared: Path, recorder: Recorder) -> None:
        os.truncate(prepared, 2 * BLOCK_BYTES)
        Reader("read-0", str(prepared), (0, 3 * BLOCK_BYTES), recorder).run(Until(6))
        assert [failure.error for failure in recorder.failures] == ["EIO", "EIO"]
        assert recorder.sample(0.0).done == 4

    def test_of_a_file_that_is_not_there_fails_as_a_request_does(
        self, tmp_path: Path, recorder: Recorder
    ) -> None:
        Reader("read-0", str(tmp_path / "none"), (0, BLOCK_BYTES), recorder).run(Until(2))
        assert [failure.error for failure in recorder.failures] == ["ENOENT", "ENOENT"]


class TestAPreparedFile:
    def test_is_written_in_every_block(self, prepared: Path) -> None:
        content = Content(Shape(1, 3))
        written = prepared.read_bytes()
        assert len(written) == 3 * BLOCK_BYTES
        for index in range(3):
            block = written[index * BLOCK_BYTES : (index + 1) * BLOCK_BYTES]
            assert block == bytes(content.block(0, 0, index))


class Refusing:
    """Refuses the manifests of some steps, as a storage that fails requests does."""

    def __init__(self, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refused: tuple[int, ...] = ()
        self.timed = TimedFiles(Timed(recorder, "checkpoint"))
        create = RealFiles.create

        def refuse(files: RealFiles, path: str, *, direct: bool) -> RealOutput:
            if any(path.endswith(f"{step:08d}.partial/manifest.json") for step in self.refused):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return create(files, path, direct=direct)

        monkeypatch.setattr(RealFiles, "create", refuse)


class TestACheckpointer:
    @pytest.fixture
    def files(self, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> Refusing:
        return Refusing(recorder, monkeypatch)

    def run(self, tmp_path: Path, files: Refusing, rounds: int) -> Checkpointer:
        place = tmp_path / "checkpoints"
        place.mkdir(exist_ok=True)
        record = Record(tmp_path / f"record-{rounds}.jsonl")
        writer = Checkpointer(str(place), SMALL, 1.0, files.timed, record)
        writer.run(Until(rounds))
        record.close()
        return writer

    def test_commits_keeps_the_newest_and_notes_what_must_be_there(
        self, tmp_path: Path, files: Refusing
    ) -> None:
        writer = self.run(tmp_path, files, 4)
        assert [step for step, _ in writer.committed] == [1, 2, 3, 4]
        assert list(read_record(tmp_path / "record-4.jsonl")) == [3, 4]
        findings = verify(str(tmp_path / "checkpoints"), read_record(tmp_path / "record-4.jsonl"))
        assert [(f.step, f.condition) for f in findings] == [
            (3, Condition.WHOLE),
            (4, Condition.WHOLE),
        ]

    def test_keeps_the_one_before_the_fault_to_the_end(
        self, tmp_path: Path, files: Refusing
    ) -> None:
        place = tmp_path / "checkpoints"
        place.mkdir()
        record = Record(tmp_path / "record.jsonl")
        writer = Checkpointer(str(place), SMALL, 1.0, files.timed, record)

        class PinAfterTwo(Until):
            def wait(self, timeout: float | None = None) -> bool:
                if len(writer.committed) == 2:
                    writer.pin()
                return False

        writer.run(PinAfterTwo(6))
        assert list(read_record(tmp_path / "record.jsonl")) == [2, 5, 6]
        assert sorted(os.listdir(place)) == ["step-00000002", "step-00000005", "step-00000006"]
        record.close()

    def test_has_every_write_and_synchronization_recorded(
        self, tmp_path: Path, files: Refusing, recorder: Recorder
    ) -> None:
        self.run(tmp_path, files, 1)
        # Four blocks and the manifest; two shards, the manifest, three times a directory.
        assert recorder.latencies["write"].count == 5
        assert recorder.latencies["sync"].count == 6
        # A directory, three files, and the final name.
        assert recorder.latencies["name"].count == 5
        assert recorder.sample(0.0).written_bytes > SMALL.bytes

    def test_leaves_a_failed_one_torn_and_commits_the_next(
        self, tmp_path: Path, files: Refusing, recorder: Recorder
    ) -> None:
        files.refused = (2,)
        writer = self.run(tmp_path, files, 3)
        assert [step for step, _ in writer.committed] == [1, 3]
        assert [text for _, text in writer.problems] == ["step-00000002: Input/output error"]
        assert [failure.kind for failure in recorder.failures] == ["name"]
        found = verify(str(tmp_path / "checkpoints"), read_record(tmp_path / "record-3.jsonl"))
        assert [(f.step, f.condition) for f in found] == [
            (1, Condition.WHOLE),
            (2, Condition.TORN),
            (3, Condition.WHOLE),
        ]

    def test_goes_on_after_what_an_earlier_one_left(self, tmp_path: Path, files: Refusing) -> None:
        files.refused = (2,)
        self.run(tmp_path, files, 2)
        assert [step for step, _ in self.run(tmp_path, files, 1).committed] == [3]


class TestABurster:
    def test_writes_its_span_and_synchronizes_over_and_over(
        self, tmp_path: Path, recorder: Recorder
    ) -> None:
        device = tmp_path / "device"
        device.write_bytes(bytes(5 << 20))
        shape = Shape(shards=2, blocks=1)
        Burster(str(device), (1 << 20, shape), 1.0, recorder).run(Until(3))
        assert recorder.latencies["write"].count == 6
        assert recorder.latencies["sync"].count == 3
        content = Content(shape)
        newest = b"".join(bytes(content.block(3, 0, index)) for index in (0, 1))
        assert device.read_bytes() == bytes(1 << 20) + newest + bytes(2 << 20)

    def test_records_what_fails_and_goes_on(self, tmp_path: Path, recorder: Recorder) -> None:
        Burster(str(tmp_path), (0, Shape(1, 1)), 1.0, recorder).run(Until(2))
        assert [failure.error for failure in recorder.failures] == ["EISDIR", "EISDIR"]


class Waiting:
    """A worker whose request the storage does not answer."""

    name = "read-1"

    def __init__(self) -> None:
        self.answer = threading.Event()
        self.asked = threading.Event()

    def run(self, stopping: threading.Event) -> None:
        self.asked.set()
        self.answer.wait()


class TestALoad:
    def test_runs_its_workers_and_stops_them(self, prepared: Path, recorder: Recorder) -> None:
        workers = [
            Reader(f"read-{n}", str(prepared), (0, 3 * BLOCK_BYTES), recorder) for n in range(2)
        ]
        load = Load(list(workers))
        load.start()
        assert load.stop(PATIENCE) == []

    def test_names_the_workers_that_still_wait_for_the_storage(self) -> None:
        waiting = Waiting()
        load = Load([waiting])
        load.start()
        assert waiting.asked.wait(PATIENCE)
        assert load.stop(0.0) == ["read-1"]
        waiting.answer.set()
        assert load.stop(PATIENCE) == []
