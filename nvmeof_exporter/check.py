"""The ``check`` command: holds the node, as it is now, against a policy.

It reads ``/sys`` itself, so it needs neither a running exporter nor privileges, and it
writes nothing anywhere.
"""

from __future__ import annotations

import itertools
import os
import sys
from typing import TYPE_CHECKING

import structlog

from nvmeof_exporter.capture.verify import refuse_broken
from nvmeof_exporter.monitor.redundancy import level_of
from nvmeof_exporter.monitor.shared_fate import distinct
from nvmeof_exporter.policy import DEFAULT_PRESET, PRESETS, Facts, evaluate, preset_policy
from nvmeof_exporter.policy.model import NO_LIMITS
from nvmeof_exporter.policy.path_rules import FABRICS
from nvmeof_exporter.policy.report import Report, plugin_line
from nvmeof_exporter.sources.reader import Reader
from nvmeof_exporter.survey import expectations, look, refuse_untold, surroundings
from nvmeof_exporter.terminal import columns, wants_colour, writing

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    from nvmeof_exporter.config import ConfigError
    from nvmeof_exporter.model import Snapshot, Subsystem
    from nvmeof_exporter.policy import Policy
    from nvmeof_exporter.survey import SurveyConfig

__all__ = ["add_arguments", "refuse", "run"]

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()

_EXIT_UNKNOWN = 3
_OUTPUTS = ("text", "json", "plugin")
_WIDTH = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what only this command knows."""
    parser.add_argument(
        "--preset",
        metavar="NAME",
        help=f"The policy to hold the node against: {', '.join(PRESETS)} (default: the "
        f"configuration file's, else {DEFAULT_PRESET}). Rules of the file still count.",
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=_OUTPUTS,
        default=_OUTPUTS[0],
        help="For people, as JSON, or as a monitoring plugin answers (default: text).",
    )


def run(args: argparse.Namespace, config: SurveyConfig) -> int:
    """Judge and tell. Returns the exit status.

    0: everything that could be judged is as wanted; 1: something is not (warning);
    2: critical, I/O is lost or is with the next failure; 3: there was nothing to judge.

    Raises:
        ConfigError: there is no such preset, or no such directory.

    """
    policy = _policy(args.preset, config.policy)
    refuse_broken(config.path_sysfs)
    refuse_untold(config.path_sysfs)
    reader = Reader(_tell_unreadable)
    snapshot = look(reader, config)
    facts = _facts(snapshot, config, _distinct(snapshot, reader, config, policy))
    report = Report(policy.preset, evaluate(facts, policy))
    with writing(sys.stdout) as stream:
        stream.write(_rendered(report, args.output, stream, os.environ))
    return report.status


def refuse(error: ConfigError, arguments: Sequence[str]) -> int:
    """Tell of bad input as a plugin must: on standard output, with status 3.

    Raises ``error`` again where no plugin was asked for: it ends in status 2 as everywhere.
    """
    words = [word for argument in arguments for word in argument.split("=", 1)]
    asked = any(
        word in {"-o", "--output"} and after == "plugin"
        for word, after in itertools.pairwise(words)
    )
    if not asked and "-oplugin" not in words:
        raise error
    sys.stdout.write(plugin_line(_EXIT_UNKNOWN, " ".join(str(error).splitlines())))
    return _EXIT_UNKNOWN


def _policy(preset: str | None, configured: Policy | None) -> Policy:
    own = configured.own if configured is not None else ()
    if preset is not None:
        return preset_policy(preset, "--preset", own)
    return configured if configured is not None else preset_policy()


def _tell_unreadable(path: str, reason: str) -> None:
    _log.warning("cannot be read; what it says is not judged", path=path, reason=reason)


def _facts(
    snapshot: Snapshot, config: SurveyConfig, shared: Mapping[str, Mapping[str, int]]
) -> Facts:
    """What can be said of the node without having watched it."""
    wanted = expectations(config, FABRICS)
    present = _by_nqn(snapshot)
    expected: dict[str, int] = {}
    levels: dict[str, str] = {}
    for nqn in {*present, *wanted.nqns()}:
        subsystems = present.get(nqn, [])
        count = wanted.expected(nqn)
        here = sum(len(subsystem.controllers) for subsystem in subsystems)
        level = level_of(subsystems, count)
        expected[nqn] = max(count or 0, here)
        if level is not None:
            levels[nqn] = level
    return Facts(snapshot, expected, levels, shared)


def _by_nqn(snapshot: Snapshot) -> dict[str, list[Subsystem]]:
    found: dict[str, list[Subsystem]] = {}
    for subsystem in snapshot.subsystems:
        found.setdefault(subsystem.nqn, []).append(subsystem)
    return found


def _distinct(
    snapshot: Snapshot, reader: Reader, config: SurveyConfig, policy: Policy
) -> dict[str, dict[str, int]]:
    """Count what the paths of each NQN run over."""
    around = surroundings(snapshot, reader, config, ask_lldpd=_asks_for_switches(policy))
    return {
        nqn: distinct(own, around.port, around.switches) for nqn, own in _by_nqn(snapshot).items()
    }


def _asks_for_switches(policy: Policy) -> bool:
    wanted = (layer.rules.get("shared_fate", NO_LIMITS) for layer in policy.base + policy.own)
    return any("switch" in (limits.one_of or ()) for limits in wanted)


def _rendered(report: Report, output: str, stream: TextIO, environ: Mapping[str, str]) -> str:
    if output == "json":
        return report.json()
    if output == "plugin":
        return report.plugin()
    return report.text(colour=wants_colour(stream, environ), width=columns(stream) or _WIDTH)
