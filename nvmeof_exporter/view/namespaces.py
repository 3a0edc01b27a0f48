"""Namespaces and the ways to them, as they are viewed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmeof_exporter.model import SECTOR_BYTES
from nvmeof_exporter.monitor.records import NamespaceRecord
from nvmeof_exporter.monitor.redundancy import can_tell, condition_counts, conditions
from nvmeof_exporter.view.model import IoView, NamespacePathView, NamespaceView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvmeof_exporter.model import Namespace, NamespacePath
    from nvmeof_exporter.view.moment import Moment

__all__ = ["namespace_view"]


def namespace_view(moment: Moment, namespace: Namespace) -> NamespaceView:
    """View one namespace."""
    past = moment.namespace_past(namespace)
    in_flight = [path.io.in_flight for path in namespace.paths if path.io is not None]
    return NamespaceView(
        nsid=namespace.nsid,
        devices=devices(namespace),
        wwid=namespace.wwid or None,
        size_bytes=namespace.size_bytes,
        conditions=condition_counts(namespace) if can_tell(namespace) else None,
        stalled_seconds=moment.stalled(namespace),
        last_io=moment.last_io(namespace),
        requeued=past.requeued if past is not None else None,
        failed=past.failed if past is not None else None,
        io=_io(past.io if past is not None else None, sum(in_flight) if in_flight else None),
        paths=tuple(
            _path(moment, namespace, path, condition)
            for path, condition in zip(namespace.paths, conditions(namespace), strict=True)
        ),
    )


def devices(namespace: Namespace) -> tuple[str, ...]:
    """Name what applications open: the head, or the plain disks where there is none."""
    plain = tuple(path.disk for path in namespace.paths if not path.hidden)
    return (namespace.device,) if namespace.device else plain


def _path(
    moment: Moment, namespace: Namespace, path: NamespacePath, condition: str
) -> NamespacePathView:
    controller = path.controller
    totals = [getattr(path.io, name) for name in NamespaceRecord.FIELDS] if path.io else None
    return NamespacePathView(
        path=str(controller.path),
        controller=controller.name,
        disk=path.disk,
        ana_state=path.ana_state or None,
        condition=condition or None,
        usable=path.usable if path.known else None,
        carries_io=moment.carries_io(namespace, path),
        last_io=moment.last_io(namespace, controller),
        stalled_seconds=moment.path_stalled(namespace, controller),
        io=_io(totals, path.io.in_flight if path.io else None),
    )


def _io(totals: Sequence[int] | None, in_flight: int | None) -> IoView | None:
    """Make I/O of the kernel's totals, in the order of ``NamespaceRecord.FIELDS``."""
    if totals is None:
        return None
    reads, read_sectors, _, writes, written_sectors, _ = totals
    return IoView(
        reads=reads,
        read_bytes=read_sectors * SECTOR_BYTES,
        writes=writes,
        written_bytes=written_sectors * SECTOR_BYTES,
        in_flight=in_flight,
    )
