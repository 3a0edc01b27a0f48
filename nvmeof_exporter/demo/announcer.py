"""What the kernel would announce, in its own words per transport and generation.

Wording: drivers/nvme/host/{core,tcp,rdma,multipath}.c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmeof_exporter.model import Event, EventKind

if TYPE_CHECKING:
    from nvmeof_exporter.demo.agenda import Agenda
    from nvmeof_exporter.demo.devices import Controller, Namespace, Netdev
    from nvmeof_exporter.demo.kernel import Kernel

__all__ = ["Announcer"]

#: ``dev_warn_ratelimited``: this many lines in this many seconds (include/linux/ratelimit_types.h).
_BURST = 10
_INTERVAL = 5.0


class Announcer:
    """Collects events; ``drain`` hands them over. Times are those of the agenda."""

    def __init__(self, agenda: Agenda, kernel: Kernel) -> None:
        self._agenda = agenda
        self._kernel = kernel
        self._events: list[Event] = []
        self._recent: dict[tuple[EventKind, str], list[float]] = {}

    @property
    def events(self) -> tuple[Event, ...]:
        """What was announced since the last drain, in order of time."""
        return tuple(self._events)

    def drain(self) -> list[Event]:
        """Return what was announced since the last call."""
        events, self._events = self._events, []
        return events

    def added(self, controller: Controller) -> None:
        """Announce a new controller."""
        self._tell("udev", EventKind.CONTROLLER_ADDED, controller.name)

    def connected(self, controller: Controller) -> None:
        """Announce that a controller became live, the first time or again."""
        self._tell("udev", EventKind.CONTROLLER_CONNECTED, controller.name)
        for path in controller.paths:
            self.disk_changed(path.namespace)

    def removed(self, controller: Controller) -> None:
        """Announce that a controller is gone."""
        self._tell("udev", EventKind.CONTROLLER_REMOVED, controller.name)

    def disk_changed(self, namespace: Namespace) -> None:
        """Announce a head disk that came, went or changed."""
        if namespace.disk:
            self._tell("udev", EventKind.TOPOLOGY_CHANGED, namespace.disk)

    def carrier(self, netdev: Netdev) -> None:
        """Announce the carrier of an interface, lost or gained."""
        kind = EventKind.CARRIER_GAINED if netdev.carrier else EventKind.CARRIER_LOST
        self._tell("netlink", kind, netdev.name)

    def keep_alive_timeout(self, controller: Controller) -> None:
        """Log that a keep-alive command was not answered in time."""
        old = not self._kernel.attempt_limits
        if _tcp(controller):
            text = (
                "queue 0: timeout request 0x0 type 4"
                if old
                else "I/O tag 0 (0000) type 4 opcode 0x18 (Keep Alive) QID 0 timeout"
            )
        else:
            text = (
                "I/O 0 QID 0 timeout"
                if old
                else "I/O tag 0 (0000) opcode 0x18 (Keep Alive) QID 0 timeout"
            )
        self._log(controller, EventKind.KEEP_ALIVE_FAILED, text)

    def keep_alive_ended(self, controller: Controller) -> None:
        """Log the end of the keep-alive command that the recovery cancelled."""
        self._log(
            controller,
            EventKind.KEEP_ALIVE_FAILED,
            "failed nvme_keep_alive_end_io error=10",
        )

    def io_timeout(self, controller: Controller) -> None:
        """Log that a read or write was not answered in time."""
        old = not self._kernel.attempt_limits
        if _tcp(controller):
            text = (
                "queue 1: timeout request 0x51 type 4"
                if old
                else "I/O tag 81 (1051) type 4 opcode 0x2 (I/O Cmd) QID 1 timeout"
            )
        else:
            text = (
                "I/O 81 QID 1 timeout"
                if old
                else "I/O tag 81 (1051) opcode 0x2 (I/O Cmd) QID 1 timeout"
            )
        self._log(controller, EventKind.IO_TIMEOUT, text)

    def send_failed(self, controller: Controller) -> None:
        """Log that the RDMA transport gave up on a silent peer."""
        self._log(
            controller,
            EventKind.TRANSPORT_ERROR,
            "SEND for CQE 0x00000000a1b2c3d4 failed with status "
            "transport retry counter exceeded (12)",
        )

    def error_recovery(self, controller: Controller) -> None:
        """Log that the kernel gives a connection up."""
        self._log(controller, EventKind.ERROR_RECOVERY, "starting error recovery")

    def reconnecting(self, controller: Controller) -> None:
        """Log that the next attempt is due after the reconnect delay."""
        delay = controller.connection.timeouts.reconnect_delay
        self._log(controller, EventKind.RECONNECT_SCHEDULED, f"Reconnecting in {delay} seconds...")

    def connect_failed(self, controller: Controller, *, refused: bool) -> None:
        """Log why an attempt failed: refused, or never answered."""
        if _tcp(controller):
            text = f"failed to connect socket: {-111 if refused else -110}"
        elif refused:
            text = "Connect rejected: status 8 (invalid service ID)."
        else:
            text = "rdma connection establishment failed (-104)"
        self._log(controller, EventKind.CONNECT_FAILED, text)
        number = self._attempt(controller)
        self._log(controller, EventKind.RECONNECT_FAILED, f"Failed reconnect attempt {number}")

    def reconnected(self, controller: Controller) -> None:
        """Log that an attempt succeeded."""
        attempts = controller.attempts
        if not _tcp(controller):
            text = f"({attempts} attempts)"
        elif self._kernel.attempt_limits:
            text = f"(attempt {self._attempt(controller)})"
        else:
            text = f"({attempts} attempt)"
        self._log(controller, EventKind.RECONNECTED, f"Successfully reconnected {text}")

    def fast_fail(self, controller: Controller) -> None:
        """Log that ``fast_io_fail_tmo`` is over."""
        self._log(controller, EventKind.FAST_FAIL, "failfast expired")

    def resetting(self, controller: Controller) -> None:
        """Log a reset asked for by the host."""
        self._log(controller, EventKind.RESETTING, "resetting controller")

    def giving_up(self, controller: Controller) -> None:
        """Log that ``ctrl_loss_tmo`` is over."""
        self._log(controller, EventKind.REMOVING, "Removing controller...")

    def disconnecting(self, controller: Controller) -> None:
        """Log a disconnect asked for by the host."""
        nqn = controller.subsystem.nqn
        self._log(controller, EventKind.REMOVING, f'Removing ctrl: NQN "{nqn}"')

    def requeued(self, namespace: Namespace) -> None:
        """Log that a request found no usable path."""
        self._rate_limited(namespace, EventKind.REQUEUED, "no usable path - requeuing I/O")

    def failed(self, namespace: Namespace) -> None:
        """Log that a request found no path that might come back."""
        self._rate_limited(namespace, EventKind.FAILED, "no available path - failing I/O")

    def _attempt(self, controller: Controller) -> str:
        limit = controller.connection.timeouts.max_reconnects
        if self._kernel.attempt_limits:
            return f"{controller.attempts}/{-1 if limit is None else limit}"
        return str(controller.attempts)

    def _rate_limited(self, namespace: Namespace, kind: EventKind, text: str) -> None:
        now = self._agenda.now
        recent = self._recent.setdefault((kind, namespace.disk), [])
        if recent and now - recent[0] >= _INTERVAL:
            recent.clear()
        if len(recent) < _BURST:
            recent.append(now)
            self._tell("kmsg", kind, namespace.disk, f"block {namespace.disk}: {text}")

    def _log(self, controller: Controller, kind: EventKind, text: str) -> None:
        self._tell("kmsg", kind, controller.name, f"nvme {controller.name}: {text}")

    def _tell(self, source: str, kind: EventKind, device: str, text: str = "") -> None:
        self._events.append(Event(self._agenda.now, source, kind, device, text))


def _tcp(controller: Controller) -> bool:
    return controller.connection.path_id.transport == "tcp"
