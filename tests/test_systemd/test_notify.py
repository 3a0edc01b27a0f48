"""What systemd is told: started, alive, reloading, stopping; and what it is not told."""

from __future__ import annotations

import math
import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from nvmeof_exporter.model import Snapshot
from nvmeof_exporter.notify import ServiceManager
from tests.fixtures.node_files import NodeFiles
from tests.test_daemon.looping import SLOW, looping
from tests.test_daemon.running import running
from tests.test_systemd.manager import Manager

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOTHING = Snapshot(0.0, 0.0, ())


class Clock:
    """Time as the test says."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Manager]:
    with Manager(tmp_path / "notify") as manager:
        yield manager


@pytest.fixture
def node(tmp_path: Path) -> NodeFiles:
    return NodeFiles.load("four-gateways", tmp_path / "sys")


def environment(systemd: Manager, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": systemd.address, "HOME": "/", **more}


def test_systemds_variables_are_taken_away_from_what_this_process_starts(
    systemd: Manager,
) -> None:
    environ = environment(systemd, WATCHDOG_USEC="30000000", WATCHDOG_PID=str(os.getpid()))
    ServiceManager(environ).close()
    assert environ == {"HOME": "/"}


def test_without_systemd_nothing_happens() -> None:
    manager = ServiceManager({"WATCHDOG_USEC": "30000000"})
    assert manager.patience == math.inf
    manager.alive()
    manager.polled(NOTHING)
    with manager.reloading():
        manager.stopping()
    manager.close()


@pytest.mark.parametrize(
    ("variables", "patience"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 10.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 10.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, math.inf),
        ({"WATCHDOG_USEC": "0"}, math.inf),
        ({"WATCHDOG_USEC": "soon"}, math.inf),
        ({"WATCHDOG_USEC": "-5"}, math.inf),
        ({}, math.inf),
    ],
    ids=["asked", "asked of this process", "of another", "never", "no number", "negative", "no"],
)
def test_the_loop_waits_a_third_of_the_watchdogs_time_at_most(
    systemd: Manager, variables: dict[str, str], patience: float
) -> None:
    manager = ServiceManager(environment(systemd, **variables))
    assert manager.patience == patience
    manager.alive()
    manager.close()
    assert systemd.heard() == ([["WATCHDOG=1"]] if patience < math.inf else [])


def test_signs_of_life_are_few_however_often_the_loop_turns(systemd: Manager) -> None:
    clock = Clock()
    manager = ServiceManager(environment(systemd, WATCHDOG_USEC="30000000"), clock)
    signs = []
    for _ in range(1000):  # polls of a tenth of a second
        manager.alive()
        signs += systemd.heard()
        clock.now += 0.1
    manager.close()
    assert signs == [["WATCHDOG=1"]] * len(signs)
    assert len(signs) == pytest.approx(20, abs=1)


def test_the_service_has_started_when_the_first_poll_is_done(systemd: Manager) -> None:
    manager = ServiceManager(environment(systemd))
    assert systemd.heard() == []
    manager.polled(NOTHING)
    assert systemd.heard() == [["READY=1", "STATUS=no NVMe-oF paths"]]
    manager.close()


def test_the_status_is_told_when_it_has_changed_and_not_too_often(
    systemd: Manager, node: NodeFiles
) -> None:
    clock = Clock()
    manager = ServiceManager(environment(systemd), clock)
    with looping(node, *SLOW) as loop:
        (snapshot, *_) = loop.source.snapshots
    manager.polled(snapshot)
    clock.now += 6
    manager.polled(snapshot)
    manager.polled(NOTHING)
    clock.now += 6
    manager.polled(NOTHING)
    manager.close()
    assert systemd.heard() == [
        ["READY=1", "STATUS=4 of 4 paths live in 1 subsystem"],
        ["STATUS=no NVMe-oF paths"],
    ]


def test_an_abstract_socket_is_found(tmp_path: Path) -> None:
    with Manager(f"@nvmeof-exporter-test-{os.getpid()}") as systemd:
        manager = ServiceManager(environment(systemd))
        manager.stopping()
        assert systemd.heard() == [["STOPPING=1", "STATUS=stopping"]]
        manager.close()


@pytest.mark.parametrize("address", ["/nowhere/notify", "vsock:2:9999", "/" + "long" * 60])
def test_a_socket_that_is_not_there_costs_one_line(address: str) -> None:
    with capture_logs() as lines:
        manager = ServiceManager({"NOTIFY_SOCKET": address})
        manager.polled(NOTHING)
        manager.close()
    assert [line["event"] for line in lines] == ["systemd does not hear this service"]


def test_a_systemd_that_is_gone_or_slow_is_not_waited_for(systemd: Manager) -> None:
    manager = ServiceManager(environment(systemd))
    with capture_logs() as lines:
        for _ in range(10_000):  # far more than a socket holds, and nobody reads
            manager.stopping()
    assert [line["event"] for line in lines] == ["systemd does not hear this service"]
    assert len(systemd.heard()) < 10_000
    manager.stopping()
    assert systemd.heard() == [["STOPPING=1", "STATUS=stopping"]]
    manager.close()


def test_a_stuck_poller_gives_no_sign_of_life(systemd: Manager, node: NodeFiles) -> None:
    manager = ServiceManager(environment(systemd, WATCHDOG_USEC="60000"))
    stuck, free = threading.Event(), threading.Event()
    with looping(node, "--poll.interval=10ms", "--poll.incident-interval=10ms") as loop:
        poll = loop.source.poll

        def hang(monotonic: float, wall: float) -> Snapshot:
            stuck.set()
            assert free.wait(60)
            return poll(monotonic, wall)

        loop.poller.report_to(manager)
        systemd.await_("WATCHDOG=1")
        loop.source.poll = hang  # type: ignore[method-assign]
        try:
            assert stuck.wait(60)
            systemd.heard()
            assert not free.wait(0.5)  # eight watchdog periods
            assert systemd.heard() == []
        finally:
            loop.source.poll = poll  # type: ignore[method-assign]
            free.set()
        systemd.await_("WATCHDOG=1")
    manager.close()


def test_a_loop_that_polls_rarely_gives_signs_of_life_between_its_polls(
    systemd: Manager, node: NodeFiles
) -> None:
    manager = ServiceManager(environment(systemd, WATCHDOG_USEC="60000"))
    with looping(node, *SLOW) as loop:
        loop.poller.report_to(manager)
        loop.events.announce()  # the loop comes round, and from then on by itself
        for _ in range(20):
            systemd.await_("WATCHDOG=1")
        assert len(loop.source.snapshots) == 1
    manager.close()


def test_a_process_tells_of_its_whole_life(
    systemd: Manager, node: NodeFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", systemd.address)
    monkeypatch.setenv("WATCHDOG_USEC", "3000000")
    with running(f"--path.sysfs={node.sysfs}") as exporter:
        assert systemd.await_("READY=1") == [["READY=1", "STATUS=4 of 4 paths live in 1 subsystem"]]
        systemd.await_("WATCHDOG=1")
        exporter.process.send_signal(signal.SIGHUP)
        (reloading,) = systemd.await_("RELOADING=1")
        assert reloading[0] == "RELOADING=1"
        assert reloading[1].startswith("MONOTONIC_USEC=")
        assert systemd.await_("READY=1") == [["READY=1"]]
        node.apply("remove nvme1")
        systemd.await_("STATUS=3 of 3 paths live in 1 subsystem")
        assert exporter.stop() == 0
        assert systemd.await_("STOPPING=1") == [["STOPPING=1", "STATUS=stopping"]]
