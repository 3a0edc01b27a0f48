"""The HTTP side as a WSGI application: metrics, health, readiness, and what else is added."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import structlog
from prometheus_client.exposition import choose_encoder

from nvmeof_exporter.exposition.accept import accepts_gzip, canonical_accept
from nvmeof_exporter.exposition.response import Response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from _typeshed.wsgi import StartResponse, WSGIEnvironment

    from nvmeof_exporter.exposition.renderings import Renderings
    from nvmeof_exporter.exposition.response import Route

__all__ = ["Application", "Report"]

#: Tells what is wrong, or None when nothing is.
Report = Callable[[], "str | None"]

_OPENMETRICS = "application/openmetrics-text"
_METHODS = ("GET", "HEAD")

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class Application:
    """Serves the newest finished state; a request never touches the machine.

    ``renderings`` are what is served. ``health`` and ``ready`` answer None, or the reason
    why not. ``observe_scrape`` is told the seconds each successful rendering took,
    compression included, once however many got it. At most ``max_requests`` requests for
    metrics are answered at once; further ones are told to come back.
    """

    def __init__(
        self,
        renderings: Renderings,
        *,
        health: Report,
        ready: Report,
        observe_scrape: Callable[[float], None],
        telemetry_path: str,
        max_requests: int,
    ) -> None:
        self._renderings = renderings
        self._observe_scrape = observe_scrape
        self._free = threading.BoundedSemaphore(max_requests)
        self._routes: dict[str, Route] = {
            "/-/healthy": lambda _: _probe(health, "healthy"),
            "/-/ready": lambda _: _probe(ready, "ready"),
            telemetry_path: partial(self._limited, self._render),
        }

    def add(self, routes: Mapping[str, Route]) -> None:
        """Answer further paths, where there is nothing else; limited like requests for metrics."""
        for path, route in routes.items():
            self._routes.setdefault(path, partial(self._limited, route))

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        """Answer one request (PEP 3333); whatever goes wrong, the answer is whole."""
        method = environ["REQUEST_METHOD"]
        try:
            response = self._answer(method, environ)
        except Exception:  # noqa: BLE001 (a bug in one answer must not end the others)
            _log.exception("request failed", path=environ.get("PATH_INFO", ""))
            response = Response("500 Internal Server Error", b"failed; the log says why\n")
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

    def _answer(self, method: str, environ: WSGIEnvironment) -> Response:
        if method not in _METHODS:
            allow = ("Allow", ", ".join(_METHODS))
            return Response("405 Method Not Allowed", b"only GET and HEAD\n", headers=(allow,))
        route = self._routes.get(environ.get("PATH_INFO", ""))
        if route is None:
            return Response("404 Not Found", b"there is nothing here\n")
        return route(environ)

    def _limited(self, route: Route, environ: WSGIEnvironment) -> Response:
        if not self._free.acquire(blocking=False):
            return Response(
                "503 Service Unavailable",
                b"too many requests at once (--web.max-requests)\n",
                headers=(("Retry-After", "1"),),
            )
        try:
            return route(environ)
        finally:
            self._free.release()

    def _render(self, environ: WSGIEnvironment) -> Response:
        wish = canonical_accept(environ.get("HTTP_ACCEPT", ""))
        _, content_type = choose_encoder(wish)
        compressed = accepts_gzip(environ.get("HTTP_ACCEPT_ENCODING", ""))
        body, seconds = self._renderings.render(
            openmetrics=content_type.startswith(_OPENMETRICS), compressed=compressed
        )
        if seconds is not None:
            self._observe_scrape(seconds)
        headers = [("Vary", "Accept, Accept-Encoding")]
        if compressed:
            headers.append(("Content-Encoding", "gzip"))
        return Response("200 OK", body, content_type, tuple(headers))


def _probe(report: Report, fine: str) -> Response:
    reason = report()
    if reason is None:
        return Response("200 OK", f"{fine}\n".encode())
    return Response("503 Service Unavailable", f"{reason}\n".encode())
