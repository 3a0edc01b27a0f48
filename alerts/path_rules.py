"""What single paths do."""

from __future__ import annotations

from alerts.last_words import last_word
from alerts.model import Alert, Group, Record
from alerts.objectives import objective
from alerts.snippets import CONTROLLER, DEVICE, PATH_CHANGED
from alerts.snippets import PATHS as STATES_OF_PATHS

__all__ = ["PATHS"]

_TRANSITIONS = Record(
    name="nqn_path_to:nvmeof_path_transitions:increase30m",
    note="How often paths came and went for good. A counter that is new counts whole.",
    expr="""
        (
            nvmeof_path_transitions_total{to=~"live|missing"}
          unless on (cluster, job, instance, nqn, path, to)
            nvmeof_path_transitions_total offset 30m
          and on (cluster, job, instance)
            nvmeof_exporter_last_poll_timestamp_seconds offset 30m
        )
        or
        round(increase(nvmeof_path_transitions_total{to=~"live|missing"}[30m]))
    """,
)

_FLAPPING = Alert(
    name="NVMeoFPathFlapping",
    severity="warning",
    keep="10m",
    note="""
        A path that was removed and connected anew, as that of a volume which is detached and
        attached, does not flap.
    """,
    expr=f"""
        sum without (to) (
            {_TRANSITIONS.name}{{to="live"}}
          or
            -{_TRANSITIONS.name}{{to="missing"}}
        ) >= {objective("path_returns")}
    """,
    summary=(
        "{{ $labels.instance }}: path {{ $labels.path }} comes and goes, to {{ $labels.nqn }}"
    ),
    description=(
        "Path {{ $labels.path }}",
        CONTROLLER,
        "to {{ $labels.nqn }} on {{ $labels.instance }} was lost and came back",
        '{{ $value | printf "%.0f" }} times in 30 minutes; each time costs a pause.',
        "First look at the errors and carrier changes of its link.",
    ),
)

_RECONNECTING = Record(
    name="cluster_job:nvmeof_nodes_reconnecting:count",
    note="Nodes that try to connect lost paths, of subsystems that are short of them.",
    expr="""
        count by (cluster, job) (
          sum without (nqn, path) (
              increase(nvmeof_path_reconnect_attempts_total[10m])
            and on (cluster, job, instance, nqn)
              nqn:nvmeof_subsystem_paths_short:count > 0
          ) > 2
        )
    """,
)

_RECONNECT_STORM = Alert(
    name="NVMeoFReconnectStorm",
    severity="warning",
    wait="1m",
    keep="5m",
    note="""
        On one node, or across the nodes of a job (then without the label `instance`). Only
        of subsystems that are short of paths: a superseded controller may go on trying. Where
        the exporter cannot read the kernel log, only attempts that succeeded are counted.

        An attempt stands for its reconnect_delay: ten minutes of them are one lost path.
    """,
    expr=f"""
        (
            sum without (nqn, path) (
                increase(nvmeof_path_reconnect_attempts_total[10m])
              * (nvmeof_path_reconnect_delay_seconds < Inf)
              / 600
              and on (cluster, job, instance, nqn)
                nqn:nvmeof_subsystem_paths_short:count > 0
            )
          >
            {objective("reconnecting_paths")}
        )
        or
        (
            {_RECONNECTING.name} >= {objective("reconnecting_nodes")}
          and on (cluster, job)
              {_RECONNECTING.name}
            / on (cluster, job)
              count by (cluster, job) (nvmeof_exporter_build_info)
            > {objective("reconnecting_ratio")}
        )
    """,
    summary=(
        "{{ with $labels.instance }}{{ . }}: many reconnects"
        "{{ else }}{{ $value }} nodes of {{ $labels.job }} reconnect at once{{ end }}"
    ),
    description=(
        """
{{ with $labels.instance -}}
The kernel of {{ . }} tries to connect as many lost paths as {{ $value | printf "%.0f" }} that have
been down for ten minutes.
{{- else -}}
{{ $value }} nodes of {{ $labels.job }} tried to connect lost paths within the same ten minutes:
a switch or a target that they share is down, or restarts.
{{- end }}
""",
        "First see what the lost paths have in common: traddr, subnet or interface.",
    ),
)

_ANA_STUCK = Alert(
    name="NVMeoFANAStuck",
    severity="warning",
    wait="2m",
    keep="2m",
    note="""
        Only on a live path: of a lost one the kernel keeps the ANA state that it heard
        last.
    """,
    expr="""
        max without (nsid, ana_state) (
          nvmeof_namespace_path_ana_state{ana_state="change"} == 1
        )
        and on (cluster, job, instance, nqn, path)
          nvmeof_path_state{state="live"} == 1
    """,
    summary=(
        "{{ $labels.instance }}: ANA state of path {{ $labels.path }} stays in change, to"
        " {{ $labels.nqn }}"
    ),
    description=(
        "The target has not finished an ANA change of path {{ $labels.path }}",
        CONTROLLER,
        "to {{ $labels.nqn }} on {{ $labels.instance }}; no I/O goes this way meanwhile.",
        "First ask the target what its controllers do: a takeover or a failback hangs there.",
    ),
)

_FAILBACK_PENDING = Alert(
    name="NVMeoFFailbackPending",
    severity="warning",
    wait="10m",
    keep="5m",
    note="Less than one request per second is no load to judge by.",
    expr=f"""
        (
            sum without (path) (
                (
                    rate(nvmeof_namespace_path_reads_completed_total[5m])
                  +
                    rate(nvmeof_namespace_path_writes_completed_total[5m])
                )
              and on (cluster, job, instance, nqn, nsid, path)
                nvmeof_namespace_path_ana_state{{ana_state="non-optimized"}} == 1
            )
          /
            (
              sum without (path) (
                  rate(nvmeof_namespace_path_reads_completed_total[5m])
                +
                  rate(nvmeof_namespace_path_writes_completed_total[5m])
              ) > 1
            )
        ) > {objective("non_optimized_ratio")}
        and on (cluster, job, instance, nqn, nsid)
          nvmeof_namespace_paths{{condition="optimized"}} > 0
    """,
    summary=(
        "{{ $labels.instance }}: I/O stays on non-optimized paths, of namespace"
        " {{ $labels.nsid }} of {{ $labels.nqn }}"
    ),
    description=(
        "{{ $value | humanizePercentage }} of the requests on namespace {{ $labels.nsid }}",
        DEVICE,
        "of {{ $labels.nqn }} on {{ $labels.instance }} go over non-optimized paths although an",
        "optimized one is usable.",
        STATES_OF_PATHS,
        "First compare ana_state with what the target says of itself.",
    ),
)

_DELETING_STUCK = Alert(
    name="NVMeoFControllerDeletingStuck",
    severity="warning",
    wait="5m",
    expr="""
        max without (state) (last_over_time(nvmeof_path_state{state="deleting"}[2m]) == 1)
    """,
    summary=(
        "{{ $labels.instance }}: the controller of path {{ $labels.path }} cannot be deleted, to"
        " {{ $labels.nqn }}"
    ),
    description=(
        "Path {{ $labels.path }}",
        CONTROLLER,
        "to {{ $labels.nqn }} on {{ $labels.instance }} is being deleted and does not go; its",
        "requests may hang until their time-out.",
        PATH_CHANGED,
        "First look for blocked nvme tasks in the kernel log; disconnect no other path.",
    ),
)

_LOST_SINCE = last_word(
    "nqn_path:nvmeof_path_state:lost_since_seconds",
    note="""
        Since when paths that are retried are lost: their last change of state, where the
        exporter has seen it; else what was recorded before it restarted, or its start.
    """,
    expr="""
        (
            time()
          -
            (
                nvmeof_exporter_last_poll_timestamp_seconds
              - ignoring (nqn, path) group_right ()
                nvmeof_path_last_transition_timestamp_seconds
            )
          or
            nqn_path:nvmeof_path_state:lost_since_seconds
          or
            time() - sum without (state) (
              nvmeof_path_state_seconds_total{state=~"connecting|resetting"}
            )
        )
        and on (cluster, job, instance, nqn, path)
          nvmeof_path_state{state=~"connecting|resetting"} == 1
    """,
)

_LOSS_IMMINENT = Alert(
    name="NVMeoFControllerLossImminent",
    severity="warning",
    keep="1m",
    note="A superseded controller is no loss. ctrl_loss_tmo off is +Inf, and the ratio 0.",
    expr=f"""
        (
            (time() - {_LOST_SINCE.name})
          /
            (nvmeof_path_ctrl_loss_timeout_seconds > 0)
        ) > {objective("controller_loss_ratio")}
        and on (cluster, job, instance, nqn, path)
          nvmeof_path_state{{state=~"connecting|resetting"}} == 1
        and on (cluster, job, instance, nqn)
          nqn:nvmeof_subsystem_paths_short:count > 0
    """,
    summary=(
        "{{ $labels.instance }}: the kernel is about to give up path {{ $labels.path }}, to"
        " {{ $labels.nqn }}"
    ),
    description=(
        "Path {{ $labels.path }}",
        CONTROLLER,
        "to {{ $labels.nqn }} on {{ $labels.instance }} has been down for",
        "{{ $value | humanizePercentage }} of its ctrl_loss_tmo. The kernel counts attempts: it",
        "removes the path at 100% or somewhat later, and nothing brings it back by itself.",
        "First repair its link or target. A larger ctrl_loss_tmo of the controller, in sysfs,",
        "gains time.",
    ),
)

PATHS = Group(
    "nvmeof-paths",
    "What single paths do.",
    (
        _TRANSITIONS,
        _FLAPPING,
        _RECONNECTING,
        _RECONNECT_STORM,
        _ANA_STUCK,
        _FAILBACK_PENDING,
        _DELETING_STUCK,
        _LOST_SINCE,
        _LOSS_IMMINENT,
    ),
)
