"""Why a path was lost: what the kernel announced around it.

Each source may be missing; then only the causes it alone can tell become
``unknown``. Nothing is guessed from durations.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from nvmeof_exporter.model import EventKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nvmeof_exporter.model import Event

__all__ = ["ERROR_CAUSES", "FAILOVER_CAUSES", "Evidence", "LossSigns", "error_cause"]

FAILOVER_CAUSES = (
    "link_down",
    "keep_alive",
    "io_timeout",
    "transport",
    "ana",
    "removed",
    "administrative",
    "unknown",
)

ERROR_CAUSES = ("keep_alive", "io_timeout", "transport", "connect", "ana", "removed", "other")

#: Events kept per device: a storm must not cost memory.
_KEPT_EVENTS = 64

#: Devices whose events are kept.
_KEPT_DEVICES = 4096

_ERRORS = {
    EventKind.KEEP_ALIVE_FAILED: "keep_alive",
    EventKind.IO_TIMEOUT: "io_timeout",
    EventKind.TRANSPORT_ERROR: "transport",
    EventKind.CONNECT_FAILED: "connect",
    EventKind.RECONNECT_FAILED: "connect",
    EventKind.ANA_TIMEOUT: "ana",
    EventKind.REMOVING: "removed",
    EventKind.FAST_FAIL: "other",
}


def error_cause(kind: EventKind) -> str | None:
    """Return under which cause an event counts as an error of its path, None: it does not."""
    return _ERRORS.get(kind)


class LossSigns:
    """What the snapshots themselves show of a loss, whatever was announced.

    ``controller`` is the kernel's name at the time; ``ana``: the controller
    stayed live; ``states``: the states seen since; ``gone``: it vanished.
    """

    __slots__ = ("ana", "controller", "gone", "netdev", "since", "states")

    def __init__(
        self, controller: str, netdev: str, since: float, *, ana: bool, gone: bool
    ) -> None:
        self.controller = controller
        self.netdev = netdev
        self.since = since
        self.ana = ana
        self.gone = gone
        self.states: set[str] = set()


class Evidence:
    """Remembers the newest events per device and derives causes from them."""

    def __init__(self) -> None:
        self._events: dict[str, deque[Event]] = {}

    def add(self, events: Iterable[Event]) -> None:
        """Take what was announced since the last time."""
        for event in events:
            if not event.device:
                continue
            kept = self._events.get(event.device)
            if kept is None:
                if len(self._events) >= _KEPT_DEVICES:
                    self._events.pop(next(iter(self._events)))
                kept = self._events[event.device] = deque(maxlen=_KEPT_EVENTS)
            kept.append(event)

    def kinds(self, device: str, since: float, until: float) -> set[EventKind]:
        """Return what was announced of a device in a span of monotonic seconds."""
        return {e.kind for e in self._events.get(device, ()) if since <= e.time <= until}

    def cause(self, signs: LossSigns, until: float) -> str:
        """Name the cause of a loss, one of FAILOVER_CAUSES.

        The root goes first: a pulled cable is found by the keep-alive, but the
        cable is the cause; a time-out is followed by error recovery, but the
        time-out is.
        """
        own = self.kinds(signs.controller, signs.since, until)
        link = self.kinds(signs.netdev, signs.since, until) if signs.netdev else set()
        if signs.ana:
            return "ana"
        if EventKind.CARRIER_LOST in link:
            return "link_down"
        if EventKind.IO_TIMEOUT in own:
            return "io_timeout"
        if EventKind.KEEP_ALIVE_FAILED in own:
            return "keep_alive"
        if own & {EventKind.ERROR_RECOVERY, EventKind.TRANSPORT_ERROR}:
            return "transport"
        if EventKind.ANA_TIMEOUT in own:
            return "ana"
        if "deleting" in signs.states or EventKind.REMOVING in own:
            return "administrative"
        if signs.gone:
            return "removed"
        if EventKind.RESETTING in own:
            return "administrative"
        return "unknown"
