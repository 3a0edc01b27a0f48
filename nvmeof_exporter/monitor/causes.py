"""Why a path was lost: what the kernel announced around it, and what the snapshots show.

Each source may be missing; then only the causes it alone can tell become
``unknown``. Nothing is guessed from durations.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nvmeof_exporter.model import EventKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from nvmeof_exporter.model import Controller, Event, PathId
    from nvmeof_exporter.monitor.look import Look
    from nvmeof_exporter.monitor.share import NamespaceView

__all__ = ["ERROR_CAUSES", "FAILOVER_CAUSES", "Evidence", "LossSigns", "Losses", "error_cause"]

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

#: Signs of a path that is gone are kept this long (seconds): a failover that nobody asked
#: about by then is not going to be counted.
_LONGEST_KEPT_SECONDS = 3600.0

#: A failed connect is told twice, by the transport and as a failed attempt: the latter counts.
_ERRORS = {
    EventKind.KEEP_ALIVE_FAILED: "keep_alive",
    EventKind.IO_TIMEOUT: "io_timeout",
    EventKind.TRANSPORT_ERROR: "transport",
    EventKind.RECONNECT_FAILED: "connect",
    EventKind.ANA_TIMEOUT: "ana",
    EventKind.REMOVING: "removed",
    EventKind.FAST_FAIL: "other",
}


def error_cause(kind: EventKind) -> str | None:
    """Return under which cause an event counts as an error of its path, None: it does not."""
    return _ERRORS.get(kind)


#: What tells why, where it comes first: whatever follows it is a consequence. A cancelled
#: keep-alive is logged as failed too, but only after what cancelled it; the keep-alive
#: that failed by itself comes before the error recovery that it starts.
_TELLING = {
    EventKind.KEEP_ALIVE_FAILED: "keep_alive",
    EventKind.IO_TIMEOUT: "io_timeout",
    EventKind.TRANSPORT_ERROR: "transport",
    EventKind.ERROR_RECOVERY: "transport",
    EventKind.ANA_TIMEOUT: "ana",
    EventKind.RESETTING: "administrative",
    EventKind.REMOVING: "administrative",
}

#: After these, what was announced of a controller before is of an earlier loss.
_FRESH_STARTS = frozenset({EventKind.RECONNECTED, EventKind.CONTROLLER_CONNECTED})

_EVIDENCE = _TELLING.keys() | _FRESH_STARTS | {EventKind.CARRIER_LOST, EventKind.CARRIER_GAINED}

#: The same kind again within this time (seconds) is no news: one line per request.
_BURST_SECONDS = 1.0

#: What was announced longer before a loss (seconds) does not explain it: longer than
#: any usual keep-alive or I/O time-out.
_LONGEST_LEAD_SECONDS = 60.0

#: A cause may be announced this much (seconds) before the last completion that was seen.
_LEAD_SECONDS = 2.0


@dataclass(slots=True)
class LossSigns:
    """What the snapshots themselves show of a loss, whatever was announced.

    ``controller`` and ``netdev`` are the kernel's names at the time, ``last_io``
    is when a request last completed there and ``lost_at`` when the loss was seen
    (monotonic seconds). ``ana``: the controller stayed usable; ``gone``: it vanished;
    ``states``: those it was seen in since. ``unused``: no request is known to have
    completed there at all, so ``last_io`` is only when the loss was not seen yet.
    """

    controller: str
    netdev: str
    last_io: float
    lost_at: float
    ana: bool = False
    gone: bool = False
    states: set[str] = field(default_factory=set)
    unused: bool = False

    @property
    def since(self) -> float:
        """From when on (monotonic seconds) an announcement may explain the loss."""
        return max(self.last_io, self.lost_at - _LONGEST_LEAD_SECONDS) - _LEAD_SECONDS


class Evidence:
    """Remembers the newest events per device and derives causes from them."""

    def __init__(self) -> None:
        self._events: dict[str, deque[Event]] = {}
        self._incomplete_at = float("-inf")

    def add(self, events: Iterable[Event]) -> None:
        """Take what was announced since the last time."""
        for event in events:
            if event.kind is EventKind.LOST_EVENTS:
                self._incomplete_at = max(self._incomplete_at, event.time)
            elif event.device and event.kind in _EVIDENCE:
                kept = self._kept(event.device)
                if not kept or not _one_burst(kept[-1], event):
                    kept.append(event)

    def cause(self, signs: LossSigns, until: float, *, log_readable: bool = False) -> str:
        """Name the cause of a loss, one of FAILOVER_CAUSES.

        The root goes first: a pulled cable is found by the keep-alive, but the
        cable is the cause; a time-out is followed by error recovery, but the
        time-out is.

        Args:
            signs: what the snapshots show.
            until: what was announced later (monotonic seconds) does not count.
            log_readable: the kernel log is heard, so that what it does not say
                did not happen.

        """
        since = max(signs.since, self._connected(signs))
        told = self._first_told(signs, since, until)
        silent = log_readable and not told and self._incomplete_at < since
        rules: tuple[tuple[bool, str], ...] = (
            (signs.ana, "ana"),
            (self._link_was_down(signs, since, until), "link_down"),
            (told != "", told),
            ("deleting" in signs.states, "administrative"),
            (signs.gone, "removed"),
            # ``nvme reset`` by way of sysfs is the only reset that the kernel says nothing of.
            (silent and "resetting" in signs.states, "administrative"),
        )
        return next((cause for applies, cause in rules if applies), "unknown")

    def _connected(self, signs: LossSigns) -> float:
        """When the controller last connected before it was lost (monotonic seconds)."""
        events = self._events.get(signs.controller, ())
        connected = (e.time for e in events if e.kind in _FRESH_STARTS and e.time <= signs.lost_at)
        return max(connected, default=float("-inf"))

    def _first_told(self, signs: LossSigns, since: float, until: float) -> str:
        """Return the cause that was announced first, ``""`` when none was."""
        events = self._events.get(signs.controller, ())
        kinds = (e.kind for e in events if since <= e.time <= until and e.kind in _TELLING)
        first = next(kinds, None)
        return _TELLING[first] if first is not None else ""

    def _link_was_down(self, signs: LossSigns, since: float, until: float) -> bool:
        """Whether the interface lost its carrier after the last I/O, and had it not back in time.

        No I/O may have been wanted for hours: it may have been down all the while.
        """
        down = still = False
        for event in self._events.get(signs.netdev, ()):
            if event.kind is EventKind.CARRIER_LOST:
                down |= signs.last_io - _LEAD_SECONDS <= event.time <= until
                still |= event.time <= signs.lost_at
            elif event.time < since:
                down = still = False
            elif event.time <= signs.lost_at:
                still = False
        return down or (still and signs.unused)

    def _kept(self, device: str) -> deque[Event]:
        kept = self._events.get(device)
        if kept is None:
            if len(self._events) >= _KEPT_DEVICES:
                self._events.pop(next(iter(self._events)))
            kept = self._events[device] = deque(maxlen=_KEPT_EVENTS)
        return kept


def _one_burst(earlier: Event, event: Event) -> bool:
    return earlier.kind is event.kind and event.time - earlier.time < _BURST_SECONDS


class Losses:
    """Keeps what shows why each path was lost, until somebody asks.

    Args:
        netdev_of: names the interface a path uses, ``""`` when not known.

    """

    def __init__(self, netdev_of: Callable[[Controller], str]) -> None:
        self._netdev_of = netdev_of
        self._evidence = Evidence()
        self._signs: dict[str, dict[PathId, LossSigns]] = {}
        self._before: dict[str, dict[PathId, Controller]] = {}

    def hear(self, events: Iterable[Event]) -> None:
        """Take what was announced since the previous look."""
        self._evidence.add(events)

    def observe(self, look: Look, views: Mapping[str, NamespaceView]) -> None:
        """Keep what the newest look shows of each loss, new or not yet asked for."""
        signs = self._signs.setdefault(look.nqn, {})
        before = self._before.get(look.nqn, {})
        for view in views.values():
            for path, step in view.step.paths.items():
                # As it was while it was live: later it does not show its address.
                known = before.get(path) or look.controllers.get(path)
                if step.lost and known is not None:
                    signs[path] = self._new(look, path, known, step.last_true)
        for path in list(signs):
            controller = look.controllers.get(path)
            if controller is not None and controller.state is not None:
                signs[path].states.add(controller.state)
            elif controller is None and look.now - signs[path].lost_at > _LONGEST_KEPT_SECONDS:
                del signs[path]
        self._before[look.nqn] = look.controllers

    def cause(self, nqn: str, path: PathId, now: float, *, log_readable: bool) -> str:
        """Name the cause of the newest loss of a path, and forget its signs."""
        signs = self._signs.get(nqn, {}).pop(path, None)
        if signs is None:
            return "unknown"
        return self._evidence.cause(signs, now, log_readable=log_readable)

    def drop(self, nqn: str) -> None:
        """Forget every path of a subsystem."""
        self._signs.pop(nqn, None)
        self._before.pop(nqn, None)

    def _new(
        self, look: Look, path: PathId, known: Controller, last_true: float | None
    ) -> LossSigns:
        now = look.controllers.get(path)
        return LossSigns(
            known.name,
            self._netdev_of(known),
            last_io=min(last_true, look.now) if last_true is not None else look.before,
            lost_at=look.now,
            ana=now is not None and now.usable,
            gone=now is None,
            unused=last_true is None,
        )
