"""The ``policy`` section of the configuration file: what the node is held to.

policy:
  preset: gpu-training
  rules:
    keep_alive: {most: 10s}
    iopolicy: {one_of: [round-robin]}
    host_id_matches: off
  subsystems:
    - nqn: nqn.2014-08.org.example:scratch*
      preset: conservative
      rules:
        ctrl_loss_tmo: {least: off}
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from nvmeof_exporter.config.errors import ConfigError, quoted, suggestion
from nvmeof_exporter.config.values import integer, parse_duration
from nvmeof_exporter.policy.model import Layer, Limits, Policy, limits_of
from nvmeof_exporter.policy.presets import DEFAULT_PRESET, PRESETS, preset_policy
from nvmeof_exporter.policy.rules import RULES, Kind, Rule, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nvmeof_exporter.config.file import FileNode

__all__ = ["decode_policy"]

_OFF = "off"
_SWITCH = {"on": True, "true": True, "yes": True, _OFF: False, "false": False, "no": False}
_LIMITED_BY = {
    Kind.DURATION: ("least", "most"),
    Kind.NUMBER: ("least", "most"),
    Kind.WORD: ("one_of",),
    Kind.RESOURCES: ("all_of",),
    Kind.SWITCH: (),
}
_MOST_SUBSYSTEMS = 1024
_number = integer(0, 65535)


def decode_policy(section: FileNode) -> Policy:
    """The policy of the section. Raises ConfigError with file, line and reason."""
    found = _fields(section, ("preset", "rules", "subsystems"), "a mapping of policy settings")
    preset = DEFAULT_PRESET
    if "preset" in found:
        node = found["preset"]
        preset = preset_policy(node.text("the name of a preset"), node.where).preset
    layers: list[Layer] = []
    if "rules" in found:
        layers.append(Layer(_decode_rules(found["rules"], limits_of(PRESETS[preset]))))
    if "subsystems" in found and not found["subsystems"].is_null:
        layers.extend(_decode_subsystems(found["subsystems"], (*PRESETS[preset], *layers)))
    return Policy(preset, PRESETS[preset], tuple(layers))


def _decode_subsystems(section: FileNode, below: tuple[Layer, ...]) -> Iterator[Layer]:
    """The layers of each item, over those that lie below all of them."""
    for index, item in enumerate(section.items("a list of subsystems")):
        if index >= _MOST_SUBSYSTEMS:
            raise ConfigError(f"{section.where}: expected at most {_MOST_SUBSYSTEMS} subsystems")
        yield from _decode_subsystem(item, below)


def _decode_subsystem(item: FileNode, below: tuple[Layer, ...]) -> Iterator[Layer]:
    found = _fields(item, ("nqn", "preset", "rules"), "a mapping with nqn and preset or rules")
    if "nqn" not in found:
        raise ConfigError(f"{item.where}: nqn is missing")
    if len(found) == 1:
        raise ConfigError(f"{item.where}: expected preset or rules beside nqn")
    nqn = found["nqn"].text("a subsystem NQN or a pattern of it")
    if not nqn:
        raise found["nqn"].refuse("a subsystem NQN or a pattern of it")
    own: list[Layer] = []
    if "preset" in found:
        node = found["preset"]
        base = preset_policy(node.text("the name of a preset"), node.where).base
        own = [
            Layer(_without_host_rules(layer.rules), nqn, layer.models, layer.transports)
            for layer in base
        ]
    if "rules" in found:
        limits = limits_of((*below, *own))
        own.append(Layer(_decode_rules(found["rules"], limits, scoped=True), nqn))
    yield from own


def _without_host_rules(rules: Mapping[str, Limits]) -> dict[str, Limits]:
    return {name: one for name, one in rules.items() if RULES[name].scope is not Scope.HOST}


def _decode_rules(
    section: FileNode, below: Mapping[str, Limits], *, scoped: bool = False
) -> dict[str, Limits]:
    known = [name for name, rule in RULES.items() if not (scoped and rule.scope is Scope.HOST)]
    return {
        name: _Decoder(RULES[name]).decode(value, below[name])
        for name, value in _fields(section, known, "a mapping of rules").items()
    }


def _fields(
    section: FileNode, known: tuple[str, ...] | list[str], wanted: str
) -> dict[str, FileNode]:
    """The values of a mapping by key. Raises ConfigError for a key that is not known."""
    found: dict[str, FileNode] = {}
    for key, value in section.entries(wanted):
        name = key.name.removeprefix(f"{section.name}.")
        if name not in known:
            raise ConfigError(
                f"{key.place}: unknown key {quoted(key.name)}, expected one of "
                f"{', '.join(known)}{suggestion(name, known)}"
            )
        found[name] = value
    return found


@dataclass(frozen=True, slots=True)
class _Decoder:
    """Reads the limits of one rule."""

    rule: Rule

    def decode(self, node: FileNode, below: Limits) -> Limits:
        """``on``, ``off``, or a mapping of limits, which also switches the rule on.

        ``below`` is what the new limits are laid over: together they must be possible.
        """
        fields = _LIMITED_BY[self.rule.kind]
        shape = f"on, off or a mapping with {' and '.join(fields)}" if fields else "on or off"
        if isinstance(node.node, yaml.ScalarNode) or not fields:
            word = node.text(shape)
            if word.lower() not in _SWITCH:
                raise node.refuse(shape)
            return Limits(enabled=_SWITCH[word.lower()])
        found = _fields(node, fields, shape)
        if not found:
            raise node.refuse(shape)
        words = next((found[name] for name in ("one_of", "all_of") if name in found), None)
        limits = Limits(
            enabled=True,
            least=self._limit(found["least"]) if "least" in found else None,
            most=self._limit(found["most"]) if "most" in found else None,
            one_of=self._words(words) if words is not None else None,
        )
        self._refuse_impossible(node, below.changed_by(limits))
        return limits

    def _limit(self, node: FileNode) -> float:
        """Seconds or a number; ``off`` is no end at all."""
        number = self.rule.kind is Kind.NUMBER
        wanted = "a whole number" if number else "a duration such as 5s or 10m, or off"
        text = node.text(wanted)
        if not number and text.lower() == _OFF:
            return math.inf
        try:
            return float(_number.parse(text)) if number else parse_duration(text)
        except ValueError as error:
            raise node.refuse(str(error) if number else f"{error}, or off") from None

    def _words(self, node: FileNode) -> tuple[str, ...]:
        wanted = "a list of words, such as [" + ", ".join(self.rule.words[1:3]) + "]"
        words: list[str] = []
        for item in node.items(wanted):
            word = item.text("a word")
            # A kernel may have policies that nobody knew of when this was written.
            if word not in self.rule.words and self.rule.id != "iopolicy":
                raise ConfigError(
                    f"{item.where}: found {quoted(word)}, expected one of "
                    f"{', '.join(self.rule.words)}{suggestion(word, self.rule.words)}"
                )
            if word in words:
                raise ConfigError(f"{item.where}: {quoted(word)} is given twice")
            words.append(word)
        if not words:
            raise ConfigError(f"{node.where}: found an empty list, expected at least one word")
        return tuple(words)

    @staticmethod
    def _refuse_impossible(node: FileNode, limits: Limits) -> None:
        if limits.least is not None and limits.most is not None and limits.least > limits.most:
            raise ConfigError(
                f"{node.where}: nothing can be at least {limits.least:g} and at most "
                f"{limits.most:g}, the limits of the preset included"
            )
