"""One fault under load: what fio has timed, and what the exporter says of the same moments."""

from __future__ import annotations

import functools
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tests.kernel.guest.fabric import FabricSettings
from tests.kernel.guest.load import Load, LoadSettings, as_json
from tests.kernel.guest.logs import say
from tests.kernel.guest.verdict import distance
from tests.kernel.guest.waiting import await_

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kernel.guest.exporter import Scrape
    from tests.kernel.guest.lab import Lab

__all__ = ["Expected", "Measurement", "measured"]

_FAR_SECONDS = 0.05
_FLOWING = 40  # requests that no cancellation and no left-over can explain


@dataclass(frozen=True)
class Expected:
    """What the exporter must say. ``failovers`` is None where the kernel may choose either path."""

    failovers: int | None = 1
    causes: tuple[str, ...] = ()
    pause_is_logged: bool = True


class Measurement:
    """A context in which fio runs over a fabric; leaving it yields ``record``."""

    def __init__(self, lab: Lab, name: str, settings: FabricSettings, load: LoadSettings) -> None:
        self._lab = lab
        self._name = name
        self._load_settings = load
        self.fabric = lab.fabric(settings)
        self.record: dict[str, Any] = {}
        self.active = 0

    def __enter__(self) -> Measurement:  # noqa: PYI034 - typing.Self is of Python 3.11
        self.fabric.__enter__()
        try:
            exporter = self._lab.exporter
            exporter.await_value("nvmeof_subsystem_paths_usable", 2, nqn=self.fabric.nqn)
            directory = self._lab.scenario_directory(self._name)
            self._load = Load(self.fabric.heads(), self._load_settings, directory)
            before = self._completed()
            await_(lambda: self._progress(before) > _FLOWING, 20, "fio's first requests")
            self.active = self._busiest()
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
                slow = self._load.stop()
                scrape = self._lab.exporter.scrape(self.fabric.nqn)
                self.record = {
                    "settings": asdict(self.fabric.settings),
                    "load": asdict(self._load_settings),
                    "lost": self.fabric.label(self.active),
                    "slow_requests": as_json(slow),
                    "exporter": _told(scrape, self.fabric.nqn),
                }
                artefact = self._lab.scenario_directory(self._name) / "record.json"
                artefact.write_text(json.dumps(self.record, indent=1))
        finally:
            self.fabric.close()

    @property
    def standby(self) -> int:
        """The link that carried nothing when the load began (under numa)."""
        return 3 - self.active

    def await_rerouted(self, seconds: float = 60) -> None:
        """Until I/O flows elsewhere, none waits on the active path and the exporter knows it."""
        lost, survivor = self.fabric.paths[self.active], self.fabric.paths[self.standby]
        await_(lambda: not lost.in_flight(), seconds, "the lost path's requests cancelled")
        self._await_more(survivor.completed)
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

    def await_load_ended(self, seconds: float) -> None:
        """Until fio has ended because its requests failed."""
        await_(lambda: not self._load.running, seconds, "fio to end with an error")

    def _await_more(self, completed: Callable[[], int], seconds: float = 60) -> None:
        margin = _FLOWING + 2 * self._load_settings.depth * self.fabric.settings.namespaces
        before = completed()

        def flowing() -> bool:
            if not self._load.running:
                raise RuntimeError("fio has ended by itself")
            return completed() - before > margin

        await_(flowing, seconds, "requests to complete")

    def _await_told(self) -> None:
        nqn = self.fabric.nqn
        self._await_metric(
            lambda scrape: (
                scrape.value("nvmeof_failover_in_progress", nqn=nqn) == 0
                and not _total(scrape, "nvmeof_namespace_io_stalled_seconds", nqn)
                and _total(scrape, "nvmeof_failovers_total", nqn)
                + _total(scrape, "nvmeof_namespace_io_stall_duration_seconds_count", nqn)
                > 0
            )
        )

    def _await_metric(self, condition: Callable[[Scrape], bool]) -> None:
        # What never comes is for the host's assertions to name, beside all that did come.
        try:
            self._lab.exporter.await_(condition, 3, f"the end of {self._name}", self.fabric.nqn)
        except TimeoutError as error:
            say(str(error))

    def _completed(self) -> dict[int, int]:
        return {link: path.completed() for link, path in self.fabric.paths.items()}

    def _progress(self, before: dict[int, int]) -> int:
        return sum(self._completed().values()) - sum(before.values())

    def _busiest(self) -> int:
        before = self._completed()
        await_(lambda: self._progress(before) > _FLOWING, 20, "fio's requests")
        after = self._completed()
        return max(after, key=lambda link: after[link] - before[link])


def measured(
    registry: Callable[[Callable[[Lab], Any]], Any],
    expected: Expected,
    fabric: FabricSettings | None = None,
    load: LoadSettings | None = None,
) -> Callable[[Callable[[Measurement], None]], Callable[[Lab], Any]]:
    """Make a scenario of a function that only injects a fault and waits for what follows."""

    def decorate(inject: Callable[[Measurement], None]) -> Callable[[Lab], Any]:
        @functools.wraps(inject)
        def scenario(lab: Lab) -> dict[str, Any]:
            settings = fabric or FabricSettings()
            if settings.iopolicy not in lab.iopolicies:
                return {"unsupported": settings.iopolicy}

            def once() -> dict[str, Any]:
                with Measurement(lab, inject.__name__, settings, load or LoadSettings()) as run:
                    inject(run)
                return run.record

            return {**_steady(once, expected), "expected": asdict(expected)}

        registry(scenario)
        return scenario

    return decorate


def _steady(once: Callable[[], dict[str, Any]], expected: Expected) -> dict[str, Any]:
    """Measure once, and twice more when that is far off: the median of the three is the result.

    An emulated machine on a busy host may stop for longer than what is measured.
    What is wrong with the exporter, and not with the moment, is wrong twice.
    """
    records = [once()]
    if expected.pause_is_logged and distance(records[0]) > _FAR_SECONDS:
        say(f"off by {distance(records[0]):.3f} s: measured twice more")
        records += [once(), once()]
    chosen = sorted(records, key=distance)[len(records) // 2]
    return {**chosen, "distances": [distance(record) for record in records]}


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


def _total(scrape: Scrape, name: str, nqn: str) -> float:
    return sum(value for _, value in scrape.matching(name, nqn=nqn))
