"""The poll loop: one thread that wakes by timer and by event, reads, and publishes."""

from __future__ import annotations

import math
import selectors
import time
from typing import TYPE_CHECKING

import structlog
from prometheus_client.process_collector import ProcessCollector

from nvmeof_exporter.drill.running import is_running
from nvmeof_exporter.exposition.published import CollectorStatus
from nvmeof_exporter.model import EventKind
from nvmeof_exporter.sources.events import SourceBehind, SourceFailed, SourceUnavailable

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from nvmeof_exporter.config import Config
    from nvmeof_exporter.exposition.published import Published
    from nvmeof_exporter.model import Event, Snapshot
    from nvmeof_exporter.notify import ServiceManager
    from nvmeof_exporter.remembering import MemoryKeeper
    from nvmeof_exporter.slow import SlowSources
    from nvmeof_exporter.sources.events import EventSource
    from nvmeof_exporter.sources.nvme import NvmeSource
    from nvmeof_exporter.sources.reader import Reader

__all__ = ["Poller"]

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()

#: Events wake the poller, but not more often than this (seconds).
_MIN_SPACING_SECONDS = 0.005

#: A storm of uevents leads to one rescan per this time (seconds).
_MIN_RESCAN_SECONDS = 0.1

#: When to look again (seconds) after something was announced or found to have changed.
_FOLLOW_UP_SECONDS = (0.0, 0.1, 0.3, 1.0, 2.0)

#: A device that stays unreadable leads to one rescan per this time (seconds).
_STALE_RESCAN_SECONDS = 1.0

#: Polls that fail for this long (seconds) end the process.
_MOST_FAILING_SECONDS = 30.0

#: A source that failed is opened again after this time (seconds), at a rescan.
_REOPEN_SECONDS = 30.0

#: Polling counts as stopped after this many intervals, at least the seconds below.
_STOPPED_INTERVALS = 10
_STOPPED_SECONDS = 5.0

_RESCAN_KINDS = frozenset(
    {
        EventKind.CONTROLLER_ADDED,
        EventKind.CONTROLLER_REMOVED,
        EventKind.CONTROLLER_CONNECTED,
        EventKind.TOPOLOGY_CHANGED,
        EventKind.LOST_EVENTS,
    }
)
_SETTINGS_KINDS = frozenset({EventKind.CONTROLLER_CONNECTED, EventKind.RECONNECTED})


class Poller:
    """Runs until told to stop.

    Args:
        config: intervals and thresholds.
        source: what is polled.
        reader: whose errors are published.
        published: where each finished state goes.
        event_sources: what wakes the loop; each may fail and is then dropped.
        keeper: keeps the memory of paths.

    """

    def __init__(
        self,
        config: Config,
        source: NvmeSource,
        reader: Reader,
        published: Published,
        event_sources: list[EventSource],
        keeper: MemoryKeeper,
    ) -> None:
        self._config = config
        self._source = source
        self._reader = reader
        self._published = published
        self._keeper = keeper
        self._selector = selectors.DefaultSelector()
        self._sources = list(event_sources)
        self._events: list[Event] = []
        self._process = ProcessCollector(registry=None)
        self._interval = config.poll_interval
        self._last_poll: float | None = None
        self._next_rescan = 0.0
        self._last_rescan = 0.0
        self._rescans: list[float] = []
        self._settings_wanted = False
        self._told_states: set[str] = set()
        self._slow: SlowSources | None = None
        self._manager: ServiceManager | None = None
        self._stopping = False
        self._failing_since: float | None = None
        self._others: dict[str, Callable[[], bool | None]] = {"memory": lambda: keeper.works}
        self._descriptors: dict[str, int] = {}
        self._dropped: dict[str, tuple[float, EventSource]] = {}
        for event_source in event_sources:
            self._listen_to(event_source)
        with published.write() as state:
            state.collectors["nvme"] = CollectorStatus()
            for event_source in event_sources:
                state.collectors[event_source.name] = CollectorStatus()
                state.events[event_source.name] = 0

    def watch(self, wake: socket.socket, called: Callable[[], None]) -> None:
        """Call ``called`` in the loop's thread when ``wake`` becomes readable."""
        self._selector.register(wake, selectors.EVENT_READ, called)

    def inform(self, slow: SlowSources) -> None:
        """Let the slow sources know at once when paths or interfaces have changed."""
        self._slow = slow

    def include(self, name: str, works: Callable[[], bool | None]) -> None:
        """Publish every few seconds whether something else works; None: it is not there."""
        self._others[name] = works

    def report_to(self, manager: ServiceManager) -> None:
        """Give the service manager signs of life, one in every round that is due."""
        self._manager = manager

    def configure(self, config: Config) -> None:
        """Take over a new configuration; call it from the loop's thread."""
        self._config = config

    def stop(self) -> None:
        """End the loop after the present round."""
        self._stopping = True

    def health(self) -> str | None:
        """Return None while polling goes on, else since when it does not."""
        last = self._last_poll
        if last is None:
            return "not polled yet"
        age = time.monotonic() - last
        if age > max(_STOPPED_SECONDS, _STOPPED_INTERVALS * self._config.poll_interval):
            return f"polling has stopped: the newest poll is {age:.1f} s old"
        return None

    def ready(self) -> str | None:
        """Return None once a poll is finished."""
        return "not polled yet" if self._last_poll is None else None

    def run(self) -> None:
        """Poll until stopped."""
        due = time.monotonic()
        while not self._stopping:
            woken = self._wait(due)
            if self._manager is not None:
                self._manager.alive()
            now = time.monotonic()
            if now < due and not woken:
                continue
            if self._last_poll is not None and now - self._last_poll < _MIN_SPACING_SECONDS:
                due = min(due, self._last_poll + _MIN_SPACING_SECONDS)
                continue
            late = now - due
            self._poll_or_complain(now)
            if late > self._interval:
                with self._published.write() as state:
                    state.overruns += 1
            # Keep the rhythm, but do not run after polls that were missed.
            due = max(due + self._interval, time.monotonic()) if late >= 0 else now + self._interval
        self._selector.close()

    def _poll_or_complain(self, now: float) -> None:
        """Poll, and outlive a failure that passes, such as of memory; not one that stays."""
        try:
            self.poll(now)
        except Exception:
            if self._failing_since is None:
                self._failing_since = now
                _log.exception("poll failed, tried again")
                with self._published.write() as state:
                    state.collectors["nvme"].success = False
            elif now - self._failing_since > _MOST_FAILING_SECONDS:
                raise  # whoever started this process starts another, which may do better
            return
        if self._failing_since is not None:
            self._failing_since = None
            _log.info("polls succeed again")

    def poll(self, now: float) -> None:
        """Read, understand and publish once.

        Args:
            now: the monotonic time, seconds.

        """
        started = time.perf_counter()
        changed = self._rescan_when_due(now)
        snapshot = self._source.poll(time.monotonic(), time.time())
        events, self._events = self._events, []
        read_seconds = time.perf_counter() - started
        with self._published.write() as state:
            news = state.monitor.observe(snapshot, events)
            self._interval = (
                self._config.poll_incident_interval
                if state.monitor.attention
                else self._config.poll_interval
            )
            state.snapshot = snapshot
            if state.monitor.expectations.changed or self._keeper.has_news:
                # At once: a path seen for a second only must be missed after a restart.
                self._keeper.synchronize(state.monitor.expectations)
            state.poll_interval = self._interval
            nvme = state.collectors["nvme"]
            nvme.success = not self._source.blind
            nvme.seconds, nvme.errors = read_seconds, self._reader.errors
            state.poll_durations.observe(time.perf_counter() - started)
        first = self._last_poll is None
        self._last_poll = snapshot.monotonic
        if self._manager is not None:
            self._manager.polled(snapshot)
        if (first or changed) and self._slow is not None:
            self._slow.wake()
        for occurrence in news:
            log = _log.warning if occurrence.severe else _log.info
            log(occurrence.kind, id=occurrence.number, nqn=occurrence.nqn, **occurrence.fields)
        self._tell_unknown_states(snapshot)

    def _wait(self, due: float) -> bool:
        """Wait for the timer or an event; returns whether an event asks for a poll now."""
        woken = False
        patience = self._manager.patience if self._manager is not None else math.inf
        for key, _ in self._selector.select(min(max(due - time.monotonic(), 0.0), patience)):
            if callable(key.data):
                key.data()
            else:
                woken |= self._hear(key.data)
        return woken

    def _listen_to(self, event_source: EventSource) -> None:
        # A source may lose its descriptor: which one it was is remembered here.
        self._descriptors[event_source.name] = event_source.fileno()
        self._selector.register(event_source.fileno(), selectors.EVENT_READ, event_source)

    def _hear(self, event_source: EventSource) -> bool:
        started = time.perf_counter()
        try:
            heard = event_source.read()
        except SourceFailed as failure:
            self._drop(event_source, str(failure))
            return False
        except SourceBehind as reason:
            self._tell_whether_behind(event_source, str(reason))
            heard = []
        except Exception as defect:  # noqa: BLE001 - what was not foreseen must not end polling
            self._drop(event_source, repr(defect))
            return False
        else:
            self._tell_whether_behind(event_source)
        with self._published.write() as state:
            state.events[event_source.name] += len(heard)
            state.collectors[event_source.name].seconds = time.perf_counter() - started
        if self._slow is not None:
            self._slow.heed()
        kinds = {event.kind for event in heard}
        if kinds & _RESCAN_KINDS:
            self._expect_changes(time.monotonic())
        self._settings_wanted |= bool(kinds & _SETTINGS_KINDS)
        self._events.extend(heard)
        return bool(heard)

    def _expect_changes(self, now: float) -> None:
        """Rescan now and some more times soon.

        Hidden path disks come without a uevent, some time after their
        controller: the kernel scans namespaces in the background.
        """
        self._rescans = [now + delay for delay in _FOLLOW_UP_SECONDS]

    def _drop(self, event_source: EventSource, reason: str) -> None:
        _log.error("event source failed", collector=event_source.name, reason=reason)
        self._sources.remove(event_source)
        self._selector.unregister(self._descriptors.pop(event_source.name))
        event_source.close()
        self._dropped[event_source.name] = (time.monotonic() + _REOPEN_SECONDS, event_source)
        with self._published.write() as state:
            state.collectors[event_source.name].success = False

    def _reopen_dropped(self) -> None:
        """Try again what failed; what was missed meanwhile is found by looking."""
        now = time.monotonic()
        for name, (due, event_source) in list(self._dropped.items()):
            if now < due:
                continue
            try:
                event_source.reopen()
                self._listen_to(event_source)
            except SourceUnavailable:
                self._dropped[name] = (now + _REOPEN_SECONDS, event_source)
                continue
            del self._dropped[name]
            self._sources.append(event_source)
            self._tell_whether_behind(event_source)
            self._expect_changes(now)

    def _tell_whether_behind(self, event_source: EventSource, reason: str = "") -> None:
        name = event_source.name
        with self._published.write() as state:
            changed = state.collectors[name].success is bool(reason)
            state.collectors[name].success = not reason
        if changed and reason:
            _log.warning("event source is behind, tried again", collector=name, reason=reason)
        elif changed:
            _log.info("event source works again", collector=name)

    def _rescan_when_due(self, now: float) -> bool:
        """Bring the source up to date; returns whether there may be other paths now."""
        changed = self._settings_wanted
        wanted = (
            now >= self._next_rescan
            or (
                bool(self._rescans)
                and now >= self._rescans[0]
                and now - self._last_rescan >= _MIN_RESCAN_SECONDS
            )
            or (self._source.stale and now - self._last_rescan >= _STALE_RESCAN_SECONDS)
        )
        if wanted:
            self._rescans = [due for due in self._rescans if due > now]
            self._last_rescan = now
            self._next_rescan = now + self._config.poll_rescan_interval
            was_blind = self._source.blind
            if self._source.rescan():
                changed = True
                if not self._rescans:
                    self._expect_changes(now)
            if self._source.blind != was_blind:
                self._tell_whether_blind()
            for event_source in list(self._sources):
                self._hear(event_source)  # one that was behind may have caught up
            self._reopen_dropped()
            self._between_rescans()
        if self._settings_wanted:
            self._settings_wanted = False
            self._source.refresh_settings()
        return changed

    def _tell_whether_blind(self) -> None:
        if self._source.blind:
            _log.error("devices cannot be listed, those known are kept")
        else:
            _log.info("devices are listed again")

    def _between_rescans(self) -> None:
        """Do what is worth doing every few seconds only."""
        families = list(self._process.collect()) if self._config.collector_process else []
        drill_running = is_running(self._config.path_state)
        with self._published.write() as state:
            state.process_families = families
            state.drill_running = drill_running
            self._keeper.synchronize(state.monitor.expectations)
            for name, works in self._others.items():
                success = works()
                if success is not None:
                    state.collectors.setdefault(name, CollectorStatus()).success = success

    def _tell_unknown_states(self, snapshot: Snapshot) -> None:
        for subsystem in snapshot.subsystems:
            for controller in subsystem.controllers:
                if controller.state == "unknown" and controller.raw_state not in self._told_states:
                    self._told_states.add(controller.raw_state)
                    _log.warning(
                        "controller state not known to this version",
                        state=controller.raw_state,
                        controller=controller.name,
                    )
