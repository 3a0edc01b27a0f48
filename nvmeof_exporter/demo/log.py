"""The make-believe kernel's log: records as ``/dev/kmsg`` gives them, one a read, through a pipe.

Source: Documentation/ABI/testing/dev-kmsg.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nvmeof_exporter.model import Event

__all__ = ["LogPipe"]

#: Priorities of the kernel's own facility: ``dev_warn`` and ``dev_info``.
_WARNING = 4
_MICROSECONDS = 1_000_000


class LogPipe:
    """A pipe in packet mode: each record is read whole, as with ``/dev/kmsg``."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe2(os.O_DIRECT | os.O_NONBLOCK | os.O_CLOEXEC)
        self._sequence = 0

    @property
    def path(self) -> str:
        """Where this process can open it for reading."""
        return f"/proc/self/fd/{self._reading}"

    def write(self, events: Iterable[Event], offset: float) -> None:
        """Log those of the events that a kernel logs.

        Args:
            events: in order of time.
            offset: what to add to their times, in seconds, for those of the reader's clock.

        """
        for event in events:
            if event.source == "kmsg":
                stamp = int((event.time + offset) * _MICROSECONDS)
                self._put(f"{_WARNING},{self._sequence},{stamp},-;{event.text}\n".encode())
                self._sequence += 1

    def close(self) -> None:
        """Close both ends."""
        os.close(self._writing)
        os.close(self._reading)

    def _put(self, record: bytes) -> None:
        try:
            os.write(self._writing, record)
        except BlockingIOError:
            # Nobody reads: the record is lost, as the kernel's oldest would be.
            return
