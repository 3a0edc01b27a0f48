"""The newest finished state: written by the poll loop, read by scrapes."""

from __future__ import annotations

import secrets
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nvmeof_exporter.monitor.histogram import POLL_BUCKETS, Histogram
from nvmeof_exporter.policy import preset_policy
from nvmeof_exporter.surroundings import Surroundings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client import Metric

    from nvmeof_exporter.model import Snapshot
    from nvmeof_exporter.monitor.monitor import Monitor
    from nvmeof_exporter.policy import Policy

__all__ = ["CollectorStatus", "Published", "PublishedState"]


@dataclass(slots=True)
class CollectorStatus:
    """How one source is doing; ``seconds`` is what its newest reading took."""

    success: bool = True
    seconds: float = 0.0
    errors: int = 0


@dataclass(slots=True)
class PublishedState:
    """Everything a scrape tells. ``snapshot`` is None until the first poll is over.

    ``surroundings`` returns what is known of what paths run over, without waiting.
    ``instance`` is this run's name: what counts from its beginning counts anew in another.
    ``started`` is when it began (wall-clock seconds).
    """

    monitor: Monitor
    poll_interval: float
    surroundings: Callable[[], Surroundings] = Surroundings
    policy: Policy = field(default_factory=preset_policy)
    snapshot: Snapshot | None = None
    poll_durations: Histogram = field(default_factory=lambda: Histogram(POLL_BUCKETS))
    overruns: int = 0
    collectors: dict[str, CollectorStatus] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)
    scrape_seconds: float | None = None
    drill_running: bool | None = None
    process_families: Iterable[Metric] = ()
    instance: str = field(default_factory=lambda: secrets.token_hex(8))
    started: float = field(default_factory=time.time)


class Published:
    """Hands the state between the poll loop and scrapes, never half finished."""

    def __init__(self, state: PublishedState) -> None:
        self._state = state
        self._lock = threading.Lock()

    @property
    def snapshot(self) -> Snapshot | None:
        """The newest snapshot, for who must not wait: it never changes."""
        return self._state.snapshot

    @contextmanager
    def write(self) -> Iterator[PublishedState]:
        """Change the state; scrapes wait meanwhile."""
        with self._lock:
            yield self._state

    @contextmanager
    def read(self) -> Iterator[PublishedState]:
        """Look at the state; the next poll waits meanwhile, so make it short."""
        with self._lock:
            yield self._state

    def observe_scrape(self, seconds: float) -> None:
        """Note what a scrape took."""
        with self._lock:
            self._state.scrape_seconds = seconds
