"""What every source of kernel events has in common.

Events wake the poller and name causes; they are never the truth about a state.
A node on which none of the sources may be opened is still watched, by polling.
"""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from nvmeof_exporter.model import Event

__all__ = [
    "RECEIVE_BUFFER_BYTES",
    "EventSource",
    "SourceBehind",
    "SourceFailed",
    "SourceUnavailable",
    "enlarge_receive_buffer",
]

#: Room for a storm (hundreds of devices at once) while the loop is busy elsewhere.
RECEIVE_BUFFER_BYTES = 1 << 20

#: include/uapi/asm-generic/socket.h; the ``socket`` module has no name for it.
_SO_RCVBUFFORCE = 33


class SourceUnavailable(Exception):  # noqa: N818 - a condition to live with, no error
    """The source cannot be opened on this node; the text says why."""


class SourceFailed(Exception):  # noqa: N818 - told from SourceUnavailable by what happened, not rank
    """The source worked and has died; close it and go on without. The text says why."""


class SourceBehind(Exception):  # noqa: N818 - a condition to live with, no error
    """The source has missed something and cannot tell for now; keep it and read it again later."""


class EventSource(Protocol):
    """A descriptor for a selectors loop, and the events behind it.

    Constructors raise SourceUnavailable.
    """

    name: str

    def fileno(self) -> int:
        """The descriptor that becomes readable when there is something to read()."""

    def read(self) -> list[Event]:
        """Return the announcements that have arrived, oldest first; never blocks.

        Bounded work per call: what is left keeps the descriptor readable. Input
        that makes no sense is skipped. May be called when nothing has arrived. Raises
        SourceFailed when the source is dead, SourceBehind when it has nothing to tell for now.
        """

    def close(self) -> None:
        """Release the descriptor; harmless when done twice."""

    def reopen(self) -> None:
        """Begin anew after ``close``, with another descriptor. Raises SourceUnavailable."""


def enlarge_receive_buffer(receiver: socket.socket) -> None:
    """Ask for RECEIVE_BUFFER_BYTES, beyond net.core.rmem_max where CAP_NET_ADMIN allows it."""
    for option in (socket.SO_RCVBUF, _SO_RCVBUFFORCE):
        with contextlib.suppress(OSError):
            receiver.setsockopt(socket.SOL_SOCKET, option, RECEIVE_BUFFER_BYTES)
