"""Whole drills: a real load on a real directory, while make-believe paths come and go."""

from __future__ import annotations

import json
import os
import signal
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.cli import main
from nvmeof_exporter.drill import asking
from nvmeof_exporter.drill.checkpoint import Shape
from nvmeof_exporter.drill.phases import Plan
from nvmeof_exporter.drill.report import decode
from nvmeof_exporter.drill.running import RunningMark, is_running
from nvmeof_exporter.drill.scratch import LoadShape
from nvmeof_exporter.drill.watch import Watch
from tests.test_drill.board import NQN, A, B, DrillBoard, FakeBlock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nvmeof_exporter.drill.report import Report
    from nvmeof_exporter.drill.watch import PathsSeen

pytestmark = pytest.mark.thorough


@pytest.fixture
def board(tmp_path: Path) -> Iterator[DrillBoard]:
    made = DrillBoard(tmp_path)
    made.start()
    yield made
    made.stop()


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drill of a second or two: what is measured for half a minute in life."""

    def plan(*_: float, limit: float, survivors: bool) -> Plan:
        return Plan(0.5, 0.3, 0.2, limit / 10, survivors)

    monkeypatch.setattr(asking, "Plan", plan)
    monkeypatch.setattr(asking, "LoadShape", lambda *_: LoadShape(2, 4, Shape(2, 1, 65536), 0.2))


class Asked:
    """The command line of a drill on a board."""

    def __init__(self, board: DrillBoard, tmp_path: Path) -> None:
        self.report = f"{tmp_path}/report.json"
        self.state = tmp_path / "state"
        self.state.mkdir()
        self.board = board

    def run(self, *more: str, trigger: str | None = None, restore: str | None = None) -> int:
        return main(
            [
                "drill",
                f"--path.sysfs={self.board.sysfs}",
                f"--path.procfs={self.board.procfs}",
                f"--path.state={self.state}",
                f"--target={self.board.target}",
                "--scenario=link-pull",
                f"--trigger={self.board.cut if trigger is None else trigger}",
                f"--restore={self.board.mend if restore is None else restore}",
                "--name=array A",
                "--objective=10m",  # how busy this machine is must not decide
                f"--report={self.report}",
                *more,
            ]
        )

    def told(self) -> Report:
        with open(self.report, "rb") as opened:
            return decode(opened.read())


@pytest.fixture
def asked(board: DrillBoard, tmp_path: Path) -> Asked:
    return Asked(board, tmp_path)


class TestAGoodStorage:
    def test_passes(self, asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
        assert asked.run() == 0
        assert capsys.readouterr().out.endswith("pass: link-pull of array A\n")
        report = asked.told()
        assert {one.objective: one.verdict for one in report.objectives} == {
            "reroute": "met",
            "errors": "met",
            "back": "met",
            "second-stall": "met",
            "checkpoints": "met",
        }
        assert [path.path for path in report.paths] == [A, B]
        assert [span.state for span in report.paths[0].spans] == [
            "live optimized",
            "connecting optimized",
            "live optimized",
        ]
        assert report.target.namespaces == ((NQN, "1"),)
        assert report.shared_fate == {NQN: {"target_address": 2}}
        assert report.figures.errors == 0
        assert report.latencies["read"].count > 0
        assert sum(report.timeline.read) > 0
        assert report.marks["fault"] < report.marks["struck"] < report.marks["undone"]

    def test_is_left_as_it_was(self, asked: Asked, board: DrillBoard) -> None:
        asked.run()
        assert list(board.target.iterdir()) == []
        assert list(asked.state.iterdir()) == []
        assert not os.path.exists(f"{asked.report}.committed")

    def test_keeps_its_checkpoints_where_that_is_asked(
        self, asked: Asked, board: DrillBoard
    ) -> None:
        assert asked.run("--keep") == 0
        (place,) = board.target.iterdir()
        assert [entry.name for entry in place.iterdir()] == ["checkpoints"]
        verify = ["drill", "verify", "--record", f"{asked.report}.committed"]
        assert main([*verify, str(place / "checkpoints")]) == 0

    def test_is_told_to_run_meanwhile(self, asked: Asked) -> None:
        seen = f"{asked.report}.seen"
        command = f"{asked.board.cut}; cp {asked.state}/drill.lock {seen}"
        assert asked.run(trigger=command) == 0
        with open(seen, encoding="ascii") as opened:
            assert opened.read() == f"{os.getpid()}\n"
        assert is_running(str(asked.state)) is False


class TestADevice:
    @pytest.fixture
    def device(self, board: DrillBoard, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A blank namespace of 64 MiB."""
        path = board.target / "nvme0n1"
        with path.open("wb") as opened:
            opened.truncate(64 << 20)
        monkeypatch.setattr("os.stat", FakeBlock(path, (259, 1)))
        return path

    def test_is_judged_without_checkpoints_and_told_to_be_written_over(
        self, asked: Asked, board: DrillBoard, device: Path
    ) -> None:
        # What the directory lies on is the device itself: not mounted, then.
        (board.procfs / "self/mountinfo").write_text("30 1 8:1 / / rw - ext4 /dev/sda1 rw\n")
        flags = ("--target=", f"--device={device}", f"--destroy={device}")
        assert asked.run(*flags) == 0
        report = asked.told()
        assert [one.objective for one in report.objectives] == [
            "reroute",
            "errors",
            "back",
            "second-stall",
        ]
        assert report.target.file_system == ""
        assert report.remarks == (f"{device} was written over: 8 MiB from 1 MiB on",)
        assert report.latencies["write"].count > 0
        content = device.read_bytes()
        assert not any(content[: 1 << 20])
        assert not any(content[-1 << 20 :])
        assert any(content[1 << 20 : 9 << 20])

    def test_can_be_used_for_the_next_drill(
        self, asked: Asked, board: DrillBoard, device: Path
    ) -> None:
        (board.procfs / "self/mountinfo").write_text("30 1 8:1 / / rw - ext4 /dev/sda1 rw\n")
        flags = ("--target=", f"--device={device}", f"--destroy={device}")
        assert [asked.run(*flags), asked.run(*flags)] == [0, 0]

    @pytest.mark.parametrize("more", [[], ["--dry-run"]])
    def test_that_is_not_blank_is_refused_and_unchanged(
        self,
        asked: Asked,
        board: DrillBoard,
        device: Path,
        capsys: pytest.CaptureFixture[str],
        more: list[str],
    ) -> None:
        (board.procfs / "self/mountinfo").write_text("30 1 8:1 / / rw - ext4 /dev/sda1 rw\n")
        with device.open("r+b") as opened:
            opened.seek(1080)
            opened.write(b"\x53\xef")
        before = device.read_bytes()
        flags = ("--target=", f"--device={device}", f"--destroy={device}", *more)
        assert asked.run(*flags) == 2
        assert capsys.readouterr().err == (
            f"nvmeof-exporter: error: --device: {device} is not blank: its first and last MiB are "
            "not all zeros, so somebody may need it\n"
        )
        assert device.read_bytes() == before


class TestABadStorage:
    def test_whose_path_does_not_come_back_fails(self, asked: Asked) -> None:
        assert asked.run("--limit=10s", restore="true") == 1
        told = {one.objective: one.verdict for one in asked.told().objectives}
        assert told["back"] == "missed"
        assert told["reroute"] == "met"

    def test_whose_checkpoint_changes_fails_and_it_stays_as_evidence(
        self, asked: Asked, board: DrillBoard
    ) -> None:
        # The newest one from before the fault is kept to the end: it is among these.
        spoil = (
            f"{board.mend}; for file in {board.target}/*/checkpoints/step-????????/shard-*; "
            "do truncate -s 0 $file; done"
        )
        assert asked.run(restore=spoil) == 1
        report = asked.told()
        assert {one.objective: one.verdict for one in report.objectives}["checkpoints"] == "missed"
        assert any(one.condition == "broken" for one in report.checkpoints)
        assert report.remarks[0].startswith(f"left as it is: {board.target}/")
        assert list(board.target.iterdir()) != []


class TestWhatCannotBeJudged:
    def test_a_fault_that_takes_nothing_away(self, asked: Asked) -> None:
        assert asked.run("--limit=10s", trigger="true") == 2
        assert asked.told().problems == ("the fault took no path away",)

    def test_a_trigger_that_fails_is_undone_and_told(self, asked: Asked) -> None:
        undone = f"{asked.report}.undone"
        assert asked.run(trigger="echo no such port >&2; exit 3", restore=f"touch {undone}") == 2
        assert asked.told().problems == ("causing the fault: it ended with status 3: no such port",)
        assert os.path.exists(undone)

    def test_a_restore_that_fails_is_told(
        self, asked: Asked, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert asked.run(restore=f"{asked.board.mend}; exit 1") == 2
        assert asked.told().problems == ("undoing the fault: it ended with status 1",)
        assert "UNDO IT BY HAND: the command failed: it ended with status 1\n" in (
            capsys.readouterr().err
        )


class TestAnInterrupt:
    def test_undoes_the_fault_and_says_so(self, asked: Asked, board: DrillBoard) -> None:
        struck = f"{asked.report}.struck"

        over = threading.Event()

        def interrupt() -> None:
            while not over.wait(0.01):
                if os.path.exists(struck):
                    os.kill(os.getpid(), signal.SIGINT)
                    return

        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            assert asked.run(trigger=f"{board.cut}; touch {struck}") == 2
        finally:
            over.set()
            thread.join()
        assert asked.told().problems == ("interrupted",)
        assert list(board.target.iterdir()) == []
        assert (board.sysfs / "class/nvme/nvme0/state").read_text() == "live\n"


class TestADefectOfTheDrill:
    def test_undoes_the_fault_all_the_same(
        self, asked: Asked, board: DrillBoard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        look = Watch.look

        def fail_once_struck(watch: Watch) -> PathsSeen:
            seen = look(watch)
            if A not in seen.usable:
                raise ZeroDivisionError
            return seen

        monkeypatch.setattr(Watch, "look", fail_once_struck)
        with pytest.raises(ZeroDivisionError):
            asked.run()
        assert (board.sysfs / "class/nvme/nvme0/state").read_text() == "live\n"
        assert list(board.target.iterdir()) == []
        assert is_running(str(asked.state)) is False


class TestBadInput:
    @pytest.mark.parametrize(
        ("flags", "line"),
        [
            (["--scenario=x"], '--scenario: found "x", expected one of controller-failover, '
             "link-pull, checkpoint-power-loss, failback"),
            (["--manual"], "expected --trigger and --restore, or --manual"),
            (["--restore="], "expected --trigger and --restore, or --manual"),
            (["--objective=5"], '--objective: found "5", expected a duration with a unit, such as '
             "5ms or 5s"),
            (["--share=0"], '--share: found "0", expected a whole number from 1 to 100'),
            (["--read-size=1GB"], '--read-size: found "1GB", expected a size such as 64MiB or '
             "1GiB"),
            (["--read-size=8MiB"], '--read-size: found "8MiB", expected whole MiB from 16 MiB to '
             "16 TiB"),
            (["--target=/nowhere"], "--target: /nowhere: No such file or directory"),
            (["--target="], "expected --target DIR, on the storage under test, or --device DEV"),
            (["--device=/dev/x"], "expected --target DIR, on the storage under test, or "
             "--device DEV"),
            (["--target=", "--device=/dev/x", "--scenario=checkpoint-power-loss"],
             "--device: checkpoint-power-loss looks at checkpoints, expected --target DIR"),
            (["--target=", "--device=/dev/x"],
             "--device: /dev/x would be written over: name it a second time with --destroy /dev/x"),
            (["--keep", "--report="], "--keep: expected --target and --report, beside which the "
             "record is kept"),
            (["--report=/nowhere/x"], "--report: /nowhere: No such file or directory"),
        ],
    )  # fmt: skip
    def test_is_one_line_and_nothing_is_done(
        self,
        asked: Asked,
        board: DrillBoard,
        capsys: pytest.CaptureFixture[str],
        flags: list[str],
        line: str,
    ) -> None:
        assert asked.run(*flags) == 2
        assert capsys.readouterr() == ("", f"nvmeof-exporter: error: {line}\n")
        assert list(board.target.iterdir()) == []

    def test_a_report_on_the_storage_under_test_is_refused(
        self, asked: Asked, board: DrillBoard, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert asked.run(f"--report={board.target}/x.json") == 2
        assert capsys.readouterr().err == (
            f"nvmeof-exporter: error: --report: {board.target}/x.json lies on the storage under "
            "test: expected another place\n"
        )

    def test_a_second_drill_is_refused(
        self, asked: Asked, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with closing(RunningMark(str(asked.state))):
            assert asked.run() == 2
        assert capsys.readouterr().err == (
            "nvmeof-exporter: error: another drill runs on this node: it holds "
            f"{asked.state}/drill.lock\n"
        )


class TestADryRun:
    def test_says_what_would_happen_and_does_nothing(
        self, asked: Asked, board: DrillBoard, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert asked.run("--dry-run", trigger="touch /nowhere/x", restore="true") == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[:4] == [
            f"target      {board.target}: ext4 on nvme0n1",
            f"namespace   1 of {NQN}",
            f"path        {A} live optimized",
            f"path        {B} live optimized",
        ]
        assert lines[-6:] == [
            "baseline    0.5 s",
            "FAULT       touch /nowhere/x",
            "undone by   true",
            "objectives  reroute, errors, back, second-stall, checkpoints",
            "pauses      at most 600 s",
            "nothing was done",
        ]
        assert list(board.target.iterdir()) == []
        assert not os.path.exists(asked.report)


class TestTheJson:
    def test_is_plain(self, asked: Asked) -> None:
        asked.run()
        with open(asked.report, encoding="utf-8") as opened:
            told = json.load(opened)
        assert (told["format"], told["version"]) == ("nvmeof-exporter-drill-report", 1)
        assert told["verdict"] == "pass"
        assert told["commands"] == {"trigger": asked.board.cut, "restore": asked.board.mend}
