"""One client's connection: a request in, an answer out, and nobody ever waits for it.

The socket never blocks. The TLS handshake, the head of a request and the rest
of an answer go on whenever the client lets them; a worker's thread sees a
connection only while there is a whole request to answer, and works on memory.
So a client that is slow, in whichever direction, costs its own connection only.
"""

from __future__ import annotations

import enum
import io
import re
import socket
import ssl
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cheroot.server import HeaderReader, HTTPConnection, HTTPRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvmeof_exporter.exposition.tls import Tls

__all__ = ["MOST_HEAD_BYTES", "Connection", "Wants"]

#: How long a client may take (seconds): to shake hands and say what it wants; to take the
#: answer; to say something again, which outlasts the usual pauses between scrapes; to hang up.
_HEAD_SECONDS = 10.0
_ANSWER_SECONDS = 30.0
_IDLE_SECONDS = 120.0
_PARTING_SECONDS = 2.0

MOST_HEAD_BYTES = 16 * 1024

_CHUNK_BYTES = 64 * 1024
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_LONGEST_HEAD_END = 4

#: What a TLS connection begins with (RFC 8446, 5.1: a record of type handshake).
_TLS_HANDSHAKE = b"\x16"

#: What no request line begins with is refused at once: its end may never come.
_NO_METHOD = re.compile(rb"[^A-Z\r]")


def _last_words(status: str, text: str, *headers: str) -> bytes:
    head = (
        f"HTTP/1.1 {status}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(text)}",
        "Connection: close",
        *headers,
    )
    return "\r\n".join([*head, "", text]).encode()


_PLAIN_ON_TLS = _last_words("400 Bad Request", "this port speaks HTTPS, and the request was HTTP\n")
_TOO_BUSY = _last_words(
    "503 Service Unavailable", "too many requests are waiting already\n", "Retry-After: 1"
)


class Wants(enum.Enum):
    """What a connection needs to go on."""

    READ = enum.auto()
    WRITE = enum.auto()
    WORK = enum.auto()
    END = enum.auto()


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
        length = self.inheaders.get(b"Content-Length", b"0")
        if not length.isdigit():
            self.simple_response("400 Bad Request")
            return False
        if int(length):
            # A body is not read, and must not be taken for the next request.
            self.close_connection = True
        return True


class _Outbox:
    """What is to be sent: the pieces as they were written, not copied."""

    def __init__(self) -> None:
        self._pieces: deque[memoryview] = deque()
        self.size = 0

    def write(self, piece: bytes) -> int:
        """Take a piece of the answer; as a file's ``write``."""
        if piece:
            self._pieces.append(memoryview(piece))
            self.size += len(piece)
        return len(piece)

    def send(self, send: Callable[[memoryview], int]) -> None:
        """Send all there is. Raises what ``send`` does when it cannot go on."""
        while self._pieces:
            piece = self._pieces.popleft()
            sent = 0
            try:
                sent = send(piece[:_CHUNK_BYTES])
            finally:
                self.size -= sent
                if sent < len(piece):
                    self._pieces.appendleft(piece[sent:])

    def close(self) -> None:
        """Give up what is left."""
        self._pieces.clear()
        self.size = 0


class Connection(HTTPConnection):
    """A connection that was accepted; ``advance`` goes on as far as is possible now.

    Args:
        server: cheroot's, as its own connections have it.
        accepted: the socket.
        address: the client's.
        tls: what a handshake must comply with; None where HTTP is spoken in the clear.

    ``due`` is when the client's time is up, ``since`` how long it has been waited for
    (both monotonic, seconds).

    """

    RequestHandlerClass = _Request

    def __init__(
        self,
        server: Any,  # noqa: ANN401 - cheroot has no types
        accepted: socket.socket,
        address: tuple[Any, ...],
        tls: Tls | None,
    ) -> None:
        accepted.settimeout(0.0)
        super().__init__(server, accepted, lambda *_: io.BytesIO())
        # cheroot's caches for Unix sockets make a circle of every connection.
        del self.resolve_peer_creds, self.get_peer_creds
        self.remote_addr, self.remote_port = address[:2]
        self.wfile = _Outbox()
        self._tls = tls
        self._received = bytearray()
        self._ends = False
        # Functions and not bound methods, which would make a circle of every connection, too.
        self._stage: Callable[[Connection], Wants | None] = (
            Connection._listen if tls is None else Connection._greet
        )
        self._allow(_HEAD_SECONDS)

    @property
    def unsent(self) -> int:
        """Bytes of the answer that the client has not taken."""
        return int(self.wfile.size)

    def advance(self) -> Wants:
        """Go on without waiting; says what is needed next. Raises nothing."""
        try:
            while (wants := self._stage(self)) is None:
                pass
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as stopped:
            return Wants.WRITE if isinstance(stopped, ssl.SSLWantWriteError) else Wants.READ
        except BlockingIOError:
            return Wants.WRITE if self.wfile.size else Wants.READ
        except (OSError, ValueError):
            return Wants.END
        return wants

    def communicate(self) -> bool:
        """Answer the request that was received, in memory; the rest is for ``advance``."""
        self._ends = not super().communicate()  # type: ignore[no-untyped-call]
        self._begin_to_answer()
        return True

    def refuse(self) -> None:
        """Answer that there is too much to do."""
        self._answer_last(_TOO_BUSY)

    def finish(self, patience: float) -> None:
        """Send what is left, waiting at most ``patience`` seconds for each piece, and close."""
        with suppress(OSError, ValueError):
            self.socket.settimeout(patience)
            self.wfile.send(self.socket.send)
        self.close()

    def close(self) -> None:
        """Close the socket, whatever is left to be sent."""
        self.wfile.close()
        with suppress(OSError):
            self.socket.close()

    def _allow(self, seconds: float) -> None:
        self.since = time.monotonic()
        self.due = self.since + seconds

    def _greet(self) -> Wants | None:
        first = self.socket.recv(1, socket.MSG_PEEK)
        if not first:
            return Wants.END
        if first != _TLS_HANDSHAKE:
            self._answer_last(_PLAIN_ON_TLS)
            return None
        assert self._tls is not None  # noqa: S101 - the stage of those who have it
        self.socket = self._tls.wrap(self.socket)
        self._stage = Connection._shake_hands
        return None

    def _shake_hands(self) -> Wants | None:
        self.socket.do_handshake()
        assert self._tls is not None  # noqa: S101 - the stage of those who have it
        if self._tls.admits(self.socket):
            self._stage = Connection._listen
        else:
            self._hang_up()
        return None

    def _listen(self) -> Wants | None:
        if self._take_head():
            return Wants.WORK
        received = self.socket.recv(MOST_HEAD_BYTES)
        if not received:
            return Wants.END
        if not self._received and self.requests_seen:
            self._allow(_HEAD_SECONDS)  # it was idle until now
        self._received += received
        return None

    def _take_head(self) -> bool:
        """Move a whole head from what was received to where cheroot reads it."""
        received = self._received
        if not received:
            return False
        end = _HEAD_END.search(received)
        if end is not None:
            length = end.end()
        elif len(received) > MOST_HEAD_BYTES or _NO_METHOD.match(received):
            length = len(received)
        else:
            return False
        self.rfile = io.BytesIO(received[:length])
        del received[:length]
        self.requests_seen += 1
        return True

    def _begin_to_answer(self) -> None:
        self._allow(_ANSWER_SECONDS)
        self._stage = Connection._answer

    def _answer_last(self, answer: bytes) -> None:
        self._ends = True
        self.wfile.write(answer)
        self._begin_to_answer()

    def _answer(self) -> Wants | None:
        self.wfile.send(self.socket.send)
        if not self._ends:
            self._allow(_HEAD_SECONDS if self._received else _IDLE_SECONDS)
            self._stage = Connection._listen
            return None
        self._hang_up()
        return None

    def _hang_up(self) -> None:
        """Say good-bye, and let the client close: else it may never see what it was sent last."""
        self._allow(_PARTING_SECONDS)
        self._stage = Connection._part
        if isinstance(self.socket, ssl.SSLSocket):
            with suppress(ssl.SSLError):
                self.socket.unwrap()  # the reply is not waited for
        self.socket.shutdown(socket.SHUT_WR)

    def _part(self) -> Wants | None:
        return None if self.socket.recv(_CHUNK_BYTES) else Wants.END
