"""The kernel log, in seconds on the monotonic clock, and the guest's own log."""

from __future__ import annotations

import os
import sys
import time

__all__ = ["KernelLog", "mark", "say"]


class KernelLog:
    """Reads what is new since it was opened, without ever blocking."""

    def __init__(self) -> None:
        self._log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self._log, 0, os.SEEK_END)

    def new_lines(self) -> list[str]:
        """Lines since the last call, each as ``12.345678 text``."""
        lines: list[str] = []
        while True:
            try:
                record = os.read(self._log, 8192).decode(errors="replace")
            except BlockingIOError:
                return lines
            except BrokenPipeError:
                lines.append("(the kernel log was overrun)")
                continue
            prefix, _, text = record.partition(";")
            microseconds = int(prefix.split(",")[2])
            lines.append(f"{microseconds / 1e6:.6f} {text.splitlines()[0]}")


def say(text: str) -> None:
    """Write a line into the guest's log, ``run.log``."""
    sys.stdout.write(f"{time.monotonic():.1f} {text}\n")


def mark(text: str) -> None:
    """Write a line of our own into the kernel log."""
    with open("/dev/kmsg", "w", encoding="utf-8") as log:
        log.write(f"lab: {text}\n")
