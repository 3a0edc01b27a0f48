"""How I/O flows: issued, routed by the policy, completed, cancelled, parked, failed.

Source: drivers/nvme/host/multipath.c (``nvme_find_path``, ``nvme_failover_req``,
``nvme_available_path``, ``nvme_ns_head_submit_bio``).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from nvmeof_exporter.demo.load import Application, Load, Request
from nvmeof_exporter.model import USABLE_ANA_STATES

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from nvmeof_exporter.demo.agenda import Agenda
    from nvmeof_exporter.demo.announcer import Announcer
    from nvmeof_exporter.demo.devices import Controller, Namespace, Path
    from nvmeof_exporter.demo.kernel import Kernel
    from nvmeof_exporter.demo.truth import Truth

__all__ = ["Traffic"]

#: An application tries again this much later after an error.
_AFTER_ERROR = 0.05

#: A namespace that is back is opened again this much later.
_REOPEN = 0.1

#: Answers that were lost are sent again this much after the packets flow again.
_RETRANSMISSION = 0.2

#: A path that completed something this recently is carrying I/O.
_RECENT = 1.0

#: Controller states in which the kernel hopes for a path to come back.
_HOPEFUL = frozenset({"live", "resetting", "connecting"})

#: Mean time to answer what an application left behind that does nothing any more.
_SERVICE = 0.0005

_SECTOR_BYTES = 512


class Traffic:
    """All requests of a node.

    Args:
        agenda: the time.
        kernel: decides what is counted where.
        chance: the load's randomness.
        truth: told what applications feel.
        announcer: told what the kernel would log.
        on_unanswered: called with a controller whose peer stays silent on a request.
        on_ana_error: called with a path on which the target refused a request.

    """

    def __init__(
        self,
        agenda: Agenda,
        kernel: Kernel,
        chance: random.Random,
        truth: Truth,
        announcer: Announcer,
    ) -> None:
        self._agenda = agenda
        self._kernel = kernel
        self._chance = chance
        self._truth = truth
        self._announcer = announcer
        self.on_unanswered: Callable[[Controller], None] = _ignore
        self.on_ana_error: Callable[[Path], None] = _ignore

    # Applications

    def set_load(self, namespace: Namespace, load: Load | None) -> None:
        """Change what the namespace's application does; what is on its way still ends."""
        application = namespace.application
        if application is None:
            application = namespace.application = Application()
        application.load = load
        application.turn += 1
        application.dormant = 0
        if load is not None:
            for slot in range(load.queue_depth):
                delay = load.gap * (slot + self._chance.random()) / load.queue_depth
                self._next(namespace, application.turn, delay)

    def wake(self, namespace: Namespace) -> None:
        """Let the application open a namespace that is back."""
        application = namespace.application
        if application is not None and application.load is not None:
            dormant, application.dormant = application.dormant, 0
            for _ in range(dormant):
                self._next(namespace, application.turn, _REOPEN)

    def _next(self, namespace: Namespace, turn: int, delay: float) -> None:
        self._agenda.after(delay, partial(self._issue, namespace, turn))

    def _issue(self, namespace: Namespace, turn: int) -> None:
        application = namespace.application
        if application is None or application.load is None or application.turn != turn:
            return
        if namespace.head is None:
            application.dormant += 1
            return
        application.issued += 1
        load = application.load
        self._submit(
            Request(
                namespace,
                turn=turn,
                issued=self._agenda.now,
                read=self._chance.random() < load.read_share,
                sectors=load.request_bytes // _SECTOR_BYTES,
            )
        )

    def _ended(self, request: Request, *, failed: bool) -> None:
        namespace = request.namespace
        application = namespace.application
        if application is None:  # requests come from applications only
            return
        now = self._agenda.now
        key = (namespace.subsystem.nqn, namespace.nsid)
        self._truth.ended(key, request.issued, now, failed=failed)
        if failed:
            application.failed += 1
        else:
            application.completed += 1
        if application.load is not None and application.turn == request.turn:
            due = max(0.0, request.issued + application.load.gap - now)
            self._next(namespace, request.turn, max(due, _AFTER_ERROR) if failed else due)

    # Routing

    def _submit(self, request: Request) -> None:
        namespace = request.namespace
        path = self._choose(namespace)
        if path is not None:
            self._start(request, path)
        elif any(_hopeful(path.controller) for path in namespace.paths):
            request.path = None
            namespace.parked.append(request)
            namespace.requeued += 1
            self._announcer.requeued(namespace)
        else:
            if namespace.head is not None:
                namespace.failed += 1
                self._announcer.failed(namespace)
            self._ended(request, failed=True)

    def _choose(self, namespace: Namespace) -> Path | None:
        routes = namespace.routes
        if routes is None:
            usable = [path for path in namespace.paths if path.usable]
            routes = [path for path in usable if path.optimized] or usable
            namespace.routes = routes
        if not routes:
            return None
        policy = namespace.subsystem.iopolicy
        if policy == "round-robin":
            namespace.turn += 1
            path = routes[namespace.turn % len(routes)]
        elif policy == "queue-depth":
            path = min(routes, key=_depth)
        else:
            # All interfaces are equally near: the first to be connected is chosen, and kept.
            path = routes[0]
        namespace.current = path
        return path

    def reroute(self, namespace: Namespace) -> None:
        """Choose paths anew, and send again what is parked (``nvme_kick_requeue_lists``)."""
        namespace.routes = None
        if namespace.subsystem.iopolicy == "numa":
            self._choose(namespace)  # the kernel does it now, not with the next request
        parked, namespace.parked = namespace.parked, []
        for request in parked:
            self._submit(request)

    # On a path

    def _start(self, request: Request, path: Path) -> None:
        now = self._agenda.now
        request.path = path
        request.started = now
        path.in_flight[request] = None
        path.controller.in_flight += 1
        path.counters.start(now, read=request.read)
        if self._kernel.head_counters:
            request.namespace.counters.start(now, read=request.read)
        if path.controller.connection.answering:
            request.timer = self._agenda.after(
                self._service(request), partial(self._answered, request)
            )
        else:
            self.on_unanswered(path.controller)

    def _service(self, request: Request) -> float:
        application = request.namespace.application
        load = application.load if application is not None else None
        mean = load.service_seconds if load is not None else _SERVICE
        return mean * self._chance.uniform(0.5, 1.5)

    def _answered(self, request: Request) -> None:
        path = request.path
        if path is None:  # cancelled timers do not fire; this one has lost its path
            return
        connection = path.controller.connection
        if connection.ana[request.namespace.group] not in USABLE_ANA_STATES:
            path.ana_stale = True
            request.namespace.routes = None
            self._give_up(request, path, "ana")
            self.on_ana_error(path)
            return
        now = self._agenda.now
        self._leave_path(request, path, request.sectors)
        self._truth.completed_on(path, _key(request.namespace), now)
        netdev = connection.netdev
        flow = netdev.roce if connection.path_id.transport == "rdma" else netdev.plain
        flow.count(request.sectors * _SECTOR_BYTES, read=request.read)
        self._ended(request, failed=False)

    def _leave_path(
        self, request: Request, path: Path, sectors: int, *, on_head: bool = True
    ) -> None:
        now = self._agenda.now
        waited = now - request.started
        if request.timer is not None:
            request.timer.cancel()
            request.timer = None
        del path.in_flight[request]
        path.controller.in_flight -= 1
        path.counters.end(now, read=request.read, sectors=sectors, waited=waited)
        if self._kernel.head_counters and on_head:
            request.namespace.counters.end(now, read=request.read, sectors=sectors, waited=waited)

    def _give_up(self, request: Request, path: Path, cause: str) -> None:
        """Cancel one request: it ends on the path, moving nothing, and is sent again."""
        path.failovers += 1
        self._leave_path(request, path, 0, on_head=not self._kernel.head_leaks)
        self._truth.left(path, _key(request.namespace), self._agenda.now, cause, 1)
        self._submit(request)

    # Faults

    def silence(self, controller: Controller) -> None:
        """Answers on their way are lost."""
        for path in controller.paths:
            for request in path.in_flight:
                if request.timer is not None:
                    request.timer.cancel()
                    request.timer = None

    def resume(self, controller: Controller) -> None:
        """Packets flow again: what was not given up yet is answered after a retransmission."""
        for path in controller.paths:
            for request in path.in_flight:
                if request.timer is None:
                    request.timer = self._agenda.after(
                        _RETRANSMISSION + self._service(request), partial(self._answered, request)
                    )

    def evacuate(self, path: Path, cause: str) -> None:
        """Cancel all that is in flight on a path that is no longer usable, and send it again."""
        namespace = path.namespace
        namespace.routes = None
        now = self._agenda.now
        if path.in_flight:
            for request in list(path.in_flight):
                self._give_up(request, path, cause)
        elif path.last_completion is not None and now - path.last_completion < _RECENT:
            self._truth.left(path, _key(namespace), now, cause, 0)

    def fail_path(self, path: Path) -> None:
        """Fail what is in flight on a path whose namespace the target no longer has."""
        for request in list(path.in_flight):
            self._leave_path(request, path, 0)
            self._ended(request, failed=True)

    def fail_parked(self, namespace: Namespace) -> None:
        """Fail what is parked on a head that is gone."""
        parked, namespace.parked = namespace.parked, []
        for request in parked:
            self._ended(request, failed=True)


def waiting(namespace: Namespace) -> list[Request]:
    """Return the requests that neither completed nor failed yet."""
    return [*namespace.parked, *(r for path in namespace.paths for r in path.in_flight)]


def _key(namespace: Namespace) -> tuple[str, int]:
    return namespace.subsystem.nqn, namespace.nsid


def _depth(path: Path) -> int:
    return path.controller.in_flight


def _hopeful(controller: Controller) -> bool:
    return controller.state in _HOPEFUL and not controller.failfast_expired


def _ignore(_: object) -> None:
    """Stand in for a listener until there is one."""
