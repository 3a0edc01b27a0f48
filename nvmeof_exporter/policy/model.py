"""A policy: limits per rule, for every subsystem or for some, in layers.

Layers are laid over each other in order, and each says only what it changes. So a
vendor's recommendation holds for that vendor's subsystems, and a line of the
configuration file changes one threshold of a preset and nothing else.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import msgspec

from nvmeof_exporter.policy.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nvmeof_exporter.model import Subsystem

__all__ = ["NO_LIMITS", "Layer", "Limits", "Policy", "limits_of"]


class Limits(msgspec.Struct, frozen=True):
    """What a rule wants. None: not said here, so what lies below holds.

    ``least`` and ``most`` are both kept when met; seconds (``inf``: off) or a number.
    ``one_of`` are the words wanted: one of them, or each where they are resources.
    """

    enabled: bool | None = None
    least: float | None = None
    most: float | None = None
    one_of: tuple[str, ...] | None = None

    def changed_by(self, over: Limits) -> Limits:
        """These limits with what ``over`` says in their place."""
        return Limits(
            self.enabled if over.enabled is None else over.enabled,
            self.least if over.least is None else over.least,
            self.most if over.most is None else over.most,
            self.one_of if over.one_of is None else over.one_of,
        )


#: Of a rule that nobody speaks of: it is off.
NO_LIMITS = Limits()


class Layer(msgspec.Struct, frozen=True):
    """Limits by rule, for the subsystems and transports it names; empty names mean all.

    ``nqn`` may be a shell pattern (``nqn.2026-01.org.example:*``).
    """

    rules: dict[str, Limits]
    nqn: str = ""
    models: tuple[str, ...] = ()
    transports: tuple[str, ...] = ()

    def applies_to(self, subsystem: Subsystem | None, transport: str) -> bool:
        """Whether it speaks of a path, of a subsystem (no transport) or the host (neither)."""
        if subsystem is None:
            return not (self.nqn or self.models or self.transports)
        return (
            (not self.nqn or fnmatchcase(subsystem.nqn, self.nqn))
            and (not self.models or subsystem.model in self.models)
            and (not self.transports or transport in self.transports)
        )


class Policy(msgspec.Struct, frozen=True):
    """What the node is held to: a preset's layers, and those of the configuration file on top."""

    preset: str
    base: tuple[Layer, ...]
    own: tuple[Layer, ...] = ()

    def limits(self, subsystem: Subsystem | None = None, transport: str = "") -> dict[str, Limits]:
        """What each rule wants of a path, a subsystem, or the host; every rule is present."""
        return limits_of(
            layer for layer in self.base + self.own if layer.applies_to(subsystem, transport)
        )


def limits_of(layers: Iterable[Layer]) -> dict[str, Limits]:
    """What the layers, laid over each other in order, want of each rule."""
    found = dict.fromkeys(RULES, NO_LIMITS)
    for layer in layers:
        for rule, limits in layer.rules.items():
            found[rule] = found[rule].changed_by(limits)
    return found
