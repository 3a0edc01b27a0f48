"""What the dashboards ask Prometheus, as texts.

``NODE`` and ``SUBSYSTEM`` are the matchers of what was chosen at the top of a dashboard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards.source.meaning import ANA, CONDITION, LEVEL, PORT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dashboards.source.meaning import Word

__all__ = [
    "CONGESTION",
    "ERRORS",
    "FLEET",
    "NODE",
    "SUBSYSTEM",
    "ana_state",
    "away",
    "io_bytes",
    "io_condition",
    "lacking",
    "link_state",
    "newest_phase",
    "objective_met",
    "path_condition",
    "pause_frames",
    "phase",
    "pick",
    "port_state",
    "rdma_rates",
    "standing",
    "worst_level",
]

FLEET = 'cluster=~"$cluster"'
NODE = f'{FLEET},instance="$instance"'
SUBSYSTEM = f'{NODE},nqn=~"$nqn"'

#: Statistics of RDMA ports that count what should not happen, whatever the driver. Requests
#: flushed by a disconnect are no errors of the port.
ERRORS = (
    'statistic=~".*(err|discard|dropped|retries|timeout|oos|out_of_|downed|recovery|overrun|nak).*",'
    'statistic!~".*flush.*"'
)

#: Those that tell of congestion.
CONGESTION = 'statistic=~".*(cnp|ecn|congest|xmit_wait|slow_restart|throttle).*"'

#: Seconds from which requests without progress are told: below, a busy device may just be slow.
_STUCK = 0.5


def pick(metric: str, chosen: str = SUBSYSTEM, **more: str) -> str:
    """Return a selector; a value in ``more`` that begins with ``~`` is a regular expression."""
    matchers = [chosen] + [
        f'{label}=~"{value[1:]}"' if value.startswith("~") else f'{label}="{value}"'
        for label, value in more.items()
    ]
    return f"{metric}{{{','.join(matchers)}}}"


def _first_of(*cases: str) -> str:
    return "\nor\n".join(cases)


def _state(metric: str, known: Iterable[Word], by: str, label: str, chosen: str) -> str:
    """Return which state of a set is 1, as its number: one series per ``by``, not one per state."""
    return _first_of(
        *(
            f"{word.code} * group by ({by}) ({pick(metric, chosen, **{label: word.state})} == 1)"
            for word in known
            if word.state
        )
    )


def path_condition() -> str:
    """Return the condition of each path, by the numbers of ``CONDITION``.

    A controller that is not live says so. One that is may still hold requests that do not
    move (nothing else tells that it is dead), or be of no use to any namespace (ANA).
    """
    stuck, standby, usable = 1, 2, 0
    return _first_of(
        _state("nvmeof_path_state", CONDITION, "nqn, path", "state", SUBSYSTEM),
        f"{stuck} * group by (nqn, path) "
        f"({pick('nvmeof_namespace_path_io_stalled_seconds')} > {_STUCK})",
        f"{standby} * group by (nqn, path) "
        f"(max by (nqn, path) ({pick('nvmeof_namespace_path_usable')}) == 0)",
        f"{usable} * group by (nqn, path) ({pick('nvmeof_path_state', state='live')} == 1)",
    )


def ana_state() -> str:
    """Return the ANA state of each namespace path, by the numbers of ``ANA``.

    Of live ones only: of a lost one the kernel keeps what it heard last.
    """
    metric = "nvmeof_namespace_path_ana_state"
    told = _state(metric, ANA, "nqn, nsid, path", "ana_state", SUBSYSTEM)
    return f"({told})\nand on (nqn, path) ({pick('nvmeof_path_state', state='live')} == 1)"


def lacking() -> str:
    """Return how many live paths fewer than expected there are."""
    expected = f"sum by (nqn) ({pick('nvmeof_subsystem_paths_expected')})"
    live = f"count by (nqn) ({pick('nvmeof_path_state', state='live')} == 1)"
    return f"sum(clamp_min({expected} - ({live} or 0 * {expected}), 0))"


def port_state() -> str:
    """Return the logical state of each RDMA port, by the numbers of ``PORT``."""
    return _state("nvmeof_rdma_port_state", PORT, "device, port", "state", NODE)


def link_state() -> str:
    """Return the carrier of each interface, by the numbers of ``PORT``."""
    link = pick("nvmeof_link_up", NODE)
    up, down = 7, 4
    return _first_of(
        f"{up} * group by (netdev) ({link} == 1)",
        f"{down} * group by (netdev) ({link} == 0)",
    )


def rdma_rates(statistics: str, window: str = "1m") -> str:
    """Return the rates per second of statistics of RDMA ports."""
    metric = pick("nvmeof_rdma_port_statistic_total", f"{NODE},{statistics}")
    return f"sum by (device, port, statistic) (rate({metric}[{window}]))"


def pause_frames(window: str = "1m") -> str:
    """Return pause frames per second of each interface and direction."""
    frames = pick("nvmeof_link_pause_frames_total", NODE)
    return f"sum by (netdev, direction) (rate({frames}[{window}]))"


def worst_level(by: str, chosen: str = SUBSYSTEM) -> str:
    """Return the worst redundancy level of the subsystems, by the numbers of ``LEVEL``."""
    metric = "nvmeof_subsystem_redundancy"
    cases = [
        f"{word.code} * group by ({by}) ({pick(metric, chosen, level=word.state)} == 1)"
        for word in reversed(LEVEL)
    ]
    return _first_of(*cases)


def standing() -> str:
    """Return how long wanted I/O or any caught request has stood still now, in seconds."""
    return (
        f"max({pick('nvmeof_namespace_io_stalled_seconds')} "
        f"or {pick('nvmeof_namespace_path_io_stalled_seconds')})"
    )


def io_bytes(metric: str, by: str) -> str:
    """Return bytes per second by the two newest scrapes, reads and writes together.

    ``irate``: it shows a change as soon as it is scraped, whatever the scrape interval (up to
    30 s) and whatever the data source believes of it.
    """
    read, written = (pick(f"{metric}_{what}_bytes_total") for what in ("read", "written"))
    return f"sum by ({by}) (irate({read}[1m]) + irate({written}[1m]))"


def io_condition() -> str:
    """Return whether I/O flows, by the numbers of ``IO``."""
    head = pick("nvmeof_namespace_io_stalled_seconds")
    path = pick("nvmeof_namespace_path_io_stalled_seconds")
    return _first_of(
        f"3 * group({head} > {_STUCK})",
        f"2 * group({path} > {_STUCK})",
        f"({io_bytes('nvmeof_namespace_path', '')} > bool 0)",
    )


def away() -> str:
    """Return the paths that I/O has left and not come back to: 1 for each."""
    left = f"sum by (nqn, path) ({pick('nvmeof_failovers_total')})"
    back = f"sum by (nqn, path) ({pick('nvmeof_failbacks_total')})"
    return f"group by (nqn, path) ({left} > {back} or {left} unless {back})"


def phase() -> str:
    """Return the phase of the failover that each subsystem is in, by the numbers of ``PHASE``."""
    in_progress = f"{pick('nvmeof_failover_in_progress')} == 1"
    caught_on_usable = (
        f"{pick('nvmeof_namespace_path_io_stalled_seconds')} > 0"
        f" and {pick('nvmeof_namespace_path_usable')} == 1"
    )
    usable = f"max by (nqn, path) ({pick('nvmeof_namespace_path_usable')}) == 1"
    return _first_of(
        f"5 * group by (nqn) ({pick('nvmeof_subsystem_redundancy', level='lost')} == 1)",
        f"4 * group by (nqn) ({in_progress} and on (nqn) ({caught_on_usable}))",
        f"3 * group by (nqn) ({in_progress})",
        f"1 * group by (nqn) ({away()} and {usable})",
        f"2 * group by (nqn) ({pick('nvmeof_subsystem_redundancy', level='redundant')} == 0)",
        f"0 * group by (nqn) ({pick('nvmeof_failover_in_progress')})",
    )


def newest_phase(name: str) -> str:
    """Return how long a phase of each subsystem's newest failover took, in seconds.

    The newest observation of a histogram: what its sum is more than when its count was one
    less. No series where none was made within the dashboard's time range.
    """
    total = pick("nvmeof_failover_phase_seconds_sum", phase=name)
    count = pick("nvmeof_failover_phase_seconds_count", phase=name)
    before = f"max_over_time(({total} and {count} < ({count} @ end()))[$__range:1s])"
    return f"sum by (nqn) ({total} - {before})"


def objective_met() -> str:
    """Return whether the newest failover kept the objective, by the numbers of ``OBJECTIVE``."""
    last = pick("nvmeof_failover_last_duration_seconds")
    return _first_of(
        f"2 * group({standing()} > $objective)",
        f"group({pick('nvmeof_failover_in_progress')} == 1)",
        f"2 * (max({last} and on (nqn) topk(1, {pick('nvmeof_failover_last_timestamp_seconds')}))"
        " > bool $objective)",
    )
