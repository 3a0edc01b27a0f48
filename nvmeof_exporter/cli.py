"""The command line: which command is meant, and what is wrong with how it was put.

Every bad input ends in one line on standard error and exit status 2. What a
command needs is imported when it is the one that runs: ``--version`` and a
mistyped flag answer at once.
"""

from __future__ import annotations

import os
import platform
import sys
from typing import TYPE_CHECKING

from nvmeof_exporter import __version__
from nvmeof_exporter.config import (
    ConfigError,
    FlagParser,
    given_flags,
    origin_of,
    resolve,
)
from nvmeof_exporter.config.errors import quoted, suggestion

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from nvmeof_exporter.config import Config

__all__ = ["main"]

EXIT_OK = 0
EXIT_USAGE = 2

_PROGRAM = "nvmeof-exporter"

#: A demonstration is for the person at this machine and leaves no memory behind.
#: Nobody waits five seconds to see a port go down, and a make-believe card answers at once.
_DEMO_DEFAULTS = {
    "web.listen-address": "127.0.0.1:10067",
    "path.state": "",
    "poll.slow-interval": "1s",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in ``argv`` (default: the process's) and return its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(arguments)
    except ConfigError as error:
        line = " ".join(str(error).splitlines())
        sys.stderr.write(f"{_PROGRAM}: error: {line}\n")
        return EXIT_USAGE
    except SystemExit as end:  # argparse, after it has printed the help
        return end.code if isinstance(end.code, int) else EXIT_OK


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0].startswith("-"):
        return _serve(arguments)
    name, *rest = arguments
    command = _COMMANDS.get(name)
    if command is None:
        raise ConfigError(
            f"unknown command {quoted(name)}, expected one of {', '.join(_COMMANDS)}"
            f"{suggestion(name, _COMMANDS)}"
        )
    return command(rest)


def _serve(arguments: list[str]) -> int:
    parser = FlagParser(
        _PROGRAM,
        "Exports the true state of NVMe-oF multipath, failover durations and I/O pauses "
        f"to Prometheus. Commands: {', '.join(_COMMANDS)}; serve where none is given. "
        f"`{_PROGRAM} COMMAND --help` explains one.",
        usage="[COMMAND] [FLAGS]",
    )
    _, config = _parse(parser, arguments)
    if config.config_check:
        if config.web_config_file:
            from nvmeof_exporter.exposition.web_security import check_web_file  # noqa: PLC0415

            check_web_file(config.web_config_file)
        named = f": {config.config_file}" if config.config_file else ""
        sys.stdout.write(f"configuration OK{named}\n")
        return EXIT_OK
    from nvmeof_exporter.daemon import serve  # noqa: PLC0415

    return serve(config)


def _demo(arguments: list[str]) -> int:
    from nvmeof_exporter.demo.command import add_arguments, run  # noqa: PLC0415

    parser = FlagParser(
        f"{_PROGRAM} demo",
        "Runs the exporter over a make-believe node with scripted failovers.",
        defaults=_DEMO_DEFAULTS,
    )
    add_arguments(parser)
    args, config = _parse(parser, arguments, _DEMO_DEFAULTS)
    args.config = config
    return run(args)


def _forget(arguments: list[str]) -> int:
    parser = FlagParser(
        f"{_PROGRAM} forget",
        "Drops a retired subsystem, or one of its paths, from what this node remembers.",
        usage="[FLAGS] NQN [PATH]",
    )
    parser.add_argument("nqn", metavar="NQN", help="The subsystem's NQN.")
    parser.add_argument(
        "path", metavar="PATH", nargs="?", help="The path label, such as tcp:10.0.0.2:4420."
    )
    args, config = _parse(parser, arguments)
    from nvmeof_exporter.forget import run  # noqa: PLC0415

    return run(config, args.nqn, args.path)


def _check(arguments: list[str]) -> int:
    from nvmeof_exporter.check import add_arguments, refuse, run  # noqa: PLC0415

    parser = FlagParser(
        f"{_PROGRAM} check",
        "Holds this node against a policy, as before a long training run: the settings of its "
        "paths, redundancy, what they share. Exit status: 0 as wanted, 1 warning, 2 critical or "
        "bad input, 3 nothing to judge.",
    )
    add_arguments(parser)
    try:
        args, config = _parse(parser, arguments)
        return run(args, config)
    except ConfigError as error:
        return refuse(error, arguments)


def _show(arguments: list[str]) -> int:
    from nvmeof_exporter.show.command import add_arguments, run  # noqa: PLC0415

    parser = FlagParser(
        f"{_PROGRAM} show",
        "Shows the node at a glance: subsystems, paths, namespaces, redundancy, failovers. Asks "
        "the running exporter, or reads the tree itself where there is none.",
    )
    add_arguments(parser)
    args, config = _parse(parser, arguments)
    return run(args, config)


def _capture(arguments: list[str]) -> int:
    from nvmeof_exporter.capture.command import add_arguments, run  # noqa: PLC0415

    parser = FlagParser(
        f"{_PROGRAM} capture",
        "Puts everything that somebody else needs to see what this node showed into one file. "
        "Takes no secrets, writes nothing but FILE.",
        usage="[FLAGS] FILE.tar.xz",
    )
    add_arguments(parser)
    args, config = _parse(parser, arguments)
    return run(args, config)


def _drill(arguments: list[str]) -> int:
    from nvmeof_exporter.drill.command import run  # noqa: PLC0415

    return run(f"{_PROGRAM} drill", arguments, _parse)


def _parse(
    parser: FlagParser, arguments: list[str], defaults: Mapping[str, str] | None = None
) -> tuple[argparse.Namespace, Config]:
    """The parsed arguments and the configuration they lead to; logs go as it says from here on."""
    version = f"{_PROGRAM} {__version__} (Python {platform.python_version()})"
    parser.add_argument("--version", action="version", version=version)
    args = parser.parse(arguments)
    config = resolve(origin_of(given_flags(args), os.environ, defaults))
    from nvmeof_exporter.logs import configure  # noqa: PLC0415

    configure(config.log_level, config.log_format)
    return args, config


_COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "serve": _serve,
    "demo": _demo,
    "forget": _forget,
    "check": _check,
    "show": _show,
    "capture": _capture,
    "drill": _drill,
}
