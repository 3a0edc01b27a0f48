"""A setting as it was found, and what it means."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nvmeof_exporter.config.errors import ConfigError, quoted

if TYPE_CHECKING:
    from nvmeof_exporter.config.options import Option

__all__ = ["Found", "decode"]


class Found(NamedTuple):
    """The texts given for an option, one unless it may be repeated, and where they stand."""

    texts: tuple[str, ...]
    where: str


def decode(option: Option, found: Found) -> object:
    """The value of an option: a tuple for a repeatable one.

    Raises ConfigError that names the place, what was found and what is expected.
    """
    values = tuple(_decode_one(option, text, found.where) for text in found.texts)
    if not option.repeatable:
        return values[0]
    if not values:
        raise ConfigError(f"{found.where}: found an empty list, expected at least one value")
    for index, value in enumerate(values):
        if value in values[:index]:
            raise ConfigError(f"{found.where}: {quoted(found.texts[index])} is given twice")
    return values


def _decode_one(option: Option, text: str, where: str) -> object:
    try:
        return option.kind.parse(text)
    except ValueError as expected:
        raise ConfigError(f"{where}: found {quoted(text)}, expected {expected}") from None
