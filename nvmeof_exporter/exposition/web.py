"""The HTTP side as a WSGI application: metrics, health, readiness and a page for people."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import structlog
from prometheus_client.exposition import choose_encoder

from nvmeof_exporter.exposition.accept import accepts_gzip, canonical_accept
from nvmeof_exporter.exposition.landing import LANDING_HEADERS, landing_page

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment
    from prometheus_client.registry import Collector

__all__ = ["Application", "Report"]

#: Tells what is wrong, or None when nothing is.
Report = Callable[[], "str | None"]

_TEXT = "text/plain; charset=utf-8"
_METHODS = ("GET", "HEAD")

#: Metrics repeat themselves so much that the fastest level already saves nearly all there is.
_GZIP_LEVEL = 1

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class _Response(NamedTuple):
    status: str
    body: bytes
    content_type: str = _TEXT
    headers: tuple[tuple[str, str], ...] = ()


class Application:
    """Serves the newest finished state; a request never touches the machine.

    ``collector`` is asked once per scrape. ``health`` and ``ready`` answer None,
    or the reason why not. ``observe_scrape`` is told the seconds each successful
    rendering took, compression included. At most ``max_requests`` renderings run at once; further
    requests for metrics are told to come back.
    """

    def __init__(
        self,
        collector: Collector,
        *,
        health: Report,
        ready: Report,
        observe_scrape: Callable[[float], None],
        telemetry_path: str,
        max_requests: int,
    ) -> None:
        self._collector = collector
        self._observe_scrape = observe_scrape
        self._free = threading.BoundedSemaphore(max_requests)
        landing = _Response(
            "200 OK",
            landing_page(telemetry_path).encode(),
            "text/html; charset=utf-8",
            LANDING_HEADERS,
        )
        self._routes: dict[str, Callable[[WSGIEnvironment], _Response]] = {
            "/": lambda _: landing,
            "/-/healthy": lambda _: _probe(health, "healthy"),
            "/-/ready": lambda _: _probe(ready, "ready"),
            telemetry_path: self._metrics,
        }

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        """Answer one request (PEP 3333); whatever goes wrong, the answer is whole."""
        method = environ["REQUEST_METHOD"]
        try:
            response = self._answer(method, environ)
        except Exception:  # noqa: BLE001 (a bug in one answer must not end the others)
            _log.exception("request failed", path=environ.get("PATH_INFO", ""))
            response = _Response("500 Internal Server Error", b"failed; the log says why\n")
        start_response(
            response.status,
            [
                ("Content-Type", response.content_type),
                ("Content-Length", str(len(response.body))),
                ("X-Content-Type-Options", "nosniff"),
                *response.headers,
            ],
        )
        return [] if method == "HEAD" else [response.body]

    def _answer(self, method: str, environ: WSGIEnvironment) -> _Response:
        if method not in _METHODS:
            allow = ("Allow", ", ".join(_METHODS))
            return _Response("405 Method Not Allowed", b"only GET and HEAD\n", headers=(allow,))
        route = self._routes.get(environ.get("PATH_INFO", ""))
        if route is None:
            return _Response("404 Not Found", b"there is nothing here\n")
        return route(environ)

    def _metrics(self, environ: WSGIEnvironment) -> _Response:
        if not self._free.acquire(blocking=False):
            return _Response(
                "503 Service Unavailable",
                b"too many requests for metrics at once (--web.max-requests)\n",
                headers=(("Retry-After", "1"),),
            )
        try:
            return self._render(environ)
        finally:
            self._free.release()

    def _render(self, environ: WSGIEnvironment) -> _Response:
        started = time.perf_counter()
        encode, content_type = choose_encoder(canonical_accept(environ.get("HTTP_ACCEPT", "")))
        body = encode(self._collector)
        headers = [("Vary", "Accept, Accept-Encoding")]
        if accepts_gzip(environ.get("HTTP_ACCEPT_ENCODING", "")):
            body = gzip.compress(body, _GZIP_LEVEL)
            headers.append(("Content-Encoding", "gzip"))
        self._observe_scrape(time.perf_counter() - started)
        return _Response("200 OK", body, content_type, tuple(headers))


def _probe(report: Report, fine: str) -> _Response:
    reason = report()
    if reason is None:
        return _Response("200 OK", f"{fine}\n".encode())
    return _Response("503 Service Unavailable", f"{reason}\n".encode())
