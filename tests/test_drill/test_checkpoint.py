"""A writer that does it right, against every loss of power; and those that do it wrong."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nvmeof_exporter.drill.checkpoint import Content, Shape, commit, retire
from nvmeof_exporter.drill.files import RealFiles
from nvmeof_exporter.drill.findings import Condition
from nvmeof_exporter.drill.verify import newest_good, verify
from tests.test_drill.losing import CARELESS, LosingFiles, PowerCut

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvmeof_exporter.drill.files import Files
    from nvmeof_exporter.drill.findings import Finding
    from tests.test_drill.losing import Luck

pytestmark = pytest.mark.thorough

#: Thousands of small files need no disk.
SHARED_MEMORY = "/dev/shm"  # noqa: S108  # a private directory is made in it
MEMORY = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None

#: Small enough for a loss of power at every byte; direct writes want whole pages.
SHAPE = Shape(shards=2, blocks=2, block_bytes=64)
PAGES = Shape(shards=2, blocks=2, block_bytes=4096)
BAD = {Condition.BROKEN, Condition.LOST}


class Fixed:
    """The same fate for everything: 0 loses it, 1 keeps it."""

    def __init__(self, share: int) -> None:
        self.share = share

    def kept(self, most: int) -> int:
        return most * self.share


class AllBut:
    """Everything survives, except for one change, or the other way round."""

    def __init__(self, other: int, share: int = 1) -> None:
        self.other = other
        self.share = share
        self.asked = -1

    def kept(self, most: int) -> int:
        self.asked += 1
        return most * (self.share ^ (self.asked == self.other))


class Drawn:
    """Any fate."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data

    def kept(self, most: int) -> int:
        return self.data.draw(st.integers(0, most))


class Job:
    """Commits three checkpoints, keeps the newest two, and knows what it was promised."""

    def __init__(self, files: Files, directory: str = "", shape: Shape = SHAPE) -> None:
        self.files = files
        self.shape = shape
        self.directory = directory
        self.record: dict[int, str] = {}

    def run(self) -> None:
        content = Content(self.shape)
        for step in (1, 2, 3):
            self.record[step] = commit(self.files, self.directory, step, content, 1000.0 + step)
            if step > 2:
                self.record.pop(step - 2)
                retire(self.files, self.directory, step - 2)


def length() -> int:
    """How much happens in the whole job: see LosingFiles."""
    files = LosingFiles()
    Job(files).run()
    return files.happened


LENGTH = length()


def after(cut: int, luck: Luck, writer: Callable[[Files], Files] = lambda files: files) -> Verdict:
    """What is found when the power goes after ``cut``."""
    files = LosingFiles(cut)
    job = Job(writer(files))
    with contextlib.suppress(PowerCut):
        job.run()
    with tempfile.TemporaryDirectory(dir=MEMORY) as place:
        files.crash(luck, Path(place))
        return Verdict(verify(place, job.record), job.record)


class Verdict:
    """The findings, and what had been promised."""

    def __init__(self, findings: list[Finding], promised: dict[int, str]) -> None:
        self.findings = findings
        self.promised = promised

    @property
    def bad(self) -> set[Condition]:
        return {finding.condition for finding in self.findings} & BAD

    @property
    def newest(self) -> int:
        newest = newest_good(self.findings)
        return newest.step or 0 if newest is not None else 0


def assert_kept(verdict: Verdict) -> None:
    """Everything promised is there and whole, and nothing else passes for a checkpoint."""
    assert verdict.bad == set(), verdict.findings
    newest = max(verdict.promised, default=0)
    # One that was about to be promised may be there; nothing older is gone on from.
    assert verdict.newest in {newest, newest + 1}


class TestARightWriter:
    @pytest.mark.parametrize("share", [0, 1])
    def test_keeps_its_promise_wherever_the_power_goes(self, share: int) -> None:
        for cut in range(LENGTH + 1):
            assert_kept(after(cut, Fixed(share)))

    @settings(max_examples=400, deadline=None)
    @given(data=st.data(), cut=st.integers(0, LENGTH))
    def test_keeps_its_promise_whatever_survives(self, data: st.DataObject, cut: int) -> None:
        assert_kept(after(cut, Drawn(data)))

    def test_leaves_nothing_but_the_newest_two(self, tmp_path: Path) -> None:
        files = LosingFiles()
        Job(files).run()
        files.crash(Fixed(1), tmp_path)
        assert sorted(entry.name for entry in tmp_path.iterdir()) == [
            "step-00000002",
            "step-00000003",
        ]
        assert sorted(entry.name for entry in (tmp_path / "step-00000003").iterdir()) == [
            "manifest.json",
            "shard-00000-of-00002.bin",
            "shard-00001-of-00002.bin",
        ]

    def test_writes_the_same_on_a_real_file_system(self, tmp_path: Path) -> None:
        job = Job(RealFiles(), str(tmp_path), PAGES)
        job.run()
        findings = verify(str(tmp_path), job.record)
        assert [(f.name, f.condition, f.bytes, f.written) for f in findings] == [
            ("step-00000002", Condition.WHOLE, PAGES.bytes, 1002.0),
            ("step-00000003", Condition.WHOLE, PAGES.bytes, 1003.0),
        ]

    def test_its_shards_are_checked_by_hand_with_sha256sum(self, tmp_path: Path) -> None:
        commit(RealFiles(), str(tmp_path), 7, Content(PAGES), 0.0)
        directory = tmp_path / "step-00000007"
        for shard in json.loads((directory / "manifest.json").read_bytes())["shards"]:
            content = (directory / shard["name"]).read_bytes()
            assert hashlib.sha256(content).hexdigest() == shard["sha256"]
            assert len(content) == shard["bytes"] == 8192


class TestACarelessWriter:
    @pytest.mark.parametrize("writer", CARELESS, ids=lambda writer: writer.__name__)
    def test_is_caught(self, writer: type[Files]) -> None:
        lucks: list[Callable[[], Luck]] = [partial(Fixed, 0), partial(Fixed, 1)]
        lucks += [partial(AllBut, other, share) for other in range(8) for share in (0, 1)]
        cuts = range(0, LENGTH + 1, 7)
        assert any(after(cut, luck(), writer).bad for cut in cuts for luck in lucks)

    def test_without_a_loss_of_power_looks_like_a_right_one(self) -> None:
        for writer in CARELESS:
            assert after(LENGTH + 1000, Fixed(1), writer).bad == set()
