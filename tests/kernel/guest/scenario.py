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
    """``title`` is the first line of its description."""

    name: str
    title: str
    run: Callable[[Lab], Any]


class Registry:
    """The scenarios of one group: those that share a boot.

    ``exporter`` says whether the exporter is started first; ``devices`` are
    further QEMU arguments of the machine, ``kernel_arguments`` its kernel's;
    ``scenario_seconds`` of the host's time each scenario may take. With ``package`` the
    guest's first process is systemd, and the exporter's Debian package lies ready.
    """

    def __init__(
        self,
        *,
        exporter: bool = True,
        devices: tuple[str, ...] = (),
        kernel_arguments: str = "",
        scenario_seconds: float = 90.0,
        package: bool = False,
    ) -> None:
        self.exporter = exporter
        self.package = package
        self.devices = devices
        self.kernel_arguments = kernel_arguments
        self.scenario_seconds = scenario_seconds
        self.scenarios: dict[str, Scenario] = {}

    def scenario(self, function: Callable[[Lab], Any]) -> Callable[[Lab], Any]:
        """Decorate a function to make it a scenario of this group."""
        self.add(function.__name__, function.__doc__ or "", function)
        return function

    def add(self, name: str, description: str, run: Callable[[Lab], Any]) -> None:
        """Make ``run`` the scenario ``name``; raises ValueError where there is one already."""
        if name in self.scenarios:
            raise ValueError(f"two scenarios of the name {name}")
        self.scenarios[name] = Scenario(name, description.strip().partition("\n")[0], run)
