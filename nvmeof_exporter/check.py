"""The ``check`` command: holds the node, as it is now, against a policy.

It reads ``/sys`` itself, so it needs neither a running exporter nor privileges, and it
writes nothing anywhere.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import structlog

from nvmeof_exporter.config import ConfigError
from nvmeof_exporter.hardware import PathPort
from nvmeof_exporter.memory import FILE_NAME, Memory
from nvmeof_exporter.monitor.expectations import (
    Expectation,
    Expectations,
    KnownPath,
    KnownSubsystem,
)
from nvmeof_exporter.monitor.redundancy import worst_level
from nvmeof_exporter.monitor.shared_fate import distinct
from nvmeof_exporter.policy import DEFAULT_PRESET, PRESETS, Facts, evaluate, preset_policy
from nvmeof_exporter.policy.model import NO_LIMITS
from nvmeof_exporter.policy.path_rules import FABRICS
from nvmeof_exporter.policy.report import Report, plugin_line
from nvmeof_exporter.sources.events import SourceUnavailable
from nvmeof_exporter.sources.interfaces import PathPorts
from nvmeof_exporter.sources.lldp import LldpFailed, LldpUnavailable, switches
from nvmeof_exporter.sources.netlink import Links
from nvmeof_exporter.sources.nvme import NvmeSource
from nvmeof_exporter.sources.reader import Reader

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence
    from typing import Protocol, TextIO

    from nvmeof_exporter.config import ExpectedSubsystem
    from nvmeof_exporter.model import Controller, Snapshot, Subsystem
    from nvmeof_exporter.policy import Policy
    from nvmeof_exporter.sources.interface_table import InterfaceTable

    class CheckConfig(Protocol):
        """The part of the configuration that is used here."""

        @property
        def path_sysfs(self) -> str:
            """Where sysfs is."""

        @property
        def path_state(self) -> str:
            """The directory of the memory file; ``""`` when nothing is kept."""

        @property
        def expected(self) -> tuple[ExpectedSubsystem, ...]:
            """What each subsystem must have."""

        @property
        def policy(self) -> Policy | None:
            """The policy of the configuration file, None where it has none."""

        def collects(self, name: str) -> bool:
            """Whether that collector runs: ``netlink`` and ``lldp`` tell of this machine only."""


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


def run(args: argparse.Namespace, config: CheckConfig) -> int:
    """Judge and tell. Returns the exit status.

    0: everything that could be judged is as wanted; 1: something is not (warning);
    2: critical, I/O is lost or is with the next failure; 3: there was nothing to judge.

    Raises:
        ConfigError: there is no such preset, or no such directory.

    """
    policy = _policy(args.preset, config.policy)
    if not os.path.isdir(config.path_sysfs):
        raise ConfigError(f"--path.sysfs: {config.path_sysfs!r} is no directory")
    reader = Reader(_tell_unreadable)
    snapshot = _look(reader, config)
    facts = _facts(snapshot, config, _distinct(snapshot, reader, config, policy))
    report = Report(policy.preset, evaluate(facts, policy))
    sys.stdout.write(_rendered(report, args.output, sys.stdout, os.environ))
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


def _look(reader: Reader, config: CheckConfig) -> Snapshot:
    with closing(NvmeSource(reader, config.path_sysfs)) as source:
        return source.poll(time.monotonic(), time.time())


def _tell_unreadable(path: str, reason: str) -> None:
    _log.warning("cannot be read; what it says is not judged", path=path, reason=reason)


def _facts(
    snapshot: Snapshot, config: CheckConfig, shared: Mapping[str, Mapping[str, int]]
) -> Facts:
    """What can be said of the node without having watched it."""
    expectations = Expectations(
        {one.nqn: Expectation(one.count, one.paths) for one in config.expected},
        known=_remembered(config.path_state),
    )
    present = _by_nqn(snapshot)
    expected: dict[str, int] = {}
    levels: dict[str, str] = {}
    for nqn in {*present, *expectations.nqns()}:
        subsystems = present.get(nqn, [])
        count = expectations.expected(nqn)
        here = sum(len(subsystem.controllers) for subsystem in subsystems)
        level = worst_level(subsystems, complete=count is None or here >= count)
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
    snapshot: Snapshot, reader: Reader, config: CheckConfig, policy: Policy
) -> dict[str, dict[str, int]]:
    """Count what the paths of each NQN run over."""
    controllers = [c for subsystem in snapshot.subsystems for c in subsystem.controllers]
    paths = PathPorts(reader, config.path_sysfs, _interfaces(config))
    paths.refresh_rdma()
    ports = paths.refresh(controllers)
    nothing = PathPort()

    def port_of(controller: Controller) -> PathPort:
        return ports.get((controller.nqn, controller.path), nothing)

    neighbours = _switches() if config.collects("lldp") and _asks_for_switches(policy) else {}
    return {nqn: distinct(own, port_of, neighbours) for nqn, own in _by_nqn(snapshot).items()}


def _interfaces(config: CheckConfig) -> Callable[[], InterfaceTable] | None:
    """The interfaces of this machine, None where the tree is another's or nobody tells."""
    if not config.collects("netlink"):
        return None
    try:
        with closing(Links()) as links:
            table = links.table()
    except SourceUnavailable as reason:
        _log.warning("interfaces not known", reason=str(reason))
        return None
    return lambda: table


def _asks_for_switches(policy: Policy) -> bool:
    wanted = (layer.rules.get("shared_fate", NO_LIMITS) for layer in policy.base + policy.own)
    return any("switch" in (limits.one_of or ()) for limits in wanted)


def _switches() -> dict[str, str]:
    """The switch at each interface, as lldpd knows them; nothing where it cannot be asked."""
    try:
        return switches()
    except (LldpUnavailable, LldpFailed) as reason:
        _log.warning("switches not known", reason=str(reason))
        return {}


def _remembered(directory: str) -> dict[str, KnownSubsystem]:
    """What the exporter remembers of the paths this node had; nothing where that is unreadable.

    Unlike the daemon, this sets no broken file aside: a check changes nothing.
    """
    if not directory:
        return {}
    try:
        memory = msgspec.json.decode(Path(directory, FILE_NAME).read_bytes(), type=Memory)
    except (OSError, ValueError):
        return {}
    if memory.version != Memory().version:
        return {}
    return {
        nqn: KnownSubsystem(
            {path.id: KnownPath(path.first_seen, path.last_seen) for path in subsystem.paths},
            subsystem.most_at_once,
        )
        for nqn, subsystem in memory.subsystems.items()
        # With --collector.pcie the exporter remembers local drives, which are none of a policy's.
        if any(path.id.transport in FABRICS for path in subsystem.paths)
    }


def _rendered(report: Report, output: str, stream: TextIO, environ: Mapping[str, str]) -> str:
    if output == "json":
        return report.json()
    if output == "plugin":
        return report.plugin()
    terminal = stream.isatty() and environ.get("TERM") != "dumb"
    width = shutil.get_terminal_size((_WIDTH, 0)).columns if stream.isatty() else _WIDTH
    return report.text(colour=terminal and not environ.get("NO_COLOR"), width=width)
