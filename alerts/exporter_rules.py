"""What is set wrongly, what goes on on purpose, and whether all this can be believed."""

from __future__ import annotations

from alerts.model import Alert, Group

__all__ = ["EXPORTER", "POLICY"]

_POLICY_VIOLATION = Alert(
    name="NVMeoFPolicyViolation",
    severity="warning",
    wait="15m",
    expr="last_over_time(nvmeof_policy_violation[5m]) == 1",
    summary=(
        "{{ with $labels.nqn }}{{ . }} on {{ end }}{{ $labels.instance }} is outside the policy:"
        " {{ $labels.rule }}"
    ),
    description=(
        "Rule {{ $labels.rule }} is violated on {{ $labels.instance }}",
        "{{- with $labels.nqn }}, in {{ . }}{{ end }}",
        "{{- with $labels.path }}, by path {{ . }}{{ end }}.",
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
    summary="A failover drill runs on {{ $labels.instance }}",
    description=("Somebody tests failovers on {{ $labels.instance }} on purpose.",),
)

_DOWN = Alert(
    name="NVMeoFExporterDown",
    severity="warning",
    wait="5m",
    note="""
        By the job's name. Where there is no "nvmeof" in it, only for six hours after the
        last answer.
    """,
    expr="""
        up{job=~".*nvmeof.*"} == 0
        or
        (
            up == 0
          and on (job, instance)
            last_over_time(nvmeof_exporter_build_info[6h])
        )
    """,
    summary="The NVMe-oF exporter on {{ $labels.instance }} does not answer",
    description=(
        "Prometheus cannot scrape {{ $labels.instance }}: nothing is known of its paths.",
        "First see whether the node is up; then systemctl status nvmeof-exporter.",
    ),
)

_STALE = Alert(
    name="NVMeoFExporterStale",
    severity="warning",
    wait="1m",
    note="Compared with itself: a wrong clock on the node does not matter.",
    expr="""
        nvmeof_exporter_last_poll_timestamp_seconds
        == nvmeof_exporter_last_poll_timestamp_seconds offset 2m
    """,
    summary="The NVMe-oF exporter on {{ $labels.instance }} has stopped looking",
    description=(
        "The exporter on {{ $labels.instance }} answers, but its newest look at the kernel is",
        "more than two minutes old, and so is all that it tells.",
        "First read its journal, and see in /proc/PID/task/*/stack where its threads wait.",
    ),
)

_COLLECTOR_FAILING = Alert(
    name="NVMeoFCollectorFailing",
    severity="warning",
    wait="10m",
    expr="last_over_time(nvmeof_exporter_collector_success[5m]) == 0",
    summary="Collector {{ $labels.collector }} fails on {{ $labels.instance }}",
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
