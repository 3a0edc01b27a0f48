"""What an exporter said last, kept while it is silent: records that hold themselves.

A range such as ``last_over_time(x[1h])`` also finds series that ended while the exporter
answered: a subsystem that was forgotten or detached would come back from the dead with the
first failed scrape. A record that refers to itself ends with its series, and costs one
sample instead of an hour of them.
"""

from __future__ import annotations

import textwrap

from alerts.model import Record

__all__ = [
    "LOST",
    "MORE_BEFORE",
    "REDUNDANCY",
    "SILENT_SINCE",
    "USABLE_BEFORE",
    "firing",
    "last_word",
]

#: For how long a last word counts (seconds). With the five minutes for which alerts take a
#: value that is not told any more, it is an hour.
_BELIEVED = 3300

SILENT_SINCE = Record(
    name="instance:up:zero_since_seconds",
    note="Since when a target has not answered; of those only that do not.",
    expr="""
        (instance:up:zero_since_seconds and on (cluster, job, instance) up == 0)
        or
        (up == 0) + time()
    """,
)


def last_word(name: str, expr: str, note: str) -> Record:
    """Record ``expr`` as ``name``; where the target does not answer, what it was before."""
    told = textwrap.indent(textwrap.dedent(expr).strip(), "  ")
    return Record(
        name,
        f"(\n{told}\n)\n"
        "or\n"
        "(\n"
        f"    {name}\n"
        "  and on (cluster, job, instance)\n"
        "    up == 0\n"
        "  unless on (cluster, job, instance)\n"
        f"    {SILENT_SINCE.name} < time() - {_BELIEVED}\n"
        ")",
        note,
    )


def firing(alert: str) -> str:
    """Select an alert that fires already.

    A lesser alert that fired goes on while things are worse, instead of ending because they
    are: its end would be taken for a repair.
    """
    return f'ALERTS{{alertname="{alert}",alertstate="firing"}}'


REDUNDANCY = last_word(
    "nqn_level:nvmeof_subsystem_redundancy:last_word",
    note="""
        The levels that alarm. At risk is only who expects more than one path. Where native
        multipath is off no level is told: lost is a namespace without a usable path.

        Nothing of a subsystem whose last controllers are being deleted, for a minute: it is
        disconnected on purpose, or its node shuts down. What is being deleted for longer is
        stuck.
    """,
    expr="""
        (
          nvmeof_subsystem_redundancy{level=~"lost|degraded"}
          or
            nvmeof_subsystem_redundancy{level="at-risk"}
          * ignoring (level) group_left ()
            (nvmeof_subsystem_paths_expected > bool 1)
          or
            label_replace(
              max without (nsid) (
                sum without (condition) (
                  nvmeof_namespace_paths{condition=~"optimized|non-optimized"}
                ) == bool 0
              ),
              "level", "lost", "", ""
            )
          unless on (cluster, job, instance, nqn)
            nvmeof_subsystem_redundancy
        )
        unless on (cluster, job, instance, nqn)
          (
              nvmeof_path_state{state="deleting"} == 1
            unless on (cluster, job, instance, nqn)
              nvmeof_path_state{state=~"live|connecting|resetting"} == 1
            unless on (cluster, job, instance, nqn)
              nvmeof_path_state{state="deleting"} offset 1m == 1
          )
    """,
)

USABLE_BEFORE = Record(
    name="nqn:nvmeof_subsystem_redundancy:usable_before",
    note="Subsystems that were usable since the exporter came, as far as it was seen.",
    expr="""
        max without (level) (nvmeof_subsystem_redundancy{level="lost"} == 0)
        or
        (
            nqn:nvmeof_subsystem_redundancy:usable_before
          and on (cluster, job, instance, nqn)
            nvmeof_subsystem_redundancy{level="lost"}
        )
    """,
)

MORE_BEFORE = Record(
    name="nqn:nvmeof_subsystem_redundancy:more_before",
    note="""
        Subsystems that had more than one path since the exporter came, as far as it was seen. It
        came anew after two minutes of silence.
    """,
    expr=f"""
        max without (level) (
            nvmeof_subsystem_redundancy{{level="at-risk"}} == 0
          unless on (cluster, job, instance, nqn)
            nvmeof_subsystem_redundancy{{level="lost"}} == 1
        )
        or
        (
            nqn:nvmeof_subsystem_redundancy:more_before
          and on (cluster, job, instance, nqn)
            nvmeof_subsystem_redundancy
        )
        or
        (
            nqn:nvmeof_subsystem_redundancy:more_before
          and on (cluster, job, instance)
            {SILENT_SINCE.name} > time() - 120
        )
    """,
)

LOST = Record(
    name="nqn:nvmeof_subsystem_redundancy:lost",
    note="""
        Subsystems without a usable path. One that was not usable, nor connected for a minute,
        since the exporter started gets three minutes, because a node that boots connects one
        path after the other, standby paths among them; not if it was lost before.
    """,
    expr=f"""
        max without (level) (
          last_over_time({REDUNDANCY.name}{{level="lost"}}[5m]) == 1
        )
        and on (cluster, job, instance, nqn)
          (
              {USABLE_BEFORE.name}
            or
              nvmeof_path_state_seconds_total{{state="live"}} >= 60
            or
              last_over_time({REDUNDANCY.name}{{level="lost"}}[5m] offset 3m) == 1
            or
              nqn:nvmeof_subsystem_redundancy:lost
          )
    """,
)
