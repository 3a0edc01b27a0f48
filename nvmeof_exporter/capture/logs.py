"""The ends of two logs: the kernel's about storage and its network, and the unit's own."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
from collections import deque
from typing import NamedTuple

__all__ = ["Log", "kernel_log", "unit_log"]

_RECORD_BYTES = 8192
#: The log's buffer has some 20,000 records; a storm of new ones must not keep us here.
_MOST_RECORDS = 200_000
_MOST_LINES = 5_000
_MICROSECONDS = 1_000_000
_FACILITY_KERNEL = 8  # smaller numbers: severities of the kernel's own records

_ABOUT_STORAGE = re.compile(
    rb"nvme|infiniband|rdma|\bib_|\bmlx|\brxe|\bsiw|\birdma|\bbnxt|\bice\b|\bqed|\befa\b|"
    rb"link (is )?(up|down)|carrier|bond\d|hung_task|blocked for more than|I/O error",
    re.IGNORECASE,
)

_UNIT = "nvmeof-exporter.service"
_JOURNAL_SECONDS = 10.0
_MOST_JOURNAL_BYTES = 4 << 20


class Log(NamedTuple):
    """Lines of a log; ``problem`` says why there are none."""

    content: bytes
    problem: str = ""


def kernel_log(path: str) -> Log:
    """Return the kernel's newest lines about NVMe, RDMA and links from a /dev/kmsg; never waits."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        return Log(b"", f"{path} cannot be read: {error.strerror}")
    try:
        # Reading from a pipe would take the records away from who waits for them.
        if not stat.S_ISCHR(os.fstat(descriptor).st_mode):
            return Log(b"", f"{path} is no kernel log")
        lines = _lines(descriptor)
    except OSError as error:
        return Log(b"", f"{path} cannot be read: {error.strerror}")
    finally:
        os.close(descriptor)
    return Log(b"".join(lines))


def _lines(descriptor: int) -> deque[bytes]:
    lines: deque[bytes] = deque(maxlen=_MOST_LINES)
    for _ in range(_MOST_RECORDS):
        try:
            record = os.read(descriptor, _RECORD_BYTES)
        except BlockingIOError:
            break
        except OSError as error:
            if error.errno in {errno.EPIPE, errno.EINVAL}:  # overwritten meanwhile; too long
                continue
            raise
        if not record:
            break
        line = _line(record)
        if line:
            lines.append(line)
    return lines


def _line(record: bytes) -> bytes:
    """A record as dmesg shows it; nothing for what is about something else."""
    header, _, text = record.partition(b";")
    text = text.partition(b"\n")[0]
    try:
        priority, _, microseconds, *_ = header.split(b",")
        seconds = int(microseconds) / _MICROSECONDS
        by_kernel = int(priority) < _FACILITY_KERNEL
    except ValueError:
        return b""
    if not by_kernel or not _ABOUT_STORAGE.search(text):
        return b""
    return b"[%14.6f] %s\n" % (seconds, text)


def unit_log() -> Log:
    """Return the end of the unit's journal, where systemd keeps one."""
    arguments = ["--unit", _UNIT, "--lines", str(_MOST_LINES), "--output", "short-iso-precise"]
    try:
        done = subprocess.run(
            ["journalctl", "--quiet", "--no-pager", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_JOURNAL_SECONDS,
            check=False,
            env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
        )
    except FileNotFoundError:
        return Log(b"", "journalctl is not there")
    except (OSError, subprocess.TimeoutExpired) as error:
        return Log(b"", f"journalctl did not answer: {error}")
    if done.returncode or not done.stdout:
        said = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        return Log(b"", f"the journal has nothing of {_UNIT}{f': {said}' if said else ''}")
    return Log(done.stdout[-_MOST_JOURNAL_BYTES:])
