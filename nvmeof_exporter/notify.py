"""Tells systemd how the service is doing: sd_notify(3) without its library.

Nothing is told where nobody has asked: outside of systemd the variables are not set, and
every method returns at once. What cannot be told is lost, never waited for.
"""

from __future__ import annotations

import math
import os
import socket
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, MutableMapping

    from nvmeof_exporter.model import Snapshot

__all__ = ["ServiceManager"]

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()

_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")

#: Signs of life per watchdog period: one may come late, and one more may be lost.
_SIGNS_PER_PERIOD = 3

#: The least time between two status texts (seconds).
_STATUS_SECONDS = 5.0


class ServiceManager:
    """The service manager that started this process, if there is one.

    The poll loop calls ``alive`` in every round and waits no longer than ``patience`` for
    the next: a loop that hangs in a read says nothing, and is restarted.

    Args:
        environ: where systemd's variables are; they are taken out, being meant for this
            process alone and not for those that it starts.
        clock: the monotonic clock, seconds.

    """

    def __init__(
        self, environ: MutableMapping[str, str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        address, period, pid = (environ.pop(name, "") for name in _VARIABLES)
        self._clock = clock
        self._socket = _connect(address) if address else None
        #: Seconds between signs of life, infinite where none are expected.
        self.patience = math.inf
        if self._socket is not None and pid in ("", str(os.getpid())) and period.isdecimal():
            self.patience = int(period) / 1e6 / _SIGNS_PER_PERIOD or math.inf
        self._next_sign = -math.inf
        self._next_status = -math.inf
        self._ready = False
        self._status = ""
        self._lost = False

    def alive(self) -> None:
        """Give a sign of life, if it is time for one."""
        if self.patience == math.inf:
            return
        now = self._clock()
        if now >= self._next_sign:
            # Twice as often as the loop promises to come round: a round is never too early.
            self._next_sign = now + self.patience / 2
            self._send("WATCHDOG=1")

    def polled(self, snapshot: Snapshot) -> None:
        """Tell what the newest poll found; after the first one the service has started."""
        if self._socket is None:
            return
        now = self._clock()
        if now < self._next_status:
            return
        self._next_status = now + _STATUS_SECONDS
        status = _describe(snapshot)
        if not self._ready:
            self._send("READY=1", f"STATUS={status}")
        elif status != self._status:
            self._send(f"STATUS={status}")
        self._ready = True
        self._status = status

    @contextmanager
    def reloading(self) -> Iterator[None]:
        """Tell that the configuration is being read again, and when that is over."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
        try:
            yield
        finally:
            self._send("READY=1")

    def stopping(self) -> None:
        """Tell that the end has begun."""
        self._send("STOPPING=1", "STATUS=stopping")

    def close(self) -> None:
        """Give the socket back; nothing is told from here on."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            self.patience = math.inf

    def _send(self, *assignments: str) -> None:
        if self._socket is None:
            return
        try:
            self._socket.send("\n".join(assignments).encode())
        except OSError as error:
            if not self._lost:
                _log.warning("systemd does not hear this service", reason=error.strerror)
            self._lost = True
        else:
            self._lost = False


def _connect(address: str) -> socket.socket | None:
    """Return a socket that talks to ``address``, a path or ``@`` and an abstract name."""
    name = f"\0{address[1:]}" if address.startswith("@") else address
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        channel.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        channel.connect(name)
    except (OSError, ValueError) as error:
        channel.close()
        reason = getattr(error, "strerror", None) or str(error)
        _log.warning("systemd does not hear this service", socket=address, reason=reason)
        return None
    return channel


def _describe(snapshot: Snapshot) -> str:
    """The line of ``systemctl status``. Counts alone: a name could end it and begin another."""
    controllers = [c for subsystem in snapshot.subsystems for c in subsystem.controllers]
    if not controllers:
        return "no NVMe-oF paths"
    live = sum(controller.state == "live" for controller in controllers)
    paths = _counted(len(controllers), "path")
    return f"{live} of {paths} live in {_counted(len(snapshot.subsystems), 'subsystem')}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
