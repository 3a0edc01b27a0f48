"""The view of the node that this exporter watches."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from nvmeof_exporter.exposition.state import Expected
from nvmeof_exporter.view.build import Watch, node_view
from nvmeof_exporter.view.history import History
from nvmeof_exporter.view.model import CollectorView, HealthView
from nvmeof_exporter.view.moment import Moment
from nvmeof_exporter.view.policy import Judge

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nvmeof_exporter.exposition.published import CollectorStatus, Published
    from nvmeof_exporter.view.build import Where
    from nvmeof_exporter.view.model import NodeView

__all__ = ["LiveView"]

#: Everybody who asks within so long a time (seconds) gets the same view: that of a large
#: node takes a tenth of a second to make, and browsers ask again and again.
_SHARED_SECONDS = 0.25


class LiveView:
    """Makes views of the newest finished state; touches no file and waits for nothing.

    Args:
        published: the state.
        where: which node and tree it is of.
        health: says what is wrong with polling, None when nothing is.
        clock: the monotonic clock that snapshots are taken by, in seconds.

    """

    def __init__(
        self,
        published: Published,
        where: Where,
        health: Callable[[], str | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._published = published
        self._where = where
        self._health = health
        self._clock = clock
        self._judge = Judge()
        self._lock = threading.Lock()
        self._made: NodeView | None = None
        self._made_at = 0.0

    def view(self) -> NodeView | None:
        """Return one that was made just now; None before the first poll is over."""
        with self._lock:
            now = self._clock()
            if self._made is None or now - self._made_at >= _SHARED_SECONDS:
                self._made = self._make()
                self._made_at = now
            return self._made

    def _make(self) -> NodeView | None:
        with self._published.read() as state:
            snapshot = state.snapshot
            if snapshot is None:
                return None
            expected = Expected.of(state.monitor)
            history = History.of(state.monitor)
            surroundings = state.surroundings
            policy = state.policy
            collectors = _collectors(state.collectors)
            instance, started = state.instance, state.started
            interval = state.poll_interval
        around = surroundings()
        moment = Moment(
            snapshot, expected, around, policy, history, watched=True, judge=self._judge
        )
        problem = self._health()
        health = HealthView(
            healthy=problem is None,
            problem=problem,
            collectors=collectors + _collectors(around.statuses),
        )
        watch = Watch(instance, started, interval, health)
        return node_view(moment, self._where, self._clock(), watch)


def _collectors(statuses: Mapping[str, CollectorStatus]) -> tuple[CollectorView, ...]:
    return tuple(
        CollectorView(name=name, success=status.success, errors=status.errors)
        for name, status in sorted(statuses.items())
    )
