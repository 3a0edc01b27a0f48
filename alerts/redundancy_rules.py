"""What protects a subsystem: how many paths it has, of how many, and what they share."""

from __future__ import annotations

from alerts.last_words import LOST, MORE_BEFORE, firing, last_word
from alerts.last_words import REDUNDANCY as LAST_WORD
from alerts.model import Alert, Group, Record
from alerts.snippets import CHANGED, CONTROLLER, EXPECTED, PATH_CHANGED, PATHS

__all__ = ["REDUNDANCY"]

_PATHS_SHORT = Record(
    name="nqn:nvmeof_subsystem_paths_short:count",
    note="""
        Live paths that are short of the expected number: one series per subsystem and node.
        The exporter expects no superseded and no detached path, so nothing here waits for
        one.
    """,
    expr="""
        clamp_min(
            last_over_time(nvmeof_subsystem_paths_expected[5m])
          -
            (
                count without (path, state) (
                  last_over_time(nvmeof_path_state{state="live"}[5m]) == 1
                )
              or
                0 * last_over_time(nvmeof_subsystem_paths_expected[5m])
            ),
          0
        )
    """,
)

_REDUNDANCY_LOST = Alert(
    name="NVMeoFRedundancyLost",
    severity="critical",
    wait="1m",
    keep="2m",
    note="""
        A subsystem that never had more than one path, and is not configured to, pages nobody.
        One that had not, since the exporter started, gets three minutes more: a node that boots
        connects one path after the other. Where the last path is lost as well it goes on.
    """,
    expr=f"""
        (
          max without (level) (
            last_over_time({LAST_WORD.name}{{level="at-risk"}}[5m]) == 1
          )
          and on (cluster, job, instance, nqn)
            (
                {MORE_BEFORE.name}
              or
                last_over_time({LAST_WORD.name}{{level="at-risk"}}[5m] offset 3m) == 1
            )
        )
        or
        (
            {LOST.name}
          and on (cluster, job, instance, nqn)
            {firing("NVMeoFRedundancyLost")}
        )
    """,
    summary="{{ $labels.instance }}: one path left to {{ $labels.nqn }}",
    description=(
        "{{ $labels.nqn }} on {{ $labels.instance }} is down to its last path: the next failure",
        "stops its I/O.",
        PATHS,
        EXPECTED,
        CHANGED,
        "First see what the lost paths share: an interface, a switch, a controller of the target.",
    ),
)

_PATH_DEGRADED = Alert(
    name="NVMeoFPathDegraded",
    severity="warning",
    wait="2m",
    keep="5m",
    note="""
        max_over_time and keep_firing_for: a path that comes and goes is one alert, not
        many. Where it gets worse it goes on.
    """,
    expr=f"""
        max without (level) (
            max_over_time({LAST_WORD.name}{{level="degraded"}}[90s]) == 1
          or
            (
                max_over_time({LAST_WORD.name}{{level=~"at-risk|lost"}}[90s]) == 1
              and on (cluster, job, instance, nqn)
                {firing("NVMeoFPathDegraded")}
            )
        )
    """,
    summary="{{ $labels.instance }}: fewer paths than expected to {{ $labels.nqn }}",
    description=(
        "{{ $labels.nqn }} on {{ $labels.instance }} has fewer paths than expected.",
        PATHS,
        EXPECTED,
        CHANGED,
        "First compare the addresses and interfaces of the paths that are down.",
    ),
)

_MISSING = last_word(
    "nqn_path:nvmeof_path_state:missing",
    note="Paths that are gone, where the subsystem is short of them.",
    expr="""
        max without (state) (last_over_time(nvmeof_path_state{state="missing"}[5m]) == 1)
        and on (cluster, job, instance, nqn)
          nqn:nvmeof_subsystem_paths_short:count > 0
    """,
)

_PATH_MISSING = Alert(
    name="NVMeoFPathMissing",
    severity="warning",
    wait="5m",
    note="A node that boots connects within five minutes.",
    expr=_MISSING.name,
    summary="{{ $labels.instance }}: path {{ $labels.path }} is gone, to {{ $labels.nqn }}",
    description=(
        "The kernel of {{ $labels.instance }} has given up, or never made, path {{ $labels.path }}",
        CONTROLLER,
        "to {{ $labels.nqn }}; it does not come back by itself.",
        PATH_CHANGED,
        "First connect it again: nvme connect-all, or a restart of nvmf-autoconnect. If it is not",
        "wanted any more: nvmeof-exporter forget.",
    ),
)

_SHARED_FATE = Alert(
    name="NVMeoFSharedFate",
    severity="warning",
    wait="30m",
    note="""
        Where there is more than one path to share something: the last one left has an alert of
        its own. A common switch is told by the metric and not here, since stacks and pairs of
        switches look like one.
    """,
    expr="""
        last_over_time(nvmeof_subsystem_distinct{resource=~"nic|target_address|subnet"}[5m]) == 1
        and on (cluster, job, instance, nqn)
          last_over_time(nvmeof_subsystem_redundancy{level=~"redundant|degraded"}[5m]) == 1
    """,
    summary=(
        "{{ $labels.instance }}: all paths share one {{ $labels.resource }}, to {{ $labels.nqn }}"
    ),
    description=(
        "The usable and standby paths to {{ $labels.nqn }} on {{ $labels.instance }} run over one",
        "{{ $labels.resource }}: when it fails, they all do.",
        PATHS,
        "First compare their addresses and interfaces in nvmeof_path_info; then connect one of",
        "them another way.",
    ),
)

REDUNDANCY = Group(
    "nvmeof-redundancy",
    "What protects a subsystem.",
    (_PATHS_SHORT, _REDUNDANCY_LOST, _PATH_DEGRADED, _MISSING, _PATH_MISSING, _SHARED_FATE),
)
