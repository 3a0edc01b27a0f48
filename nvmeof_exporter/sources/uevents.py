"""Uevents: controllers that come, go and reconnect, and disks that change.

Heard straight from the kernel, so that no udevd is needed. They say nothing of
live → resetting → connecting nor of ANA, and the kernel sends none for hidden
path disks. Source: ``nvme_class_uevent`` and ``nvme_change_uevent`` in
drivers/nvme/host/core.c.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from typing import TYPE_CHECKING, Protocol

import pyudev

from nvmeof_exporter.model import Event, EventKind
from nvmeof_exporter.sources.events import (
    SourceFailed,
    SourceUnavailable,
    enlarge_receive_buffer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["UeventDevice", "Uevents", "translate"]

_SUBSYSTEMS = ("nvme", "nvme-subsystem", "block")
_TOPOLOGY_ACTIONS = frozenset({"add", "remove", "change"})
_DEVICES_PER_READ = 256


class UeventDevice(Protocol):
    """The part of ``pyudev.Device`` that is used here."""

    action: str | None
    subsystem: str | None
    sys_name: str
    device_type: str | None
    properties: Mapping[str, str]


class Uevents:
    """The kernel's uevents about NVMe, as an EventSource named ``udev``.

    Raises SourceUnavailable where libudev or its netlink socket is missing.
    """

    name = "udev"

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._socket: socket.socket | None = None
        self._open()

    def _open(self) -> None:
        try:
            self._monitor = pyudev.Monitor.from_netlink(pyudev.Context(), source="kernel")
            for subsystem in _SUBSYSTEMS:
                self._monitor.filter_by(subsystem)
            self._monitor.start()
            # A second descriptor of the same socket, for the options that pyudev does not reach.
            self._socket = socket.socket(fileno=os.dup(self._monitor.fileno()))
        except (OSError, ImportError) as error:
            raise SourceUnavailable(f"uevents: {error}") from error
        enlarge_receive_buffer(self._socket)

    def fileno(self) -> int:
        """The descriptor for the loop."""
        return self._opened().fileno()

    def read(self) -> list[Event]:
        """Return what arrived; raise SourceFailed when the socket is dead."""
        events: list[Event] = []
        overrun = self._take_overrun()
        for _ in range(_DEVICES_PER_READ):
            try:
                device = self._monitor.poll(0)
            except (OSError, ValueError, OverflowError) as error:
                # Either an overrun, which poll(2) or recv(2) may be the first to meet,
                # or a message that libudev cannot decode: one device less.
                overrun |= self._take_overrun() or _is_overrun(error)
                continue
            if device is None:
                break
            event = translate(device, self._clock())
            if event is not None:
                events.append(event)
        if overrun:
            events.append(Event(self._clock(), self.name, EventKind.LOST_EVENTS))
        return events

    def close(self) -> None:
        """Release the sockets; the monitor's own goes with the last reference to it."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            del self._monitor

    def reopen(self) -> None:
        """Listen again."""
        self.close()
        self._open()

    def _opened(self) -> socket.socket:
        if self._socket is None:
            raise SourceFailed("uevents: the socket is closed")
        return self._socket

    def _take_overrun(self) -> bool:
        """Clear the socket's pending error; raise SourceFailed when it is no overrun."""
        pending = self._opened().getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if pending not in {0, errno.ENOBUFS}:
            raise SourceFailed(f"uevents: {os.strerror(pending)}")
        return pending == errno.ENOBUFS


def _is_overrun(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno == errno.ENOBUFS


def translate(device: UeventDevice, now: float) -> Event | None:
    """Return what one uevent means, or None for what tells nothing about paths.

    ``now`` is when it was received, in seconds on the monotonic clock: uevents
    carry no time of their own.
    """
    try:
        kind = _kind(device)
        return None if kind is None else Event(now, Uevents.name, kind, device.sys_name)
    except (OSError, ValueError, KeyError):  # gone meanwhile, or names that are no text
        return None


def _kind(device: UeventDevice) -> EventKind | None:
    action, subsystem = device.action, device.subsystem
    if subsystem == "nvme":
        return _controller_kind(device, action)
    if action not in _TOPOLOGY_ACTIONS:
        return None
    is_disk = (
        subsystem == "block"
        and device.sys_name.startswith("nvme")
        and device.device_type != "partition"
    )
    return EventKind.TOPOLOGY_CHANGED if is_disk or subsystem == "nvme-subsystem" else None


def _controller_kind(device: UeventDevice, action: str | None) -> EventKind | None:
    if action == "add":
        return EventKind.CONTROLLER_ADDED
    if action == "remove":
        return EventKind.CONTROLLER_REMOVED
    # Other changes (NVME_AEN=…, NVME_EVENT=rediscover) are for connection managers.
    if action == "change" and device.properties.get("NVME_EVENT") == "connected":
        return EventKind.CONTROLLER_CONNECTED
    return None
