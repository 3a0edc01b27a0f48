"""One look at the machine, for commands that need neither a running exporter nor privileges.

Nothing is written anywhere.
"""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import structlog

from nvmeof_exporter.config.errors import ConfigError
from nvmeof_exporter.memory import FILE_NAME, Memory
from nvmeof_exporter.monitor.expectations import Expectation, Expectations
from nvmeof_exporter.remembering import recalled
from nvmeof_exporter.sources.events import SourceUnavailable
from nvmeof_exporter.sources.interfaces import PathPorts
from nvmeof_exporter.sources.links import LinkSource
from nvmeof_exporter.sources.lldp import LldpFailed, LldpUnavailable, switches
from nvmeof_exporter.sources.netlink import Links
from nvmeof_exporter.sources.nvme import NvmeSource
from nvmeof_exporter.surroundings import Surroundings

if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from typing import Protocol

    from nvmeof_exporter.config import ExpectedSubsystem
    from nvmeof_exporter.model import Snapshot
    from nvmeof_exporter.monitor.expectations import KnownSubsystem
    from nvmeof_exporter.policy import Policy
    from nvmeof_exporter.sources.interface_table import InterfaceTable
    from nvmeof_exporter.sources.reader import Reader

    class SurveyConfig(Protocol):
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


__all__ = ["SurveyConfig", "expectations", "look", "refuse_untold", "surroundings"]

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


def refuse_untold(sysfs: str) -> None:
    """Raise ConfigError where a directory does not tell which subsystems are connected.

    It is no sysfs, or what names its devices may not be listed: neither is "nothing".
    """
    if not os.path.isdir(sysfs):
        raise ConfigError(f"--path.sysfs: {sysfs!r} is no directory")
    for name in ("class", "class/nvme", "class/nvme-subsystem"):
        directory = os.path.join(sysfs, name)
        try:
            with os.scandir(directory):
                pass
        except FileNotFoundError:
            if name == "class":
                raise ConfigError(
                    f"--path.sysfs: {sysfs!r} is no sysfs: it has no directory class"
                ) from None
        except OSError as error:
            raise ConfigError(
                "--path.sysfs: which subsystems are connected cannot be told: "
                f"{directory!r} is unreadable: {error.strerror}"
            ) from None


def look(reader: Reader, config: SurveyConfig) -> Snapshot:
    """Look at the subsystems of fabrics once."""
    with closing(NvmeSource(reader, config.path_sysfs)) as source:
        return source.poll(time.monotonic(), time.time())


def surroundings(
    snapshot: Snapshot,
    reader: Reader,
    config: SurveyConfig,
    *,
    ask_lldpd: bool,
    warn: Callable[[str, str], None] | None = None,
) -> Surroundings:
    """Look at what the paths run over; what cannot be asked is left out.

    Args:
        snapshot: the paths.
        reader: reads the files.
        config: which tree, and whether the kernel and lldpd may be asked about it.
        ask_lldpd: whether the switches matter.
        warn: called with what is not known, and why (default: a warning is logged).

    """
    warn = warn if warn is not None else _warn
    controllers = [c for subsystem in snapshot.subsystems for c in subsystem.controllers]
    table = _interfaces(config, warn)
    paths = PathPorts(reader, config.path_sysfs, table)
    paths.refresh_rdma()
    ports = paths.refresh(controllers)
    netdevs = sorted({n for port in ports.values() for n in (port.netdev, *port.members) if n})
    links = LinkSource(reader, config.path_sysfs)
    read = {netdev: links.read(netdev) for netdev in netdevs}
    return Surroundings(
        netdev_of=paths.netdev_of,
        ports=ports,
        netdevs=tuple(netdevs),
        links={netdev: link for netdev, link in read.items() if link is not None},
        switches=_switches(warn) if ask_lldpd and config.collects("lldp") else {},
        carriers=table().carriers() if table is not None else {},
    )


def expectations(config: SurveyConfig, transports: Container[str]) -> Expectations:
    """What is configured, and what the exporter remembers of paths over those transports."""
    return Expectations(
        {one.nqn: Expectation(one.count, one.paths) for one in config.expected},
        known=_remembered(config.path_state, transports),
    )


def _warn(what: str, reason: str) -> None:
    _log.warning(f"{what} not known", reason=reason)


def _interfaces(
    config: SurveyConfig, warn: Callable[[str, str], None]
) -> Callable[[], InterfaceTable] | None:
    """The interfaces of this machine, None where the tree is another's or nobody tells."""
    if not config.collects("netlink"):
        return None
    try:
        with closing(Links()) as links:
            table = links.table()
    except SourceUnavailable as reason:
        warn("interfaces", str(reason))
        return None
    return lambda: table


def _switches(warn: Callable[[str, str], None]) -> dict[str, str]:
    """The switch at each interface, as lldpd knows them; nothing where it cannot be asked."""
    try:
        return switches()
    except (LldpUnavailable, LldpFailed) as reason:
        warn("switches", str(reason))
        return {}


def _remembered(directory: str, transports: Container[str]) -> dict[str, KnownSubsystem]:
    """What the exporter remembers of the paths this node had; nothing where that is unreadable.

    Unlike the daemon, this sets no broken file aside: looking changes nothing.
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
        nqn: known
        for nqn, known in recalled(memory, time.monotonic() - time.time()).items()
        if any(path.transport in transports for path in known.paths)
    }
