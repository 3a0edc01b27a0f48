"""Cuts off requests that take too long.

A socket time-out bounds each read or write, not their sum: a client that sends
a byte every few seconds would hold a thread for ever.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Deadlines"]


class Deadlines:
    """Shuts down sockets whose request is not over after ``seconds``; one thread for all."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        # Insertion order is order of deadlines, as every request gets the same time.
        self._due: dict[socket.socket, float] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="http deadlines", daemon=True)

    def start(self) -> None:
        """Watch from now on."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; sockets still watched are left alone."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()

    @contextmanager
    def over(self, connection: socket.socket) -> Iterator[None]:
        """Watch a connection for as long as the block runs."""
        with self._changed:
            self._due[connection] = time.monotonic() + self._seconds
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._due.pop(connection, None)

    def _run(self) -> None:
        with self._changed:
            while not self._stopping:
                self._changed.wait(self._cut_off_overdue())

    def _cut_off_overdue(self) -> float | None:
        """Shut overdue sockets down; seconds until the next deadline, None when there is none."""
        now = time.monotonic()
        for connection, due in list(self._due.items()):
            if due > now:
                return due - now
            del self._due[connection]
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        return None
