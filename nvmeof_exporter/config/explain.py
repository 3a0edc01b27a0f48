"""Where each setting of a configuration comes from, for who asks why it is as it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from nvmeof_exporter.config.load import found_outside_file
from nvmeof_exporter.config.options import OPTIONS

if TYPE_CHECKING:
    from nvmeof_exporter.config.model import Config

__all__ = ["Setting", "explain"]


class Setting(NamedTuple):
    """An option, its value as JSON may hold it, and its origin.

    ``origin`` is a flag, a variable, a place in a file, or ``default``.
    """

    name: str
    value: object
    origin: str


def explain(config: Config) -> tuple[Setting, ...]:
    """Every option in the order of the table. Raises ConfigError where the file is broken now."""
    found = found_outside_file(config.origin)
    if config.config_file:
        from nvmeof_exporter.config.file import read_file  # noqa: PLC0415

        found = {**read_file(config.config_file).options, **found}
    settings = []
    for option in OPTIONS:
        if option.name in found:
            origin = found[option.name].where
        elif option.default_variable in config.origin.environ:
            origin = option.default_variable
        else:
            origin = "default"
        value = _plain(getattr(config, option.field))
        settings.append(Setting(option.name, value, origin))
    return tuple(settings)


def _plain(value: object) -> object:
    if isinstance(value, re.Pattern):
        return value.pattern
    if isinstance(value, (bool, int, float)) or value is None:
        return value
    return [str(one) for one in value] if isinstance(value, tuple) else str(value)
