"""The command line side of the table of options."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NoReturn

from nvmeof_exporter.config.errors import ConfigError, quoted, suggestion
from nvmeof_exporter.config.options import OPTIONS
from nvmeof_exporter.config.values import FLAG

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nvmeof_exporter.config.options import Option

__all__ = ["FlagParser", "StrictParser", "given_flags"]

_SECTIONS = {
    "web": "HTTP",
    "path": "where to look",
    "config": "configuration file",
    "poll": "polling",
    "stall": "I/O pauses",
    "superseded": "remembered paths",
    "collector": "collectors",
    "log": "logs",
}


class StrictParser(argparse.ArgumentParser):
    """A parser whose bad input raises ConfigError, and that guesses nothing."""

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse all of ``argv``. Raises ConfigError; exits for ``--help``."""
        namespace, unknown = self.parse_known_args(argv)
        if not unknown:
            return namespace
        flag = next((word for word in unknown if word.startswith("-")), None)
        if flag is None:
            raise ConfigError(f"unexpected argument {quoted(unknown[0])}")
        flag = flag.partition("=")[0]
        near = suggestion(flag, self._option_string_actions)
        raise ConfigError(f"unknown flag {quoted(flag)}{near}")

    def error(self, message: str) -> NoReturn:
        """Raise what argparse found wrong as ConfigError instead of ending the process."""
        raise ConfigError(message.removeprefix("argument "))


class FlagParser(StrictParser):
    """A parser that knows every option of the table.

    Values stay texts: the same parsers serve every origin. A flag that is not
    given leaves no attribute behind.
    """

    def __init__(
        self,
        prog: str,
        description: str,
        *,
        usage: str = "[FLAGS]",
        defaults: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            prog=prog,
            description=description,
            allow_abbrev=False,
            usage=f"{prog} {usage}",
            epilog="Every flag can also be set by the variable in brackets or in the "
            "configuration file; a flag wins over a variable, a variable over the file.",
        )
        groups: dict[str, argparse._ArgumentGroup] = {}
        for option in OPTIONS:
            section = option.name.partition(".")[0]
            if section not in groups:
                groups[section] = self.add_argument_group(_SECTIONS[section])
            _add_flag(groups[section], option, (defaults or {}).get(option.name, option.default))


def _add_flag(group: argparse._ArgumentGroup, option: Option, default: str | None) -> None:
    default = "by --path.sysfs" if default is None else default
    help_text = f"{option.help} [{option.variable}]"
    if option.kind is FLAG:
        described = {"true": "on", "false": "off"}.get(default, default)
        group.add_argument(
            option.flag,  # the action adds --no-…
            dest=option.field,
            action=argparse.BooleanOptionalAction,
            default=argparse.SUPPRESS,
            help=f"{help_text} (default: {described})",
        )
        return
    if option.kind.bare:
        group.add_argument(
            option.flag,
            dest=option.field,
            nargs="?",
            const=option.kind.bare,
            default=argparse.SUPPRESS,
            metavar=option.kind.metavar,
            help=f"{help_text} (default: {default})",
        )
        group.add_argument(
            f"--no-{option.name}",
            dest=option.field,
            action="store_const",
            const="off",
            default=argparse.SUPPRESS,
            help=f"The same as {option.variable}=off.",
        )
        return
    group.add_argument(
        option.flag,
        dest=option.field,
        action="append" if option.repeatable else "store",
        default=argparse.SUPPRESS,
        metavar=option.kind.metavar,
        help=help_text + (f" (default: {default})" if default else ""),
    )


def given_flags(namespace: argparse.Namespace) -> dict[str, tuple[str, ...]]:
    """The texts of the flags that were given, by option name."""
    return {
        option.name: _texts(getattr(namespace, option.field))
        for option in OPTIONS
        if hasattr(namespace, option.field)
    }


def _texts(value: object) -> tuple[str, ...]:
    """The texts behind what argparse stored: a list where repeatable, a bool for a switch."""
    if isinstance(value, list):
        return tuple(map(str, value))
    return (str(value).lower(),) if isinstance(value, bool) else (str(value),)
