"""Which network interface a path uses, by what the kernel shows of the path itself.

In this order: the interface given at connect time; the one that has the address
given at connect time; the one that has the address that the host chose. The
last is shown only while the path is live, so the answer is remembered: the
interface matters most when the path is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvmeof_exporter.model import Controller, PathId

__all__ = ["PathInterfaces"]

_TRANSPORTS = frozenset({"tcp", "rdma"})


class PathInterfaces:
    """Answers for a controller; ``""`` when the interface is not known.

    Args:
        owner: names the interface that has an address, ``""`` when none or several have.

    """

    def __init__(self, owner: Callable[[str], str]) -> None:
        self._owner = owner
        #: By kernel name of the controller, which is used again: for other paths too.
        self._found: dict[str, tuple[PathId, str]] = {}

    def __call__(self, controller: Controller) -> str:
        """Name the interface that a path uses, or last used."""
        path = controller.path
        if path.host_iface or path.transport not in _TRANSPORTS:
            return path.host_iface
        for address in (path.host_traddr, controller.src_addr):
            interface = self._owner(address) if address else ""
            if interface:
                self._found[controller.name] = (path, interface)
                return interface
        remembered = self._found.get(controller.name)
        return remembered[1] if remembered is not None and remembered[0] == path else ""
