"""What the monitor says of each fault against what the applications felt.

Felt is the longest that any request waited, as fio's latency log has it;
reported is the failover's duration, or the pause's where there was no failover.
The make-believe node is the witness here; the kernel lab holds the same faults
against real kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.demo.devices import Timeouts
from nvmeof_exporter.demo.load import Load
from tests.test_monitor.simulated import Setting, Watched

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.thorough

WORST_SECONDS = 0.050
MEDIAN_SECONDS = 0.020

KERNELS = ("6.1", "6.6", "6.12", "7.3")
POLICIES = {
    "6.1": ("numa", "round-robin"),
    "6.6": ("numa", "round-robin"),
    "6.12": ("numa", "round-robin", "queue-depth"),
    "7.3": ("numa", "round-robin", "queue-depth"),
}
LOADS = {
    "one at a time": Load(1, None, 0.7, service_seconds=0.004),
    "four, 50 per second": Load(4, 50.0),
    "thirty-two, 400 per second": Load(32, 400.0),
}

#: Kernel 6.1 needs this much longer (seconds) to take a silent path down.
TEARDOWN = {"6.1": 4.2}

QUICK_TO_GIVE_UP = Timeouts(keep_alive=2, reconnect_delay=1, ctrl_loss=2)


@dataclass(frozen=True)
class Fault:
    """What happens, to how many paths, and what should be told of it.

    ``failovers``: least and most. With every path lost, whether I/O goes on over the
    same path or another one is chance, unless the fault says which.
    """

    happens: Callable[[Watched], None]
    cause: str
    failovers: tuple[int, int] = (1, 1)
    timeouts: Timeouts | None = None


def slowly(watched: Watched, seconds: float) -> None:
    """Wait until a silent path is surely given up."""
    watched.run(seconds + TEARDOWN.get(watched.node.kernel.version, 0))


def black_hole(watched: Watched) -> None:
    lost = watched.active
    watched.node.black_hole(lost)
    slowly(watched, 4.5)
    watched.node.heal(lost)
    watched.run(2)


def own_link_down(watched: Watched) -> None:
    netdev = watched.active.netdev
    watched.node.link_down(netdev)
    slowly(watched, 4.5)
    watched.node.link_up(netdev)
    watched.run(2)


def both_links_down(watched: Watched) -> None:
    for netdev in watched.node.netdevs.values():
        watched.node.link_down(netdev)
    slowly(watched, 5)
    for netdev in watched.node.netdevs.values():
        watched.node.link_up(netdev)
    watched.run(5)


def port_removed(watched: Watched) -> None:
    lost = watched.active
    watched.node.port_removed(lost)
    watched.run(2)
    watched.node.port_restored(lost)
    watched.run(2)


def ana_of_one(watched: Watched) -> None:
    lost = watched.active
    watched.node.set_ana(lost, 1, "inaccessible")
    watched.run(2)
    watched.node.set_ana(lost, 1, "optimized")
    watched.run(2)


def ana_of_all(watched: Watched) -> None:
    first, second = watched.active, watched.other
    for path in (first, second):
        watched.node.set_ana(path, 1, "inaccessible")
    watched.run(3)
    watched.node.set_ana(second, 1, "optimized")
    watched.run(2)


def reset(watched: Watched) -> None:
    watched.node.reset(watched.active)
    watched.run(2)


def disconnect(watched: Watched) -> None:
    watched.node.disconnect(watched.active)
    watched.run(2)


def one_given_up(watched: Watched) -> None:
    watched.node.port_removed(watched.active)
    watched.run(4)


def all_given_up(watched: Watched) -> None:
    for path in watched.paths:
        watched.node.port_removed(path)
    watched.run(5)


FAULTS = {
    "black hole": Fault(black_hole, "keep_alive"),
    "own link down": Fault(own_link_down, "link_down"),
    "both links down": Fault(both_links_down, "link_down", (0, 1)),
    "port removed": Fault(port_removed, "transport"),
    "ANA of one path": Fault(ana_of_one, "ana"),
    "ANA of every path": Fault(ana_of_all, "ana", (0, 1)),
    "reset": Fault(reset, "administrative"),
    "disconnect": Fault(disconnect, "administrative"),
    "one path given up": Fault(one_given_up, "transport", timeouts=QUICK_TO_GIVE_UP),
    "every path given up": Fault(all_given_up, "transport", (0, 0), QUICK_TO_GIVE_UP),
}


@dataclass(frozen=True)
class Result:
    felt: float
    reported: float
    failovers: tuple[dict[str, str | float], ...]
    in_progress: bool

    @property
    def error(self) -> float:
        return self.reported - self.felt


@cache
def result(kernel: str, policy: str, load: str, fault: str) -> Result:
    """Let one fault happen under load, and hold both stories against each other."""
    happens = FAULTS[fault]
    seed = len(kernel + policy + load + fault)
    setting = Setting(kernel, policy, LOADS[load], seed=seed)
    if happens.timeouts is not None:
        setting = Setting(kernel, policy, LOADS[load], timeouts=happens.timeouts, seed=seed)
    watched = Watched(setting)
    watched.node.truth.threshold = 0.0
    watched.run(2)
    happens.happens(watched)
    failovers = watched.told("failover")
    timed = [float(told["seconds"]) for told in failovers if "seconds" in told]
    paused = [float(told["seconds"]) for told in watched.told("I/O paused")]
    return Result(
        watched.longest_wait,
        max(timed or paused, default=0.0),
        tuple(failovers),
        watched.record.in_progress,
    )


CASES = [
    pytest.param(kernel, policy, load, fault, id=f"{kernel}-{policy}-{load}-{fault}")
    for kernel in KERNELS
    for policy in POLICIES[kernel]
    for load in LOADS
    for fault in FAULTS
]


@pytest.mark.parametrize(("kernel", "policy", "load", "fault"), CASES)
class TestEachFault:
    def test_is_reported_as_it_was_felt(
        self, kernel: str, policy: str, load: str, fault: str
    ) -> None:
        found = result(kernel, policy, load, fault)
        assert found.reported == pytest.approx(found.felt, abs=WORST_SECONDS)

    def test_is_one_failover_of_the_right_cause(
        self, kernel: str, policy: str, load: str, fault: str
    ) -> None:
        found = result(kernel, policy, load, fault)
        least, most = FAULTS[fault].failovers
        assert least <= len(found.failovers) <= most
        assert {told["cause"] for told in found.failovers} <= {FAULTS[fault].cause}
        assert not found.in_progress

    def test_has_phases_that_add_up(self, kernel: str, policy: str, load: str, fault: str) -> None:
        for told in result(kernel, policy, load, fault).failovers:
            if "seconds" in told:
                detection, reroute = (
                    float(told[phase]) for phase in ("detection_seconds", "reroute_seconds")
                )
                assert min(detection, reroute) >= 0
                assert detection + reroute == pytest.approx(float(told["seconds"]), abs=0.002)


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_io_that_goes_on_over_the_other_path_after_every_path_was_lost_has_failed_over(
    kernel: str, load: str
) -> None:
    (told,) = result(kernel, "numa", load, "ANA of every path").failovers
    assert float(told["seconds"]) > 2.5


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_median_error_is_small(kernel: str) -> None:
    errors = [
        abs(result(kernel, policy, load, fault).error)
        for policy in POLICIES[kernel]
        for load in LOADS
        for fault in FAULTS
    ]
    assert median(errors) <= MEDIAN_SECONDS


@pytest.mark.parametrize("namespaces", [1, 4])
@pytest.mark.parametrize("kernel", ["6.1", "7.3"])
def test_several_namespaces_of_one_loss_are_one_failover(kernel: str, namespaces: int) -> None:
    watched = Watched(Setting(kernel, "numa", LOADS["four, 50 per second"], namespaces))
    watched.run(2)
    black_hole(watched)
    (told,) = watched.told("failover")
    assert told["seconds"] == pytest.approx(watched.longest_wait, abs=WORST_SECONDS)
    assert len(watched.told("I/O paused")) == namespaces


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("kernel", ["6.1", "7.3"])
def test_several_carrying_paths_of_one_loss_are_one_failover(kernel: str, load: str) -> None:
    watched = Watched(Setting(kernel, "round-robin", LOADS[load], paths=3))
    watched.run(2)
    lost = watched.paths[:2]
    for path in lost:
        watched.node.black_hole(path)
    slowly(watched, 4.5)
    (told,) = watched.told("failover")
    assert told["seconds"] == pytest.approx(watched.longest_wait, abs=WORST_SECONDS)
    assert watched.record.failovers == {(str(each.path_id), "keep_alive"): 1 for each in lost}
    assert watched.record.durations.count == 1


class TestNothingIsReported:
    def nothing(self, watched: Watched) -> None:
        assert watched.told("failover") == watched.told("I/O paused") == []
        assert watched.record.failovers == {}
        assert watched.record.pauses.count == 0
        assert not watched.record.in_progress

    @pytest.mark.parametrize("kernel", ["6.1", "7.3"])
    def test_in_a_quiet_hour(self, kernel: str) -> None:
        """Idle most of the time; now and then an application reads a little."""
        watched = Watched(Setting(kernel, "numa", None))
        (namespace,) = watched.node.subsystems[0].namespaces
        for _ in range(6):
            watched.run(599)
            watched.node.set_load(namespace, Load(2, 20.0))
            watched.run(1)
            watched.node.set_load(namespace, None)
        self.nothing(watched)

    @pytest.mark.parametrize("policy", ["numa", "round-robin"])
    @pytest.mark.parametrize("kernel", ["6.1", "7.3"])
    def test_under_a_slow_but_moving_device(self, kernel: str, policy: str) -> None:
        load = Load(8, None, 0.5, service_seconds=0.3)
        watched = Watched(Setting(kernel, policy, load))
        watched.run(60)
        self.nothing(watched)

    def test_of_a_path_that_was_idle_and_stays_so(self) -> None:
        watched = Watched(Setting("7.3", "numa", LOADS["four, 50 per second"]))
        watched.run(2)
        watched.node.black_hole(watched.other)
        watched.run(6)
        self.nothing(watched)

    def test_of_an_application_that_had_ended_just_before_the_last_path_was_lost(self) -> None:
        """From 7.2 the kernel counts what finds no path: nothing was turned away here."""
        watched = Watched(Setting("7.3", "numa", Load(2, 50.0)))
        (namespace,) = watched.node.subsystems[0].namespaces
        watched.run(2)
        watched.node.set_load(namespace, None)
        watched.node.advance(0.05)
        for path in watched.paths:
            watched.node.set_ana(path, 1, "inaccessible")
        watched.run(10)
        assert watched.monitor.namespaces[namespace.subsystem.nqn, "1"].stalled == 0
        assert watched.told("I/O paused") == []


def test_a_device_whose_every_request_takes_longer_than_the_threshold_really_pauses() -> None:
    watched = Watched(Setting("7.3", "numa", Load(1, None, service_seconds=1.0)))
    watched.run(20)
    assert watched.told("failover") == []
    assert len(watched.told("I/O paused")) >= 10
