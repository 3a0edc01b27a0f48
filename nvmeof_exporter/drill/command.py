"""The ``drill`` commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmeof_exporter.config import ConfigError, FlagParser, StrictParser
from nvmeof_exporter.config.errors import quoted, suggestion

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from nvmeof_exporter.config import Config

    Parse = Callable[[FlagParser, list[str]], tuple[argparse.Namespace, Config]]

__all__ = ["run"]


def run(program: str, arguments: list[str], parse: Parse) -> int:
    """Run the drill command in ``arguments`` and return its exit status.

    0: pass; 1: fail; 2: it could not be judged, or bad input. ``parse`` gives the arguments
    and the configuration they lead to.

    Raises:
        ConfigError: no such command, or it cannot be done so.

    """
    if not arguments or arguments[0].startswith("-"):
        return _drill(program, arguments, parse)
    name, *rest = arguments
    command = _COMMANDS.get(name)
    if command is None:
        raise ConfigError(
            f"unknown drill command {quoted(name)}, expected one of {', '.join(_COMMANDS)}, or "
            f"flags{suggestion(name, _COMMANDS)}"
        )
    return command(f"{program} {name}", rest)


def _drill(program: str, arguments: list[str], parse: Parse) -> int:
    from nvmeof_exporter.drill.drilling_command import add_arguments  # noqa: PLC0415
    from nvmeof_exporter.drill.drilling_command import run as drill  # noqa: PLC0415

    parser = FlagParser(
        program,
        "Tests what a failover of the storage does to a job: runs a load that reads and writes "
        "checkpoints, has a FAULT caused and undone, and judges how long I/O stood still, what "
        "failed, what came back. `drill verify DIR` judges checkpoints, `drill compare FILE…` puts "
        "reports side by side. Exit status: 0 pass, 1 fail, 2 could not be judged.",
        usage="--target DIR --scenario NAME (--trigger CMD --restore CMD | --manual) [FLAGS]",
    )
    add_arguments(parser)
    return drill(*parse(parser, arguments))


def _verify(program: str, arguments: list[str]) -> int:
    from nvmeof_exporter.drill import verifying  # noqa: PLC0415

    parser = StrictParser(
        prog=program,
        description="Judges the checkpoints in a directory, as after a loss of power: which are "
        "whole, which were torn and are left aside, which are broken or lost. Runs and changes "
        "nothing. Exit status: 0 all that were committed are good, 1 one is not, 2 it could not "
        "be judged.",
        usage=f"{program} [FLAGS] DIR",
        allow_abbrev=False,
    )
    verifying.add_arguments(parser)
    return verifying.run(parser.parse(arguments))


def _compare(program: str, arguments: list[str]) -> int:
    from nvmeof_exporter.drill import comparing  # noqa: PLC0415

    parser = StrictParser(
        prog=program,
        description="Puts the reports of several drills side by side. Exit status: the worst of "
        "theirs.",
        usage=f"{program} [FLAGS] FILE.json…",
        allow_abbrev=False,
    )
    comparing.add_arguments(parser)
    return comparing.run(parser.parse(arguments))


_COMMANDS: dict[str, Callable[[str, list[str]], int]] = {
    "verify": _verify,
    "compare": _compare,
}
