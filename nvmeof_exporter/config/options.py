"""The table of options: the single source of flags, variables, file keys, help and defaults."""

from __future__ import annotations

from dataclasses import dataclass

from nvmeof_exporter.config.values import (
    FLAG,
    LISTEN_ADDRESS,
    OPTIONAL_PATH,
    PATH,
    URL_PATH,
    WEB_CONFIG,
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
        WEB_CONFIG,
        "",
        "File for TLS and authentication; refused, as this version offers neither.",
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

#: Names for ``--collector.NAME`` and ``--no-collector.NAME``.
COLLECTORS = tuple(
    option.name.partition(".")[2] for option in OPTIONS if option.name.startswith("collector.")
)
