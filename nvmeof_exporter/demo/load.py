"""The make-believe applications: one per namespace, with a load that can be changed or off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nvmeof_exporter.demo.agenda import Timer
    from nvmeof_exporter.demo.devices import Namespace, Path

__all__ = ["Application", "Load", "Request"]


@dataclass(frozen=True, slots=True)
class Load:
    """What an application does.

    Args:
        queue_depth: requests it keeps outstanding at most.
        rate: requests per second in all; None: a closed loop, the next one at
            once when one ends. A slow answer is never made up for.
        read_share: 0 to 1.
        request_bytes: size of each, a multiple of 512.
        service_seconds: mean time of the target to answer one.

    """

    queue_depth: int = 1
    rate: float | None = 100.0
    read_share: float = 0.7
    request_bytes: int = 4096
    service_seconds: float = 0.0005

    @property
    def gap(self) -> float:
        """Seconds between two requests of one slot of the queue depth."""
        return self.queue_depth / self.rate if self.rate else 0.0


class Request:
    """One I/O of an application. ``issued`` is its time, ``started`` that of its present path."""

    __slots__ = ("issued", "namespace", "path", "read", "sectors", "started", "timer", "turn")

    def __init__(
        self, namespace: Namespace, *, turn: int, issued: float, read: bool, sectors: int
    ) -> None:
        self.namespace = namespace
        self.turn = turn
        self.issued = issued
        self.started = issued
        self.read = read
        self.sectors = sectors
        self.path: Path | None = None
        self.timer: Timer | None = None


class Application:
    """Keeps count of a load's requests: issued = completed + failed + waiting.

    ``turn`` grows with every change of load, so that slots of an old one end;
    ``dormant`` slots wait for the namespace to be there.
    """

    __slots__ = ("completed", "dormant", "failed", "issued", "load", "turn")

    def __init__(self) -> None:
        self.load: Load | None = None
        self.turn = 0
        self.dormant = 0
        self.issued = 0
        self.completed = 0
        self.failed = 0
