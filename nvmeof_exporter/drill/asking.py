"""What is asked of a drill: its flags, and what they mean together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nvmeof_exporter.config import ConfigError
from nvmeof_exporter.config.errors import quoted
from nvmeof_exporter.config.values import duration, integer
from nvmeof_exporter.drill.checkpoint import Shape
from nvmeof_exporter.drill.files import BLOCK_BYTES
from nvmeof_exporter.drill.objectives import SCENARIOS, Objectives, Scenario
from nvmeof_exporter.drill.phases import Plan
from nvmeof_exporter.drill.scratch import LoadShape
from nvmeof_exporter.drill.sizes import parse_size, size_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any

__all__ = ["Asked", "add_arguments", "read"]


def _size(least: int, most: int) -> Callable[[str], int]:
    """A size within bounds, of whole blocks."""

    def parse(text: str) -> int:
        count = parse_size(text)
        if count % BLOCK_BYTES or not least <= count <= most:
            raise ValueError(f"whole MiB from {size_of(least)} to {size_of(most)}")
        return count

    return parse


#: Flags with a value: name, default, how it is read, what it is.
_VALUES: tuple[tuple[str, str, Callable[[str], Any], str], ...] = (
    ("objective", "5s", duration("100ms", "1h").parse,
     "How long I/O may stand still at most."),
    ("share", "80", integer(1, 100).parse,
     "Percent of the baseline's throughput that failback must keep."),
    ("baseline", "30s", duration("5s", "1h").parse,
     "How long the load is measured before the fault."),
    ("hold", "30s", duration("5s", "1h").parse,
     "How long it is measured on what is left, and again when everything is back."),
    ("limit", "10m", duration("10s", "1d").parse,
     "How long to wait for what does not come about."),
    ("workers", "4", integer(1, 64).parse, "Workers that read, each a file of its own."),
    ("read-size", "1GiB", _size(16 << 20, 1 << 44), "Size of each of their files."),
    ("checkpoint-size", "256MiB", _size(4 << 20, 1 << 44), "Size of a checkpoint, in 4 shards."),
    ("checkpoint-interval", "10s", duration("100ms", "1h").parse,
     "From one checkpoint's begin to the next one's."),
)  # fmt: skip

_SHARDS = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what only this command knows."""
    group = parser.add_argument_group("drill")
    group.add_argument(
        "--target",
        metavar="DIR",
        help="A directory on a file system over NVMe over Fabrics; a directory of the drill's own "
        "is made in it and removed at the end.",
    )
    group.add_argument(
        "--device",
        metavar="DEV",
        help="Instead: a blank namespace that nobody uses. It is WRITTEN OVER.",
    )
    group.add_argument(
        "--destroy", metavar="DEV", default="", help="The same device again, on purpose."
    )
    known = "; ".join(f"{one.name}: {one.about}" for one in SCENARIOS.values())
    group.add_argument("--scenario", metavar="NAME", help=f"What is tested. {known}.")
    group.add_argument(
        "--trigger", metavar="CMD", default="", help="A FAULT: the shell command that causes it."
    )
    group.add_argument(
        "--restore", metavar="CMD", default="", help="The shell command that undoes it."
    )
    group.add_argument(
        "--manual",
        action="store_true",
        help="People cause the fault and undo it when they are told to.",
    )
    for name, default, _, about in _VALUES:
        group.add_argument(
            f"--{name}", metavar="VALUE", default=default, help=f"{about} (default: {default})"
        )
    group.add_argument(
        "--name", metavar="TEXT", default="", help="What is tested, for the report: an array, say."
    )
    group.add_argument(
        "--report", metavar="FILE", default="", help="Write the report there, as JSON."
    )
    group.add_argument(
        "--html", metavar="FILE", default="", help="Write it there as a page (needs Jinja2)."
    )
    group.add_argument(
        "--keep", action="store_true", help="Leave the checkpoints and their record for `verify`."
    )
    group.add_argument(
        "--dry-run", action="store_true", help="Say what would happen, and do nothing."
    )


@dataclass(frozen=True, slots=True)
class Asked:
    """The flags, read. ``path`` is the directory or device; ``flag`` the one it was given with.

    ``commands`` cause and undo the fault, None where people do.
    """

    flag: str
    path: str
    scenario: Scenario
    objectives: Objectives
    plan: Plan
    load: LoadShape
    commands: tuple[str, str] | None

    @property
    def is_device(self) -> bool:
        """Whether a device is to be written over."""
        return self.flag == "--device"


def read(args: argparse.Namespace) -> Asked:
    """Read the flags. Raises ConfigError."""
    if bool(args.target) is bool(args.device):
        raise ConfigError("expected --target DIR, on the storage under test, or --device DEV")
    if args.scenario not in SCENARIOS:
        found = f"found {quoted(args.scenario)}, " if args.scenario else ""
        raise ConfigError(f"--scenario: {found}expected one of {', '.join(SCENARIOS)}")
    scenario = SCENARIOS[args.scenario]
    if args.device and not scenario.survivors:
        raise ConfigError(f"--device: {scenario.name} looks at checkpoints, expected --target DIR")
    given = (bool(args.trigger), bool(args.restore))
    if given != ((False, False) if args.manual else (True, True)):
        raise ConfigError("expected --trigger and --restore, or --manual")
    if args.keep and (args.device or not args.report):
        raise ConfigError("--keep: expected --target and --report, beside which the record is kept")
    values: dict[str, Any] = {}
    for name, _, parse, _ in _VALUES:
        text = getattr(args, name.replace("-", "_"))
        try:
            values[name] = parse(text)
        except ValueError as error:
            raise ConfigError(f"--{name}: found {quoted(text)}, expected {error}") from error
    blocks = math.ceil(values["checkpoint-size"] / BLOCK_BYTES / _SHARDS)
    return Asked(
        "--device" if args.device else "--target",
        args.device or args.target,
        scenario,
        Objectives(values["objective"], values["share"] / 100),
        Plan(
            values["baseline"],
            values["hold"],
            limit=values["limit"],
            survivors=scenario.survivors,
        ),
        LoadShape(
            values["workers"],
            values["read-size"] // BLOCK_BYTES,
            Shape(_SHARDS, blocks),
            values["checkpoint-interval"],
        ),
        None if args.manual else (args.trigger, args.restore),
    )
