"""The table of options: the single source of flags, variables, file keys, help and defaults."""

from __future__ import annotations

from dataclasses import dataclass

from nvmeof_exporter.config.values import (
    FLAG,
    LISTEN_ADDRESS,
    OPTIONAL_PATH,
    PATH,
    REGEX,
    SCOPE,
    URL_PATH,
    Kind,
    choice,
    duration,
    integer,
)

__all__ = ["COLLECTORS", "OPTIONS", "OPTIONS_BY_NAME", "Option"]

_VARIABLE_PREFIX = "NVMEOF_EXPORTER_"


@dataclass(frozen=True, slots=True)
class Option:
    """One setting and everything that follows from its dotted name.

    ``default`` is a text like any other origin's, or None where "not asked
    for" is a value of its own. ``default_variable`` names a variable of
    somebody else's (systemd's) that holds a better default. ``in_file`` is
    False for what only makes sense outside the configuration file.
    """

    name: str
    kind: Kind[object]
    default: str | None
    help: str
    repeatable: bool = False
    default_variable: str = ""
    in_file: bool = True

    @property
    def flag(self) -> str:
        """The command line flag."""
        return f"--{self.name}"

    @property
    def field(self) -> str:
        """The attribute of Config."""
        return self.name.replace(".", "_").replace("-", "_")

    @property
    def variable(self) -> str:
        """The environment variable."""
        return _VARIABLE_PREFIX + self.field.upper()


OPTIONS = (
    Option(
        "web.listen-address",
        LISTEN_ADDRESS,
        ":10067",
        "Where to listen: :PORT, HOST:PORT or [IPV6]:PORT; may be repeated.",
        repeatable=True,
    ),
    Option("web.telemetry-path", URL_PATH, "/metrics", "Where the metrics are served."),
    Option(
        "web.config.file",
        OPTIONAL_PATH,
        "",
        "File for TLS, authentication, headers and a rate limit, as Prometheus' own exporters "
        "have it; read again when it changes.",
    ),
    Option(
        "web.systemd-socket",
        FLAG,
        "false",
        "Listen on the sockets that systemd hands over, not on --web.listen-address.",
    ),
    Option(
        "web.max-requests",
        integer(1, 1000),
        "40",
        "How many requests for metrics may be in work at once; more are answered with 503.",
    ),
    Option("path.sysfs", PATH, "/sys", "Where sysfs is mounted."),
    Option("path.procfs", PATH, "/proc", "Where procfs is mounted."),
    Option("path.kmsg", OPTIONAL_PATH, "/dev/kmsg", "The kernel log; empty = do not read it."),
    Option(
        "path.state",
        OPTIONAL_PATH,
        "/var/lib/nvmeof-exporter",
        "Directory that keeps the paths this node has had; empty = keep nothing, "
        "as by default where --path.sysfs is not /sys.",
        default_variable="STATE_DIRECTORY",
    ),
    Option("config.file", OPTIONAL_PATH, "", "Configuration file (YAML).", in_file=False),
    Option(
        "config.check", FLAG, "false", "Check the configuration, say so and exit.", in_file=False
    ),
    Option(
        "poll.interval",
        duration("10ms", "60s"),
        "100ms",
        "How often controller states, ANA states and I/O counters are read.",
    ),
    Option(
        "poll.incident-interval",
        duration("10ms", "60s"),
        "20ms",
        "The same while a failover or a pause is going on.",
    ),
    Option(
        "poll.rescan-interval",
        duration("100ms", "1h"),
        "5s",
        "How often the topology is looked up anew, in case an event was lost.",
    ),
    Option(
        "poll.slow-interval",
        duration("100ms", "1h"),
        "5s",
        "How often RDMA ports, links and what paths run over are read, beside the polls; "
        "values older than three of it and the deadline are no longer told.",
    ),
    Option(
        "poll.slow-deadline",
        duration("10ms", "1m"),
        "2s",
        "How long one device may take for that before it counts as failed.",
    ),
    Option(
        "stall.threshold",
        duration("10ms", "1h"),
        "500ms",
        "From which length on a pause of I/O is counted.",
    ),
    Option(
        "superseded.expiry",
        duration("0s", "52w"),
        "15m",
        "How long a path is remembered after another one has taken its place.",
    ),
    Option("collector.udev", FLAG, None, "Kernel events of controllers and disks."),
    Option("collector.netlink", FLAG, None, "Carrier of network interfaces."),
    Option("collector.kmsg", FLAG, None, "Causes from the kernel log."),
    Option("collector.pcie", FLAG, "false", "Local PCIe drives, too."),
    Option("collector.rdma", FLAG, "true", "State and counters of RDMA ports."),
    Option(
        "collector.rdma.device-include",
        REGEX,
        "",
        "Only RDMA devices whose whole name this matches; empty = every one.",
    ),
    Option(
        "collector.rdma.device-exclude",
        REGEX,
        "",
        "No RDMA devices whose whole name this matches: their state and counters are never read.",
    ),
    Option(
        "collector.links",
        SCOPE,
        "paths",
        "Carrier, speed and pause frames of network interfaces; paths: of those that carry a "
        "path, and RDMA ports likewise; all: of every one.",
    ),
    Option(
        "collector.lldp",
        FLAG,
        None,
        "The switches that lldpd hears of, for what paths share.",
    ),
    Option("collector.process", FLAG, "true", "The exporter's own process metrics."),
    Option(
        "log.level",
        choice("debug", "info", "warning", "error"),
        "info",
        "Least severity that is logged.",
    ),
    Option("log.format", choice("logfmt", "json"), "logfmt", "Form of the log lines."),
)

OPTIONS_BY_NAME = {option.name: option for option in OPTIONS}

_COLLECTOR = "collector."

#: Names for ``--collector.NAME`` and ``--no-collector.NAME``; what has a second dot is a detail.
COLLECTORS = tuple(
    name
    for option in OPTIONS
    if option.name.startswith(_COLLECTOR)
    and "." not in (name := option.name.removeprefix(_COLLECTOR))
)
