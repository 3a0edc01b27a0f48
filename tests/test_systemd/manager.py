"""Stands for systemd: a notify socket, and everything that was said on it."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

from tests.test_daemon.running import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Manager"]


class Manager:
    """Listens where NOTIFY_SOCKET says; ``address`` is a path, or ``@`` and a name."""

    def __init__(self, address: str | Path) -> None:
        self.address = str(address)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.address.replace("@", "\0", 1))
        self.messages: list[list[str]] = []

    def __enter__(self) -> Manager:  # noqa: PYI034 - typing.Self is of Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def heard(self) -> list[list[str]]:
        """Return the assignments of every message that is waiting."""
        self._socket.setblocking(False)
        waiting = []
        with contextlib.suppress(BlockingIOError):
            while True:
                waiting.append(self._socket.recv(4096).decode().split("\n"))
        return waiting

    def await_(self, assignment: str) -> list[list[str]]:
        """Return every message up to the first with ``assignment``, without signs of life."""
        self._socket.settimeout(PATIENCE)
        messages = []
        while True:
            message = self._socket.recv(4096).decode().split("\n")
            if message != ["WATCHDOG=1"] or assignment == "WATCHDOG=1":
                messages.append(message)
            if assignment in message:
                return messages
