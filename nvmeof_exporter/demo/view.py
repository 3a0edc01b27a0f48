"""From the make-believe node to the value objects that the exporter would make of its ``/sys``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nvmeof_exporter import model

if TYPE_CHECKING:
    from nvmeof_exporter.demo.devices import Connection, Controller, Namespace, Subsystem
    from nvmeof_exporter.demo.simulation import Node

__all__ = ["snapshot", "source_address"]

#: States in which a connected controller's admin queue has its socket (``nvme_tcp_get_address``).
_WITH_SOCKET = frozenset({"live", "deleting", "deleting (no IO)"})


def snapshot(node: Node, monotonic: float, wall: float) -> model.Snapshot:
    """Return what the exporter would read now, stamped with the given times."""
    present = sorted(
        (s for s in node.subsystems if s.instance is not None), key=lambda s: s.instance or 0
    )
    subsystems = tuple(_subsystem(node, s) for s in present if not s.discovery)
    known = any(subsystem.controllers for subsystem in subsystems)
    return model.Snapshot(
        monotonic=monotonic,
        wall=wall,
        subsystems=subsystems,
        hosts=(model.HostIdentity(node.hostnqn, node.hostid),) if known else (),
        multipath_enabled=True,
        discovery_controllers=sum(len(s.controllers) for s in present if s.discovery),
    )


def source_address(connection: Connection) -> str:
    """Return ``src_addr``: of TCP only, and only while the controller is live."""
    controller = connection.controller
    if controller is None or connection.path_id.transport != "tcp":
        return ""
    if not controller.connected or controller.state not in _WITH_SOCKET:
        return ""
    return connection.netdev.address


def _subsystem(node: Node, subsystem: Subsystem) -> model.Subsystem:
    ordered = sorted(subsystem.controllers, key=lambda c: c.instance)
    controllers = {c: _controller(node, c) for c in ordered}
    heads = [n for n in subsystem.namespaces if n.head is not None]
    return model.Subsystem(
        name=subsystem.name,
        nqn=subsystem.nqn,
        model=subsystem.model,
        serial=subsystem.serial,
        firmware=subsystem.firmware,
        iopolicy=subsystem.iopolicy,
        multipath=True,
        controllers=tuple(controllers.values()),
        namespaces=tuple(
            _namespace(node, n, controllers) for n in sorted(heads, key=lambda n: n.nsid)
        ),
    )


def _controller(node: Node, controller: Controller) -> model.Controller:
    connection = controller.connection
    timeouts = connection.timeouts
    state = controller.state
    return model.Controller(
        name=controller.name,
        nqn=controller.subsystem.nqn,
        path=connection.path_id,
        state="deleting" if state.startswith("deleting") else state,
        raw_state=state,
        cntlid=str(controller.cntlid),
        hostnqn=node.hostnqn,
        hostid=node.hostid,
        src_addr=source_address(connection),
        resets=controller.resets if node.kernel.diag else None,
        reconnects=controller.reconnects if node.kernel.diag else None,
        settings=model.PathSettings(
            keep_alive_timeout=float(timeouts.keep_alive),
            ctrl_loss_timeout=_or_never(timeouts.shown_ctrl_loss),
            reconnect_delay=float(timeouts.reconnect_delay),
            fast_io_fail_timeout=_or_never(timeouts.fast_io_fail),
            io_timeout=float(node.io_timeout),
            queues=timeouts.queues,
        ),
    )


def _namespace(
    node: Node, namespace: Namespace, controllers: dict[Controller, model.Controller]
) -> model.Namespace:
    paths = sorted(namespace.paths, key=lambda p: p.controller.instance)
    return model.Namespace(
        nqn=namespace.subsystem.nqn,
        nsid=str(namespace.nsid),
        device=namespace.disk,
        wwid=f"uuid.{namespace.uuid}",
        size_bytes=namespace.size_bytes,
        io=namespace.counters.values(node.now),
        requeued=namespace.requeued if node.kernel.diag else None,
        failed=namespace.failed if node.kernel.diag else None,
        paths=tuple(
            model.NamespacePath(
                disk=path.disk,
                controller=controllers[path.controller],
                ana_state=path.ana_state,
                io=path.counters.values(node.now),
                failovers=path.failovers if node.kernel.diag else None,
                hidden=True,
                last_ana_state=path.ana_state,
            )
            for path in paths
        ),
    )


def _or_never(seconds: int | None) -> float:
    return math.inf if seconds is None else float(seconds)
