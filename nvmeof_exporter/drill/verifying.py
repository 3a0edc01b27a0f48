"""``nvmeof-exporter drill verify``: what became of the checkpoints in a directory."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from nvmeof_exporter.config import ConfigError
from nvmeof_exporter.drill.findings import Condition, exit_status
from nvmeof_exporter.drill.record import RecordError, read_record
from nvmeof_exporter.drill.sizes import size_of
from nvmeof_exporter.drill.verify import newest_good, verify
from nvmeof_exporter.terminal import printable, writing

if TYPE_CHECKING:
    import argparse

    from nvmeof_exporter.drill.findings import Finding

__all__ = ["add_arguments", "run"]

_VERDICTS = ("pass", "fail", "could not judge")


class _Told(msgspec.Struct, frozen=True):
    """A finding as JSON."""

    name: str
    format: str
    condition: str
    reason: str
    step: int | None
    bytes: int
    written: float | None
    remarks: tuple[str, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what only this command knows."""
    parser.add_argument(
        "directory",
        metavar="DIR",
        help="Where checkpoints are kept, or one of them: the drill's own, PyTorch distributed "
        "checkpoints, or safetensors.",
    )
    parser.add_argument(
        "--record",
        metavar="FILE",
        default="",
        help="The record of committed checkpoints that the drill wrote: what it names must be "
        "there.",
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=("text", "json"),
        default="text",
        help="For people, or as JSON (default: text).",
    )


def run(args: argparse.Namespace) -> int:
    """Judge and tell. Returns 0: good, 1: broken or lost, 2: it could not be judged.

    Raises:
        ConfigError: there is no such directory, or the record cannot be read.

    """
    directory = args.directory
    try:
        record = read_record(Path(args.record)) if args.record else {}
        findings = verify(directory, record)
    except RecordError as error:
        raise ConfigError(f"--record: {error}") from error
    except OSError as error:
        raise ConfigError(f"DIR: {directory}: {error.strerror}; expected a directory") from error
    status = exit_status(findings)
    newest = newest_good(findings)
    tell = _json if args.output == "json" else _text
    with writing(sys.stdout) as out:
        out.write(tell(findings, status, newest.name if newest is not None else None))
    return status


def _json(findings: list[Finding], status: int, loads: str | None) -> str:
    told = {
        "verdict": _VERDICTS[status],
        "loads": loads,
        "checkpoints": [
            _Told(
                f.name, f.format, f.condition.value, f.reason, f.step, f.bytes, f.written, f.remarks
            )
            for f in findings
        ],
    }
    return msgspec.json.format(msgspec.json.encode(told), indent=2).decode() + "\n"


def _text(findings: list[Finding], status: int, loads: str | None) -> str:
    lines = []
    width = max((len(printable(f.name)) for f in findings), default=0)
    for finding in findings:
        said = [printable(finding.reason)] if finding.reason else _facts(finding)
        name = printable(finding.name)
        lines.append(f"{finding.condition.value:<8}  {name:<{width}}  {', '.join(said)}".rstrip())
        lines += [f"{'':<8}  {'':<{width}}  {remark}" for remark in finding.remarks]
    if loads is not None:
        lines.append(f"the newest good one loads: {loads}")
    lines.append(f"{_VERDICTS[status]}: {_summary(findings)}")
    return "\n".join(lines) + "\n"


def _facts(finding: Finding) -> list[str]:
    facts = [size_of(finding.bytes)]
    if finding.written is not None:
        try:
            moment = dt.datetime.fromtimestamp(finding.written, dt.timezone.utc)
        except (ValueError, OverflowError, OSError):
            return facts
        facts.append(f"written {moment:%Y-%m-%d %H:%M:%S} UTC")
    return facts


def _summary(findings: list[Finding]) -> str:
    if not findings:
        return "no checkpoint was found"
    counts = {condition: sum(f.condition is condition for f in findings) for condition in Condition}
    return ", ".join(f"{count} {condition.value}" for condition, count in counts.items() if count)
