"""The configuration as the rest of the program sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

    from nvmeof_exporter.config.values import ListenAddress
    from nvmeof_exporter.policy import Policy

__all__ = ["THIS_MACHINE", "Config", "ExpectedSubsystem", "Origin"]

#: The sysfs of this machine; any other tree is captured or make-believe.
THIS_MACHINE = "/sys"

#: What asks the kernel or a daemon; the answers describe this machine and no other tree.
_LIVE_COLLECTORS = frozenset({"udev", "netlink", "kmsg", "lldp"})


@dataclass(frozen=True, slots=True)
class ExpectedSubsystem:
    """What the administrator says a subsystem must have.

    ``paths`` are ``path`` labels (``tcp:10.0.0.2:4420``), empty where only
    their number is given. ``count`` is always set.
    """

    nqn: str
    count: int
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Origin:
    """What a configuration was made from, so that it can be made again.

    ``flags`` and ``defaults`` go by option name, ``environ`` by variable; of
    the environment only what the table of options knows is kept.
    """

    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every setting, checked. Field names are option names with underscores; times in seconds.

    ``collector_*`` fields are None where nobody asked for or against the
    collector: ask ``collects`` whether it runs. Empty texts mean "off".
    """

    web_listen_address: tuple[ListenAddress, ...]
    web_telemetry_path: str
    web_config_file: str
    web_systemd_socket: bool
    web_max_requests: int

    path_sysfs: str
    path_procfs: str
    path_kmsg: str
    path_state: str

    config_file: str
    config_check: bool

    poll_interval: float
    poll_incident_interval: float
    poll_rescan_interval: float
    poll_slow_interval: float
    poll_slow_deadline: float
    stall_threshold: float
    superseded_expiry: float

    collector_udev: bool | None
    collector_netlink: bool | None
    collector_kmsg: bool | None
    collector_pcie: bool
    collector_rdma: bool
    collector_rdma_device_include: re.Pattern[str] | None
    collector_rdma_device_exclude: re.Pattern[str] | None
    collector_links: str
    collector_lldp: bool | None
    collector_process: bool

    log_level: str
    log_format: str

    expected: tuple[ExpectedSubsystem, ...] = ()
    policy: Policy | None = None
    origin: Origin = field(default_factory=Origin, repr=False, compare=False)

    def collects(self, name: str) -> bool:
        """Whether the collector of that name runs.

        Event sources and lldpd's neighbours are heard by default only beside this
        machine's own ``/sys``: they say nothing about a captured or make-believe
        tree. The kernel log also needs a path to read from.
        """
        if name == "kmsg" and not self.path_kmsg:
            return False
        asked: bool | str | None = getattr(self, f"collector_{name}")
        if asked is None and name in _LIVE_COLLECTORS:
            return self.this_machine
        return asked not in {None, False, "off"}

    @property
    def this_machine(self) -> bool:
        """Whether the tree is this machine's own, so that the kernel may be asked about it."""
        return self.path_sysfs == THIS_MACHINE
