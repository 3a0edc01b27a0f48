"""What applications feel: pages, and what failovers cost."""

from __future__ import annotations

from alerts.last_words import (
    LOST,
    MORE_BEFORE,
    REDUNDANCY,
    SILENT_SINCE,
    USABLE_BEFORE,
    firing,
    last_word,
)
from alerts.model import Alert, Group
from alerts.objectives import objective
from alerts.snippets import CHANGED, DEVICE, LOST_NAMESPACES, PATHS, STALLED_PATHS

__all__ = ["FAILOVERS", "IO"]

_NO_USABLE_PATH = Alert(
    name="NVMeoFNoUsablePath",
    severity="critical",
    keep="3m",
    note="At once. keep_firing_for: paths that come and go are one page.",
    expr=f"{LOST.name} == 1",
    summary="{{ $labels.instance }}: no usable path to {{ $labels.nqn }}",
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

_STALLED = last_word(
    "nsid:nvmeof_namespace_io_stalled_seconds:last_word",
    note="""
        Stalls that are too long, on the namespace, or on one path while others go on: those
        who wait for the requests caught there stand still all the same.
    """,
    expr=f"""
        max without (path) (
            nvmeof_namespace_io_stalled_seconds
          or
            nvmeof_namespace_path_io_stalled_seconds
        ) > {objective("io_stalled_seconds")}
    """,
)

_IO_STALLED = Alert(
    name="NVMeoFIOStalled",
    severity="critical",
    keep="2m",
    note="""
        Not where no path is usable, or was until two minutes ago: that is NVMeoFNoUsablePath.
        One that fires already goes on, and ends when I/O flows. keep_firing_for: an exporter
        that restarts counts a stall from its own start.
    """,
    expr=f"""
        (
            {_STALLED.name}
          unless on (cluster, job, instance, nqn)
            last_over_time({LOST.name}[2m])
        )
        or
        (
            {_STALLED.name}
          and on (cluster, job, instance, nqn, nsid)
            {firing("NVMeoFIOStalled")}
        )
    """,
    summary=(
        "{{ $labels.instance }}: I/O stands still on namespace {{ $labels.nsid }} of"
        " {{ $labels.nqn }}"
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
    note="""
        A counter that is new counts whole; one that merely has another label (a pod's name, a rack)
        is not. The last part is for failures while nobody looked: the exporter did not answer,
        or Prometheus was down, for more than five minutes.
    """,
    expr="""
        (
            last_over_time(nvmeof_namespace_io_failed_total[5m]) > 0
          unless on (cluster, job, instance, nqn, nsid)
            last_over_time(nvmeof_namespace_io_failed_total[5m] offset 5m)
          and on (cluster, job, instance)
            nvmeof_exporter_last_poll_timestamp_seconds offset 5m
        )
        or
        increase(nvmeof_namespace_io_failed_total[5m]) > 0
        or
        (
            (
                last_over_time(nvmeof_namespace_io_failed_total[5m])
              -
                last_over_time(nvmeof_namespace_io_failed_total[1h] offset 5m)
            ) > 0
          unless on (cluster, job, instance)
            nvmeof_exporter_last_poll_timestamp_seconds offset 5m
        )
    """,
    summary=(
        "{{ $labels.instance }}: I/O failed on namespace {{ $labels.nsid }} of {{ $labels.nqn }}"
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
        For twenty minutes to half an hour; keep_firing_for: also when a quicker one follows
        or the exporter restarts. The second part is for a slow one that a quicker one followed
        before the next scrape: by the bound of the bucket that it fell into. It subtracts,
        since increase() extrapolates one bucket more than another, which looks like a failover
        in between. What was told a quarter of an hour ago is not new, though a clock be set
        back.
    """,
    expr=f"""
        nvmeof_failover_last_duration_seconds > {objective("failover_seconds")}
        and on (cluster, job, instance, nqn)
          (
            (
                nvmeof_exporter_last_poll_timestamp_seconds
              - ignoring (nqn) group_right ()
                nvmeof_failover_last_timestamp_seconds
            ) >= 0
          ) < 900
        unless
          nvmeof_failover_last_timestamp_seconds
          == nvmeof_failover_last_timestamp_seconds offset 15m
        or
        histogram_quantile(
          1,
          (
              nvmeof_failover_duration_seconds_bucket
            unless on (cluster, job, instance, nqn, le)
              nvmeof_failover_duration_seconds_bucket offset 5m
            and on (cluster, job, instance)
              nvmeof_exporter_last_poll_timestamp_seconds offset 5m
          )
          or
          (
              nvmeof_failover_duration_seconds_bucket
            -
              nvmeof_failover_duration_seconds_bucket offset 5m
            unless on (cluster, job, instance, nqn)
              (
                  nvmeof_failover_duration_seconds_count
                < nvmeof_failover_duration_seconds_count offset 5m
              )
          )
        ) > {objective("failover_seconds")}
    """,
    summary=(
        "{{ $labels.instance }}: a failover took {{ $value | humanizeDuration }}, of"
        " {{ $labels.nqn }}"
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

IO = Group(
    "nvmeof-io",
    "What applications feel, and what silent exporters said of it last.",
    (
        SILENT_SINCE,
        REDUNDANCY,
        USABLE_BEFORE,
        MORE_BEFORE,
        LOST,
        _NO_USABLE_PATH,
        _STALLED,
        _IO_STALLED,
        _IO_FAILED,
    ),
)
FAILOVERS = Group("nvmeof-failovers", "What failovers cost.", (_FAILOVER_SLOW,))
