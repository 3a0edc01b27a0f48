"""The HTTP server: cheroot, kept from what a slow, silent or hostile client could do.

One cheroot server per listening socket, each with a small pool of threads.
A connection that says nothing waits in the selector and holds no thread; a
request that is not over after half a minute is cut off; headers, bodies and
the number of waiting connections are bounded.
"""

from __future__ import annotations

import logging
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import structlog
from cheroot.server import HeaderReader, HTTPConnection, HTTPRequest
from cheroot.wsgi import Server as CherootServer

from nvmeof_exporter.exposition.deadlines import Deadlines
from nvmeof_exporter.exposition.listeners import bound_address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed.wsgi import WSGIApplication

    from nvmeof_exporter.config import ListenAddress

__all__ = ["WebServer"]

_SERVER_NAME = "nvmeof-exporter"

_MOST_THREADS = 64
#: Threads beyond the renderings allowed: for the answers that say "too many" and for probes.
_SPARE_THREADS = 2

_IDLE_SECONDS = 10
_REQUEST_SECONDS = 30.0
_STOP_SECONDS = 5
_MOST_HEADER_BYTES = 16 * 1024
_MOST_BODY_BYTES = 1024
_MOST_WAITING_CONNECTIONS = 256
_MOST_WAITING_REQUESTS = 64

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class WebServer:
    """Serves one WSGI application on several listening sockets, in threads of its own.

    Takes over the sockets: ``stop`` closes them.
    """

    def __init__(
        self, application: WSGIApplication, listeners: Sequence[socket.socket], max_requests: int
    ) -> None:
        self.addresses: list[ListenAddress] = [bound_address(listener) for listener in listeners]
        threads = min(max_requests + _SPARE_THREADS, _MOST_THREADS)
        self._deadlines = Deadlines(_REQUEST_SECONDS)
        self._servers = [
            _Server(listener, application, threads, self._deadlines) for listener in listeners
        ]
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Accept connections from now on; returns at once."""
        self._deadlines.start()
        for server, address in zip(self._servers, self.addresses, strict=True):
            # Daemonic, and so are the workers it starts: a crash elsewhere must end the process.
            thread = threading.Thread(target=server.start, name=f"http {address}", daemon=True)
            thread.start()
            self._threads.append(thread)
            server.prepared.wait()
            _log.info("listening", address=str(address))

    def stop(self) -> None:
        """Close the sockets, let running requests end (a few seconds at most), join all threads."""
        for server in self._servers:
            server.stop()
            server.listener.close()
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        self._deadlines.stop()


class _HeaderReader(HeaderReader):
    """Drops headers with an underscore: in the WSGI environment they could pose as others.

    cheroot's own reader for that compares bytes with text and fails.
    """

    def _allow_header(self, key_name: bytes) -> bool:
        return b"_" not in key_name


class _Request(HTTPRequest):
    header_reader = _HeaderReader()

    def read_request_headers(self) -> bool:
        if not super().read_request_headers():  # type: ignore[no-untyped-call]
            return False
        # Nobody sends a body of unknown or negative length to an exporter in good faith.
        if self.chunked_read:
            self.simple_response("411 Length Required")
            return False
        if not self.inheaders.get(b"Content-Length", b"0").isdigit():
            self.simple_response("400 Bad Request")
            return False
        return True


class _Connection(HTTPConnection):
    RequestHandlerClass = _Request

    def communicate(self) -> bool:
        with self.server.deadlines.over(self.socket):
            return bool(super().communicate())  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """Close the socket and give up what could not be sent.

        Left to its destructor, the writer would try once more and complain on
        standard error where the client has gone.
        """
        super().close()
        with suppress(OSError):
            self.wfile.close()


class _Server(CherootServer):
    ConnectionClass = _Connection
    software = _SERVER_NAME
    max_request_header_size = _MOST_HEADER_BYTES
    max_request_body_size = _MOST_BODY_BYTES
    keep_alive_conn_limit = _MOST_WAITING_CONNECTIONS

    def __init__(
        self,
        listener: socket.socket,
        application: WSGIApplication,
        threads: int,
        deadlines: Deadlines,
    ) -> None:
        super().__init__(
            listener.getsockname()[:2],
            application,
            numthreads=threads,
            server_name=_SERVER_NAME,
            request_queue_size=128,
            timeout=_IDLE_SECONDS,
            shutdown_timeout=_STOP_SECONDS,
            accepted_queue_size=_MOST_WAITING_REQUESTS,
            accepted_queue_timeout=0,  # never let the selector's thread wait for a worker
        )
        self.listener = listener
        self.deadlines = deadlines
        self.prepared = threading.Event()

    def prepare(self) -> None:
        """Get ready to serve, and say when that is done: only then can it be stopped."""
        try:
            super().prepare()
        finally:
            self.prepared.set()

    def bind(self, family: int, type: int, proto: int = 0) -> socket.socket:  # noqa: A002, ARG002
        """Use the socket that is bound already; accepted ones inherit its options."""
        self.listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = self.listener
        return self.listener

    def process_conn(self, conn: HTTPConnection) -> None:
        """Give a thread to a connection that has something to say.

        cheroot would give one to every new connection, so that a few silent
        clients could occupy them all.
        """
        if conn.last_used is not None:
            super().process_conn(conn)
        elif self.can_add_keepalive_connection:
            self.put_conn(conn)
        else:
            conn.close()

    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: Any = None) -> None:  # noqa: ANN401
        """Log what cheroot has to say; a misbehaving client is no more than a warning."""
        log = _log.warning if level >= logging.WARNING else _log.debug
        log("http server", detail=str(msg).strip(), exc_info=bool(traceback))
