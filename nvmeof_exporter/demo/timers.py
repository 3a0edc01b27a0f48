"""The timers of controllers, by name: at most one of each at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvmeof_exporter.demo.agenda import Agenda
    from nvmeof_exporter.demo.devices import Controller

__all__ = ["arm", "disarm", "disarm_all"]


def arm(
    agenda: Agenda,
    controller: Controller,
    name: str,
    delay: float,
    action: Callable[[Controller], None],
) -> None:
    """Set the controller's timer ``name``, instead of the one it may have had."""
    disarm(controller, name)

    def due() -> None:
        controller.timers.pop(name, None)
        action(controller)

    controller.timers[name] = agenda.after(delay, due)


def disarm(controller: Controller, name: str) -> None:
    """Cancel the controller's timer ``name``, should there be one."""
    timer = controller.timers.pop(name, None)
    if timer is not None:
        timer.cancel()


def disarm_all(controller: Controller) -> None:
    """Cancel every timer of a controller."""
    for name in list(controller.timers):
        disarm(controller, name)
