"""Asks a running exporter over HTTP."""

from __future__ import annotations

import base64
import http.client
import ssl
import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec

from nvmeof_exporter.config.errors import quoted
from nvmeof_exporter.exposition.paths import EVENTS_PATH, STATUS_PATH
from nvmeof_exporter.terminal import printable
from nvmeof_exporter.view.events import EventsView
from nvmeof_exporter.view.model import FORMAT, NodeView

if TYPE_CHECKING:
    from nvmeof_exporter.config.values import ListenAddress

__all__ = ["Exporter", "NoAnswer", "url_of"]

#: An answer takes milliseconds (seconds).
_PATIENCE = 5.0

#: The view of the largest nodes has a few megabytes.
_MOST_BYTES = 64 << 20
_PIECE = 64 << 10

_OK = 200
_LONGEST_REASON = 200

T = TypeVar("T")


class NoAnswer(Exception):  # noqa: N818  # a condition to live with, no error
    """The exporter told nothing of use; the text says why, in one line."""


class _Format(msgspec.Struct):
    """The part of a view that tells whether the rest can be understood."""

    format: int


class Exporter(NamedTuple):
    """Where an exporter is asked. ``user`` is ``NAME:PASSWORD``, ``""`` for nobody.

    ``prefix`` is the path under which a proxy has it.
    """

    scheme: str
    host: str
    port: int
    prefix: str = ""
    user: str = ""

    @classmethod
    def at(cls, url: str) -> Exporter:
        """Take it from a URL. Raises ValueError, whose message says what was expected."""
        parts = urlsplit(url)
        plain = url.isascii() and url.isprintable() and " " not in url
        if not plain or parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("expected a URL such as http://127.0.0.1:10067")
        if parts.query or parts.fragment:
            raise ValueError("expected a URL without ? and #")
        user = ""
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        try:
            port = parts.port
        except ValueError:
            raise ValueError("expected a port from 1 to 65535") from None
        default = 443 if parts.scheme == "https" else 80
        return cls(parts.scheme, parts.hostname, port or default, parts.path.rstrip("/"), user)

    def __str__(self) -> str:
        """The URL, without a password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}"

    def view(self) -> NodeView:
        """Ask for the node. Raises NoAnswer."""
        body = self.get(STATUS_PATH)
        newer = self._decoded(body, _Format).format
        if newer > FORMAT:
            raise NoAnswer(f"{self} is of a newer version: format {newer}, expected {FORMAT}")
        return self._decoded(body, NodeView)

    def events(self, limit: int) -> EventsView:
        """Ask for the newest events. Raises NoAnswer."""
        return self._decoded(self.get(f"{EVENTS_PATH}?limit={limit}"), EventsView)

    def _decoded(self, body: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            reason = printable(str(error))
            raise NoAnswer(f"{self} answers something else than a view: {reason}") from error

    def get(self, path: str) -> bytes:
        """Ask for a path and return the body of a 200. Raises NoAnswer."""
        connection = self._connection()
        headers = {"Accept": "application/json"}
        if self.user:
            headers["Authorization"] = f"Basic {base64.b64encode(self.user.encode()).decode()}"
        try:
            connection.request("GET", self.prefix + path, headers=headers)
            response = connection.getresponse()
            body = _whole(response)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoAnswer(f"no exporter answers at {self}: {_reason(error)}") from error
        finally:
            connection.close()
        if response.status != _OK:
            said = body.decode(errors="replace").strip().partition("\n")[0][:_LONGEST_REASON]
            told = f": {quoted(said)}" if said else ""
            answered = printable(f"{response.status} {response.reason}")
            raise NoAnswer(f"{self}{path} answers {answered}{told}")
        return body

    def _connection(self) -> http.client.HTTPConnection:
        if self.scheme == "http":
            return http.client.HTTPConnection(self.host, self.port, timeout=_PATIENCE)
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(self.host, self.port, timeout=_PATIENCE, context=context)


def url_of(address: ListenAddress) -> str:
    """Where an exporter that listens there is asked from this host."""
    everywhere = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
    return f"http://{address._replace(host=everywhere.get(address.host, address.host))}"


def _whole(response: http.client.HTTPResponse) -> bytes:
    """Read an answer to its end; raises TimeoutError where that takes too long."""
    end = time.monotonic() + _PATIENCE
    body = b""
    while piece := response.read1(_PIECE):
        body += piece
        if time.monotonic() > end:
            raise TimeoutError
        if len(body) > _MOST_BYTES:
            raise ValueError("the answer is too long")
    return body


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"nothing within {_PATIENCE:g} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate not accepted, {error.verify_message}"
    if isinstance(error, OSError):
        return (error.strerror or str(error) or type(error).__name__).lower()
    if isinstance(error, http.client.HTTPException):
        return f"that is not HTTP ({type(error).__name__})"
    return str(error)
