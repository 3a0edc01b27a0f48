"""The newest state as the bytes of an answer: made once, and shared by all who ask for it.

Two Prometheus servers, an agent and a curious person ask for the same within one poll
interval. Whoever comes first renders; the others wait for that and get the same bytes.
"""

from __future__ import annotations

import threading
import time
import zlib
from typing import TYPE_CHECKING, NamedTuple, Protocol

from nvmeof_exporter.exposition.encoder import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client.core import Metric as ForeignFamily

    from nvmeof_exporter.exposition.encoder import Family

__all__ = ["Collector", "Rendering", "Renderings"]

#: Metrics repeat themselves so much that the fastest level already saves nearly all there is.
_GZIP_LEVEL = 1

#: zlib's number for a window of 32 KiB in gzip's wrapping.
_GZIP_WINDOW = zlib.MAX_WBITS | 16

#: A rendering is not shared for longer (seconds), should polls have stopped: what comes from
#: beside the poll loop moves on.
_SHARED_SECONDS = 1.0


class Collector(Protocol):
    """Gives the families of the newest state; also any collector of prometheus_client."""

    def collect(self) -> Iterable[Family | ForeignFamily]:
        """Return every family."""


class Rendering(NamedTuple):
    """The bytes of an answer. ``seconds``: what it took to make them, None when they were there."""

    body: bytes
    seconds: float | None


class _Kept(NamedTuple):
    moment: object
    until: float
    body: bytes


class Renderings:
    """Renders the newest state, at most once per format.

    Args:
        collector: gives the families.
        moment: names the newest state, by an object that is another one for each.

    """

    def __init__(self, collector: Collector, moment: Callable[[], object]) -> None:
        self._collector = collector
        self._moment = moment
        self._lock = threading.Lock()
        self._kept: dict[tuple[bool, bool], _Kept] = {}

    def render(self, *, openmetrics: bool, compressed: bool) -> Rendering:
        """Return the newest state in a format; raises what the collector raises."""
        form = (openmetrics, compressed)
        with self._lock:
            started = time.perf_counter()
            # Taken before the state itself: what is newer than its name is no harm.
            moment = self._moment()
            kept = self._kept.get(form)
            if kept is not None and kept.moment is moment and started < kept.until:
                return Rendering(kept.body, None)
            pieces = encode(self._collector.collect(), openmetrics=openmetrics)
            body = _compressed(pieces) if compressed else b"".join(pieces)
            done = time.perf_counter()
            if moment is not None:
                # Of older states nobody wants one any more.
                self._kept = {f: k for f, k in self._kept.items() if k.moment is moment}
                self._kept[form] = _Kept(moment, done + _SHARED_SECONDS, body)
        return Rendering(body, done - started)


def _compressed(pieces: Iterable[bytes]) -> bytes:
    """Compress piece by piece: the whole is several megabytes on a large node."""
    packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    return b"".join([*map(packer.compress, pieces), packer.flush()])
