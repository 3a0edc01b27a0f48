"""What a request is answered with."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from _typeshed.wsgi import WSGIEnvironment

    #: What answers the requests for one path.
    Route: TypeAlias = Callable[[WSGIEnvironment], "Response"]

__all__ = ["TEXT", "Response", "Route"]

TEXT = "text/plain; charset=utf-8"


class Response(NamedTuple):
    """A whole answer. ``status`` is the line after the protocol (``200 OK``)."""

    status: str
    body: bytes
    content_type: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()
