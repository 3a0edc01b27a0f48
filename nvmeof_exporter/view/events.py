"""What happened lately, as it is told to whoever asks."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from nvmeof_exporter.monitor.records import PHASES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nvmeof_exporter.exposition.published import Published
    from nvmeof_exporter.monitor.records import Occurrence

__all__ = ["DEFAULT_LIMIT", "MOST_EVENTS", "EventView", "EventsView", "events_view"]

DEFAULT_LIMIT = 100
MOST_EVENTS = 1000


class EventView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event; what does not apply to its kind is left out.

    ``kind`` is the message of the log line that tells of it, and the other names are that
    line's fields, but for ``phases``: seconds by ``detection``, ``reroute``, ``reconnect``
    and ``failback``. Times are wall-clock seconds: ``time`` when it was found, ``start`` and
    ``end`` of what lasted.
    """

    id: int
    time: float
    kind: str
    severe: bool
    nqn: str
    nsid: str | None = None
    path: str | None = None
    also: tuple[str, ...] = ()
    controller: str | None = None
    old: str | None = None
    new: str | None = None
    old_seconds: float | None = None
    cause: str | None = None
    outcome: str | None = None
    seconds: float | None = None
    phases: dict[str, float] | None = None
    start: float | None = None
    end: float | None = None


class EventsView(msgspec.Struct, frozen=True, kw_only=True):
    """Events, oldest first.

    ``instance`` names the run of the exporter that ``id`` counts in. ``newest`` is the
    newest event's id, 0 before the first. ``forgotten`` is how many of those asked for are no
    longer kept. ``more``: the limit cut some off.
    """

    instance: str
    newest: int
    forgotten: int
    more: bool
    events: tuple[EventView, ...]


def events_view(published: Published, since: int | None, limit: int) -> EventsView:
    """Tell of events.

    Args:
        published: the state.
        since: only of those with a greater id, beginning with the oldest of them; None:
            of the newest.
        limit: of how many at most.

    """
    with published.read() as state:
        occurrences = list(state.monitor.occurrences)
        newest = state.monitor.occurrences.newest
        instance = state.instance
    after = [one for one in occurrences if one.number > (since or 0)]
    chosen = after[-limit:] if since is None else list(islice(after, limit))
    return EventsView(
        instance=instance,
        newest=newest,
        forgotten=max(newest - (since or 0), 0) - len(after),
        more=len(chosen) < len(after),
        events=tuple(_event(occurrence) for occurrence in chosen),
    )


def _event(occurrence: Occurrence) -> EventView:
    fields = occurrence.fields
    phases = {
        phase: float(fields[f"{phase}_seconds"]) for phase in PHASES if f"{phase}_seconds" in fields
    }
    return EventView(
        id=occurrence.number,
        time=round(occurrence.wall, 3),
        kind=occurrence.kind,
        severe=occurrence.severe,
        nqn=occurrence.nqn,
        nsid=_text(fields, "nsid"),
        path=_text(fields, "path"),
        also=tuple(str(fields.get("also", "")).split()),
        controller=_text(fields, "controller"),
        old=_text(fields, "old"),
        new=_text(fields, "new"),
        old_seconds=_number(fields, "old_seconds"),
        cause=_text(fields, "cause"),
        outcome=_text(fields, "outcome"),
        seconds=_number(fields, "seconds"),
        phases=phases or None,
        start=_rounded(occurrence.start),
        end=_rounded(occurrence.end),
    )


def _text(fields: Mapping[str, str | float], name: str) -> str | None:
    return str(fields[name]) if fields.get(name) else None


def _number(fields: Mapping[str, str | float], name: str) -> float | None:
    return float(fields[name]) if name in fields else None


def _rounded(seconds: float | None) -> float | None:
    return round(seconds, 3) if seconds is not None else None
