"""A fleet of 200 nodes that is made up, as blocks of samples in a real Prometheus.

The exporters' series are written as OpenMetrics and turned into blocks by promtool. Over them
promtool evaluates the project's own recording rules, as Prometheus would have done at the time.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nvmeof_exporter.monitor.histogram import DURATION_BUCKETS
from tests.alerts.chain.parts import Prometheus, free_address
from tests.dashboards.recorded import ALERTS, Recording, Scene

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

__all__ = ["NODES", "make_fleet"]

NODES = 200

#: Any time will do: samples and pictures have this one. What is shown is two hours; the hour
#: before it is for rates.
_END = 1_768_500_000
_START = _END - 3 * 3600
_SHOWN = 2 * 3600
_STEP = 180

#: A switch of the second hall takes a path of each node there, for twenty minutes.
_SWITCH_DOWN = (_END - 5400, _END - 4200)

_NQNS = ("nqn.2026-01.org.example:array1", "nqn.2026-01.org.example:array2")
_LEVELS = ("redundant", "degraded", "at-risk", "lost")
_STATES = ("live", "connecting", "missing")
#: Those that tell failovers of half a second to six apart.
_BUCKETS = (*(str(bound) for bound in DURATION_BUCKETS if 0.25 <= bound <= 7.5), "+Inf")


@dataclass(frozen=True)
class _Node:
    """One node: what is wrong with it at the end, and how long its failovers take."""

    number: int

    @property
    def instance(self) -> str:
        return f"gpu-{self.number:03d}"

    @property
    def hall(self) -> int:
        return 1 + self.number % 2

    @property
    def silent(self) -> bool:
        """Whether its exporter stopped answering half an hour before the end."""
        return self.number in {41, 117}

    @property
    def troubled(self) -> str:
        """The level of its first subsystem within the last ten minutes."""
        return {12: "lost", 77: "at-risk", 78: "at-risk", 150: "at-risk"}.get(
            self.number, "degraded" if self.number in {5, 33, 90, 161, 187} else "redundant"
        )

    @property
    def took(self) -> float:
        """The duration of its failover, in seconds."""
        return 0.4 + (self.number * 37 % 50) / 10

    def level(self, nqn: str, time: int) -> str:
        if nqn == _NQNS[0] and time > _END - 600:
            return self.troubled
        behind = self.hall == 2 and _SWITCH_DOWN[0] <= time < _SWITCH_DOWN[1]
        return "at-risk" if behind else "redundant"

    def failed_over(self, time: int) -> bool:
        return self.hall == 2 and time >= _SWITCH_DOWN[0]


def make_fleet(directory: Path) -> tuple[Prometheus, Recording]:
    """Start a Prometheus that holds the fleet."""
    data = directory / "prometheus"
    samples = directory / "samples"
    with samples.open("w", encoding="utf-8") as file:
        file.writelines(_lines())
        file.write("# EOF\n")
    _run(["promtool", "tsdb", "create-blocks-from", "openmetrics", str(samples), str(data)])
    samples.unlink()
    _record(directory, sorted(ALERTS.glob("*.rules.yaml")))
    # promtool's rules do not know each other's results: once more for those that ask for them.
    _record(directory, [ALERTS / "nvmeof-fleet.rules.yaml"])
    prometheus = _prometheus(directory)
    scene = Scene(_Node(12).instance, float(_END - _SHOWN), float(_END))
    return prometheus, Recording(prometheus.url, {"fleet": scene})


def _record(directory: Path, rules: Sequence[Path]) -> None:
    """Evaluate recording rules over what there is, and add what they say."""
    recorded = directory / "recorded"
    prometheus = _prometheus(directory)
    try:
        _run(
            [
                *("promtool", "tsdb", "create-blocks-from", "rules"),
                *(f"--url={prometheus.url}", f"--output-dir={recorded}"),
                *(f"--start={_END - _SHOWN}", f"--end={_END}", f"--eval-interval={_STEP}s"),
                *map(str, rules),
            ]
        )
    finally:
        prometheus.close()
    for block in recorded.iterdir():
        shutil.move(block, directory / "prometheus")


def _prometheus(directory: Path) -> Prometheus:
    return Prometheus(directory, [], [], free_address(), "15s")


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _lines() -> Iterator[str]:
    for number in range(NODES):
        node = _Node(number)
        yield from _of_node(node)
        for nqn in _NQNS:
            yield from _of_subsystem(node, nqn)
            yield from _of_failovers(node, nqn)
    yield from _of_alerts()


def _series(
    node: _Node, name: str, value: Callable[[int], float | None], **labels: str
) -> Iterator[str]:
    found = {"cluster": f"hall-{node.hall}", "instance": node.instance, "job": "nvmeof", **labels}
    text = ",".join(f'{label}="{text}"' for label, text in found.items())
    for time in range(_START, _END + 1, _STEP):
        if node.silent and time > _END - 1800 and name not in {"up", "ALERTS"}:
            return
        sample = value(time)
        if sample is not None:
            yield f"{name}{{{text}}} {sample} {time}\n"


def _of_node(node: _Node) -> Iterator[str]:
    def up(time: int) -> int:
        return int(not (node.silent and time > _END - 1800))

    yield from _series(node, "up", up)
    yield from _series(node, "nvmeof_exporter_build_info", lambda _: 1, version="1", python="3")
    yield from _series(node, "nvmeof_exporter_last_poll_timestamp_seconds", lambda time: time)
    if node.number % 20 == 0:
        for rule in ("ctrl_loss_tmo", "iopolicy")[: 1 + node.number % 3]:
            yield from _series(
                node, "nvmeof_policy_violation", lambda _: 1, nqn=_NQNS[0], path="", rule=rule
            )


def _of_subsystem(node: _Node, nqn: str) -> Iterator[str]:
    for level in _LEVELS:

        def redundancy(time: int, level: str = level) -> int:
            return int(node.level(nqn, time) == level)

        yield from _series(node, "nvmeof_subsystem_redundancy", redundancy, nqn=nqn, level=level)
    yield from _series(node, "nvmeof_subsystem_paths_expected", lambda _: 2, nqn=nqn)

    def stalled(time: int) -> float:
        return float(time - _END + 600) if node.level(nqn, time) == "lost" else 0.0

    yield from _series(node, "nvmeof_namespace_io_stalled_seconds", stalled, nqn=nqn, nsid="1")
    for index in range(2):
        path = f"rdma:10.{index}.0.{1 + _NQNS.index(nqn)}:4420%ib{index}"

        def lost(time: int, index: int = index) -> bool:
            return index < {"redundant": 0, "lost": 2}.get(node.level(nqn, time), 1)

        for state in _STATES:

            def present(time: int, state: str = state, lost: Callable[[int], bool] = lost) -> int:
                return int(state == ("connecting" if lost(time) else "live"))

            yield from _series(node, "nvmeof_path_state", present, nqn=nqn, path=path, state=state)

        def changed(time: int) -> int | None:
            if nqn == _NQNS[0] and node.troubled != "redundant" and time > _END - 600:
                return _END - 600
            return _SWITCH_DOWN[0] if node.failed_over(time) else None

        name = "nvmeof_path_last_transition_timestamp_seconds"
        yield from _series(node, name, changed, nqn=nqn, path=path)


def _of_failovers(node: _Node, nqn: str) -> Iterator[str]:
    cause = "link_down" if node.number % 3 else "keep_alive"
    path = f"rdma:10.0.0.{1 + _NQNS.index(nqn)}:4420%ib0"

    def once(time: int, value: float = 1) -> float | None:
        return value if node.failed_over(time) else None

    yield from _series(node, "nvmeof_failovers_total", once, nqn=nqn, path=path, cause=cause)
    name = "nvmeof_failover_last_duration_seconds"
    yield from _series(node, name, lambda time: once(time, node.took), nqn=nqn)
    name = "nvmeof_failover_last_timestamp_seconds"
    yield from _series(node, name, lambda time: once(time, _SWITCH_DOWN[0]), nqn=nqn)
    for bound in _BUCKETS:

        def count(time: int, bound: str = bound) -> int:
            return int(node.failed_over(time) and node.took <= float(bound))

        name = "nvmeof_failover_duration_seconds_bucket"
        yield from _series(node, name, count, nqn=nqn, le=bound)


def _of_alerts() -> Iterator[str]:
    for number, alert, severity in (
        (12, "NVMeoFNoUsablePath", "critical"),
        (12, "NVMeoFIOStalled", "critical"),
        (77, "NVMeoFRedundancyLost", "critical"),
        (78, "NVMeoFRedundancyLost", "critical"),
        (150, "NVMeoFRedundancyLost", "critical"),
        (5, "NVMeoFPathDegraded", "warning"),
        (41, "NVMeoFExporterDown", "warning"),
    ):
        labels = {"alertname": alert, "alertstate": "firing", "severity": severity}

        def firing(time: int) -> int | None:
            return 1 if time > _END - 600 else None

        yield from _series(_Node(number), "ALERTS", firing, **labels)
