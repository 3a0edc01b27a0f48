"""``drill verify``: what it says, and its exit status."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.cli import main
from nvmeof_exporter.drill.checkpoint import Content, Shape, commit
from nvmeof_exporter.drill.files import RealFiles
from nvmeof_exporter.drill.record import Record, RecordError, read_record

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = Shape(shards=2, blocks=2, block_bytes=4096)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Steps 1 and 2, written at a known time, and the beginning of step 3."""
    directory = tmp_path / "checkpoints"
    directory.mkdir()
    content = Content(SHAPE)
    for step in (1, 2):
        commit(RealFiles(), str(directory), step, content, 1_790_000_000.0 + step)
    (directory / "step-00000003.partial").mkdir()
    (directory / "lost+found").mkdir()
    (directory / "notes.txt").write_text("not a checkpoint")
    return directory


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return tmp_path / "record.jsonl"


def told(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


class TestWhatIsSaid:
    def test_of_good_ones_and_a_torn_one(
        self, kept: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["drill", "verify", str(kept)]) == 0
        assert told(capsys) == (
            "whole     step-00000001          16 KiB, written 2026-09-21 14:13:21 UTC\n"
            "whole     step-00000002          16 KiB, written 2026-09-21 14:13:22 UTC\n"
            "torn      step-00000003.partial  never committed\n"
            "the newest good one loads: step-00000002\n"
            "pass: 2 whole, 1 torn\n"
        )

    def test_of_one_that_is_named_itself(
        self, kept: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["drill", "verify", str(kept / "step-00000001")]) == 0
        assert told(capsys).endswith("pass: 1 whole\n")

    def test_of_a_broken_one(self, kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
        shard = kept / "step-00000002/shard-00001-of-00002.bin"
        shard.write_bytes(bytes(8192))
        assert main(["drill", "verify", str(kept)]) == 1
        assert told(capsys) == (
            "whole     step-00000001          16 KiB, written 2026-09-21 14:13:21 UTC\n"
            "broken    step-00000002          shard-00001-of-00002.bin has another checksum\n"
            "torn      step-00000003.partial  never committed\n"
            "the newest good one loads: step-00000001\n"
            "fail: 1 whole, 1 torn, 1 broken\n"
        )

    def test_as_json(self, kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
        shutil.rmtree(kept / "step-00000001")
        assert main(["drill", "verify", "-o", "json", str(kept)]) == 0
        assert json.loads(told(capsys)) == {
            "verdict": "pass",
            "loads": "step-00000002",
            "checkpoints": [
                {
                    "name": "step-00000002",
                    "format": "drill",
                    "condition": "whole",
                    "reason": "",
                    "step": 2,
                    "bytes": 16384,
                    "written": 1790000002.0,
                    "remarks": [],
                },
                {
                    "name": "step-00000003.partial",
                    "format": "drill",
                    "condition": "torn",
                    "reason": "never committed",
                    "step": 3,
                    "bytes": 0,
                    "written": None,
                    "remarks": [],
                },
            ],
        }

    def test_of_nothing_is_that_it_could_not_judge(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["drill", "verify", str(tmp_path)]) == 2
        assert told(capsys) == "could not judge: no checkpoint was found\n"

    def test_of_torn_ones_alone_is_that_it_could_not_judge(
        self, kept: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for step in (1, 2):
            shutil.rmtree(kept / f"step-0000000{step}")
        assert main(["drill", "verify", str(kept)]) == 2
        assert told(capsys).endswith("could not judge: 1 torn\n")

    def test_of_one_that_cannot_be_read_is_that_it_could_not_judge(
        self, kept: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        shard = kept / "step-00000002/shard-00000-of-00002.bin"
        shard.unlink()
        shard.mkdir()
        assert main(["drill", "verify", str(kept)]) == 2
        assert "unknown   step-00000002          Is a directory\n" in told(capsys)


class TestABrokenManifest:
    @pytest.mark.parametrize(
        ("old", "new", "reason"),
        [
            ('"step": 2', '"step": 1', "manifest.json is that of step 1"),
            ('"version": 1', '"version": 2', "manifest.json is of another format or version"),
            (
                "shard-00001-of-00002.bin",
                "shard-00000-of-00002.bin",
                "manifest.json names no shards, one twice, or files elsewhere",
            ),
            (
                "shard-00001-of-00002.bin",
                "../step-00000001/shard-00001-of-00002.bin",
                "manifest.json names no shards, one twice, or files elsewhere",
            ),
            (
                '"block_bytes": 4096',
                '"block_bytes": 4095',
                "manifest.json: blocks of 4095 bytes are not possible",
            ),
            ('"bytes": 8192', '"bytes": 4096', "shard-00000-of-00002.bin has 8192 bytes of 4096"),
        ],
    )
    def test_is_named(
        self, kept: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, reason: str
    ) -> None:
        manifest = kept / "step-00000002/manifest.json"
        manifest.write_text(manifest.read_text().replace(old, new, 1))
        assert main(["drill", "verify", str(kept)]) == 1
        assert f"broken    step-00000002          {reason}\n" in told(capsys)

    def test_of_shards_from_another_step_is_seen_by_what_they_say(
        self, kept: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        shutil.rmtree(kept / "step-00000002")
        shutil.copytree(kept / "step-00000001", kept / "step-00000002")
        manifest = kept / "step-00000002/manifest.json"
        manifest.write_text(manifest.read_text().replace('"step": 1', '"step": 2'))
        assert main(["drill", "verify", str(kept)]) == 1
        assert (
            "step-00000002          shard-00000-of-00002.bin at 0 is not what belongs there "
            "in this step\n"
        ) in told(capsys)


class TestTheRecord:
    def test_names_what_is_lost(
        self, kept: Path, record: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        writing = Record(record)
        writing.committed(1, "")
        writing.retired(1)
        writing.committed(4, "0" * 64)
        writing.close()
        assert main(["drill", "verify", "--record", str(record), str(kept)]) == 1
        assert "lost      step-00000004          committed by the record, not there\n" in told(
            capsys
        )

    def test_tells_another_checkpoint_of_the_same_step(
        self, kept: Path, record: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        writing = Record(record)
        writing.committed(2, "0" * 64)
        writing.close()
        assert main(["drill", "verify", "--record", str(record), str(kept)]) == 1
        assert (
            "broken    step-00000002          manifest.json is not the one that was committed\n"
        ) in told(capsys)

    def test_cut_off_anywhere_tells_what_was_promised_until_then(self, record: Path) -> None:
        writing = Record(record)
        for step in (1, 2, 3):
            writing.committed(step, f"{step}")
        writing.close()
        whole = record.read_bytes()
        ends = [index + 1 for index, byte in enumerate(whole) if byte == ord("\n")]
        for size in range(len(whole) + 1):
            record.write_bytes(whole[:size])
            assert list(read_record(record)) == [1, 2, 3][: sum(end <= size for end in ends)]

    def test_is_never_written_over(self, record: Path) -> None:
        record.write_text("")
        with pytest.raises(FileExistsError):
            Record(record)

    def test_that_says_something_else_is_refused_with_its_line(self, record: Path) -> None:
        record.write_text('{"committed": 1}\n{}\n')
        with pytest.raises(RecordError) as refused:
            read_record(record)
        assert str(refused.value) == (
            f'{record}:2: expected "committed" or "retired", and one of them'
        )


class TestBadInput:
    @pytest.mark.parametrize(
        ("arguments", "line"),
        [
            (
                ["drill", "verfy"],
                'unknown drill command "verfy", expected one of verify, compare, or flags; '
                "did you mean verify?",
            ),
            (
                ["drill", "verify", "/nowhere"],
                "DIR: /nowhere: No such file or directory; expected a directory",
            ),
            (
                ["drill", "verify", "--record", "/nowhere", "."],
                "--record: /nowhere: No such file or directory",
            ),
        ],
    )
    def test_is_one_line_and_status_2(
        self, capsys: pytest.CaptureFixture[str], arguments: list[str], line: str
    ) -> None:
        assert main(arguments) == 2
        assert capsys.readouterr().err == f"nvmeof-exporter: error: {line}\n"
