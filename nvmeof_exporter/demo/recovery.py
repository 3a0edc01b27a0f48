"""The life of a controller: what the kernel does about a loss, and how it ends.

Source: drivers/nvme/host/tcp.c and rdma.c (``error_recovery_work``,
``reconnect_ctrl_work``), fabrics.c (``nvmf_should_reconnect``).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from nvmeof_exporter.demo.timers import arm, disarm, disarm_all
from nvmeof_exporter.demo.watch import Watch

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from nvmeof_exporter.demo.agenda import Agenda
    from nvmeof_exporter.demo.announcer import Announcer
    from nvmeof_exporter.demo.devices import Connection, Controller, Path
    from nvmeof_exporter.demo.kernel import Kernel
    from nvmeof_exporter.demo.traffic import Traffic

__all__ = ["Recovery"]

#: Taking the queues of a controller down whose peer answers.
_TEARDOWN = 0.02

#: A reset asked for by the host, from ``resetting`` to ``connecting``.
_RESET_TEARDOWN = 0.4

#: Setting up the queues of a controller whose peer answers.
_SETUP = 0.12

#: A connection request that nobody answers is repeated once and then fails
#: (TCP_SYNCNT is 1, and the first timeout a second).
_SYN_REPEAT = 1.0
_SYN_TIMEOUT = 3.0

#: From an ANA change at the target to the new ``ana_state``: notice, then log page.
_ANA_NOTICE = (0.05, 0.2)

#: Removing a live controller.
_REMOVAL = 0.05


class Recovery:
    """Moves controllers through their states.

    Args:
        agenda: the time.
        kernel: decides how long things take.
        chance: the spread of what is not exact.
        traffic: whose requests are cancelled and sent again.
        announcer: told what the kernel would log.
        io_timeout: ``nvme_core.io_timeout`` in seconds.
        on_live: called with a controller that is live again, to scan its namespaces.
        on_removed: called with a controller that is to vanish, and the cause.

    """

    def __init__(
        self,
        agenda: Agenda,
        kernel: Kernel,
        chance: random.Random,
        traffic: Traffic,
        announcer: Announcer,
        io_timeout: int,
    ) -> None:
        self._agenda = agenda
        self._kernel = kernel
        self._chance = chance
        self._traffic = traffic
        self._announcer = announcer
        self._io_timeout = io_timeout
        self._watch = Watch(agenda, kernel, announcer, io_timeout, self._error_recovery)
        self.on_live: Callable[[Controller], None] = _ignore
        self.on_removed: Callable[[Controller, str], None] = _ignore
        traffic.on_unanswered = self._watch.unanswered
        traffic.on_ana_error = self._ana_error

    # What is wrong with a connection, and right again

    def silenced(self, connection: Connection) -> None:
        """Packets of this connection vanish from now on."""
        controller = connection.controller
        if controller is None:
            return
        self._traffic.silence(controller)
        if controller.state == "live":
            self._watch.begin(controller)

    def heard(self, connection: Connection) -> None:
        """Packets of this connection flow again."""
        controller = connection.controller
        if controller is None or connection.silent:
            return
        if connection.refusing:
            self.refused(connection)
        elif controller.state == "live":
            self._watch.end(controller)
            self._traffic.resume(controller)
            # A change of ANA states that was announced meanwhile is heard of now.
            self.ana_changed(controller)
        elif controller.state == "deleting (no IO)":
            self._removed(controller, "administrative")

    def refused(self, connection: Connection) -> None:
        """The target closes this connection; where packets vanish, nobody hears of it."""
        controller = connection.controller
        if controller is not None and controller.state == "live" and not connection.silent:
            self._error_recovery(controller, "transport", noticed_by="transport")

    # Error recovery

    def _error_recovery(self, controller: Controller, cause: str, noticed_by: str) -> None:
        self._state(controller, "resetting")
        controller.resets += 1
        self._watch.end(controller)
        self._traffic.silence(controller)
        self._announcer.error_recovery(controller)
        silent = controller.connection.silent
        delay = self._kernel.silent_teardown if silent else _TEARDOWN
        self._arm(
            controller,
            "work",
            delay,
            partial(self._torn_down, cause=cause, noticed_by=noticed_by),
        )

    def _torn_down(self, controller: Controller, *, cause: str, noticed_by: str) -> None:
        for path in controller.paths:
            self._traffic.evacuate(path, cause)
        if noticed_by == "keep_alive":
            self._announcer.keep_alive_ended(controller)
        controller.connected = False
        self._state(controller, "connecting")
        limit = controller.connection.timeouts.fast_io_fail
        if limit is not None:
            self._arm(controller, "fast fail", limit, self._fast_fail)
        self._reconnect_or_remove(controller)

    def _fast_fail(self, controller: Controller) -> None:
        controller.failfast_expired = True
        self._announcer.fast_fail(controller)
        self._reroute(controller)

    def _reconnect_or_remove(self, controller: Controller) -> None:
        timeouts = controller.connection.timeouts
        limit = timeouts.max_reconnects
        if limit is None or controller.attempts < limit:
            self._announcer.reconnecting(controller)
            self._arm(controller, "work", timeouts.reconnect_delay, self._attempt)
        else:
            self._announcer.giving_up(controller)
            self._state(controller, "deleting (no IO)")
            self._arm(controller, "work", _REMOVAL, partial(self._removed, cause="removed"))

    def _attempt(self, controller: Controller) -> None:
        controller.attempts += 1
        controller.reconnects += 1
        if controller.connection.silent:
            self._arm(controller, "work", _SYN_REPEAT, self._repeat)
        else:
            self._knock(controller)

    def _repeat(self, controller: Controller) -> None:
        if controller.connection.silent:
            self._arm(
                controller,
                "work",
                _SYN_TIMEOUT - _SYN_REPEAT,
                partial(self._attempt_failed, refused=False),
            )
        else:
            self._knock(controller)

    def _knock(self, controller: Controller) -> None:
        if controller.connection.refusing:
            self._attempt_failed(controller, refused=True)
        else:
            self._arm(controller, "work", _SETUP, self._set_up)

    def _set_up(self, controller: Controller) -> None:
        if not controller.connection.answering:
            self._attempt_failed(controller, refused=not controller.connection.silent)
            return
        self._live(controller)
        self._announcer.reconnected(controller)
        controller.attempts = 0
        self._announcer.connected(controller)

    def _attempt_failed(self, controller: Controller, *, refused: bool) -> None:
        self._announcer.connect_failed(controller, refused=refused)
        self._reconnect_or_remove(controller)

    def _live(self, controller: Controller) -> None:
        subsystem = controller.subsystem
        controller.cntlid = subsystem.next_cntlid
        subsystem.next_cntlid += 1
        controller.live_since = self._agenda.now
        controller.failfast_expired = False
        controller.connected = True
        disarm(controller, "fast fail")
        self._state(controller, "live")
        self._read_ana_log(controller)
        self.on_live(controller)

    # What the host asks for

    def reset(self, controller: Controller) -> None:
        """Reset a live controller (``nvme reset``)."""
        if controller.state != "live":
            return
        self._announcer.resetting(controller)
        self._state(controller, "resetting")
        controller.resets += 1
        self._watch.end(controller)
        for path in controller.paths:
            self._traffic.evacuate(path, "administrative")
        self._arm(controller, "work", _RESET_TEARDOWN, self._reset_torn_down)

    def _reset_torn_down(self, controller: Controller) -> None:
        controller.connected = False
        self._state(controller, "connecting")
        if controller.connection.answering:
            self._arm(controller, "work", _SETUP, self._reset_done)
        else:
            self._attempt_failed(controller, refused=not controller.connection.silent)

    def _reset_done(self, controller: Controller) -> None:
        if controller.connection.answering:
            self._live(controller)
            self._announcer.connected(controller)
        else:
            self._attempt_failed(controller, refused=not controller.connection.silent)

    def disconnect(self, controller: Controller) -> None:
        """Remove a controller (``nvme disconnect``); a silent one lingers, its I/O with it."""
        self._announcer.disconnecting(controller)
        live, silent = controller.state == "live", controller.connection.silent
        delay = float(self._io_timeout) if live and silent else _REMOVAL
        self._watch.end(controller)
        self._state(controller, "deleting" if live and not silent else "deleting (no IO)")
        self._arm(controller, "work", delay, partial(self._removed, cause="administrative"))

    def _removed(self, controller: Controller, cause: str) -> None:
        disarm_all(controller)
        self.on_removed(controller, cause)

    # ANA

    def ana_changed(self, controller: Controller) -> None:
        """The target tells of changed ANA states; the host reads the log page a little later."""
        if controller.state == "live" and controller.connection.answering:
            self._arm(controller, "ana", self._chance.uniform(*_ANA_NOTICE), self._read_ana_log)

    def _ana_error(self, path: Path) -> None:
        if "ana" not in path.controller.timers:
            self.ana_changed(path.controller)

    def _read_ana_log(self, controller: Controller) -> None:
        if controller.state != "live" or not controller.connection.answering:
            return
        for path in controller.paths:
            before = path.usable
            path.ana_stale = False
            path.ana_state = controller.connection.ana[path.namespace.group]
            path.namespace.routes = None
            if before and not path.usable and not path.in_flight:
                self._traffic.evacuate(path, "ana")
        self._reroute(controller)

    # Helpers

    def _state(self, controller: Controller, state: str) -> None:
        controller.state = state
        for path in controller.paths:
            path.namespace.routes = None

    def _reroute(self, controller: Controller) -> None:
        for path in list(controller.paths):
            self._traffic.reroute(path.namespace)

    def _arm(
        self, controller: Controller, name: str, delay: float, action: Callable[[Controller], None]
    ) -> None:
        arm(self._agenda, controller, name, delay, action)


def _ignore(*_: object) -> None:
    """Stand in for a listener until there is one."""
