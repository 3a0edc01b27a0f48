"""A namespace's share of a failover: when its I/O on a lost path stopped, and went on elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nvmeof_exporter.monitor.pace import first_done

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nvmeof_exporter.model import PathId
    from nvmeof_exporter.monitor.pace import NamespaceStep
    from nvmeof_exporter.monitor.progress import PathProgress, Step
    from nvmeof_exporter.monitor.stall import NamespaceProgress

__all__ = ["NamespaceView", "Share", "go_on", "last_moved", "note_given_up"]

#: A run of completions that began at most this long (seconds) before the loss
#: was seen is taken for the failed-over requests (ANA errors precede the state).
_EARLY_REROUTE_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class NamespaceView:
    """A namespace's progress and its newest step."""

    progress: NamespaceProgress
    step: NamespaceStep


@dataclass(slots=True)
class Share:
    """One namespace's share: when its I/O on the lost path last moved, was given up, went on.

    ``cancelled``: how many requests were given up then.
    """

    start: float | None
    given_up: float | None = None
    cancelled: int = 0
    end: float | None = None
    returned: bool = False

    @property
    def waited(self) -> float:
        """Seconds from ``start`` to ``end``."""
        return (self.end or 0.0) - (self.start or 0.0)


def note_given_up(share: Share, own: Step, progress: PathProgress | None, interval: float) -> None:
    """Note when the lost path gave its requests up, and let their waiting date the start."""
    if own.cancelled and own.wait is not None:
        start = own.ended - own.wait
        if own.wait < interval and progress is not None:
            # Too short to date anything: requests came steadily, the gap after the last does.
            start = min(start, progress.next_due(own) or start)
        share.start = start if share.given_up is None else min(start, share.start or start)
    if share.given_up is None and (progress is None or progress.in_flight == 0):
        share.given_up = own.ended
        share.cancelled = own.cancelled


def last_moved(view: NamespaceView, path: PathId, step: Step) -> float | None:
    """Date the last true completion on a path that was lost just now.

    None where no request was caught and nobody waits: the applications were between two
    requests, and it tells nothing of how long the next ones take.
    """
    progress = view.progress.paths.get(path)
    if progress is None:
        # Its counters went with it: I/O flowed on it for all that is known.
        return max(step.last_true, step.ended) if step.last_true is not None else None
    last = progress.last_true
    waiting_since = view.progress.waiting_since
    if last is None or step.in_flight_before:
        return last
    if waiting_since is not None:
        # Nothing was caught on it: what waits now was turned away later.
        return max(last, waiting_since)
    return last if step.cancelled else None


def go_on(
    share: Share,
    view: NamespaceView,
    own: Step | None,
    others: Mapping[PathId, Step],
    interval: tuple[float, float],
    *,
    given_up_now: bool,
) -> None:
    """Date the end of a share, and its start where nothing did yet.

    Args:
        share: of the lost path; it has given its requests up.
        view: the namespace.
        own: what the lost path did, None when it is gone.
        others: what those paths did on which requests truly completed.
        interval: when the previous look was and when this one is, monotonic seconds.
        given_up_now: the requests were given up in this very interval.

    """
    before, now = interval
    given_up = share.given_up if share.given_up is not None else now
    if given_up_now:
        end = min(
            _elsewhere(share, own, step, view.progress.paths.get(path), before, now)
            for path, step in others.items()
        )
    else:
        sent_on = view.progress.sent_on_at(given_up)
        end = first_done(view.step, sent_on, share.cancelled, before, now)
    share.end = max(end, share.start or 0.0)
    if share.start is None:
        began = share.end - min(step.latency for step in others.values())
        if view.step.pause is not None:
            began = min(began, view.step.pause.start)
        share.start = max(given_up, began)
    if given_up_now and own is not None and share.end >= before:
        _shorten(share, view.step, own, now - before)


def _elsewhere(
    share: Share,
    own: Step | None,
    step: Step,
    progress: PathProgress | None,
    before: float,
    now: float,
) -> float:
    """Date the first completion on another path when requests were given up just now.

    It came as much later as the first ones took there, unless I/O had moved
    over before the loss could be seen: none was caught on the lost path then.

    Args:
        share: of the lost path.
        own: what the lost path did, None when it is gone.
        step: what the other path did.
        progress: of the other path.
        before: when the previous look was, monotonic seconds.
        now: when this one is.

    """
    given_up = share.given_up if share.given_up is not None else now
    since = progress.flow_since if progress is not None else None
    caught = (own.wait or 0.0) if own is not None and own.cancelled else 0.0
    began_early = (
        since is not None
        and caught <= now - since
        and share.start is not None
        and share.start - _EARLY_REROUTE_SECONDS <= since < before
        and now - since < 2 * _EARLY_REROUTE_SECONDS
    )
    if began_early and since is not None:
        return since
    return given_up + min(step.latency, (now - before) / 2)


def _shorten(share: Share, whole: NamespaceStep, own: Step, interval: float) -> None:
    """Date a failover that began and ended within one poll interval.

    Neither end is seen then. What the lost requests waited and what the first
    ones elsewhere took is the least it lasted; what the interval lacks in
    completions, at the pace before, is what the applications did not get done.
    """
    waited = own.wait or 0.0
    if share.end is None or own.gone or waited >= interval:
        return
    if own.last_true is None or share.end - own.last_true > 2 * interval:
        return
    latencies = [s.latency for s in whole.paths.values() if s is not own and s.true]
    felt = waited + min(latencies, default=0.0)
    if whole.pace:
        # Where cancelled ones cannot be told apart, at most those in flight before were.
        flowed = whole.true + max(own.cancelled - max(own.in_flight_before, 1), 0)
        felt = max(felt, interval - flowed / whole.pace)
    share.start = share.end - min(felt, interval)
