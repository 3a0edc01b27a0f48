from __future__ import annotations

import errno
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pyudev

from nvmeof_exporter.model import Event, EventKind
from nvmeof_exporter.sources import uevents
from nvmeof_exporter.sources.events import SourceFailed, SourceUnavailable
from nvmeof_exporter.sources.uevents import Uevents, translate
from tests.test_sources.waiting import events_until, is_readable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass
class Device:
    """The part of a pyudev device that the source looks at."""

    action: str | None
    subsystem: str | None
    sys_name: str
    device_type: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


CONNECTED = {"NVME_EVENT": "connected", "NVME_TRTYPE": "tcp"}


class TestWhatAUeventMeans:
    @pytest.mark.parametrize(
        ("device", "kind"),
        [
            (Device("add", "nvme", "nvme3"), EventKind.CONTROLLER_ADDED),
            (Device("remove", "nvme", "nvme3"), EventKind.CONTROLLER_REMOVED),
            (
                Device("change", "nvme", "nvme3", properties=CONNECTED),
                EventKind.CONTROLLER_CONNECTED,
            ),
            (Device("add", "nvme-subsystem", "nvme-subsys0"), EventKind.TOPOLOGY_CHANGED),
            (Device("remove", "nvme-subsystem", "nvme-subsys0"), EventKind.TOPOLOGY_CHANGED),
            (Device("add", "block", "nvme0n1", "disk"), EventKind.TOPOLOGY_CHANGED),
            (Device("change", "block", "nvme0n1", "disk"), EventKind.TOPOLOGY_CHANGED),
            (Device("remove", "block", "nvme0c1n1", "disk"), EventKind.TOPOLOGY_CHANGED),
        ],
    )
    def test_about_paths_is_told_of_the_device(self, device: Device, kind: EventKind) -> None:
        assert translate(device, 7.5) == Event(7.5, "udev", kind, device.sys_name)

    @pytest.mark.parametrize(
        "device",
        [
            Device("change", "nvme", "nvme3", properties={"NVME_EVENT": "rediscover"}),
            Device("change", "nvme", "nvme3", properties={"NVME_AEN": "0x000002"}),
            Device("change", "nvme", "nvme3"),
            Device("bind", "nvme", "nvme3"),
            Device(None, "nvme", "nvme3"),
            Device("change", "block", "sda", "disk"),
            Device("add", "block", "nvme0n1p1", "partition"),
            Device("bind", "block", "nvme0n1", "disk"),
            Device("add", "net", "nvme0"),
            Device("add", None, "nvme0"),
        ],
    )
    def test_about_anything_else_is_nothing(self, device: Device) -> None:
        assert translate(device, 7.5) is None

    def test_with_a_name_that_is_no_text_is_nothing(self) -> None:
        class Undecodable(Device):
            def __getattribute__(self, name: str) -> object:
                if name == "sys_name":
                    raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
                return super().__getattribute__(name)

        assert translate(Undecodable("add", "nvme", "nvme3"), 7.5) is None


class FakeMonitor:
    """A monitor that hands out devices, or fails as told; then there is nothing more."""

    def __init__(self, *answers: Device | Exception) -> None:
        self._answers = list(answers)

    def poll(self, timeout: float) -> Device | None:
        assert timeout == 0
        answer = self._answers.pop(0) if self._answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def source() -> Iterator[Uevents]:
    opened = Uevents(clock=lambda: 3.0)
    yield opened
    opened.close()


ADDED = Device("add", "nvme", "nvme0")


class TestReading:
    def test_goes_on_to_the_end_of_what_arrived(
        self, source: Uevents, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        arrived = FakeMonitor(ADDED, Device("add", "block", "sda", "disk"), ADDED)
        monkeypatch.setattr(source, "_monitor", arrived)
        assert source.read() == [Event(3.0, "udev", EventKind.CONTROLLER_ADDED, "nvme0")] * 2

    def test_takes_a_flood_in_portions(
        self, source: Uevents, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(source, "_monitor", FakeMonitor(*[ADDED] * 300))
        assert [len(source.read()) for _ in range(3)] == [256, 44, 0]

    def test_tells_an_overrun_once_and_goes_on(
        self, source: Uevents, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        full = OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))
        monkeypatch.setattr(source, "_monitor", FakeMonitor(full, ADDED, full, ADDED))
        kinds = [event.kind for event in source.read()]
        assert kinds.count(EventKind.LOST_EVENTS) == 1
        assert kinds.count(EventKind.CONTROLLER_ADDED) == 2

    def test_a_message_that_cannot_be_decoded_costs_one_device(
        self, source: Uevents, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bad = [OSError(errno.EINVAL, "Invalid argument"), ValueError("no text"), OverflowError()]
        monkeypatch.setattr(source, "_monitor", FakeMonitor(*bad, ADDED))
        assert [event.kind for event in source.read()] == [EventKind.CONTROLLER_ADDED]

    def test_a_closed_source_is_a_dead_one(self) -> None:
        closed = Uevents()
        closed.close()
        closed.close()
        with pytest.raises(SourceFailed, match="uevents: the socket is closed"):
            closed.read()


class TestOpening:
    def test_a_node_without_libudev_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def missing() -> None:
            raise ImportError("No library named udev")

        monkeypatch.setattr(pyudev, "Context", missing)
        with pytest.raises(SourceUnavailable, match="uevents: No library named udev"):
            Uevents()

    def test_a_refused_socket_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(pyudev.Monitor, "from_netlink", refuse)
        with pytest.raises(SourceUnavailable, match=r"uevents: .*Operation not permitted"):
            Uevents()


def announce(device: str) -> None:
    """Have the kernel send a `change` uevent; for these devices it means nothing to anybody."""
    Path(device, "uevent").write_text("change")


MEMORY_DEVICE = "/sys/class/mem/null"


@pytest.mark.skipif(
    not os.access(f"{MEMORY_DEVICE}/uevent", os.W_OK), reason="asks the kernel for uevents (root)"
)
class TestTheRealKernel:
    def test_uevents_of_others_are_heard_and_mean_nothing(self, source: Uevents) -> None:
        announce(MEMORY_DEVICE)
        assert is_readable(source, 5)
        assert source.read() == []
        assert not is_readable(source)

    def test_pyudev_shows_a_device_as_translate_expects_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[tuple[object, ...]] = []

        def look(device: uevents.UeventDevice, _now: float) -> None:
            properties = device.properties
            named = properties.get("DEVNAME"), properties.get("NVME_EVENT")
            seen.append((device.action, device.subsystem, device.sys_name, *named))

        monkeypatch.setattr(uevents, "_SUBSYSTEMS", ("mem",))
        monkeypatch.setattr(uevents, "translate", look)
        listening = Uevents()
        announce(MEMORY_DEVICE)
        assert is_readable(listening, 5)
        listening.read()
        listening.close()
        assert seen == [("change", "mem", "null", "/dev/null", None)]

    def test_an_overrun_is_told(self, source: Uevents) -> None:
        with socket.socket(fileno=os.dup(source.fileno())) as same:
            same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        for _ in range(50):
            announce(MEMORY_DEVICE)
        events = events_until(source, bool)
        assert [event.kind for event in events] == [EventKind.LOST_EVENTS]
        announce(MEMORY_DEVICE)
        assert is_readable(source, 5)
        assert source.read() == []
