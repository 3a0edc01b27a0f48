"""The node's view and its events as JSON; ``docs/api.md`` is written for who asks."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

import msgspec

from nvmeof_exporter.config.errors import quoted
from nvmeof_exporter.exposition.accept import accepts_gzip
from nvmeof_exporter.exposition.paths import EVENTS_PATH, STATUS_PATH
from nvmeof_exporter.exposition.response import Response
from nvmeof_exporter.view.events import DEFAULT_LIMIT, MOST_EVENTS, events_view

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

    from nvmeof_exporter.exposition.published import Published
    from nvmeof_exporter.exposition.response import Route
    from nvmeof_exporter.view.live import LiveView

__all__ = ["api_routes"]

_JSON = "application/json"
_FRESH = (("Cache-Control", "no-store"), ("Vary", "Accept-Encoding"))
_GZIP_LEVEL = 1
_LARGEST = 2**63 - 1


class _BadParameterError(Exception):
    """A parameter makes no sense; the message says which and what was expected."""


def api_routes(live: LiveView, published: Published) -> dict[str, Route]:
    """Return what answers, by path."""

    def status(environ: WSGIEnvironment) -> Response:
        try:
            _parameters(environ)
        except _BadParameterError as reason:
            return _refused(reason)
        view = live.view()
        if view is None:
            return Response("503 Service Unavailable", b"not polled yet\n", headers=_FRESH)
        return _json(view, environ)

    def events(environ: WSGIEnvironment) -> Response:
        try:
            given = _parameters(environ, "since", "limit")
            since = _number(given, "since", 0, _LARGEST)
            limit = _number(given, "limit", 1, MOST_EVENTS)
        except _BadParameterError as reason:
            return _refused(reason)
        told = events_view(published, since, DEFAULT_LIMIT if limit is None else limit)
        return _json(told, environ)

    return {STATUS_PATH: status, EVENTS_PATH: events}


def _parameters(environ: WSGIEnvironment, *known: str) -> dict[str, str]:
    found: dict[str, str] = {}
    expected = ", ".join(known) or "none"
    for name, value in parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True):
        if name not in known:
            raise _BadParameterError(f"unknown parameter {quoted(name)}: expected {expected}")
        if name in found:
            raise _BadParameterError(f"{name}: given more than once")
        found[name] = value
    return found


def _number(given: dict[str, str], name: str, least: int, most: int) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    # No more digits than the largest number has: reading them takes long otherwise.
    plain = text.isascii() and text.isdigit() and len(text) <= len(str(_LARGEST))
    if not plain or not least <= int(text) <= most:
        upper = f" to {most}" if most < _LARGEST else " or more"
        raise _BadParameterError(f"{name}: {quoted(text)}: expected a whole number, {least}{upper}")
    return int(text)


def _refused(reason: _BadParameterError) -> Response:
    return Response("400 Bad Request", f"{reason}\n".encode(), headers=_FRESH)


def _json(view: msgspec.Struct, environ: WSGIEnvironment) -> Response:
    body = msgspec.json.encode(view) + b"\n"
    headers: tuple[tuple[str, str], ...] = _FRESH
    if accepts_gzip(environ.get("HTTP_ACCEPT_ENCODING", "")):
        body = gzip.compress(body, _GZIP_LEVEL)
        headers = (*headers, ("Content-Encoding", "gzip"))
    return Response("200 OK", body, _JSON, headers)
