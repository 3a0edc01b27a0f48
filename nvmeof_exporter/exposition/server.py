"""The HTTP server: cheroot, kept from what a slow, silent or hostile client could do.

One cheroot server per listening socket, each with a small pool of threads that
answer whole requests from memory. Everything that may take a client's time is
the reception's: nobody holds a thread by being slow.
"""

from __future__ import annotations

import logging
import queue
import socket
import threading
from typing import TYPE_CHECKING, Any

import structlog
from cheroot.wsgi import Server as CherootServer

from nvmeof_exporter.exposition.connection import MOST_HEAD_BYTES, Connection
from nvmeof_exporter.exposition.listeners import bound_address
from nvmeof_exporter.exposition.reception import Reception

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from _typeshed.wsgi import WSGIApplication

    from nvmeof_exporter.config import ListenAddress
    from nvmeof_exporter.exposition.tls import Tls
    from nvmeof_exporter.exposition.web_security import WebSecurity

__all__ = ["MOST_CONNECTIONS", "WebServer"]

_SERVER_NAME = "nvmeof-exporter"

_MOST_THREADS = 64
#: Threads beyond the renderings allowed: for the answers that say "too many" and for probes.
_SPARE_THREADS = 2

_STOP_SECONDS = 5
_MOST_BODY_BYTES = 1024
_MOST_WAITING_CONNECTIONS = 192
_MOST_WAITING_REQUESTS = 64

#: Bounds what the kernel keeps of an answer that nobody takes, which would be megabytes.
_SEND_BUFFER_BYTES = 256 * 1024

#: What all connections of a server with one listening socket can come to.
MOST_CONNECTIONS = _MOST_WAITING_CONNECTIONS + _MOST_WAITING_REQUESTS + _MOST_THREADS

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class WebServer:
    """Serves one WSGI application on several listening sockets, in threads of its own.

    Takes over the sockets: ``stop`` closes them. ``security`` is what the web
    configuration file asks for; without it, HTTP is spoken in the clear with everybody.
    """

    def __init__(
        self,
        application: WSGIApplication,
        listeners: Sequence[socket.socket],
        max_requests: int,
        security: WebSecurity | None = None,
    ) -> None:
        self._security = security
        tls = _no_tls if security is None else security.tls
        if security is not None:
            from nvmeof_exporter.exposition.guard import Guard  # noqa: PLC0415

            application = Guard(application, security.protection)
        self.addresses: list[ListenAddress] = [bound_address(listener) for listener in listeners]
        threads = min(max_requests + _SPARE_THREADS, _MOST_THREADS)
        places = max(_MOST_WAITING_CONNECTIONS // len(listeners), 1)
        self._servers = [
            _Server(listener, application, threads, places, tls) for listener in listeners
        ]
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Accept connections from now on; returns at once."""
        if self._security is not None:
            self._security.start()
        for server, address in zip(self._servers, self.addresses, strict=True):
            # Daemonic, and so are the workers it starts: a crash elsewhere must end the process.
            thread = threading.Thread(target=server.start, name=f"http {address}", daemon=True)
            thread.start()
            self._threads.append(thread)
            server.prepared.wait()
            _log.info("listening", address=str(address))

    def reload(self) -> None:
        """Read the web configuration file again, where there is one; returns at once."""
        if self._security is not None:
            self._security.look()

    def stop(self) -> None:
        """Close the sockets, let running requests end (a few seconds at most), join all threads."""
        for server in self._servers:
            server.stop()
            server.listener.close()
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        if self._security is not None:
            self._security.stop()


def _no_tls() -> None:
    return None


class _Server(CherootServer):
    software = _SERVER_NAME
    max_request_header_size = MOST_HEAD_BYTES
    max_request_body_size = _MOST_BODY_BYTES

    def __init__(
        self,
        listener: socket.socket,
        application: WSGIApplication,
        threads: int,
        places: int,
        tls: Callable[[], Tls | None],
    ) -> None:
        super().__init__(
            listener.getsockname()[:2],
            application,
            numthreads=threads,
            server_name=_SERVER_NAME,
            request_queue_size=128,
            shutdown_timeout=_STOP_SECONDS,
            accepted_queue_size=_MOST_WAITING_REQUESTS,
            accepted_queue_timeout=0,  # never let the reception wait for a worker
        )
        self.listener = listener
        self._places = places
        self._tls = tls
        self.prepared = threading.Event()

    def prepare(self) -> None:
        """Get ready to serve, and say when that is done: only then can it be stopped."""
        try:
            super().prepare()
            self._connections.close()  # type: ignore[has-type]
            self.listener.settimeout(0.0)
            self._connections = Reception(self, self.listener, self._places, self._tls)
        finally:
            self.prepared.set()

    def bind(self, family: int, type: int, proto: int = 0) -> socket.socket:  # noqa: A002, ARG002
        """Use the socket that is bound already; accepted ones inherit its options."""
        self.listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        self.socket = self.listener
        return self.listener

    def process_conn(self, conn: Connection) -> None:
        """Give a whole request to the workers, or else tell the client to come back."""
        try:
            self.requests.put(conn)
        except queue.Full:
            conn.refuse()
            self._connections.put(conn)

    def put_conn(self, conn: Connection) -> None:
        """Take back a connection whose request is answered, also while stopping."""
        self._connections.put(conn)

    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: Any = None) -> None:  # noqa: ANN401
        """Log what cheroot has to say; a misbehaving client is no more than a warning."""
        log = _log.warning if level >= logging.WARNING else _log.debug
        log("http server", detail=str(msg).strip(), exc_info=bool(traceback))
