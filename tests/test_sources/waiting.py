"""Waiting for what a source of events is about to tell."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.fixtures.descriptors import readable

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvmeof_exporter.model import Event
    from nvmeof_exporter.sources.events import EventSource

_PATIENCE_SECONDS = 10.0


def events_until(source: EventSource, enough: Callable[[list[Event]], bool]) -> list[Event]:
    """Read the source as a loop would, until ``enough`` has come."""
    events: list[Event] = []
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not enough(events):
        assert is_readable(source, deadline - time.monotonic()), f"nothing more came after {events}"
        events += source.read()
    return events


def is_readable(source: EventSource, patience: float = 0.0) -> bool:
    """Whether a loop would call the source's read() now."""
    return bool(readable([source], max(patience, 0.0)))
