"""Debian's lldpd, on a host with two cables to one switch and one to another.

Each machine is a network namespace with a private ``/run``: nothing of the machine that
runs the test is touched.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.sources.lldp import LldpFailed, LldpUnavailable, switches
from tests.test_sources.privileges import CAP_NET_ADMIN, CAP_SYS_ADMIN, has_capabilities

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 30.0

TOOLS = ("lldpd", "lldpcli", "ip", "unshare", "nsenter", "setpriv")
MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]

pytestmark = [
    pytest.mark.skipif(
        not has_capabilities(CAP_NET_ADMIN, CAP_SYS_ADMIN),
        reason="makes network and mount namespaces of its own (CAP_SYS_ADMIN, CAP_NET_ADMIN)",
    ),
    pytest.mark.skipif(bool(MISSING), reason=f"needs {' '.join(MISSING)} (Debian: lldpd)"),
]

_PRIVATE_RUN = "mount -t tmpfs tmpfs /run && mkdir /run/lldpd && echo ready && exec cat"


class Machine:
    """A network namespace with a ``/run`` of its own, for as long as ``holder`` lives."""

    def __init__(self, holder: subprocess.Popen[str]) -> None:
        self.pid = str(holder.pid)
        self.daemon: subprocess.Popen[bytes] | None = None

    def command(self, *command: str) -> tuple[str, ...]:
        return ("nsenter", "--target", self.pid, "--mount", "--net", *command)

    def run(self, *command: str) -> None:
        subprocess.run(self.command(*command), check=True, capture_output=True)

    def start_lldpd(self, *flags: str) -> None:
        self.daemon = subprocess.Popen(
            self.command("lldpd", "-d", *flags),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(lambda: self.switches() is not None)
        self.run("lldpcli", "configure", "lldp", "tx-interval", "1")

    def stop_lldpd(self) -> None:
        if self.daemon is not None:
            self.daemon.terminate()
            self.daemon.wait(PATIENCE)
            self.daemon = None

    def switches(self) -> dict[str, str] | None:
        """What lldpd tells, None before it runs."""
        try:
            return switches(self.command("lldpcli"), seconds=PATIENCE)
        except LldpUnavailable:
            return None


@contextmanager
def machine() -> Iterator[Machine]:
    with subprocess.Popen(
        ["unshare", "--mount", "--net", "sh", "-c", _PRIVATE_RUN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        made = Machine(holder)
        try:
            yield made
        finally:
            made.stop_lldpd()


def until(condition: Callable[[], bool]) -> None:
    """Ask until it is so: lldpd takes a second or two to hear of a neighbour."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "lldpd did not tell in time"
        time.sleep(0.05)


def cable(one: Machine, interface: str, other: Machine, peer: str) -> None:
    one.run(
        *("ip", "link", "add", interface, "type", "veth"),
        *("peer", "name", peer, "netns", other.pid),
    )
    one.run("ip", "link", "set", interface, "up")
    other.run("ip", "link", "set", peer, "up")


@pytest.fixture
def host() -> Iterator[Machine]:
    """A machine with h0 and h1 on leaf1, and h2 on leaf2."""
    with ExitStack() as stack:
        made, leaf1, leaf2 = (stack.enter_context(machine()) for _ in range(3))
        cable(made, "h0", leaf1, "p0")
        cable(made, "h1", leaf1, "p1")
        cable(made, "h2", leaf2, "p0")
        made.start_lldpd("-I", "h*")
        for name, leaf in (("leaf1", leaf1), ("leaf2", leaf2)):
            leaf.start_lldpd("-I", "p*")
            leaf.run("lldpcli", "configure", "system", "chassisid", name)
        yield made


def test_two_cables_to_one_switch_tell_the_same_and_a_lost_one_nothing(host: Machine) -> None:
    whole = {"h0": "local leaf1", "h1": "local leaf1", "h2": "local leaf2"}
    until(lambda: host.switches() == whole)
    host.run("ip", "link", "set", "h1", "down")
    until(lambda: host.switches() == {"h0": "local leaf1", "h2": "local leaf2"})
    host.run("ip", "link", "set", "h1", "up")
    until(lambda: host.switches() == whole)


def test_before_and_after_its_time_lldpd_is_not_there() -> None:
    with machine() as host:
        for _ in range(2):
            with pytest.raises(LldpUnavailable, match="lldpd does not run: unable to connect"):
                switches(host.command("lldpcli"), seconds=PATIENCE)
            host.start_lldpd("-I", "lo")
            assert host.switches() == {}
            host.stop_lldpd()


def test_a_socket_that_may_not_be_used_is_a_failure_not_an_absence() -> None:
    with machine() as host:
        host.start_lldpd("-I", "lo")
        # Without privileges to gain, the set-user-ID bit of Debian's lldpcli means nothing.
        asking = host.command(
            *("setpriv", "--no-new-privs", "--reuid", "nobody", "--regid", "nogroup"),
            *("--groups", "adm", "lldpcli"),
        )
        with pytest.raises(LldpFailed, match=r"unable to connect to socket .*: Permission denied"):
            switches(asking, seconds=PATIENCE)
