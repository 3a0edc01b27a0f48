"""Recorded histories, told again: everything that happened, in order, and nothing else."""

from __future__ import annotations

import lzma
from typing import TYPE_CHECKING

import pytest

from tests.test_monitor import recording
from tests.test_monitor.recording import expected, load, names, replay

if TYPE_CHECKING:
    from pathlib import Path

#: Times may change this much (seconds) with better estimates; what is told may not.
CLOSE = 0.02


@pytest.mark.parametrize("name", names())
class TestARecording:
    def test_is_told_as_it_was(self, name: str) -> None:
        told = replay(*load(name))
        wanted = expected(name)
        assert [each["kind"] for each in told] == [each["kind"] for each in wanted]
        for found, want in zip(told, wanted, strict=True):
            assert found == {
                key: pytest.approx(value, abs=CLOSE) if isinstance(value, float) else value
                for key, value in want.items()
            }

    def test_is_told_the_same_every_time(self, name: str) -> None:
        header, polls = load(name)
        assert replay(header, polls) == replay(header, polls)


def test_there_are_recordings() -> None:
    assert len(names()) >= 2


def test_a_recording_of_another_format_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "DIRECTORY", tmp_path)
    header = b'{"format":99,"about":"","kernel":"","log_readable":true,"interfaces":{}}\n'
    (tmp_path / "later.jsonl.xz").write_bytes(lzma.compress(header))
    with pytest.raises(ValueError, match="later: format 99, expected 1"):
        load("later")
