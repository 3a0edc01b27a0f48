"""What is set wrongly, what goes on on purpose, and whether all this can be believed."""

from __future__ import annotations

from alerts.model import Alert, Group
from alerts.snippets import VIOLATORS

__all__ = ["EXPORTER", "POLICY"]

_POLICY_VIOLATION = Alert(
    name="NVMeoFPolicyViolation",
    severity="warning",
    wait="15m",
    note="One per node, subsystem and rule: paths are mostly connected alike.",
    expr="max without (path) (last_over_time(nvmeof_policy_violation[5m])) == 1",
    summary=(
        "{{ $labels.instance }}: {{ $labels.rule }} is outside the policy"
        "{{ with $labels.nqn }}, of {{ . }}{{ end }}"
    ),
    description=(
        "Rule {{ $labels.rule }} is violated on {{ $labels.instance }}",
        "{{- with $labels.nqn }}, in {{ . }}{{ end }}.",
        VIOLATORS,
        "First run nvmeof-exporter check there: it tells what was found, what is wanted, and how",
        "to change it.",
    ),
)

_DRILL_RUNNING = Alert(
    name="NVMeoFDrillRunning",
    severity="none",
    keep="5m",
    note="Notifies nobody; the Alertmanager example holds back the node's warnings meanwhile.",
    expr="nvmeof_drill_running == 1",
    summary="{{ $labels.instance }}: a failover drill runs",
    description=("Somebody tests failovers on {{ $labels.instance }} on purpose.",),
)

_DOWN = Alert(
    name="NVMeoFExporterDown",
    severity="warning",
    wait="5m",
    note="""
        By the job's name. Where there is no "nvmeof" in it, only for six hours after the
        last answer. Also one that answers now and then, less than half of the time.
    """,
    expr="""
        up{job=~".*nvmeof.*"} == 0
        or
        (
            avg_over_time(up{job=~".*nvmeof.*"}[15m]) < 0.5
          and
            changes(up{job=~".*nvmeof.*"}[15m]) > 4
        )
        or
        (
            up == 0
          and on (cluster, job, instance)
            last_over_time(nvmeof_exporter_build_info[6h])
        )
    """,
    summary="{{ $labels.instance }}: the NVMe-oF exporter does not answer",
    description=(
        "Prometheus cannot scrape {{ $labels.instance }}, or seldom: little is known of its paths.",
        "First see whether the node is up; then systemctl status nvmeof-exporter.",
    ),
)

_STALE = Alert(
    name="NVMeoFExporterStale",
    severity="warning",
    wait="1m",
    note="""
        Compared with itself: a wrong clock on the node does not matter. The second part is
        for a first look that does not end.
    """,
    expr="""
        nvmeof_exporter_last_poll_timestamp_seconds
        == nvmeof_exporter_last_poll_timestamp_seconds offset 2m
        or
        max without (version, python) (
            nvmeof_exporter_build_info
          and on (cluster, job, instance)
            nvmeof_exporter_build_info offset 2m
          unless on (cluster, job, instance)
            nvmeof_exporter_last_poll_timestamp_seconds
        )
    """,
    summary="{{ $labels.instance }}: the NVMe-oF exporter has stopped looking",
    description=(
        "The exporter on {{ $labels.instance }} answers, but has not looked at the kernel for",
        "more than two minutes: what it tells is old.",
        "First read its journal, and see in /proc/PID/task/*/stack where its threads wait.",
    ),
)

_COLLECTOR_FAILING = Alert(
    name="NVMeoFCollectorFailing",
    severity="warning",
    wait="10m",
    expr="last_over_time(nvmeof_exporter_collector_success[5m]) == 0",
    summary="{{ $labels.instance }}: collector {{ $labels.collector }} fails",
    description=(
        "Source {{ $labels.collector }} of the exporter on {{ $labels.instance }} does not work:",
        "what it tells is missing or old.",
        "First read the exporter's journal: it says why, once.",
    ),
)

POLICY = Group(
    "nvmeof-policy",
    "What is set wrongly, and what goes on on purpose.",
    (_POLICY_VIOLATION, _DRILL_RUNNING),
)
EXPORTER = Group(
    "nvmeof-exporter",
    "Whether all this can be believed.",
    (_DOWN, _STALE, _COLLECTOR_FAILING),
)
