"""How the kernel notices that a peer has fallen silent.

Three things can tell: a keep-alive command that is not answered (sent every
half of its timeout), the RDMA transport's own repeats, and the I/O timeout.

Source: drivers/nvme/host/core.c (``nvme_keep_alive_work``), block/blk-mq.c
(``blk_mq_timeout_work``).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nvmeof_exporter.demo.timers import arm, disarm

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvmeof_exporter.demo.agenda import Agenda
    from nvmeof_exporter.demo.announcer import Announcer
    from nvmeof_exporter.demo.devices import Controller
    from nvmeof_exporter.demo.kernel import Kernel

__all__ = ["Watch"]

#: RDMA: repeats of a message that is not acknowledged; of one over a dead port.
_RDMA_RETRIES = 0.5
_RDMA_FLUSH = 0.1

#: With nothing in flight, the I/O timeout is looked at again after this long.
_NO_REQUEST = 1.0

_TIMERS = ("beat", "keep-alive", "io", "rdma")


class Watch:
    """Watches live controllers whose peers are silent.

    Args:
        agenda: the time.
        kernel: whether the RDMA transport tells.
        announcer: told what the kernel would log.
        io_timeout: ``nvme_core.io_timeout`` in seconds.
        on_lost: called with a controller, the cause, and what noticed it.

    """

    def __init__(
        self,
        agenda: Agenda,
        kernel: Kernel,
        announcer: Announcer,
        io_timeout: int,
        on_lost: Callable[[Controller, str, str], None],
    ) -> None:
        self._agenda = agenda
        self._kernel = kernel
        self._announcer = announcer
        self._io_timeout = io_timeout
        self._on_lost = on_lost

    def begin(self, controller: Controller) -> None:
        """Watch a controller whose peer falls silent now."""
        keep_alive = controller.connection.timeouts.keep_alive
        if keep_alive:
            beat = keep_alive / 2
            elapsed = self._agenda.now - controller.live_since
            unsent = beat * (math.floor(elapsed / beat) + 1) - elapsed
            self._arm(controller, "beat", unsent, self.unanswered)
            self._arm(controller, "keep-alive", unsent + keep_alive, self._beat_missed)
        self._await_io_timeout(controller)
        if controller.in_flight:
            self.unanswered(controller)

    def end(self, controller: Controller) -> None:
        """Watch a controller no longer."""
        for name in _TIMERS:
            disarm(controller, name)

    def unanswered(self, controller: Controller) -> None:
        """Count on the transport to report a message that was not acknowledged."""
        connection = controller.connection
        if (
            connection.path_id.transport == "rdma"
            and self._kernel.rdma_reports_loss
            and connection.silent
            and "rdma" not in controller.timers
        ):
            delay = _RDMA_RETRIES if connection.netdev.carrier else _RDMA_FLUSH
            self._arm(controller, "rdma", delay, self._transport_gave_up)

    def _transport_gave_up(self, controller: Controller) -> None:
        controller.connection.netdev.retries_exceeded += 1
        self._announcer.send_failed(controller)
        self._lost(controller, "transport")

    def _beat_missed(self, controller: Controller) -> None:
        self._announcer.keep_alive_timeout(controller)
        self._lost(controller, "keep_alive")

    def _await_io_timeout(self, controller: Controller) -> None:
        """Watch the oldest request, or for one that may come."""
        started = [r.started for path in controller.paths for r in path.in_flight]
        delay = min(started) + self._io_timeout - self._agenda.now if started else _NO_REQUEST
        if delay > 0:
            self._arm(controller, "io", delay, self._await_io_timeout)
        else:
            self._announcer.io_timeout(controller)
            self._lost(controller, "io_timeout")

    def _lost(self, controller: Controller, noticed_by: str) -> None:
        cause = noticed_by if controller.connection.netdev.carrier else "link_down"
        self._on_lost(controller, cause, noticed_by)

    def _arm(
        self, controller: Controller, name: str, delay: float, action: Callable[[Controller], None]
    ) -> None:
        arm(self._agenda, controller, name, delay, action)
