"""What the web server answers for the page and its three files."""

from __future__ import annotations

import gzip
import hashlib
import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs

from nvmeof_exporter.config.errors import quoted
from nvmeof_exporter.exposition.accept import accepts_gzip
from nvmeof_exporter.exposition.response import Response
from nvmeof_exporter.status_page.page import OBJECTIVE_SECONDS, page

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed.wsgi import WSGIEnvironment

    from nvmeof_exporter.exposition.response import Route
    from nvmeof_exporter.view.model import NodeView

__all__ = ["status_routes"]

_TYPES = {
    "status.css": "text/css; charset=utf-8",
    "status.js": "text/javascript; charset=utf-8",
    "status.svg": "image/svg+xml",
}

#: The page may use its own files and ask this server, and nothing else, in nobody's frame.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PAGE_HEADERS = (
    ("Content-Security-Policy", _POLICY),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
    ("Vary", "Accept-Encoding"),
)
#: Their addresses change with their contents.
_FILE_HEADERS = (("Cache-Control", "max-age=31536000, immutable"),)

_GZIP_LEVEL = 1
_LONGEST_OBJECTIVE = 3600.0


class _File(NamedTuple):
    content: bytes
    address: str


def status_routes(view: Callable[[], NodeView | None], metrics: str) -> dict[str, Route]:
    """Return what answers, by path.

    Args:
        view: makes the newest view of the node, None before the first poll.
        metrics: the path of the metrics.

    """
    files = {name: _file(name) for name in _TYPES}
    addresses = {name: file.address for name, file in files.items()}

    def status_page(environ: WSGIEnvironment) -> Response:
        try:
            objective = _objective(environ)
        except ValueError as reason:
            return Response("400 Bad Request", f"{reason}\n".encode())
        seen = view()
        body = page(seen, addresses, metrics, objective).encode()
        headers: tuple[tuple[str, str], ...] = _PAGE_HEADERS
        if accepts_gzip(environ.get("HTTP_ACCEPT_ENCODING", "")):
            body = gzip.compress(body, _GZIP_LEVEL)
            headers = (*headers, ("Content-Encoding", "gzip"))
        status = "200 OK" if seen is not None else "503 Service Unavailable"
        return Response(status, body, "text/html; charset=utf-8", headers)

    routes: dict[str, Route] = {f"/{name}": partial(_answer, name, files[name]) for name in files}
    return {"/": status_page, **routes}


def _answer(name: str, file: _File, _: WSGIEnvironment) -> Response:
    return Response("200 OK", file.content, _TYPES[name], _FILE_HEADERS)


def _file(name: str) -> _File:
    content = Path(__file__).with_name(name).read_bytes()
    return _File(content, f"./{name}?{hashlib.sha256(content).hexdigest()[:12]}")


def _objective(environ: WSGIEnvironment) -> float:
    """How long a failover may take, by ``?objective=SECONDS``."""
    given = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True).get("objective")
    if given is None:
        return OBJECTIVE_SECONDS
    try:
        seconds = float(given[-1])
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= _LONGEST_OBJECTIVE:
        raise ValueError(
            f"objective: {quoted(given[-1])}: expected seconds, more than 0 and at most "
            f"{_LONGEST_OBJECTIVE:g}"
        )
    return seconds
