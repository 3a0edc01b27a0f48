"""What holds whatever happens: random snapshots, and random faults on the make-believe node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nvmeof_exporter.demo.devices import Timeouts
from nvmeof_exporter.demo.load import Load
from nvmeof_exporter.model import (
    Controller,
    Event,
    EventKind,
    IoCounters,
    Namespace,
    NamespacePath,
    PathId,
    Snapshot,
    Subsystem,
)
from nvmeof_exporter.monitor.expectations import Expectations
from nvmeof_exporter.monitor.monitor import Monitor
from tests.test_monitor.simulated import NQN, Setting, Watched

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nvmeof_exporter.demo.devices import Connection
    from nvmeof_exporter.monitor.records import Occurrence

# -- invariants ------------------------------------------------------------------------------


class Watch:
    """Checks after each look what must hold after every look."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._before: dict[tuple[str, ...], float] = {}
        self._alive: dict[tuple[str, str], tuple[int, float]] = {}

    def check(self, news: list[Occurrence], now: float) -> None:
        counters = self._counters()
        for key, value in counters.items():
            assert value >= self._before.get(key, 0.0) - 1e-6, key
        # What is gone may come back as something new, from zero.
        self._before = counters
        for each in news:
            for name, told in each.fields.items():
                assert not name.endswith("seconds") or float(told) >= 0, each
        for record in self._monitor.namespaces.values():
            assert record.stalled is None or record.stalled >= 0
            assert min(record.path_stalled.values(), default=0.0) >= 0
        self._check_times(now)

    def _check_times(self, now: float) -> None:
        """The time in states adds up to the time since the path is known."""
        histories = self._monitor.paths
        for key, history in histories.items():
            total = sum(history.seconds.values())
            known = self._alive.get(key)
            if known is None or known[0] != id(history):
                self._alive[key] = (id(history), now - total)
            else:
                assert total == pytest.approx(now - known[1], abs=1e-3)

    def _counters(self) -> dict[tuple[str, ...], float]:
        found: dict[tuple[str, ...], float] = {}
        for nqn, record in self._monitor.subsystems.items():
            identity = str(id(record))
            histograms = {
                "outages": record.outages,
                "durations": record.durations,
                "pauses": record.pauses,
                **record.phases,
            }
            for name, histogram in histograms.items():
                found[nqn, identity, name, "count"] = histogram.count
                found[nqn, identity, name, "sum"] = histogram.sum
            for (label, cause), count in record.failovers.items():
                found[nqn, identity, label, cause] = count
            for label, count in record.failbacks.items():
                found[nqn, identity, label, "failback"] = count
        for (nqn, label), history in self._monitor.paths.items():
            identity = str(id(history))
            found[nqn, label, identity, "resets"] = history.resets
            found[nqn, label, identity, "attempts"] = history.reconnect_attempts
            totals: dict[str, Mapping[str, float]] = {
                "to": history.transitions,
                "ana": history.ana_transitions,
                "error": history.errors,
                "seconds": history.seconds,
            }
            for kind, by_state in totals.items():
                for state, total in by_state.items():
                    found[nqn, label, identity, kind, state] = total
        for (nqn, nsid), namespace in self._monitor.namespaces.items():
            identity = str(id(namespace))
            found[nqn, nsid, identity, "requeued"] = namespace.requeued or 0
            found[nqn, nsid, identity, "failed"] = namespace.failed or 0
        return found


# -- snapshots that may say anything ---------------------------------------------------------

small = st.integers(0, 3)
counts = st.one_of(st.none(), st.integers(0, 50))
states = st.sampled_from(
    ["new", "live", "live", "live", "resetting", "connecting", "deleting", "dead", "unknown", None]
)
ana_states = st.sampled_from(
    ["", "optimized", "optimized", "non-optimized", "inaccessible", "change", "unknown", None]
)
path_ids = st.builds(
    PathId, st.just("tcp"), st.sampled_from(["a", "b", "c"]), st.just("4420"), ordinal=st.just(1)
)
disk_io = st.one_of(
    st.none(),
    st.builds(
        lambda reads, sectors, ms, in_flight: IoCounters(
            reads, 0, sectors, ms, 0, 0, 0, 0, in_flight, 0, 0
        ),
        st.integers(0, 100),
        st.integers(0, 400),
        st.integers(0, 9000),
        small,
    ),
)


@st.composite
def controllers(draw: st.DrawFn, nqn: str) -> Controller:
    state = draw(states)
    return Controller(
        f"nvme{draw(small)}",
        nqn,
        draw(path_ids),
        state,
        state or draw(st.sampled_from(["", "live", "deleting (no IO)"])),
        cntlid=draw(st.sampled_from(["", "1", "2"])),
        resets=draw(counts),
        reconnects=draw(counts),
    )


@st.composite
def subsystems(draw: st.DrawFn) -> Subsystem:
    nqn = draw(st.sampled_from(["nqn.1", "nqn.2"]))
    own = draw(st.lists(controllers(nqn), max_size=3))
    namespaces = []
    for nsid in draw(st.lists(st.sampled_from(["1", "1", "2"]), max_size=3)):
        paths = tuple(
            NamespacePath(
                f"nvme0c{draw(small)}n{nsid}",
                controller,
                draw(ana_states),
                draw(disk_io),
                draw(counts),
                last_ana_state=draw(st.sampled_from(["", "optimized"])),
            )
            for controller in own
            if draw(st.booleans())
        )
        namespaces.append(
            Namespace(
                nqn,
                nsid,
                draw(st.sampled_from(["", f"nvme0n{nsid}"])),
                io=draw(disk_io),
                requeued=draw(counts),
                failed=draw(counts),
                paths=paths,
            )
        )
    return Subsystem(
        "nvme-subsys0", nqn, multipath=True, controllers=tuple(own), namespaces=tuple(namespaces)
    )


@st.composite
def looks(draw: st.DrawFn) -> tuple[float, float, list[Subsystem], list[tuple[EventKind, str]]]:
    """How much later (seconds), by which step of the wall clock, what is seen and announced."""
    elapsed = draw(st.sampled_from([-5.0, 0.0, 0.02, 0.1, 0.1, 1.0, 30.0, 4000.0]))
    step = draw(st.sampled_from([0.0, 0.0, 0.0, -86400.0, 86400.0]))
    seen = draw(st.lists(subsystems(), max_size=2))
    devices = st.sampled_from(["nvme0", "nvme1", "nvme0n1", "eth0", ""])
    announced = draw(st.lists(st.tuples(st.sampled_from(EventKind), devices), max_size=3))
    return elapsed, step, seen, announced


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(st.lists(looks(), min_size=2, max_size=12))
def test_no_sequence_of_snapshots_breaks_the_monitor_or_its_figures(
    sequence: list[tuple[float, float, list[Subsystem], list[tuple[EventKind, str]]]],
) -> None:
    monitor = Monitor(expectations=Expectations(expiry=60.0))
    watch = Watch(monitor)
    now, newest, wall = 1000.0, 0.0, 1e9
    for elapsed, step, seen, announced in sequence:
        now += elapsed
        wall += elapsed + step
        events = [Event(now, "kmsg", kind, device) for kind, device in announced]
        news = monitor.observe(Snapshot(now, wall, tuple(seen)), events)
        if now <= newest:
            assert news == []
            now = newest
        newest = now
        watch.check(news, now)


# -- faults that may come in any order -------------------------------------------------------

Act = tuple[str, int, float]


def connect(watched: Watched, path: Connection) -> None:
    if path.controller is None and path.answering:
        watched.node.connect(path)


ACTS: dict[str, Callable[[Watched, Connection], None]] = {
    "black hole": lambda w, path: w.node.black_hole(path),
    "heal": lambda w, path: w.node.heal(path),
    "link down": lambda w, path: w.node.link_down(path.netdev),
    "link up": lambda w, path: w.node.link_up(path.netdev),
    "port removed": lambda w, path: w.node.port_removed(path),
    "port restored": lambda w, path: w.node.port_restored(path),
    "inaccessible": lambda w, path: w.node.set_ana(path, 1, "inaccessible"),
    "optimized": lambda w, path: w.node.set_ana(path, 1, "optimized"),
    "reset": lambda w, path: w.node.reset(path),
    "disconnect": lambda w, path: w.node.disconnect(path),
    "connect": connect,
    "nothing": lambda _w, _path: None,
}


acts = st.tuples(
    st.sampled_from(sorted(ACTS)), st.integers(0, 1), st.sampled_from([0.05, 0.3, 1.0, 4.0])
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.sampled_from(["6.1", "6.6", "7.3"]),
    st.sampled_from(["numa", "round-robin"]),
    st.sampled_from([None, Load(1, 20.0), Load(4, 80.0)]),
    st.lists(acts, max_size=8),
)
def test_no_history_of_faults_breaks_the_monitor_or_its_figures(
    kernel: str, policy: str, load: Load | None, history: list[Act]
) -> None:
    timeouts = Timeouts(keep_alive=1, reconnect_delay=1, ctrl_loss=3)
    watched = Watched(Setting(kernel, policy, load, timeouts=timeouts))
    watch = Watch(watched.monitor)
    for name, number, seconds in history:
        ACTS[name](watched, watched.paths[number])
        seen = len(watched.found)
        watched.run(seconds)
        watch.check(watched.found[seen:], watched.newest)
        if load is None:
            assert all(record.stalled == 0 for record in watched.monitor.namespaces.values())
    if load is None:
        assert watched.told("I/O paused") == []
    timed = [told for told in watched.told("failover") if "seconds" in told]
    assert len(timed) <= len(watched.node.truth.failovers)


def test_memory_is_bounded_when_paths_come_and_go() -> None:
    """Each lives for a second under load, is lost, and never comes back."""
    monitor = Monitor(expectations=Expectations(expiry=1.0))
    for number in range(300):
        path = PathId("tcp", f"192.0.2.{number % 250}", str(number))
        for tick in range(4):
            controller = Controller(f"nvme{number}", NQN, path, "live", "live")
            io = IoCounters(tick * 10, 0, tick * 80, tick, 0, 0, 0, 0, 1, 0, 0)
            disk = NamespacePath(f"nvme0c{number}n1", controller, io=io)
            namespace = Namespace(NQN, "1", "nvme0n1", paths=(disk,))
            subsystem = Subsystem(
                "nvme-subsys0", NQN, controllers=(controller,), namespaces=(namespace,)
            )
            now = number + tick / 4
            monitor.observe(Snapshot(now + 1, now + 1e9, (subsystem,)))
        for known in list(monitor.expectations.known[NQN].paths):
            if known != path:
                monitor.expectations.forget(NQN, known)
    assert len(monitor.paths) <= 2
    assert len(monitor.subsystems[NQN].failovers) <= 2
    assert len(monitor._paths._owners) <= 2
    assert len(monitor._losses._before[NQN]) <= 2
    assert len(monitor._namespaces._progress[NQN]["1"].paths) <= 1
    assert len(monitor._trackers[NQN]._away) <= 2
    assert len(monitor.occurrences) <= 1000
