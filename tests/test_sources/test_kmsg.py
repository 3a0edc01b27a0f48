from __future__ import annotations

import errno
import os
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter.model import EventKind
from nvmeof_exporter.sources.events import SourceFailed, SourceUnavailable
from nvmeof_exporter.sources.kmsg import KernelClock, KernelLog, parse
from tests.test_sources.waiting import events_until, is_readable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CONTROLLER_TEXTS = [
    # keep-alive: old and new timeouts, then the end of the command itself
    ("queue 0: timeout request 0x1 type 4", EventKind.KEEP_ALIVE_FAILED),
    ("queue 0: timeout cid 0xb001 type 4 opcode 0x18 (Admin Cmd)", EventKind.KEEP_ALIVE_FAILED),
    (
        "I/O tag 1 (3001) type 4 opcode 0x18 (Keep Alive) QID 0 timeout",
        EventKind.KEEP_ALIVE_FAILED,
    ),
    ("I/O tag 9 (9009) opcode 0x18 (Keep Alive) QID 0 timeout", EventKind.KEEP_ALIVE_FAILED),
    ("I/O 1 QID 0 timeout", EventKind.KEEP_ALIVE_FAILED),
    (
        "NVME-FC{0.0}: io timeout: opcode 24 fctype 0 w10/11: x00000000/x00000000",
        EventKind.KEEP_ALIVE_FAILED,
    ),
    (
        "NVME-FC{3.0}: io timeout: opcode 24 fctype 0 (Keep Alive) w10/11: x00000000/x00000000",
        EventKind.KEEP_ALIVE_FAILED,
    ),
    ("failed nvme_keep_alive_end_io error=10", EventKind.KEEP_ALIVE_FAILED),
    ("keep-alive failed: -11", EventKind.KEEP_ALIVE_FAILED),
    # I/O and other commands that timed out
    ("queue 2: timeout request 0x5 type 6", EventKind.IO_TIMEOUT),
    ("queue 5: timeout cid 0x1a type 4 opcode 0x1 (Write)", EventKind.IO_TIMEOUT),
    ("I/O tag 118 (1076) type 4 opcode 0x2 (Read) QID 3 timeout", EventKind.IO_TIMEOUT),
    ("I/O tag 118 (1076) opcode 0x2 (Read) QID 3 timeout", EventKind.IO_TIMEOUT),
    ("I/O 14 QID 2 timeout", EventKind.IO_TIMEOUT),
    ("I/O 14 QID 2 timeout, aborting", EventKind.IO_TIMEOUT),
    ("I/O 24 QID 0 timeout, reset controller", EventKind.IO_TIMEOUT),
    ("I/O tag 2 (1002) type 4 opcode 0x2 (Get Log Page) QID 0 timeout", EventKind.IO_TIMEOUT),
    (
        "I/O tag 2 (1002) opcode 0x6 (Identify) QID 0 timeout, disable controller",
        EventKind.IO_TIMEOUT,
    ),
    (
        "NVME-FC{0.3}: io timeout: opcode 1 fctype 1 (Write) w10/11: x00144de0/x00000000",
        EventKind.IO_TIMEOUT,
    ),
    # no answer to a connect
    ("I/O tag 0 (0) type 4 opcode 0x7f (Fabrics Cmd) QID 0 timeout", EventKind.CONNECT_FAILED),
    ("queue 0: timeout cid 0x0 type 4 opcode 0x7f (Admin Cmd)", EventKind.CONNECT_FAILED),
    ("failed to connect socket: -110", EventKind.CONNECT_FAILED),
    ("failed to connect queue: 5 ret=881", EventKind.CONNECT_FAILED),
    ("rdma connection establishment failed (-110)", EventKind.CONNECT_FAILED),
    ("rdma_resolve_addr failed (-101).", EventKind.CONNECT_FAILED),
    ("rdma_connect failed (-14).", EventKind.CONNECT_FAILED),
    ("rdma_connect_locked failed (-22).", EventKind.CONNECT_FAILED),
    ("Connect rejected: status 8 (invalid service ID).", EventKind.CONNECT_FAILED),
    ("Connect rejected: status 28 (consumer defined) nvme status 6", EventKind.CONNECT_FAILED),
    ("Connect command failed, error wo/DNR bit: 881", EventKind.CONNECT_FAILED),
    ("Connect command failed, errno: -18", EventKind.CONNECT_FAILED),
    ('Connect Invalid Data Parameter, subsysnqn "nqn.x"', EventKind.CONNECT_FAILED),
    # reconnecting
    ("starting error recovery", EventKind.ERROR_RECOVERY),
    ("Reconnecting in 10 seconds...", EventKind.RECONNECT_SCHEDULED),
    ("NVME-FC{0}: Reconnect attempt in 2 seconds", EventKind.RECONNECT_SCHEDULED),
    ("Failed reconnect attempt 2", EventKind.RECONNECT_FAILED),
    ("Failed reconnect attempt 2/60", EventKind.RECONNECT_FAILED),
    ("NVME-FC{0}: reset: Reconnect attempt failed (-111)", EventKind.RECONNECT_FAILED),
    ("Successfully reconnected (1 attempt)", EventKind.RECONNECTED),
    ("Successfully reconnected (3 attempts)", EventKind.RECONNECTED),
    ("Successfully reconnected (attempt 3/60)", EventKind.RECONNECTED),
    ("NVME-FC{0}: controller connect complete", EventKind.CONTROLLER_CONNECTED),
    # the transport
    (
        "SEND for CQE 0x00000000c2d6d1f5 failed with status transport retry counter exceeded (12)",
        EventKind.TRANSPORT_ERROR,
    ),
    ("RECV for CQE 0x0 failed with status WR flushed (5)", EventKind.TRANSPORT_ERROR),
    ("receive failed:  -104", EventKind.TRANSPORT_ERROR),
    ("failed to send request -32", EventKind.TRANSPORT_ERROR),
    ("got bad cqe.command_id 0x1008 on queue 1", EventKind.TRANSPORT_ERROR),
    (
        "NVME-FC{0}: transport association event: transport detected io error",
        EventKind.TRANSPORT_ERROR,
    ),
    ("NVME-FC{0}: transport association error detected: fcp error", EventKind.TRANSPORT_ERROR),
    ("NVME-FC{0}: io failed due to lldd error 6", EventKind.TRANSPORT_ERROR),
    ("NVME-FC{1}: controller connectivity lost. Awaiting Reconnect", EventKind.TRANSPORT_ERROR),
    # resets, removals, time-outs of the policy
    ("resetting controller", EventKind.RESETTING),
    ("NVME-FC{0}: resetting controller", EventKind.RESETTING),
    ("Removing controller...", EventKind.REMOVING),
    ("Removing controller (-111)...", EventKind.REMOVING),
    ('Removing ctrl: NQN "nqn.2024-01.org.example:a"', EventKind.REMOVING),
    ("Removing after probe failure status: -19", EventKind.REMOVING),
    ("NVME-FC{0}: Max reconnect attempts (60) reached.", EventKind.REMOVING),
    (
        "NVME-FC{0}: dev_loss_tmo (60) expired while waiting for remoteport connectivity.",
        EventKind.REMOVING,
    ),
    ("failfast expired", EventKind.FAST_FAIL),
    ("ANATT timeout, resetting controller.", EventKind.ANA_TIMEOUT),
]

DISK_TEXTS = [
    ("no usable path - requeuing I/O", EventKind.REQUEUED),
    ("no path available - requeuing I/O", EventKind.REQUEUED),
    ("no available path - failing I/O", EventKind.FAILED),
    ("no path available - failing I/O", EventKind.FAILED),
]

OTHER_TEXTS = [
    "nvme nvme0: long keepalive RTT (2104 ms)",
    'nvme nvme0: new ctrl: NQN "nqn.x", addr 10.0.0.1:4420, hostnqn: nqn.y',
    "nvme nvme0: creating 4 I/O queues.",
    "nvme nvme0: mapped 4/0/0 default/read/poll queues.",
    "nvme nvme0: I/O tag 20 (1014) QID 0 timeout, completion polled",
    "nvme nvme0: I/O 8 QID 3 timeout, completion polled",
    "nvme nvme0: I/O tag 20 (1014) opcode 0x2 (Read) QID 4 timeout, completion polled",
    "nvme 0000:03:00.0: resetting controller",
    "nvme0c0n1: I/O Cmd(0x2) @ LBA 2048, 8 blocks, I/O Error (sct 0x3 / sc 0x71)",
    "I/O error, dev nvme0c0n1, sector 1155648 op 0x1:(WRITE) flags 0x2008800 phys_seg 1",
    "nvme_ns_head_submit_bio: 12 callbacks suppressed",
    "block nvme0n1: the capability attribute has been deprecated.",
    "nvmet: ctrl 1 keep-alive timer (5 seconds) expired!",
    "program says: nvme nvme0: starting error recovery",
    "nvme nvme0: somebody was starting error recovery",
    "block sda: no usable path - requeuing I/O",
    "",
]


class TestWhatATextMeans:
    @pytest.mark.parametrize(("text", "kind"), CONTROLLER_TEXTS)
    def test_about_a_controller(self, text: str, kind: EventKind) -> None:
        assert parse(f"nvme nvme12: {text}") == (kind, "nvme12")

    @pytest.mark.parametrize(("text", "kind"), DISK_TEXTS)
    def test_about_a_head_disk(self, text: str, kind: EventKind) -> None:
        assert parse(f"block nvme3n1: {text}") == (kind, "nvme3n1")

    @pytest.mark.parametrize("text", OTHER_TEXTS)
    def test_anything_else_means_nothing(self, text: str) -> None:
        assert parse(text) is None

    @given(st.text())
    def test_any_text_is_understood_or_not_but_harms_nobody(self, text: str) -> None:
        for subject in ("", "nvme nvme0: ", "block nvme0n1: "):
            meaning = parse(subject + text)
            assert meaning is None or meaning[1] in {"nvme0", "nvme0n1"} or not subject

    @given(st.sampled_from(CONTROLLER_TEXTS), st.integers(0, 100))
    def test_a_text_cut_short_never_names_another_device(
        self, known: tuple[str, EventKind], length: int
    ) -> None:
        meaning = parse(f"nvme nvme0: {known[0][:length]}")
        assert meaning is None or meaning[1] == "nvme0"

    def test_a_huge_text_costs_no_more_than_a_long_one(self) -> None:
        hostile = "nvme nvme0: I/O tag 1 " + "opcode 0x18 " * 100_000
        before = time.process_time()
        assert parse(hostile) is None
        assert time.process_time() - before < 0.1


class TestTheClock:
    def test_before_anything_is_learnt_a_record_is_as_late_as_its_reading(self) -> None:
        assert KernelClock().monotonic(3.0, now=100.0) == 100.0

    def test_the_promptest_reading_sets_the_difference(self) -> None:
        clock = KernelClock()
        clock.learn(10.0, now=15.5)  # read half a second late
        clock.learn(11.0, now=16.0)
        assert clock.monotonic(12.0, now=18.0) == 17.0

    def test_a_late_reading_does_not_undo_what_was_learnt(self) -> None:
        clock = KernelClock()
        clock.learn(10.0, now=15.0)
        clock.learn(11.0, now=26.0)
        assert clock.monotonic(11.0, now=26.0) == pytest.approx(16.0, abs=0.02)

    def test_slow_drift_is_followed(self) -> None:
        clock = KernelClock()
        clock.learn(0.0, now=5.0)
        for hour in range(1, 49):
            clock.learn(hour * 3600.0, now=hour * 3600.0 * 1.0001 + 5.0)
        two_days = 48 * 3600.0
        assert clock.monotonic(two_days, now=1e6) == pytest.approx(two_days * 1.0001 + 5.0)

    @given(st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e9))), st.floats(0, 1e9))
    def test_no_record_is_later_than_its_reading(
        self, readings: list[tuple[float, float]], stamp: float
    ) -> None:
        clock = KernelClock()
        for one, now in readings:
            clock.learn(one, now)
        assert clock.monotonic(stamp, now=50.0) <= 50.0


def record(
    text: str, *, stamp: float = 1000.0, priority: int = 4, extra: str = "", tail: str = ""
) -> bytes:
    return f"{priority},1234,{int(stamp * 1e6)},-{extra};{text}\n{tail}".encode()


class FakeLog:
    """A kernel log that answers reads with what it was given: records or errors."""

    def __init__(self, *answers: bytes | int) -> None:
        self.answers = list(answers)

    def read(self, _descriptor: int, size: int) -> bytes:
        if not self.answers:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        answer = self.answers.pop(0)
        if isinstance(answer, int):
            raise OSError(answer, os.strerror(answer))
        return answer[:size]


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    return path


@pytest.fixture
def log_of(fifo: Path) -> Iterator[Callable[..., KernelLog]]:
    opened: list[KernelLog] = []

    def make(*answers: bytes | int, now: float = 5000.0) -> KernelLog:
        log = KernelLog(fifo, clock=lambda: now, read=FakeLog(*answers).read)
        opened.append(log)
        return log

    yield make
    for log in opened:
        log.close()


RECOVERY = "nvme nvme0: starting error recovery"


class TestReading:
    def test_a_record_becomes_an_event(self, log_of: Callable[..., KernelLog]) -> None:
        tail = " SUBSYSTEM=nvme\n DEVICE=c240:0\n"
        (event,) = log_of(record(RECOVERY, extra=",caller=T12", tail=tail)).read()
        assert (event.kind, event.device) == (EventKind.ERROR_RECOVERY, "nvme0")
        assert (event.source, event.text, event.time) == ("kmsg", RECOVERY, 5000.0)

    def test_times_keep_the_kernels_own_distances(self, log_of: Callable[..., KernelLog]) -> None:
        log = log_of(
            record(RECOVERY, stamp=100.0),
            record("nvme nvme0: Reconnecting in 2 seconds...", stamp=100.25),
            record("usb 1-1: new device", stamp=101.0),
        )
        assert [event.time for event in log.read()] == [4999.0, 4999.25]

    def test_other_peoples_records_mean_nothing(self, log_of: Callable[..., KernelLog]) -> None:
        assert log_of(record("usb 1-1: new device"), record("nvme nvme0: hello")).read() == []

    @pytest.mark.parametrize("priority", [8, 12, 14, 30, 132])
    def test_a_record_written_by_a_program_is_not_believed(
        self, log_of: Callable[..., KernelLog], priority: int
    ) -> None:
        assert log_of(record(RECOVERY, priority=priority)).read() == []

    def test_an_overrun_is_told_once_and_reading_goes_on(
        self, log_of: Callable[..., KernelLog]
    ) -> None:
        log = log_of(
            record(RECOVERY),
            errno.EPIPE,
            errno.EPIPE,
            record("nvme nvme1: starting error recovery"),
        )
        assert [(event.kind, event.device) for event in log.read()] == [
            (EventKind.ERROR_RECOVERY, "nvme0"),
            (EventKind.LOST_EVENTS, ""),
            (EventKind.ERROR_RECOVERY, "nvme1"),
        ]

    def test_an_overrun_with_nothing_after_it_is_told(
        self, log_of: Callable[..., KernelLog]
    ) -> None:
        (event,) = log_of(errno.EPIPE).read()
        assert (event.kind, event.time) == (EventKind.LOST_EVENTS, 5000.0)

    def test_a_record_longer_than_the_buffer_is_skipped(
        self, log_of: Callable[..., KernelLog]
    ) -> None:
        assert len(log_of(errno.EINVAL, record(RECOVERY)).read()) == 1

    def test_a_flood_is_read_in_portions(self, log_of: Callable[..., KernelLog]) -> None:
        log = log_of(*[record(RECOVERY)] * 1000)
        assert [len(log.read()) for _ in range(3)] == [512, 488, 0]

    def test_the_death_of_the_log_is_told_with_the_reason(
        self, log_of: Callable[..., KernelLog], fifo: Path
    ) -> None:
        with pytest.raises(SourceFailed, match=f"{fifo}: Input/output error"):
            log_of(errno.EIO).read()

    def test_the_end_of_the_file_is_a_death(self, log_of: Callable[..., KernelLog]) -> None:
        with pytest.raises(SourceFailed, match="end of file"):
            log_of(b"").read()

    @given(
        raw=st.lists(st.binary(min_size=1)),
        prefix=st.sampled_from([b"", b"4,1,", b"4,1,2,-;nvme nvme0: "]),
    )
    def test_any_bytes_may_stand_in_the_log(
        self, tmp_path_factory: pytest.TempPathFactory, raw: list[bytes], prefix: bytes
    ) -> None:
        path = tmp_path_factory.mktemp("log") / "kmsg"
        os.mkfifo(path)
        log = KernelLog(path, read=FakeLog(*(prefix + one for one in raw)).read)
        try:
            assert len(log.read()) <= len(raw)
        finally:
            log.close()


class TestARealDescriptor:
    def test_wakes_the_loop_record_by_record(self) -> None:
        reader, writer = os.pipe2(os.O_DIRECT | os.O_CLOEXEC)
        log = KernelLog(f"/proc/self/fd/{reader}")
        assert not is_readable(log)
        try:
            os.write(writer, record(RECOVERY))
            os.write(writer, record("block nvme0n1: no usable path - requeuing I/O"))
            events = events_until(log, lambda events: len(events) >= 2)
        finally:
            os.close(writer)
            os.close(reader)
            log.close()
        assert [event.kind for event in events] == [EventKind.ERROR_RECOVERY, EventKind.REQUEUED]

    def test_closing_twice_is_harmless(self, fifo: Path) -> None:
        log = KernelLog(fifo)
        log.close()
        log.close()


def log_is_readable() -> bool:
    try:
        os.close(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


class TestOpening:
    def test_what_is_missing_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(SourceUnavailable, match="kmsg: No such file or directory"):
            KernelLog(tmp_path / "kmsg")

    def test_a_container_with_dev_null_in_its_place_is_told(self) -> None:
        with pytest.raises(SourceUnavailable, match="neither a kernel log nor a pipe"):
            KernelLog("/dev/null")

    def test_an_ordinary_file_is_no_log(self, tmp_path: Path) -> None:
        (tmp_path / "log").write_text("4,1,2,-;text\n")
        with pytest.raises(SourceUnavailable, match="neither a kernel log nor a pipe"):
            KernelLog(tmp_path / "log")

    def test_a_refusal_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> int:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

        monkeypatch.setattr(os, "open", refuse)
        with pytest.raises(SourceUnavailable, match="/dev/kmsg: Operation not permitted"):
            KernelLog()

    @pytest.mark.skipif(not log_is_readable(), reason="reads this machine's log (CAP_SYSLOG)")
    def test_the_real_log_is_read_from_now_on_and_not_from_its_beginning(self) -> None:
        log = KernelLog()
        try:
            started = time.monotonic()
            assert all(event.time >= started - 1 for event in log.read())
        finally:
            log.close()
