"""The kernel log: why a path was lost, with the kernel's own time stamp.

Each read of ``/dev/kmsg`` returns one record, ``priority,sequence,µs,flags[,…];text``,
followed by lines `` KEY=value`` (Documentation/ABI/testing/dev-kmsg). Only records of
the kernel itself count: whoever may write to /dev/kmsg is marked as another facility.

Messages are rate-limited and reworded over time, so what is found here explains a
change that polling has seen; it never replaces it.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from typing import TYPE_CHECKING

from nvmeof_exporter.model import Event, EventKind
from nvmeof_exporter.sources.events import SourceFailed, SourceUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["KernelClock", "KernelLog", "parse"]

#: No record is longer (PRINTK_MESSAGE_MAX and its escapes, kernel/printk/internal.h).
_RECORD_BYTES = 8192
_RECORDS_PER_READ = 512
_KMSG_DEVICE = os.makedev(1, 11)  # Documentation/admin-guide/devices.txt
_KERNEL_PRIORITIES = frozenset(b"%d" % level for level in range(8))
_MICROSECONDS = 1e6
#: More than any of the wordings; bounds what a strange record costs.
_MAX_TEXT = 512
#: NTP slews by 500 ppm at most; as much again for a badly calibrated TSC.
_MAX_DRIFT = 1e-3

_SUBJECT = re.compile(r"(?:nvme (?P<controller>nvme\d+)|block (?P<disk>nvme\d+n\d+)): (?P<rest>.*)")

#: Timeouts name the queue (0 is the admin queue) and, in newer kernels, the opcode: 0x18 (FC
#: writes it in decimal) is Keep Alive, 0x7f a fabrics command. Where none is named, the admin
#: queue of a running fabrics controller hardly ever has anything but keep-alives; PCIe, whose
#: wording goes on after "timeout", has none. A completion that was polled did arrive: an
#: interrupt was lost, not a request.
_KEEP_ALIVE = EventKind.KEEP_ALIVE_FAILED
_TIMEOUTS: tuple[tuple[str, EventKind | None], ...] = (
    (r"I/O (?:tag )?\d+ .*timeout, completion polled", None),
    (r"queue 0: timeout .*opcode 0x18\b", _KEEP_ALIVE),
    (r"I/O tag \d+ .*opcode 0x18 .*QID 0 timeout", _KEEP_ALIVE),
    (r"NVME-FC\{\d+\.0\}: io timeout: opcode 24\b", _KEEP_ALIVE),
    (r"queue 0: timeout .*opcode 0x7f\b", EventKind.CONNECT_FAILED),
    (r"I/O tag \d+ .*opcode 0x7f .*QID 0 timeout", EventKind.CONNECT_FAILED),
    (r"NVME-FC\{\d+\.0\}: io timeout: opcode 127\b", EventKind.CONNECT_FAILED),
    (r"queue 0: timeout (?!.*opcode )", _KEEP_ALIVE),
    (r"I/O (?:tag )?\d+ (?!.*opcode ).*QID 0 timeout$", _KEEP_ALIVE),
    (r"queue \d+: timeout ", EventKind.IO_TIMEOUT),
    (r"I/O (?:tag )?\d+ .*QID \d+ timeout", EventKind.IO_TIMEOUT),
    (r"NVME-FC\{\d+\.\d+\}: io timeout: ", EventKind.IO_TIMEOUT),
)

#: Wordings of the transports, Linux 5.0 to 7.3, drivers/nvme/host/{core,fabrics,tcp,rdma,fc}.c.
#: The first that matches the start of the text decides.
_FC = r"NVME-FC\{\d+\}: "
_CONTROLLER_WORDINGS: tuple[tuple[str, EventKind | None], ...] = (
    *_TIMEOUTS,
    (r"starting error recovery", EventKind.ERROR_RECOVERY),
    # Also said of a keep-alive that was cancelled because the path was given up for another
    # reason: a cause only where nothing else about the controller came before it.
    (r"failed nvme_keep_alive_end_io error=|keep-alive failed", _KEEP_ALIVE),
    (r"Reconnecting in \d+ seconds", EventKind.RECONNECT_SCHEDULED),
    (_FC + r"Reconnect attempt in -?\d+ seconds", EventKind.RECONNECT_SCHEDULED),
    (r"Failed reconnect attempt", EventKind.RECONNECT_FAILED),
    (_FC + r"reset: Reconnect attempt failed", EventKind.RECONNECT_FAILED),
    (r"Successfully reconnected", EventKind.RECONNECTED),
    # FC says the same at the first connect.
    (_FC + r"controller connect complete", EventKind.CONTROLLER_CONNECTED),
    (r"Removing (?:controller|ctrl|after probe failure)", EventKind.REMOVING),
    (_FC + r"(?:Max reconnect attempts|dev_loss_tmo|reconnect failure)", EventKind.REMOVING),
    (_FC + r"transport unloading: deleting ctrl", EventKind.REMOVING),
    (r"failfast expired", EventKind.FAST_FAIL),
    (r"ANATT timeout", EventKind.ANA_TIMEOUT),
    (r"(?:" + _FC + r")?resetting controller", EventKind.RESETTING),
    (r"controller is down; will reset", EventKind.RESETTING),
    (r"(?:SEND|RECV|MEMREG|INV|LOCAL_INV) for CQE .*failed with status", EventKind.TRANSPORT_ERROR),
    (r"receive failed:|failed to send request", EventKind.TRANSPORT_ERROR),
    (r"queue \d+ (?:failed to receive|no space in) request", EventKind.TRANSPORT_ERROR),
    (r"queue \d+:? (?:header|data) digest|(?:header|data) digest error", EventKind.TRANSPORT_ERROR),
    (r"unsupported pdu type|pdu type \d+ |got bad c(?:qe|2hdata)\.", EventKind.TRANSPORT_ERROR),
    (r"Received C2HTermReq|got bad command_id", EventKind.TRANSPORT_ERROR),
    (_FC + r"(?:transport association|io failed due to)", EventKind.TRANSPORT_ERROR),
    (_FC + r"controller connectivity lost", EventKind.TRANSPORT_ERROR),
    (r"rdma connection establishment failed", EventKind.CONNECT_FAILED),
    (
        r"rdma_(?:resolve_addr|resolve_route|connect|connect_locked) failed",
        EventKind.CONNECT_FAILED,
    ),
    (r"failed to (?:connect|bind) (?:socket|queue)", EventKind.CONNECT_FAILED),
    (r"queue \d+: (?:failed to bind|TLS handshake)", EventKind.CONNECT_FAILED),
    (r"Connect (?:rejected|command failed|Invalid|for subsystem)", EventKind.CONNECT_FAILED),
    (r"failed to receive icresp|qid \d+: authentication", EventKind.CONNECT_FAILED),
)

#: drivers/nvme/host/multipath.c, ``nvme_ns_head_submit_bio``; "no path available" in older ones.
_DISK_WORDINGS: tuple[tuple[str, EventKind | None], ...] = (
    (r"no (?:usable path|path available) - requeuing I/O", EventKind.REQUEUED),
    (r"no (?:available path|path available) - failing I/O", EventKind.FAILED),
)


def _compiled(
    wordings: tuple[tuple[str, EventKind | None], ...],
) -> tuple[tuple[re.Pattern[str], EventKind | None], ...]:
    return tuple((re.compile(pattern), kind) for pattern, kind in wordings)


_CONTROLLER_PATTERNS = _compiled(_CONTROLLER_WORDINGS)
_DISK_PATTERNS = _compiled(_DISK_WORDINGS)


def parse(text: str) -> tuple[EventKind, str] | None:
    """Return what a log text means and the kernel name it is about; None for all others.

    ``text`` is one line, without time stamp: ``nvme nvme0: starting error recovery``.
    """
    subject = _SUBJECT.match(text[:_MAX_TEXT])
    if subject is None:
        return None
    controller = subject["controller"]
    patterns = _DISK_PATTERNS if controller is None else _CONTROLLER_PATTERNS
    for pattern, kind in patterns:
        if pattern.match(subject["rest"]):
            return None if kind is None else (kind, controller or subject["disk"])
    return None


class KernelClock:
    """Turns the log's µs since boot into seconds on the monotonic clock.

    The log is stamped by ``local_clock``, which NTP does not slew: on a node that has
    been up for months the two differ by seconds. So the difference is learnt: a record is
    read right after it was written, hence the smallest one seen, allowed to grow as fast
    as clocks drift, is right to within the time it took to wake up. No result is later
    than the moment of reading. The first records after a start are as exact as that alone.
    """

    def __init__(self) -> None:
        self._offset: float | None = None
        self._learnt = 0.0

    def learn(self, stamp: float, now: float) -> None:
        """Take note that the record stamped ``stamp`` (s since boot) was read at ``now``."""
        offset = now - stamp
        if self._offset is not None:
            offset = min(offset, self._offset + (now - self._learnt) * _MAX_DRIFT)
        self._offset, self._learnt = offset, now

    def monotonic(self, stamp: float, now: float) -> float:
        """Return when the record stamped ``stamp`` was written; ``now`` if nothing is learnt."""
        return now if self._offset is None else min(stamp + self._offset, now)


class KernelLog:
    """What the kernel logs about NVMe from now on, as an EventSource named ``kmsg``.

    ``path`` is /dev/kmsg, or a pipe that brings one record a read, as pipe2(2) makes
    with O_DIRECT. Raises SourceUnavailable, e.g. where kernel.dmesg_restrict is 1 and
    CAP_SYSLOG is missing.
    """

    name = "kmsg"

    def __init__(
        self,
        path: str | os.PathLike[str] = "/dev/kmsg",
        *,
        clock: Callable[[], float] = time.monotonic,
        read: Callable[[int, int], bytes] = os.read,
    ) -> None:
        self._path = os.fspath(path)
        self._clock = clock
        self._read = read
        self._times = KernelClock()
        self._descriptor = _open(self._path)

    def fileno(self) -> int:
        """The descriptor for the loop."""
        return self._descriptor

    def read(self) -> list[Event]:
        """Return what was logged; raise SourceFailed when the log is gone.

        LOST_EVENTS, once a call and in its place, where records were overwritten
        before they could be read.
        """
        found, lost, last = self._collect()
        now = self._clock()
        if last is not None:
            self._times.learn(last, now)
        events = [
            Event(self._times.monotonic(stamp, now), self.name, kind, device, text)
            for stamp, kind, device, text in found
        ]
        if lost is not None:
            time_of_loss = events[lost].time if lost < len(events) else now
            events.insert(lost, Event(time_of_loss, self.name, EventKind.LOST_EVENTS))
        return events

    def close(self) -> None:
        """Close the log."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def reopen(self) -> None:
        """Open the log again, behind its last record."""
        self.close()
        self._descriptor = _open(self._path)

    def _collect(self) -> tuple[list[tuple[float, EventKind, str, str]], int | None, float | None]:
        """Read a bounded number of records.

        Returns what was found, how many of those precede the first loss (None: no
        loss), and the stamp of the last record of any kind.
        """
        found: list[tuple[float, EventKind, str, str]] = []
        lost: int | None = None
        record = b""
        for _ in range(_RECORDS_PER_READ):
            try:
                latest = self._read(self._descriptor, _RECORD_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.EPIPE:
                    lost = len(found) if lost is None else lost
                elif error.errno != errno.EINVAL:  # longer than the buffer: skipped by the kernel
                    raise SourceFailed(f"{self._path}: {error.strerror or error}") from error
                continue
            if not latest:
                raise SourceFailed(f"{self._path}: end of file")
            record = latest
            if b"nvme" in record and (one := _decode(record)) is not None:
                found.append(one)
        return found, lost, _stamp(record)


def _open(path: str) -> int:
    """Open the log behind its last record."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise SourceUnavailable(f"{path}: {error.strerror}") from error
    status = os.fstat(descriptor)
    if stat.S_ISCHR(status.st_mode) and status.st_rdev == _KMSG_DEVICE:
        os.lseek(descriptor, 0, os.SEEK_END)
    elif not stat.S_ISFIFO(status.st_mode):
        # Some containers put /dev/null here, which neither waits nor tells.
        os.close(descriptor)
        raise SourceUnavailable(f"{path}: neither a kernel log nor a pipe")
    return descriptor


def _stamp(record: bytes) -> float | None:
    """The time of a record in seconds since boot; None when there is none."""
    fields = record[:64].split(b",", 3)
    try:
        return int(fields[2]) / _MICROSECONDS
    except (IndexError, ValueError):
        return None


def _decode(record: bytes) -> tuple[float, EventKind, str, str] | None:
    """(stamp, kind, device, text) of a record by the kernel about NVMe, else None."""
    header, _, rest = record.partition(b";")
    stamp = _stamp(header)
    if stamp is None or not _by_kernel(header):
        return None
    text = rest.partition(b"\n")[0].decode("utf-8", "replace")
    meaning = parse(text)
    return None if meaning is None else (stamp, *meaning, text[:_MAX_TEXT])


def _by_kernel(header: bytes) -> bool:
    """Whether the facility (the priority's upper bits) is 0, which no writer can choose."""
    return header.partition(b",")[0] in _KERNEL_PRIORITIES
