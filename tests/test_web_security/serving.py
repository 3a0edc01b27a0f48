"""A web server with a web configuration file, and clients that know how to ask."""

from __future__ import annotations

import base64
import contextlib
import http.client
from typing import TYPE_CHECKING

import bcrypt

from nvmeof_exporter.config import load
from nvmeof_exporter.exposition.listeners import open_listeners
from nvmeof_exporter.exposition.server import WebServer
from nvmeof_exporter.exposition.web_security import WebSecurity

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from _typeshed.wsgi import StartResponse, WSGIEnvironment

__all__ = ["Served", "basic", "hashed", "served"]


def hashed(password: str, rounds: int = 4) -> str:
    """Return a hash that is cheap to check."""
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(rounds)).decode()


def basic(name: str, password: str) -> dict[str, str]:
    """Return the header of basic authentication."""
    encoded = base64.b64encode(f"{name}:{password}".encode()).decode()
    return {"Authorization": f"Basic {encoded}"}


def _page(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    start_response(
        "200 OK",
        [
            ("Content-Type", "text/plain"),
            ("Content-Length", "5"),
            ("X-Content-Type-Options", "nosniff"),
        ],
    )
    return [b"page\n"]


class Served:
    """A server of one page on a free port of the loopback interface."""

    def __init__(self, security: WebSecurity) -> None:
        self.security = security
        listeners = open_listeners(load(["--web.listen-address=127.0.0.1:0"], {}), {})
        self.server = WebServer(_page, listeners, 4, security)
        self.address = (self.server.addresses[0].host, self.server.addresses[0].port)

    def get(
        self, tls: ssl.SSLContext | None = None, headers: dict[str, str] | None = None
    ) -> http.client.HTTPResponse:
        """Ask for the page; raises what a client would."""
        connection = (
            http.client.HTTPConnection(*self.address, timeout=10)
            if tls is None
            else http.client.HTTPSConnection(*self.address, timeout=10, context=tls)
        )
        with contextlib.closing(connection):
            connection.request("GET", "/", headers=headers or {})
            response = connection.getresponse()
            response.read()
            return response


@contextlib.contextmanager
def served(directory: Path, text: str) -> Iterator[Served]:
    """Serve with a web configuration of this text in ``directory/web.yaml``."""
    (directory / "web.yaml").write_text(text)
    running = Served(WebSecurity(str(directory / "web.yaml")))
    running.server.start()
    try:
        yield running
    finally:
        running.server.stop()
