"""What stands before the pages: rate limit, passwords, and the headers asked for.

A WSGI application around another one; it serves the newest version of the web
configuration.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from nvmeof_exporter.exposition.passwords import Passwords, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

    from nvmeof_exporter.config.web_file import RateLimit

__all__ = ["Guard", "Protection", "TokenBucket"]

_CHALLENGE = ("WWW-Authenticate", 'Basic realm="nvmeof-exporter", charset="UTF-8"')


class Protection(NamedTuple):
    """What each request meets; None and nothing where nothing was asked for."""

    passwords: Passwords | None = None
    headers: tuple[tuple[str, str], ...] = ()
    bucket: TokenBucket | None = None


class TokenBucket:
    """Lets a burst through, and then one request per interval."""

    def __init__(self, limit: RateLimit) -> None:
        self.limit = limit
        self._tokens = float(limit.burst)
        self._filled = time.monotonic()
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Take a token; returns whether there was one."""
        now = time.monotonic()
        with self._lock:
            gained = (now - self._filled) / self.limit.interval
            self._tokens = min(self._tokens + gained, self.limit.burst)
            self._filled = now
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True


class Guard:
    """Asks ``protection`` for each request, and ``application`` for its answer."""

    def __init__(self, application: WSGIApplication, protection: Callable[[], Protection]) -> None:
        self._application = application
        self._protection = protection

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request (PEP 3333)."""
        protection = self._protection()
        start = _adding(start_response, protection.headers)
        if protection.bucket is not None and not protection.bucket.take():
            return _refuse(
                environ, start, "429 Too Many Requests", "more requests than rate_limit allows"
            )
        if protection.passwords is not None:
            verdict = protection.passwords.judge(environ.get("HTTP_AUTHORIZATION", ""))
            if verdict is Verdict.BUSY:
                return _refuse(
                    environ, start, "503 Service Unavailable", "too many passwords to check"
                )
            if verdict is Verdict.DENIED:
                return _refuse(environ, start, "401 Unauthorized", "Unauthorized")
        return self._application(environ, start)


def _adding(start_response: StartResponse, added: tuple[tuple[str, str], ...]) -> StartResponse:
    if not added:
        return start_response
    names = {name.lower() for name, _ in added}

    def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:  # noqa: ANN401
        kept = [header for header in headers if header[0].lower() not in names]
        return start_response(status, [*kept, *added], exc_info)

    return start


def _refuse(
    environ: WSGIEnvironment, start_response: StartResponse, status: str, reason: str
) -> list[bytes]:
    body = f"{reason}\n".encode()
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
    headers += [("X-Content-Type-Options", "nosniff")]
    if status.startswith("401"):
        headers.append(_CHALLENGE)
    else:
        headers.append(("Retry-After", "1"))
    start_response(status, headers)
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]
