"""One fault under load: what the application has timed, and what the exporter says of it."""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tests.kernel.guest.load import as_json, start
from tests.kernel.guest.logs import say
from tests.kernel.guest.probe import KEPT
from tests.kernel.guest.waiting import await_

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kernel.guest.case import Case, Expected
    from tests.kernel.guest.exporter import Scrape
    from tests.kernel.guest.lab import Lab
    from tests.kernel.guest.scenario import Registry

__all__ = ["Measurement", "measured"]

#: Requests that no cancellation and no left-over can explain.
_FLOWING = 40

#: Seconds that a fault is watched for after all is told: what must not come has time to.
_AFTERMATH = 0.5


class Measurement:
    """A context in which an application runs over a fabric; leaving it yields ``record``.

    ``active`` is the link that most I/O goes over when the fault comes, ``lost`` are the
    links that the fault takes (at first: the active one).
    """

    def __init__(self, lab: Lab, name: str, case: Case, expected: Expected) -> None:
        self._lab = lab
        self._directory = lab.scenario_directory(name)
        self._case = case
        self._expected = expected
        self.fabric = lab.fabric(case.fabric)
        self.record: dict[str, Any] = {}
        self.active = 0
        self.lost: tuple[int, ...] = ()
        self._before: dict[int, int] = {}
        self._began = 0.0
        self._flowing = math.inf

    def __enter__(self) -> Measurement:  # noqa: PYI034 - typing.Self is of Python 3.11
        self.fabric.__enter__()
        try:
            nqn, paths = self.fabric.nqn, len(self._case.ana)
            self._lab.exporter.await_value("nvmeof_subsystem_paths_usable", paths, nqn=nqn)
            # In life that is long known when a path is lost: what it runs over tells the cause.
            self._lab.exporter.await_(
                lambda scrape: _known_interfaces(scrape, nqn) == paths,
                20,
                "the interfaces of all paths",
                "nvmeof_path_info",
            )
            self._load = start(self.fabric.heads(), self._case.load, self._directory)
            before = self._completed()
            await_(lambda: self._progress(before) > _FLOWING, 20, "the first requests")
            self.active = self._busiest()
            self.lost = (self.active,)
            self._before = self._completed()
            self._began = time.monotonic()
        except BaseException:
            self.fabric.close()
            raise
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        try:
            if failure:
                say(self.fabric.describe())
                self._load.kill()
                say(self._load.output.read_text())
            else:
                scrape = self._lab.exporter.scrape(self.fabric.nqn)
                moved = self._moved()
                # What was issued later waited for other things than the fault.
                slow = self._load.stop(self._began, self._flowing)
                self.record = {
                    "case": asdict(self._case),
                    "expected": asdict(self._expected),
                    "lost": [self.fabric.label(link) for link in self.lost],
                    "moved": moved,
                    "worst_by_disk": {each.disk: each.seconds for each in reversed(slow)},
                    "slow_requests": as_json(slow[:KEPT]),
                    "exporter": _told(scrape, self.fabric.nqn),
                }
                (self._directory / "record.json").write_text(json.dumps(self.record, indent=1))
        finally:
            self.fabric.close()

    @property
    def standby(self) -> int:
        """A link that carried nothing when the load began (under numa)."""
        return next(link for link in self.fabric.paths if link != self.active)

    def await_rerouted(self, seconds: float = 60) -> None:
        """Until I/O flows elsewhere, none waits on a lost path and the exporter knows it."""
        lost = [self.fabric.paths[link] for link in self.lost]
        survivors = [path for link, path in self.fabric.paths.items() if link not in self.lost]
        await_(
            lambda: not any(path.in_flight() for path in lost),
            seconds,
            "the lost path's requests cancelled",
        )
        self._await_more(lambda: sum(path.completed() for path in survivors), seconds)
        self._await_told()

    def await_resumed(self, seconds: float = 60) -> None:
        """Until I/O flows again over any path and the exporter knows it."""
        self._await_more(lambda: sum(self._completed().values()), seconds)
        self._await_told()

    def await_failed_back(self) -> None:
        """Until I/O flows on the path that was lost and the exporter has told of it."""
        self.fabric.await_live(self.active)
        self._await_more(self.fabric.paths[self.active].completed)
        nqn = self.fabric.nqn
        self._await_metric(lambda scrape: _total(scrape, "nvmeof_failbacks_total", nqn) > 0)

    def await_failed(self, seconds: float = 60) -> None:
        """Until the application has ended because its requests failed and the exporter knows it."""
        await_(lambda: not self._load.running, seconds, "the load to end with an error")
        self._await_told()

    def _await_more(self, completed: Callable[[], int], seconds: float = 60) -> None:
        margin = _FLOWING + 2 * self._case.depth * self._case.namespaces
        before = completed()

        def flowing() -> bool:
            if not self._load.running:
                raise RuntimeError("the load has ended by itself")
            return completed() - before > margin

        await_(flowing, seconds, "requests to complete")

    def _await_told(self) -> None:
        self._flowing = min(self._flowing, time.monotonic())
        nqn = self.fabric.nqn
        failovers = len(self.lost) if self._expected.failovers else 0

        def told(scrape: Scrape) -> bool:
            counted = _total(scrape, "nvmeof_failovers_total", nqn)
            pauses = _total(scrape, "nvmeof_namespace_io_stall_duration_seconds_count", nqn)
            return (
                scrape.value("nvmeof_failover_in_progress", nqn=nqn) == 0
                and not _total(scrape, "nvmeof_namespace_io_stalled_seconds", nqn)
                and counted >= failovers
                and counted + pauses > 0
            )

        self._await_metric(told)
        time.sleep(_AFTERMATH)

    def _await_metric(self, condition: Callable[[Scrape], bool]) -> None:
        # What never comes is for the host's assertions to name, beside all that did come.
        exporter, name = self._lab.exporter, self._directory.name
        try:
            exporter.await_(condition, 3, f"the end of {name}", self.fabric.nqn)
        except TimeoutError as error:
            say(str(error))

    def _completed(self) -> dict[int, int]:
        return {link: path.completed() for link, path in self.fabric.paths.items()}

    def _moved(self) -> bool:
        """Whether any request was done on another path than those lost, since the fault."""
        now = self._completed()
        return any(now[link] > self._before[link] for link in now if link not in self.lost)

    def _progress(self, before: dict[int, int]) -> int:
        return sum(self._completed().values()) - sum(before.values())

    def _busiest(self) -> int:
        before = self._completed()
        await_(lambda: self._progress(before) > _FLOWING, 20, "more requests")
        after = self._completed()
        return max(after, key=lambda link: after[link] - before[link])


def measured(
    registry: Registry, expected: Expected, *cases: Case
) -> Callable[[Callable[[Measurement], None]], Callable[[Measurement], None]]:
    """Make a scenario per case of a function that only injects a fault and awaits what follows."""

    def decorate(inject: Callable[[Measurement], None]) -> Callable[[Measurement], None]:
        for case in cases:
            name = f"{inject.__name__}_{case}"
            registry.add(name, inject.__doc__ or "", _Measured(inject, name, case, expected))
        return inject

    return decorate


class _Measured:
    """A fault in one case, as a scenario."""

    def __init__(
        self, inject: Callable[[Measurement], None], name: str, case: Case, expected: Expected
    ) -> None:
        self._inject = inject
        self._name = name
        self._case = case
        self._expected = expected

    def __call__(self, lab: Lab) -> dict[str, Any]:
        if self._case.iopolicy not in lab.iopolicies:
            return {"unsupported": self._case.iopolicy}
        with Measurement(lab, self._name, self._case, self._expected) as run:
            self._inject(run)
        return {"fault": self._inject.__name__, **run.record}


def _told(scrape: Scrape, nqn: str) -> dict[str, Any]:
    """Everything that the exporter says of pauses of ``nqn``; None for what it does not serve."""
    phases = "nvmeof_failover_phase_seconds"
    stalls = "nvmeof_namespace_io_stall_duration_seconds"
    return {
        "failovers": [
            {"path": labels["path"], "cause": labels["cause"], "count": count}
            for labels, count in scrape.matching("nvmeof_failovers_total", nqn=nqn)
            if count
        ],
        "failbacks": _total(scrape, "nvmeof_failbacks_total", nqn),
        "last_duration": scrape.value("nvmeof_failover_last_duration_seconds", nqn=nqn),
        "phases": {
            labels["phase"]: total
            for labels, total in scrape.matching(f"{phases}_sum", nqn=nqn)
            if scrape.value(f"{phases}_count", nqn=nqn, phase=labels["phase"])
        },
        "stalls": {
            "count": scrape.value(f"{stalls}_count", nqn=nqn),
            "sum": scrape.value(f"{stalls}_sum", nqn=nqn),
        },
        "requeued": _total(scrape, "nvmeof_namespace_io_requeued_total", nqn),
        "failed": _total(scrape, "nvmeof_namespace_io_failed_total", nqn),
        "path_errors": [
            {"path": labels["path"], "cause": labels["cause"], "count": count}
            for labels, count in scrape.matching("nvmeof_path_errors_total", nqn=nqn)
            if count
        ],
    }


def _known_interfaces(scrape: Scrape, nqn: str) -> int:
    """How many paths have one that the exporter knows."""
    paths = scrape.matching("nvmeof_path_info", nqn=nqn)
    return sum(bool(labels.get("netdev")) for labels, _ in paths)


def _total(scrape: Scrape, name: str, nqn: str) -> float:
    return sum(value for _, value in scrape.matching(name, nqn=nqn))
