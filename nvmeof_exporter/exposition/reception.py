"""Where clients wait: every connection that has no whole request, in one thread.

Takes the place of cheroot's connection manager, which would give a worker's
thread to a client that has not finished its sentence, and shake hands with one
client while all others wait. Places are few; when they are taken, whoever has
been waited for longest goes, so that a crowd that says nothing cannot keep out
one who does.
"""

from __future__ import annotations

import errno
import os
import selectors
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from nvmeof_exporter.exposition.connection import Connection, Wants

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from nvmeof_exporter.exposition.tls import Tls

__all__ = ["Reception"]

#: Answers that clients have not taken, together; the oldest are given up beyond (bytes).
_MOST_UNSENT_BYTES = 64 << 20

_STOP_SECONDS = 2.0
_ACCEPTED_AT_ONCE = 64

#: Without a descriptor for it, the next client is not looked at for this long (seconds).
_NO_DESCRIPTOR_SECONDS = 0.1
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_EVENTS = {Wants.READ: selectors.EVENT_READ, Wants.WRITE: selectors.EVENT_WRITE}


class Reception:
    """Accepts, listens and sends; cheroot asks for the methods without a docstring of ours.

    Args:
        server: cheroot's; gets a connection by ``process_conn`` for each whole request.
        listener: the listening socket; must not block.
        places: how many connections may wait.
        tls: what new connections must comply with, asked for each one.

    """

    #: A connection is kept open; who is in the way later on will be closed then.
    can_add_keepalive_connection = True

    def __init__(
        self,
        server: Any,  # noqa: ANN401 - cheroot has no types
        listener: socket.socket,
        places: int,
        tls: Callable[[], Tls | None],
    ) -> None:
        self._server = server
        self._listener = listener
        self._places = places
        self._tls = tls
        self._selector = selectors.DefaultSelector()
        self._waiting: set[Connection] = set()
        self._returned: deque[Connection] = deque()
        self._lock = threading.Lock()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._stopping = False
        self._stopped = threading.Event()
        self._stopped.set()
        self._closed = False
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._wake, selectors.EVENT_READ, self._take_back)

    def run(self, interval: float) -> None:
        """Serve until ``stop``; looks for clients whose time is up every ``interval`` seconds."""
        self._stopped.clear()
        next_look = 0.0
        try:
            while not self._stopping:
                for key, _ in self._selector.select(interval):
                    if isinstance(key.data, Connection):
                        self._attend(key.data)
                    else:
                        key.data()
                now = time.monotonic()
                if now >= next_look:
                    next_look = now + interval
                    self._part_with([c for c in self._waiting if c.due <= now])
        finally:
            self._stopped.set()

    def put(self, connection: Connection) -> None:
        """Take a connection back from a worker, whose thread sends what can be sent at once."""
        wants = connection.advance()
        if wants is Wants.END:
            connection.close()
            return
        if wants is Wants.WORK:  # it had sent its next request already
            self._server.process_conn(connection)
            return
        with self._lock:
            if not self._closed:
                self._returned.append(connection)
                os.eventfd_write(self._wake, 1)
                return
        connection.finish(_STOP_SECONDS)

    def stop(self) -> None:
        """End ``run``; returns when it has ended."""
        self._stopping = True
        os.eventfd_write(self._wake, 1)
        self._stopped.wait()

    def close(self) -> None:
        """Part with everybody; who is handed in by a worker from now on gets its answer still."""
        with self._lock:
            self._closed = True
            os.close(self._wake)
        for connection in self._returned:
            connection.finish(_STOP_SECONDS)
        self._returned.clear()
        self._part_with(list(self._waiting))
        self._selector.close()

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._make_room(len(self._waiting) - 1)
                    time.sleep(_NO_DESCRIPTOR_SECONDS)
                return  # or else the client has gone again
            self._make_room(self._places - 1)
            self._attend(Connection(self._server, accepted, address, self._tls()))

    def _take_back(self) -> None:
        os.eventfd_read(self._wake)
        while self._returned:
            self._attend(self._returned.popleft())

    def _attend(self, connection: Connection) -> None:
        wants = connection.advance()
        if wants is Wants.WORK:
            self._release(connection)
            self._server.process_conn(connection)
        elif wants is Wants.END:
            self._part_with([connection])
        else:
            self._await(connection, _EVENTS[wants])

    def _await(self, connection: Connection, events: int) -> None:
        if connection not in self._waiting:
            self._waiting.add(connection)
            self._selector.register(connection.socket, events, connection)
        elif self._selector.get_key(connection.socket).events != events:
            self._selector.modify(connection.socket, events, connection)
        if connection.unsent:
            self._bound_unsent()

    def _release(self, connection: Connection) -> None:
        if connection in self._waiting:
            self._waiting.remove(connection)
            self._selector.unregister(connection.socket)

    def _part_with(self, connections: list[Connection]) -> None:
        for connection in connections:
            self._release(connection)
            connection.close()

    def _make_room(self, most: int) -> None:
        while self._waiting and len(self._waiting) > most:
            self._part_with([min(self._waiting, key=_since)])

    def _bound_unsent(self) -> None:
        sending = [connection for connection in self._waiting if connection.unsent]
        unsent = sum(connection.unsent for connection in sending)
        for connection in sorted(sending, key=_since):
            if unsent <= _MOST_UNSENT_BYTES:
                return
            unsent -= connection.unsent
            self._part_with([connection])


def _since(connection: Connection) -> float:
    return connection.since
