"""``nvmeof-exporter drill --target …``: whether it can be done, and doing it."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from nvmeof_exporter.config import ConfigError
from nvmeof_exporter.drill.asking import add_arguments, read
from nvmeof_exporter.drill.drilling import Drill
from nvmeof_exporter.drill.findings import os_reason
from nvmeof_exporter.drill.report import encode
from nvmeof_exporter.drill.running import AlreadyRunning, RunningMark
from nvmeof_exporter.drill.scratch import DeviceScratch, DirectoryScratch, Interrupted
from nvmeof_exporter.drill.sizes import size_of
from nvmeof_exporter.drill.target import (
    Machine,
    Refused,
    claim_device,
    find_device,
    find_directory,
)
from nvmeof_exporter.drill.voice import Terminal, summary
from nvmeof_exporter.drill.watch import Watch
from nvmeof_exporter.monitor.shared_fate import distinct
from nvmeof_exporter.sources.events import SourceUnavailable
from nvmeof_exporter.sources.reader import Reader
from nvmeof_exporter.survey import look, surroundings
from nvmeof_exporter.terminal import printable, writing

if TYPE_CHECKING:
    import argparse

    from nvmeof_exporter.config import Config
    from nvmeof_exporter.drill.asking import Asked
    from nvmeof_exporter.drill.report import Report
    from nvmeof_exporter.drill.scratch import Scratch
    from nvmeof_exporter.drill.target import Target
    from nvmeof_exporter.sources.events import EventSource

__all__ = ["add_arguments", "run"]

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()

_COULD_NOT_JUDGE = 2


def run(args: argparse.Namespace, config: Config) -> int:
    """Do what is asked. Returns 0: pass, 1: fail, 2: it could not be judged.

    Raises:
        ConfigError: a flag makes no sense, or the target is refused.

    """
    asked = read(args)
    if args.html:
        _require_pages()
    reader = Reader(_tell_unreadable)
    target = _target(asked, args.destroy, config, reader)
    if not asked.is_device:
        for flag, file in (("--report", args.report), ("--html", args.html)):
            _refuse_on_target(flag, file, asked.path)
    with ExitStack() as stack:
        events = [] if args.dry_run else _kernel_log(config)
        watch = stack.enter_context(
            closing(Watch(reader, config.path_sysfs, target.namespaces, events))
        )
        drill = Drill(
            args.name or ", ".join(nqn for nqn, _ in target.namespaces),
            asked.scenario,
            asked.objectives,
            asked.plan,
            asked.load,
            target,
            asked.commands,
            _shared_fate(target, reader, config),
        )
        if args.dry_run:
            _refuse_claimed(asked)
            with writing(sys.stdout) as out:
                out.write(_plan(drill, args, watch))
            return 0
        _mark(stack, config.path_state)
        try:
            report, status = drill.run(_scratch(stack, asked, args), watch, Terminal())
        except Interrupted:
            sys.stderr.write("interrupted before the load ran: nothing is left of it\n")
            return _COULD_NOT_JUDGE
        except Refused as error:
            raise ConfigError(f"{asked.flag}: {error}") from error
        except OSError as error:
            place = error.filename or asked.path
            raise ConfigError(f"{asked.flag}: {place}: {os_reason(error)}") from error
    _write(args, report)
    with writing(sys.stdout) as out:
        out.write(summary(report))
    return status


def _target(asked: Asked, again: str, config: Config, reader: Reader) -> Target:
    machine = Machine(config.path_sysfs, config.path_procfs, look(reader, config))
    try:
        if asked.is_device:
            return find_device(machine, asked.path, again, asked.load.bytes)
        return find_directory(machine, asked.path, asked.load.bytes)
    except Refused as error:
        raise ConfigError(f"{asked.flag}: {error}") from error


def _refuse_claimed(asked: Asked) -> None:
    """Refuse a device that is in use or not blank, without a drill. Raises ConfigError."""
    if not asked.is_device:
        return
    try:
        os.close(claim_device(asked.path))
    except Refused as error:
        raise ConfigError(f"{asked.flag}: {error}") from error


def _scratch(stack: ExitStack, asked: Asked, args: argparse.Namespace) -> Scratch:
    """Make the place for the load. Raises ConfigError, Refused and OSError."""
    if asked.is_device:
        return DeviceScratch(asked.path, asked.load)
    record = Path(f"{args.report}.committed" if args.report else _unkept(stack, asked.path))
    return DirectoryScratch(asked.path, asked.load, record, keep=args.keep)


def _unkept(stack: ExitStack, target: str) -> str:
    """Make a place for a record that nobody keeps. Raises ConfigError."""
    directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="nvmeof-exporter-"))
    if os.stat(directory).st_dev == os.stat(target).st_dev:
        raise ConfigError(f"--report: expected, as {directory} lies on the storage under test")
    return f"{directory}/committed"


def _refuse_on_target(flag: str, file: str, target: str) -> None:
    """Refuse to write about the storage on the storage. Raises ConfigError."""
    if not file:
        return
    directory = os.path.dirname(os.path.abspath(file))
    try:
        same = os.stat(directory).st_dev == os.stat(target).st_dev
    except OSError as error:
        raise ConfigError(f"{flag}: {directory}: {os_reason(error)}") from error
    if same:
        raise ConfigError(f"{flag}: {file} lies on the storage under test: expected another place")
    if flag == "--report" and os.path.exists(f"{file}.committed"):
        raise ConfigError(f"{flag}: {file}.committed is there already: the record of another drill")


def _mark(stack: ExitStack, directory: str) -> None:
    """Say that a drill runs, where an exporter keeps its state. Raises ConfigError."""
    if not directory or not os.path.isdir(directory):
        _log.warning(
            "no exporter keeps its state here: nvmeof_drill_running is not told",
            directory=directory,
        )
        return
    try:
        stack.enter_context(closing(RunningMark(directory)))
    except AlreadyRunning as error:
        raise ConfigError(str(error)) from error
    except OSError as error:
        _log.warning(
            "nvmeof_drill_running is not told", directory=directory, reason=os_reason(error)
        )


def _kernel_log(config: Config) -> list[EventSource]:
    """Open the kernel log, where it is to be heard and can be."""
    if not config.collects("kmsg"):
        return []
    from nvmeof_exporter.sources.kmsg import KernelLog  # noqa: PLC0415

    with suppress(SourceUnavailable):
        return [KernelLog(config.path_kmsg)]
    return []


def _plan(drill: Drill, args: argparse.Namespace, watch: Watch) -> str:
    """Say what would happen."""
    target, load, plan = drill.target, drill.load, drill.plan
    read = size_of(load.read_bytes)
    lines = [
        f"target      {target.path}: {_lies_on(target)}",
        *(f"namespace   {nsid} of {nqn}" for nqn, nsid in target.namespaces),
        *(f"path        {path} {state}" for path, state in watch.look().states.items()),
        *(f"remark      {remark}" for remark in target.remarks),
        f"reads       {load.readers} workers, 1 MiB at a time, {read} each",
        f"checkpoints {size_of(load.shape.bytes)} every {load.interval:g} s",
        f"room        {size_of(load.bytes)} of {size_of(target.bytes)} that are free",
        f"baseline    {plan.baseline:g} s",
        f"FAULT       {args.trigger or 'caused by people'}",
        f"undone by   {args.restore or 'people'}",
        f"objectives  {', '.join(drill.judged.objectives)}",
        f"pauses      at most {drill.objectives.pause:g} s",
        "nothing was done",
    ]
    return "".join(f"{printable(line)}\n" for line in lines)


def _lies_on(target: Target) -> str:
    if target.is_device:
        return "WRITTEN OVER, all but its first and last MiB"
    return f"{target.file_system} on {', '.join(target.disks)}"


def _shared_fate(target: Target, reader: Reader, config: Config) -> dict[str, dict[str, int]]:
    """Count what must fail before the last path is lost, by NQN: see docs/shared-fate.md."""
    snapshot = look(reader, config)
    around = surroundings(snapshot, reader, config, ask_lldpd=True)
    found = {}
    for nqn in dict.fromkeys(nqn for nqn, _ in target.namespaces):
        own = [subsystem for subsystem in snapshot.subsystems if subsystem.nqn == nqn]
        found[nqn] = distinct(own, around.port, around.switches)
    return found


def _require_pages() -> None:
    try:
        import jinja2  # noqa: F401, PLC0415  # whether it is there
    except ImportError as error:
        raise ConfigError(
            "--html: Jinja2 is not installed; expected nvmeof-exporter[drill]"
        ) from error


def _write(args: argparse.Namespace, report: Report) -> None:
    """Write what was asked for; a failure is told, the verdict stands. Raises nothing."""
    for flag, file in (("--report", args.report), ("--html", args.html)):
        if not file:
            continue
        try:
            Path(file).write_bytes(encode(report) if flag == "--report" else _page(report))
        except OSError as error:
            _log.error("report not written", flag=flag, file=file, reason=os_reason(error))


def _page(report: Report) -> bytes:
    from nvmeof_exporter.drill.page import page  # noqa: PLC0415  # needs Jinja2

    return page(report).encode()


def _tell_unreadable(path: str, reason: str) -> None:
    _log.warning("cannot be read", path=path, reason=reason)
