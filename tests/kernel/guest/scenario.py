"""The registry: a scenario is a function of a ``Lab`` that returns what it has found.

What it returns must be JSON; the tests on the host judge it. A scenario that
raises fails its test with the traceback.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kernel.guest.lab import Lab

__all__ = ["Registry", "Scenario"]


@dataclass(frozen=True)
class Scenario:
    """``name`` is the function's; ``title`` the first line of its docstring."""

    name: str
    title: str
    run: Callable[[Lab], Any]


class Registry:
    """The scenarios of one group: those that share a boot.

    ``exporter`` says whether the exporter is started first; ``devices`` are
    further QEMU arguments of the machine, ``kernel_arguments`` its kernel's.
    """

    def __init__(
        self, *, exporter: bool = True, devices: tuple[str, ...] = (), kernel_arguments: str = ""
    ) -> None:
        self.exporter = exporter
        self.devices = devices
        self.kernel_arguments = kernel_arguments
        self.scenarios: dict[str, Scenario] = {}

    def scenario(self, function: Callable[[Lab], Any]) -> Callable[[Lab], Any]:
        """Decorate a function to make it a scenario of this group."""
        title = (function.__doc__ or "").strip().splitlines()[0]
        self.scenarios[function.__name__] = Scenario(function.__name__, title, function)
        return function
