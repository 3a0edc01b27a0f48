"""Every metric in one table: name, kind, help, labels.

The collector takes its definitions from here, ``docs/metrics.md`` is generated
from here, and tests, rules and dashboards are checked against it.
"""

from __future__ import annotations

from nvmeof_exporter.exposition.hardware_metrics import PORTS_AND_LINKS, SHARED_FATE
from nvmeof_exporter.exposition.metric import Metric

__all__ = ["METRICS", "SECTIONS", "Metric"]

_PATH = ("nqn", "path")
_NAMESPACE = ("nqn", "nsid")
_NAMESPACE_PATH = ("nqn", "nsid", "path")


def _io(prefix: str, subject: str, labels: tuple[str, ...]) -> tuple[Metric, ...]:
    def counter(name: str, text: str) -> Metric:
        return Metric(f"{prefix}_{name}_total", "counter", f"{text} {subject}.", labels)

    return (
        counter("reads_completed", "Read requests that ended on"),
        counter("writes_completed", "Write requests that ended on"),
        counter("read_bytes", "Bytes read through"),
        counter("written_bytes", "Bytes written through"),
        counter("read_time_seconds", "Time that ended read requests were outstanding, summed, on"),
        counter(
            "write_time_seconds", "Time that ended write requests were outstanding, summed, on"
        ),
        Metric(f"{prefix}_io_now", "gauge", f"Requests in flight on {subject}.", labels),
    )


_INVENTORY = (
    Metric(
        "nvmeof_exporter_build_info",
        "info",
        "Versions of this exporter and its Python.",
        ("version", "python"),
    ),
    Metric(
        "nvmeof_host_info",
        "info",
        "Host NQN and host ID that this node presents to its subsystems.",
        ("hostnqn", "hostid"),
    ),
    Metric(
        "nvmeof_kernel_multipath_enabled",
        "gauge",
        "Whether native multipath is on (nvme_core.multipath); absent without the driver.",
    ),
    Metric(
        "nvmeof_subsystem_info",
        "info",
        "What the subsystem says of itself, and its I/O policy.",
        ("nqn", "subsystem", "model", "serial", "firmware", "iopolicy"),
    ),
    Metric(
        "nvmeof_path_info",
        "info",
        "The controller behind a path, its addresses, and what it uses, or last used: the"
        " interface, and the RDMA port behind that (also of a TCP path).",
        (
            "nqn",
            "path",
            "controller",
            "transport",
            "traddr",
            "trsvcid",
            "host_traddr",
            "host_iface",
            "src_addr",
            "cntlid",
            "netdev",
            "rdma_device",
            "rdma_port",
        ),
    ),
    Metric(
        "nvmeof_namespace_info",
        "info",
        "The block device of a namespace and its identifier.",
        ("nqn", "nsid", "device", "wwid"),
    ),
    Metric("nvmeof_namespace_size_bytes", "gauge", "Size of the namespace.", _NAMESPACE),
    Metric(
        "nvmeof_discovery_controllers",
        "gauge",
        "Discovery controllers; they are no paths and appear nowhere else.",
    ),
)

_STATE = (
    Metric(
        "nvmeof_path_state",
        "gauge",
        "1 for the controller's present state, 0 for the others. No series while the state"
        " cannot be read; missing: a path this node had and no longer has.",
        ("nqn", "path", "state"),
    ),
    Metric(
        "nvmeof_namespace_path_ana_state",
        "gauge",
        "1 for the present ANA state, 0 for the others. It is the last one the kernel heard:"
        " it does not change when the path is lost. No series without ANA.",
        ("nqn", "nsid", "path", "ana_state"),
    ),
    Metric(
        "nvmeof_namespace_path_usable",
        "gauge",
        "Whether I/O can go this way now: controller state and ANA state together.",
        _NAMESPACE_PATH,
    ),
    Metric(
        "nvmeof_namespace_paths",
        "gauge",
        "Paths of the namespace by condition: optimized and non-optimized are usable, standby"
        " is live and inaccessible while another is usable, unusable is the rest.",
        ("nqn", "nsid", "condition"),
    ),
    Metric("nvmeof_subsystem_paths", "gauge", "Paths that are connected.", ("nqn",)),
    Metric(
        "nvmeof_subsystem_paths_usable",
        "gauge",
        "Paths that can carry I/O for every namespace they hold. 0 is usual where each path serves"
        " some namespaces only (ANA): whether one can be reached, nvmeof_namespace_paths tells.",
        ("nqn",),
    ),
    Metric(
        "nvmeof_subsystem_paths_expected",
        "gauge",
        "Paths there should be: configured, or else the most ever held at once.",
        ("nqn",),
    ),
    Metric(
        "nvmeof_subsystem_redundancy",
        "gauge",
        "1 for the redundancy level, 0 for the others; the worst namespace decides. No series"
        " where native multipath is off.",
        ("nqn", "level"),
    ),
)

_CHANGE = (
    Metric(
        "nvmeof_path_transitions_total",
        "counter",
        "Changes of a path's state, by the state it went to, also those between two scrapes.",
        ("nqn", "path", "to"),
    ),
    Metric(
        "nvmeof_path_state_seconds_total",
        "counter",
        "Time the path has spent in each state.",
        ("nqn", "path", "state"),
    ),
    Metric(
        "nvmeof_path_last_transition_timestamp_seconds",
        "gauge",
        "When the path's state last changed; no series before the first change was seen.",
        _PATH,
    ),
    Metric(
        "nvmeof_path_outage_seconds",
        "histogram",
        "Time from leaving live to being live again.",
        ("nqn",),
    ),
    Metric(
        "nvmeof_path_ana_transitions_total",
        "counter",
        "Changes of a path's ANA state in any namespace, by the state it went to.",
        ("nqn", "path", "to"),
    ),
    Metric("nvmeof_path_resets_total", "counter", "Controller resets.", _PATH),
    Metric(
        "nvmeof_path_reconnect_attempts_total",
        "counter",
        "Attempts to reconnect; without the kernel log only those that succeeded.",
        _PATH,
    ),
    Metric(
        "nvmeof_path_errors_total",
        "counter",
        "Errors that the kernel reported of the path, by cause.",
        ("nqn", "path", "cause"),
    ),
)

_FAILOVER = (
    Metric(
        "nvmeof_failovers_total",
        "counter",
        "I/O left this path for another one, by cause.",
        ("nqn", "path", "cause"),
    ),
    Metric(
        "nvmeof_failover_duration_seconds",
        "histogram",
        "From the last I/O completed on the lost path to the first completed on another one"
        " after the lost path gave its requests up.",
        ("nqn",),
    ),
    Metric(
        "nvmeof_failover_phase_seconds",
        "histogram",
        "The same in phases: detection (last I/O to path given up), reroute (to first I/O"
        " elsewhere), reconnect (to usable again), failback (to I/O on it again).",
        ("nqn", "phase"),
    ),
    Metric(
        "nvmeof_failover_last_duration_seconds",
        "gauge",
        "Duration of the newest failover that I/O took part in.",
        ("nqn",),
    ),
    Metric(
        "nvmeof_failover_last_timestamp_seconds",
        "gauge",
        "When the newest failover that I/O took part in ended.",
        ("nqn",),
    ),
    Metric(
        "nvmeof_failover_in_progress",
        "gauge",
        "1 from the moment I/O on a path stopped until it goes on elsewhere.",
        ("nqn",),
    ),
    Metric(
        "nvmeof_namespace_io_stalled_seconds",
        "gauge",
        "How long I/O that is wanted has made no progress, now; 0 when it flows or none is wanted, "
        "absent while that is not known.",
        _NAMESPACE,
    ),
    Metric(
        "nvmeof_namespace_path_io_stalled_seconds",
        "gauge",
        "How long requests in flight on this path have made no progress, whatever the others do.",
        _NAMESPACE_PATH,
    ),
    Metric(
        "nvmeof_namespace_io_stall_duration_seconds",
        "histogram",
        "Every pause of wanted I/O longer than the stall threshold, failover or not.",
        ("nqn",),
    ),
    Metric("nvmeof_failbacks_total", "counter", "I/O returned to this path.", _PATH),
    Metric(
        "nvmeof_namespace_io_requeued_total",
        "counter",
        "Requests queued for lack of a usable path; without diag/ counters (kernel 7.2) a lower"
        " bound from the kernel log; no series where neither can be read.",
        _NAMESPACE,
    ),
    Metric(
        "nvmeof_namespace_io_failed_total",
        "counter",
        "Requests failed for lack of any path; source as for requeued.",
        _NAMESPACE,
    ),
)

_SETTINGS = (
    Metric(
        "nvmeof_path_keep_alive_timeout_seconds",
        "gauge",
        "Keep-alive time-out; 0 is none: a silent loss is found by the I/O time-out only.",
        _PATH,
    ),
    Metric(
        "nvmeof_path_ctrl_loss_timeout_seconds",
        "gauge",
        "How long a lost path is retried before the kernel removes it; +Inf: for ever.",
        _PATH,
    ),
    Metric(
        "nvmeof_path_reconnect_delay_seconds",
        "gauge",
        "Time between two attempts to reconnect; +Inf: off.",
        _PATH,
    ),
    Metric(
        "nvmeof_path_fast_io_fail_timeout_seconds",
        "gauge",
        "How long I/O without any path waits before it is failed; +Inf: off.",
        _PATH,
    ),
    Metric("nvmeof_path_io_timeout_seconds", "gauge", "I/O time-out.", _PATH),
    Metric(
        "nvmeof_path_queues",
        "gauge",
        "Queues of the controller, the admin queue included.",
        _PATH,
    ),
    Metric(
        "nvmeof_policy_violation",
        "gauge",
        "1 while a setting violates a rule of the policy, 0 while it keeps it. path is empty for"
        " rules about a whole subsystem, nqn as well for those about the host. No series where a"
        " rule is off, does not apply or cannot be judged.",
        ("nqn", "path", "rule"),
    ),
)

_IO = (
    *_io("nvmeof_namespace_path", "this path, cancelled ones included", _NAMESPACE_PATH),
    *_io("nvmeof_namespace", "the namespace", _NAMESPACE),
)

_EXPORTER = (
    Metric(
        "nvmeof_exporter_poll_interval_seconds",
        "gauge",
        "Time between two polls at present; shorter during an incident.",
    ),
    Metric("nvmeof_exporter_poll_duration_seconds", "histogram", "Time that one poll took."),
    Metric(
        "nvmeof_exporter_last_poll_timestamp_seconds",
        "gauge",
        "When the newest poll ended; everything else here is as old as that.",
    ),
    Metric(
        "nvmeof_exporter_poll_overruns_total",
        "counter",
        "Polls that began more than one interval late.",
    ),
    Metric(
        "nvmeof_exporter_collector_success",
        "gauge",
        "Whether the source works (1) or failed (0); sources that are off have no series. rdma,"
        " links, ports: 0 when one device gave no answer within --poll.slow-deadline; its values"
        " vanish when older than three --poll.slow-interval and that (lldp: three times 30 s and"
        " that).",
        ("collector",),
    ),
    Metric(
        "nvmeof_exporter_collector_duration_seconds",
        "gauge",
        "Time that the source's newest reading took; of rdma and links, summed over devices.",
        ("collector",),
    ),
    Metric(
        "nvmeof_exporter_read_errors_total",
        "counter",
        "Reads that failed, each at the cost of one value, and devices that gave no answer.",
        ("collector",),
    ),
    Metric(
        "nvmeof_exporter_events_total",
        "counter",
        "Announcements of the kernel that concerned NVMe or a network link.",
        ("source",),
    ),
    Metric(
        "nvmeof_exporter_scrape_duration_seconds",
        "gauge",
        "Time that the previous scrape took to render; no series before the first.",
    ),
    Metric(
        "nvmeof_drill_running",
        "gauge",
        "Whether `nvmeof-exporter drill` runs on this node; no series where that is not known, as "
        "without --path.state.",
    ),
)

#: The table, by the headings of the reference.
SECTIONS: dict[str, tuple[Metric, ...]] = {
    "Inventory": _INVENTORY,
    "State": _STATE,
    "Change over time": _CHANGE,
    "Failover and I/O pauses": _FAILOVER,
    "Settings": _SETTINGS,
    "I/O per path and per namespace": _IO,
    "RDMA and links": PORTS_AND_LINKS,
    "Shared fate": SHARED_FATE,
    "The exporter itself": _EXPORTER,
}

METRICS: dict[str, Metric] = {
    metric.name: metric for metrics in SECTIONS.values() for metric in metrics
}
