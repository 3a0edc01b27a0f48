from __future__ import annotations

import os
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.capture.reading import (
    MOST_BYTES,
    CannotReadError,
    NoAnswerError,
    PatientReader,
    read_whole,
)

if TYPE_CHECKING:
    from pathlib import Path

#: The other process, but a file called ``hangs`` never answers it.
HANGING = """
import threading
from nvmeof_exporter.capture import reading
whole = reading.read_whole
reading.read_whole = lambda path: (
    threading.Event().wait() if path.endswith("hangs") else whole(path)
)
reading.serve()
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "state").write_bytes(b"live\n")
    return str(tmp_path / "state")


class TestReading:
    def test_contents_come_as_they_are(self, file: str) -> None:
        with closing(PatientReader(seconds=30)) as read:
            assert read(file) == b"live\n"
            assert read(file) == b"live\n"

    def test_errors_come_with_their_number(self, tmp_path: Path, file: str) -> None:
        with closing(PatientReader(seconds=30)) as read:
            with pytest.raises(FileNotFoundError):
                read(f"{file}-no")
            with pytest.raises(OSError, match="Input/output error"):
                read(str(tmp_path))
            assert read(file) == b"live\n"

    def test_a_name_may_be_any_bytes(self, tmp_path: Path) -> None:
        path = os.fsencode(tmp_path) + b"/\xff\n name"
        with open(path, "wb") as file:
            file.write(b"x")
        with closing(PatientReader(seconds=30)) as read:
            assert read(os.fsdecode(path)) == b"x"

    def test_of_a_large_file_the_beginning_is_read(self, tmp_path: Path) -> None:
        (tmp_path / "large").write_bytes(b"x" * (MOST_BYTES + 1))
        with closing(PatientReader(seconds=30)) as read:
            assert len(read(str(tmp_path / "large"))) == MOST_BYTES

    def test_a_pipe_is_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(OSError, match="no regular file"):
            read_whole(str(tmp_path / "pipe"))


class TestHanging:
    def test_a_file_that_hangs_costs_only_itself(self, file: str) -> None:
        with closing(PatientReader(1.0, command=(sys.executable, "-c", HANGING))) as read:
            with pytest.raises(NoAnswerError, match=r"^no answer$"):
                read("/sys/hangs")
            read._seconds = 30.0
            assert read(file) == b"live\n"

    def test_after_too_many_nothing_is_tried_any_more(self, file: str) -> None:
        with closing(PatientReader(0.0, 2, (sys.executable, "-c", HANGING))) as read:
            for _ in range(2):
                with pytest.raises(NoAnswerError, match=r"^no answer$"):
                    read("/sys/hangs")
            with pytest.raises(NoAnswerError, match="not tried"):
                read(file)

    def test_a_reader_that_was_killed_is_replaced(self, file: str) -> None:
        with closing(PatientReader(30)) as read:
            read(file)
            assert read._child is not None
            read._child.kill()
            read._child.wait()
            assert read(file) == b"live\n"

    def test_without_a_process_nothing_is_read(self, file: str) -> None:
        with (
            closing(PatientReader(30, command=("/nowhere/python",))) as read,
            pytest.raises(CannotReadError, match=r"^/nowhere/python: No such file or directory$"),
        ):
            read(file)
