"""Every threshold: one recording rule each, so that users tune them in the YAML as well.

How long a condition must last is the ``wait`` of its alert.
"""

from __future__ import annotations

from alerts.model import Group, Record

__all__ = ["OBJECTIVES", "objective"]

_PREFIX = "nvmeof:objective:"

_VALUES = (
    (
        "io_stalled_seconds",
        5,
        (
            "Wanted I/O may stand still for this long. A failover pauses I/O, too: with less than"
            " the time that the keep-alive takes to find a silent loss (1 to 1.5 times its"
            " time-out), each failover may page."
        ),
    ),
    (
        "failover_seconds",
        5,
        (
            "A failover may take this long, from the last I/O on the lost path to the first"
            " elsewhere. Best a bound of the histogram: of failovers that follow each other quickly"
            " only the bucket is known."
        ),
    ),
    ("path_returns", 3, "A path that came back this often within 30 minutes is flapping."),
    (
        "reconnecting_paths",
        5,
        (
            "Lost paths of one node that the kernel tries to connect: so many at a time over 10"
            " minutes, or more of them for a shorter time."
        ),
    ),
    ("reconnecting_nodes", 4, "Nodes of one job that reconnect within the same 10 minutes, and"),
    (
        "reconnecting_ratio",
        0.02,
        "the share of the job's nodes that they must exceed as well: some are always under repair.",
    ),
    ("controller_loss_ratio", 0.5, "Share of its ctrl_loss_tmo for which a path may be down."),
    (
        "non_optimized_ratio",
        0.5,
        (
            "Share of a namespace's requests that may go over non-optimized paths while an"
            " optimized one is usable."
        ),
    ),
    ("rdma_errors_per_second", 1, "Errors of one kind per second on an RDMA port."),
    ("pause_ratio", 0.1, "Share of the time for which an interface may be paused."),
    (
        "pause_frames_per_second",
        1000,
        "Pause frames per second, where the driver does not count the time.",
    ),
)

OBJECTIVES = Group(
    name="nvmeof-objectives",
    note="Thresholds: the place to tune. Nothing else needs a change for it.",
    rules=tuple(
        Record(f"{_PREFIX}{name}", f"vector({value})", note) for name, value, note in _VALUES
    ),
)

_NAMES = frozenset(name for name, _, _ in _VALUES)


def objective(name: str) -> str:
    """Return the expression of a threshold, a scalar.

    The largest, where more than one Prometheus or ruler records it into the same store.

    Raises:
        KeyError: there is no such threshold.

    """
    if name not in _NAMES:
        raise KeyError(name)
    return f"scalar(max({_PREFIX}{name}))"
