"""From the newest finished state to metric families.

A scrape comes through here and touches no file: everything was read before.
"""

from __future__ import annotations

import platform
import threading
from typing import TYPE_CHECKING

from nvmeof_exporter import __version__
from nvmeof_exporter.exposition.hardware import add_hardware
from nvmeof_exporter.exposition.histories import Histories, add_histories
from nvmeof_exporter.exposition.policy import add_policy
from nvmeof_exporter.exposition.sheet import Sheet
from nvmeof_exporter.exposition.state import Expected, add_state

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from prometheus_client.core import Metric as ForeignFamily

    from nvmeof_exporter.exposition.encoder import Family
    from nvmeof_exporter.exposition.published import CollectorStatus, Published, PublishedState
    from nvmeof_exporter.exposition.sheet import Part

__all__ = ["StateCollector"]


class StateCollector:
    """Gives the families of the newest finished state, for ``encoder.encode``.

    One scrape at a time collects; what did not change since the one before is taken from it.
    """

    def __init__(self, published: Published) -> None:
        self._published = published
        self._before: Mapping[Hashable, Part] = {}
        self._lock = threading.Lock()

    def collect(self) -> Iterator[Family | ForeignFamily]:
        """Yield every family."""
        with self._lock:
            sheet = Sheet(self._before)
            process = self._fill(sheet)
            self._before = sheet.parts
        yield from sheet.families()
        yield from process

    def _fill(self, sheet: Sheet) -> list[ForeignFamily]:
        """Add everything that is text; what changes in place is copied under the state's lock."""
        with self._published.read() as state:
            snapshot = state.snapshot
            expected = Expected.of(state.monitor)
            histories = Histories.of(state.monitor)
            surroundings = state.surroundings
            policy = state.policy
            _exporter(sheet, state)
            process = list(state.process_families)
        around = surroundings()
        for name, status in around.statuses.items():
            _status(sheet, name, status)
        if snapshot is not None:
            add_histories(sheet, snapshot, histories)
            add_state(sheet, snapshot, expected, around)
            add_hardware(sheet, around)
            add_policy(sheet, snapshot, expected, policy)
        return process


def _exporter(sheet: Sheet, state: PublishedState) -> None:
    sheet.add("nvmeof_exporter_build_info", (__version__, platform.python_version()), 1)
    sheet.add("nvmeof_exporter_poll_interval_seconds", (), state.poll_interval)
    sheet.add_histogram(
        "nvmeof_exporter_poll_duration_seconds", (), state.poll_durations.observed()
    )
    if state.snapshot is not None:
        sheet.add("nvmeof_exporter_last_poll_timestamp_seconds", (), state.snapshot.wall)
    sheet.add("nvmeof_exporter_poll_overruns_total", (), state.overruns)
    for name, status in state.collectors.items():
        _status(sheet, name, status)
    for source, count in state.events.items():
        sheet.add("nvmeof_exporter_events_total", (source,), count)
    if state.scrape_seconds is not None:
        sheet.add("nvmeof_exporter_scrape_duration_seconds", (), state.scrape_seconds)
    sheet.add_known("nvmeof_drill_running", (), state.drill_running)


def _status(sheet: Sheet, name: str, status: CollectorStatus) -> None:
    sheet.add("nvmeof_exporter_collector_success", (name,), status.success)
    sheet.add("nvmeof_exporter_collector_duration_seconds", (name,), status.seconds)
    sheet.add("nvmeof_exporter_read_errors_total", (name,), status.errors)
