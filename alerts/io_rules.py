"""What applications feel: pages, and what failovers cost."""

from __future__ import annotations

from alerts.model import Alert, Group
from alerts.objectives import objective
from alerts.snippets import CHANGED, DEVICE, LOST_NAMESPACES, PATHS, STALLED_PATHS

__all__ = ["FAILOVERS", "IO"]

_NO_USABLE_PATH = Alert(
    name="NVMeoFNoUsablePath",
    severity="critical",
    note="""
        At once, with one exception: a subsystem that was not connected since the exporter
        started gets three minutes, because a node that boots connects one path after the
        other. No exception where it was lost before the exporter restarted.

        The last part is for nodes without native multipath, where no redundancy is told.
    """,
    expr="""
        max without (level) (
            last_over_time(nvmeof_subsystem_redundancy{level="lost"}[5m]) == 1
          and on (job, instance, nqn)
            (
                nvmeof_path_state_seconds_total{state="live"} > 0
              or
                last_over_time(nvmeof_subsystem_redundancy{level="lost"}[5m] offset 3m) == 1
              or
                max_over_time(
                  (
                      nvmeof_subsystem_redundancy{level="lost"} == 1
                    and on (job, instance, nqn)
                      nvmeof_path_state_seconds_total{state="live"} > 0
                  )[5m:15s]
                ) == 1
            )
        )
        or
        max without (level) (
            last_over_time(nvmeof_subsystem_redundancy{level="lost"}[1h]) == 1
          and on (job, instance)
            up == 0
        )
        or
        (
            max without (nsid) (
              sum without (condition) (
                last_over_time(nvmeof_namespace_paths{condition=~"optimized|non-optimized"}[5m])
              ) == bool 0
            ) == 1
          unless on (job, instance, nqn)
            last_over_time(nvmeof_subsystem_redundancy[1h])
        )
    """,
    summary="No usable path to {{ $labels.nqn }} on {{ $labels.instance }}",
    description=(
        "A namespace of {{ $labels.nqn }} on {{ $labels.instance }} has no path that can carry",
        "I/O: whoever uses it hangs, and gets I/O errors when fast_io_fail_tmo or ctrl_loss_tmo",
        "is over.",
        LOST_NAMESPACES,
        PATHS,
        CHANGED,
        "First see whether the target answers on any of these addresses; disconnect nothing.",
    ),
)

_IO_STALLED = Alert(
    name="NVMeoFIOStalled",
    severity="critical",
    keep="2m",
    note="""
        On the namespace, or on one path while others go on: those who wait for the requests
        caught there stand still all the same.

        keep_firing_for: an exporter that restarts counts a stall from its own start.
    """,
    expr=f"""
        max without (path) (
            nvmeof_namespace_io_stalled_seconds
          or
            nvmeof_namespace_path_io_stalled_seconds
        ) > {objective("io_stalled_seconds")}
        or
        max without (path) (
            (
                last_over_time(nvmeof_namespace_io_stalled_seconds[1h])
              or
                last_over_time(nvmeof_namespace_path_io_stalled_seconds[1h])
            )
          and on (job, instance)
            up == 0
        ) > {objective("io_stalled_seconds")}
    """,
    summary=(
        "I/O stands still on namespace {{ $labels.nsid }} of {{ $labels.nqn }}"
        " on {{ $labels.instance }}"
    ),
    description=(
        "Requests wait on namespace {{ $labels.nsid }}",
        DEVICE,
        "of {{ $labels.nqn }} on {{ $labels.instance }}: none has ended for",
        "{{ $value | humanizeDuration }}.",
        STALLED_PATHS,
        PATHS,
        "First look at link and target of a path that is live and holds requests: the kernel",
        "has not noticed its loss yet.",
    ),
)

_IO_FAILED = Alert(
    name="NVMeoFIOFailed",
    severity="critical",
    keep="10m",
    expr="""
        (
            last_over_time(nvmeof_namespace_io_failed_total[5m]) > 0
          unless
            last_over_time(nvmeof_namespace_io_failed_total[5m] offset 5m)
          and on (job, instance)
            nvmeof_exporter_last_poll_timestamp_seconds offset 5m
        )
        or
        increase(nvmeof_namespace_io_failed_total[5m]) > 0
    """,
    summary=(
        "I/O failed on namespace {{ $labels.nsid }} of {{ $labels.nqn }} on {{ $labels.instance }}"
    ),
    description=(
        "The kernel failed requests on namespace {{ $labels.nsid }}",
        DEVICE,
        "of {{ $labels.nqn }} on {{ $labels.instance }} for lack of any path, about",
        '{{ $value | printf "%.0f" }} in five minutes: applications got EIO, a file system may',
        "be read-only.",
        PATHS,
        "First see whether the job still runs and what is still mounted; then bring a path back.",
    ),
)

_FAILOVER_SLOW = Alert(
    name="NVMeoFFailoverSlow",
    severity="warning",
    keep="15m",
    note="""
        For half an hour or so; keep_firing_for: also when a quicker one follows or the
        exporter restarts.
    """,
    expr=f"""
        nvmeof_failover_last_duration_seconds > {objective("failover_seconds")}
        and on (job, instance, nqn)
          (
              nvmeof_exporter_last_poll_timestamp_seconds
            - ignoring (nqn) group_right ()
              nvmeof_failover_last_timestamp_seconds
          ) < 900
    """,
    summary=(
        "A failover of {{ $labels.nqn }} on {{ $labels.instance }} took"
        " {{ $value | humanizeDuration }}"
    ),
    description=(
        "I/O of {{ $labels.nqn }} on {{ $labels.instance }} waited",
        "{{ $value | humanizeDuration }} before it went on over another path.",
        """
{{- range query "nvmeof:objective:failover_seconds" }}
The objective is {{ .Value | humanizeDuration }}.
{{- end }}
""",
        "First see nvmeof_failover_phase_seconds: a long detection is the keep-alive time-out,",
        "a long reroute the kernel.",
    ),
)

IO = Group("nvmeof-io", "What applications feel.", (_NO_USABLE_PATH, _IO_STALLED, _IO_FAILED))
FAILOVERS = Group("nvmeof-failovers", "What failovers cost.", (_FAILOVER_SLOW,))
