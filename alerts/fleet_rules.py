"""A fleet at a glance: recording rules for dashboards, per cluster and job."""

from __future__ import annotations

from alerts.model import Group, Record

__all__ = ["FLEET"]

#: Worst first: a node counts where its worst subsystem is.
_LEVELS = ("lost", "at-risk", "degraded", "redundant")


def _nodes(level: str) -> Record:
    def has(name: str) -> str:
        return f'max without (nqn, level) (nvmeof_subsystem_redundancy{{level="{name}"}}) == 1'

    worse = _LEVELS[: _LEVELS.index(level)]
    lines = [f"              {has(level)}"]
    for name in worse:
        lines += ["            unless", f"              {has(name)}"]
    found = "\n".join(lines)
    note = """
        Nodes by the level of their worst subsystem. Cost: 4 series per cluster and job.
    """
    return Record(
        name="cluster_job_level:nvmeof_nodes:count",
        labels={"level": level},
        note="" if worse else note,
        expr=f"""
          count by (cluster, job) (
{found}
          )
          or
          0 * count by (cluster, job) (nvmeof_exporter_build_info)
        """,
    )


FLEET = Group(
    "nvmeof-fleet",
    "A fleet at a glance.",
    (
        *(_nodes(level) for level in _LEVELS),
        Record(
            name="cluster_job_level:nvmeof_subsystem_redundancy:sum",
            note="Subsystems by level, over all nodes. Cost: 4 series.",
            expr="sum by (cluster, job, level) (nvmeof_subsystem_redundancy)",
        ),
        Record(
            name="cluster_job_state:nvmeof_path_state:sum",
            note="Paths by state. Cost: 8 series.",
            expr="sum by (cluster, job, state) (nvmeof_path_state)",
        ),
        Record(
            name="cluster_job:nvmeof_exporters_silent:count",
            note="Exporters that do not answer, by the job's name. Cost: 1 series.",
            expr="""
                count by (cluster, job) (up{job=~".*nvmeof.*"} == 0)
                or
                0 * count by (cluster, job) (up{job=~".*nvmeof.*"})
            """,
        ),
        Record(
            name="cluster_job:nvmeof_namespaces_stalled:count",
            note="Namespaces whose I/O stands still for more than a second. Cost: 1 series.",
            expr="""
                count by (cluster, job) (nvmeof_namespace_io_stalled_seconds > 1)
                or
                0 * count by (cluster, job) (nvmeof_exporter_build_info)
            """,
        ),
        Record(
            name="cluster_job_cause:nvmeof_failovers:increase1h",
            note="""
                Failovers of the last hour by cause; a counter that is new counts whole.
                Cost: at most 8 series.
            """,
            expr="""
                sum by (cluster, job, cause) (
                  (
                      nvmeof_failovers_total
                    unless
                      nvmeof_failovers_total offset 1h
                    and on (cluster, job, instance)
                      nvmeof_exporter_last_poll_timestamp_seconds offset 1h
                  )
                  or
                  increase(nvmeof_failovers_total[1h])
                )
            """,
        ),
        Record(
            name="cluster_job:nvmeof_failover_last_duration_seconds:max5m",
            note="The slowest failover of the last five minutes. Cost: 1 series.",
            expr="""
                max by (cluster, job) (
                    nvmeof_failover_last_duration_seconds
                  and on (cluster, job, instance, nqn)
                    (
                        nvmeof_exporter_last_poll_timestamp_seconds
                      - ignoring (nqn) group_right ()
                        nvmeof_failover_last_timestamp_seconds
                    ) < 300
                )
            """,
        ),
        Record(
            name="cluster_job:nvmeof_failover_last_duration_seconds:max1h",
            note="""
                The slowest failover of the last hour, also where quicker ones of the same
                subsystem followed. Cost: 1 series.
            """,
            expr="""
                max_over_time(cluster_job:nvmeof_failover_last_duration_seconds:max5m[55m])
            """,
        ),
        Record(
            name="cluster_job_le:nvmeof_failover_duration_seconds_bucket:increase1h",
            note="""
                For quantiles over the fleet: histogram_quantile(0.99, ...). Rounded, since
                increase() extrapolates one bucket more than another. Cost: 18 series, one
                per bucket.
            """,
            expr="""
                sum by (cluster, job, le) (
                  round(increase(nvmeof_failover_duration_seconds_bucket[1h]))
                )
            """,
        ),
        Record(
            name="cluster_job_rule:nvmeof_policy_violation:sum",
            note="Violations by rule. Cost: one series per rule of the policy.",
            expr="sum by (cluster, job, rule) (nvmeof_policy_violation)",
        ),
    ),
)
