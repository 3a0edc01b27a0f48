"""Under strace: nothing is written to the machine, no device commanded, no secret opened."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.sources.reader import FORBIDDEN
from tests.fixtures.node_files import NodeFiles
from tests.test_daemon.running import Exporter, eventually
from tests.test_faults.strace import Call, calls, straced

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.strace

POLLS = "nvmeof_exporter_poll_duration_seconds_count"
MACHINE = ("/sys", "/proc", "/dev")

#: What is not the machine's: terminals and sinks that any process may write to.
HARMLESS = ("/dev/null", "/dev/pts/", "/dev/tty")

WRITING = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND")

#: The ioctls that Python makes of its own descriptors, and those that ask interfaces for
#: their statistics (ETHTOOL_G…): none of them reaches a disk.
IOCTLS = re.compile(r"\b(FIOCLEX|FIONCLEX|FIONBIO|FIONREAD|TCGETS\w*|TIOCGWINSZ|SIOCETHTOOL)\b")

CHANGING = (
    "unlink", "unlinkat", "rename", "renameat", "renameat2", "mkdir", "mkdirat", "rmdir",
    "chmod", "fchmodat", "chown", "fchownat", "truncate", "link", "linkat", "symlink",
    "symlinkat", "mknod", "mknodat", "mount", "umount2", "setxattr", "removexattr",
)  # fmt: skip
TRACED = ("-e", f"trace=open,openat,openat2,creat,ioctl,?io_uring_setup,{','.join(CHANGING)}")


def _under(path: str, roots: tuple[str, ...]) -> bool:
    return path.startswith(tuple(f"{root}/" for root in roots)) or path in roots


def offences(found: list[Call], roots: tuple[str, ...]) -> list[Call]:
    """Return the calls that the exporter must never make."""
    bad = []
    for call in found:
        path = call.path
        if call.name == "ioctl":
            if IOCTLS.search(call.arguments) is None:
                bad.append(call)
        elif call.name in {"open", "openat", "openat2", "creat"}:
            name = path.rpartition("/")[2]
            writes = WRITING.search(call.arguments) or call.name == "creat"
            machine = _under(path, roots) and not path.startswith(HARMLESS)
            device = re.match(r"/dev/(nvme|ng\d|sd|dm-|nvme-fabrics)", path)
            if (machine and writes) or device or name in FORBIDDEN or "/hwmon" in path:
                bad.append(call)
        elif call.name == "io_uring_setup" or _under(path, roots):
            bad.append(call)
    return bad


def _use(exporter: Exporter, rounds: int) -> None:
    """Poll, scrape and look at every page for a while."""
    for _ in range(rounds):
        polls = exporter.samples()[POLLS]
        eventually(lambda polls=polls: exporter.samples()[POLLS] > polls, "polled")  # type: ignore[misc]
        for page in ("/", "/-/healthy", "/-/ready"):
            assert exporter.status(page) == 200


def test_over_a_tree_nothing_is_written_and_nothing_secret_opened(tmp_path: Path) -> None:
    node = NodeFiles.load("four-gateways", tmp_path / "sys")
    for name in FORBIDDEN:
        (node.place("nvme1") / name).write_text("secret\n")
    (node.place("nvme1") / "hwmon1").mkdir()
    (node.place("nvme1") / "hwmon1/temp1_input").write_text("1\n")
    state = tmp_path / "state"
    flags = (f"--path.sysfs={node.sysfs}", f"--path.state={state}", "--poll.rescan-interval=100ms")
    with straced(tmp_path / "trace", TRACED, *flags, "--poll.slow-interval=200ms") as exporter:
        _use(exporter, 5)
        node.apply("set nvme1 state=connecting")
        _use(exporter, 5)
        node.apply("remove nvme2")
        _use(exporter, 5)
    found = calls(tmp_path / "trace")
    read = {call.path for call in found if call.path.startswith(node.sysfs)}
    assert len(read) > 50
    assert offences(found, (*MACHINE, node.sysfs)) == []
    written = {c.path for c in found if c.name == "openat" and WRITING.search(c.arguments)}
    assert {path for path in written if path.startswith(str(tmp_path))} == {
        f"{state}/paths.json.new",
        f"{state}/paths.lock",
    }


def test_over_this_machine_nothing_is_written_and_no_device_commanded(tmp_path: Path) -> None:
    flags = ("--path.state=", "--poll.rescan-interval=100ms", "--poll.slow-interval=200ms")
    every = ("--collector.pcie", "--collector.links=all", "--collector.lldp")
    with straced(tmp_path / "trace", TRACED, *flags, *every) as exporter:
        _use(exporter, 10)
    found = calls(tmp_path / "trace")
    assert any(call.path.startswith("/sys/class") for call in found)
    assert offences(found, MACHINE) == []


@pytest.mark.parametrize(
    "line",
    [
        '7 openat(AT_FDCWD, "/sys/class/nvme/nvme0/reset_controller", O_WRONLY) = 3',
        '7 openat(AT_FDCWD, "/dev/nvme0n1", O_RDONLY) = 3',
        '7 openat(AT_FDCWD, "/sys/class/nvme/nvme0/dhchap_secret", O_RDONLY|O_CLOEXEC) = 3',
        '7 openat(AT_FDCWD, "/sys/class/nvme/nvme0/hwmon2/temp1_input", O_RDONLY) = 3',
        "7 ioctl(3, NVME_IOCTL_ADMIN_CMD, 0x7ffc) = 0",
        '7 unlink("/sys/fs/cgroup/x") = 0',
        '7 openat(AT_FDCWD, "/proc/sys/vm/drop_caches", O_RDWR <unfinished ...>\n'
        "7 <... openat resumed>) = 3",
    ],
)
def test_an_offence_would_be_seen(tmp_path: Path, line: str) -> None:
    (tmp_path / "trace").write_text(line + "\n")
    assert len(offences(calls(tmp_path / "trace"), MACHINE)) == 1


@pytest.mark.parametrize(
    "injection",
    [
        "pread64:error=EIO:when=300+3",
        "pread64:error=EAGAIN:when=300+2",
        "openat:error=EMFILE:when=1200+2",
        "getdents64:error=EIO:when=200+2",
        "newfstatat:error=EACCES:when=3500+3",
        "accept4:error=EMFILE:when=3+3",
        "accept4:error=ECONNABORTED:when=3+3",
        "recvfrom:error=ECONNRESET:when=5+5",
        "sendto:error=EPIPE:when=5+5",
        "vfork:error=EAGAIN",
        "fsync:error=ENOSPC",
        "rename:error=EROFS",
    ],
)
def test_whatever_the_kernel_refuses_polling_goes_on(tmp_path: Path, injection: str) -> None:
    node = NodeFiles.load("four-gateways", tmp_path / "sys")
    call = injection.partition(":")[0]
    options = ("-e", f"trace={call}", "-e", f"inject={injection}")
    flags = (f"--path.sysfs={node.sysfs}", f"--path.state={tmp_path}/state")
    often = ("--poll.rescan-interval=100ms", "--poll.slow-interval=200ms")
    with straced(tmp_path / "trace", options, *flags, *often, "--collector.lldp") as exporter:
        eventually(lambda: _was_refused(exporter, tmp_path / "trace"), "refused")
        for _ in range(3):
            _await_a_poll(exporter)
        assert exporter.process.poll() is None
    assert exporter.said("Traceback") == []


def _await_a_poll(exporter: Exporter) -> None:
    eventually(lambda: _polls(exporter) is not None, "answered")
    polls = _polls(exporter) or 0.0
    eventually(lambda: (_polls(exporter) or 0.0) > polls, "polled")


def _was_refused(exporter: Exporter, trace: Path) -> bool:
    _polls(exporter)  # a client that brings the call about
    return "(INJECTED)" in trace.read_text()


def _polls(exporter: Exporter) -> float | None:
    """Return the number of polls; None where the answer was cut off."""
    try:
        return exporter.samples()[POLLS]
    except (OSError, ValueError, KeyError):
        return None


def test_without_netlink_udev_and_kernel_log_polling_is_all_there_is(tmp_path: Path) -> None:
    # The first is for HTTP.
    options = ("-e", "trace=bind", "-e", "inject=bind:error=EPERM:when=2+")
    flags = ("--path.state=", "--path.kmsg=/nonexistent", "--collector.udev", "--collector.netlink")
    with straced(tmp_path / "trace", options, *flags) as exporter:
        _use(exporter, 2)
        found = exporter.samples()
        assert found['nvmeof_exporter_collector_success{collector="udev"}'] == 0
        assert found['nvmeof_exporter_collector_success{collector="kmsg"}'] == 0
        assert found['nvmeof_exporter_collector_success{collector="nvme"}'] == 1
        assert len(exporter.said("event source not available")) >= 2
