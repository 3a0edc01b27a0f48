"""Events as text."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from nvmeof_exporter.show.measures import pause
from nvmeof_exporter.terminal import printable

if TYPE_CHECKING:
    from nvmeof_exporter.show.node import Layout
    from nvmeof_exporter.view.events import EventsView, EventView

__all__ = ["events_text"]


def events_text(view: EventsView, origin: str, layout: Layout) -> str:
    """Tell of events, oldest first, with times of this machine's time zone."""
    lines = layout.wrapped(f"events of {origin}", "", "faint")
    lines += [line for event in view.events for line in _event(event, layout)]
    if not view.events:
        lines.append("nothing has happened since it was started")
    return "\n".join(lines) + "\n"


def _event(event: EventView, layout: Layout) -> list[str]:
    whole, fraction = divmod(round(event.time * 1000), 1000)
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(whole)) + f".{fraction:03d}"
    indent = "  "
    head = f"{layout.paint(stamp, 'faint')}  {printable(event.nqn)}"
    return [head, *layout.wrapped(_told(event), indent, "warning" if event.severe else "")]


def _told(event: EventView) -> str:
    where = f"namespace {event.nsid}" if event.nsid else ""
    if event.path:
        where = f"{where} on {event.path}" if where else event.path
    told = f"{event.kind}: {where}"
    if event.also:
        told += f", {', '.join(event.also)}"
    if event.old and event.new:
        told += f" from {event.old} to {event.new}"
        if event.old_seconds is not None:
            told += f" after {pause(event.old_seconds)}"
    if event.seconds is not None:
        told += f", {pause(event.seconds)}"
    if event.phases:
        phases = (f"{name} {pause(seconds)}" for name, seconds in event.phases.items())
        told += f" ({', '.join(phases)})"
    if event.cause:
        told += f", cause {event.cause}"
    if event.outcome:
        told += f", {event.outcome}"
    return told
