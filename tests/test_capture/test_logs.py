from __future__ import annotations

import errno
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.capture.logs import Log, kernel_log, unit_log

if TYPE_CHECKING:
    from pathlib import Path

RECOVERY = b"4,810,3141592653,-;nvme nvme1: starting error recovery\n SUBSYSTEM=nvme\n"
LINK = b"6,811,3141600000,-;mlx5_core 0000:3b:00.0 ens1f0np0: Link down\n"
SSH = b"6,812,3141600001,-;usb 1-1: new high-speed USB device\n"
FORGED = b"12,813,3141600002,-;nvme nvme1: says who may write to /dev/kmsg\n"
BROKEN = b"garbage"


class TestKernelLog:
    @pytest.fixture
    def answers(self, monkeypatch: pytest.MonkeyPatch) -> list[bytes | int]:
        """What each read of the log answers: a record, or an errno; EAGAIN at the end."""
        queue: list[bytes | int] = []

        def read(_: int, __: int) -> bytes:
            answer = queue.pop(0) if queue else errno.EAGAIN
            if isinstance(answer, int):
                raise OSError(answer, os.strerror(answer))
            return answer

        monkeypatch.setattr(os, "read", read)
        return queue

    def test_lines_about_storage_and_its_network_are_kept_as_dmesg_has_them(
        self, answers: list[bytes | int]
    ) -> None:
        answers += [RECOVERY, LINK, SSH, FORGED, BROKEN]
        assert kernel_log("/dev/null") == Log(
            b"[   3141.592653] nvme nvme1: starting error recovery\n"
            b"[   3141.600000] mlx5_core 0000:3b:00.0 ens1f0np0: Link down\n"
        )

    def test_records_that_were_overwritten_are_passed_over(
        self, answers: list[bytes | int]
    ) -> None:
        answers += [errno.EPIPE, RECOVERY, errno.EINVAL]
        assert kernel_log("/dev/null").content.count(b"\n") == 1

    def test_of_very_many_the_newest_are_kept(self, answers: list[bytes | int]) -> None:
        answers += [b"4,1,%d,-;nvme nvme1: x\n" % number for number in range(5_002)]
        lines = kernel_log("/dev/null").content.splitlines()
        assert len(lines) == 5_000
        assert lines[0] == b"[      0.000002] nvme nvme1: x"

    def test_a_log_that_may_not_be_read_says_so(self, answers: list[bytes | int]) -> None:
        answers += [errno.EPERM]
        assert kernel_log("/dev/null") == Log(
            b"", "/dev/null cannot be read: Operation not permitted"
        )

    def test_a_pipe_is_left_to_who_listens_to_it(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "kmsg")
        assert kernel_log(f"{tmp_path}/kmsg") == Log(b"", f"{tmp_path}/kmsg is no kernel log")

    def test_no_log(self) -> None:
        assert kernel_log("/nowhere") == Log(
            b"", "/nowhere cannot be read: No such file or directory"
        )


class TestUnitLog:
    @pytest.fixture
    def journalctl(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A program of that name, and no other."""
        monkeypatch.setenv("PATH", str(tmp_path))
        program = tmp_path / "journalctl"
        program.touch(mode=0o755)
        return program

    def test_what_the_journal_has(self, journalctl: Path) -> None:
        journalctl.write_text('#!/bin/sh\necho "$*"\n')
        assert unit_log() == Log(
            b"--quiet --no-pager --unit nvmeof-exporter.service --lines 5000 "
            b"--output short-iso-precise\n"
        )

    def test_nothing(self, journalctl: Path) -> None:
        journalctl.write_text('#!/bin/sh\necho "No journal files." >&2\n')
        assert unit_log() == Log(
            b"", "the journal has nothing of nvmeof-exporter.service: No journal files."
        )

    def test_no_systemd(self, journalctl: Path) -> None:
        journalctl.unlink()
        assert unit_log() == Log(b"", "journalctl is not there")

    def test_no_answer(self, journalctl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def run(*_: object, **__: object) -> None:
            raise subprocess.TimeoutExpired("journalctl", 10)

        monkeypatch.setattr(subprocess, "run", run)
        assert unit_log().problem.startswith("journalctl did not answer: ")
