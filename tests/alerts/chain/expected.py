"""Which notifications each scripted failure must cause, and when.

Times follow from the script, the rule and the route: a notification comes after the
alert's ``for`` and before that, a scrape, an evaluation and the route's ``group_wait``
have passed; the end of it after ``keep_firing_for`` and within ``group_interval``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["EXPECTED", "NODES", "Told"]

_ARRAY = "nqn.2026-01.org.example:array1"
_SCRATCH = "nqn.2026-01.org.example:scratch"

#: The nodes behind one switch.
NODES = tuple(f"node-{number}" for number in range(8))

#: When the demonstration's scripts make their faults, and mend them (seconds).
_FAULT = 20.0
_REPAIR = 260.0


@dataclass(frozen=True)
class Told:
    """One alert that somebody must be told of.

    ``subjects`` are the alerts' labels that say what it is about, without those of the
    node; with ``everywhere`` each node of the cluster has all of them. ``cause`` is when
    its condition begins, ``detected`` how long the kernel may take to notice, ``over``
    when the condition ends: None when it outlasts the test. Seconds after the node's start.
    """

    alert: str
    severity: str
    subjects: tuple[dict[str, str], ...]
    cause: float = _FAULT
    detected: float = 0.0
    over: float | None = None
    everywhere: bool = True
    receiver: str = field(init=False)

    def __post_init__(self) -> None:
        """Pages go to people, the rest to a queue."""
        receiver = "storage-pager" if self.severity == "critical" else "storage-queue"
        object.__setattr__(self, "receiver", receiver)


#: A keep-alive of 5 s is missed after at most one and a half times that.
_KEEP_ALIVE = 7.5

#: Until a lost path is connected again, once it can be: a reconnect delay of 10 s.
_RECONNECT = 12.0

_STALLED = ({"nqn": _ARRAY, "nsid": "1"}, {"nqn": _ARRAY, "nsid": "2"})

#: A keep-alive that no failover should wait for, on every path: told once of a subsystem.
_UNWISE = tuple({"nqn": nqn, "rule": "keep_alive"} for nqn in (_ARRAY, _SCRATCH))

#: By script, which is the name of the cluster as well.
EXPECTED: dict[str, tuple[Told, ...]] = {
    "calm": (),
    "one-path-lost": (
        Told("NVMeoFRedundancyLost", "critical", ({"nqn": _ARRAY},), over=_REPAIR + _RECONNECT),
    ),
    "all-paths-lost": (
        # Two lost paths, however often they are tried, are no storm.
        Told("NVMeoFNoUsablePath", "critical", ({"nqn": _ARRAY},)),
    ),
    "all-paths-lost-and-back": (
        Told("NVMeoFNoUsablePath", "critical", ({"nqn": _ARRAY},), over=80 + _RECONNECT),
    ),
    # A page that came first is told to be over when all is well, and not while it is worse.
    "one-after-the-other": (
        Told("NVMeoFRedundancyLost", "critical", ({"nqn": _ARRAY},), over=_REPAIR + _RECONNECT),
        Told(
            "NVMeoFNoUsablePath",
            "critical",
            ({"nqn": _ARRAY},),
            cause=140,
            over=240 + _RECONNECT,
        ),
    ),
    "slow-failover": (
        # The keep-alive of 10 s is missed after 15 s: for ten of them nothing moves.
        Told("NVMeoFIOStalled", "critical", _STALLED, cause=_FAULT + 5, over=_FAULT + 15),
        Told("NVMeoFFailoverSlow", "warning", ({"nqn": _ARRAY},), detected=15),
    ),
    "silent-stall": (
        Told("NVMeoFIOStalled", "critical", _STALLED, cause=_FAULT + 5, over=80),
        Told("NVMeoFPolicyViolation", "warning", _UNWISE, cause=0),
    ),
    "port-down": (
        Told(
            "NVMeoFRedundancyLost",
            "critical",
            ({"nqn": _SCRATCH},),
            detected=_KEEP_ALIVE,
            over=_REPAIR + _RECONNECT,
        ),
        Told("NVMeoFLinkDown", "warning", ({"netdev": "h3"},), over=_REPAIR),
        Told("NVMeoFRDMAPortDown", "warning", ({"device": "mlx5_3", "port": "1"},), over=_REPAIR),
    ),
    "policy-violation": (Told("NVMeoFPolicyViolation", "warning", _UNWISE, cause=0),),
    "exporter-killed": (Told("NVMeoFExporterDown", "warning", ({},), cause=_FAULT, over=420),),
    "switch-down": (
        Told(
            "NVMeoFRedundancyLost",
            "critical",
            ({"nqn": _ARRAY}, {"nqn": _SCRATCH}),
            detected=_KEEP_ALIVE,
            over=_REPAIR + _RECONNECT,
        ),
        Told("NVMeoFLinkDown", "warning", ({"netdev": "h1"}, {"netdev": "h3"}), over=_REPAIR),
        Told(
            "NVMeoFRDMAPortDown",
            "warning",
            ({"device": "mlx5_1", "port": "1"}, {"device": "mlx5_3", "port": "1"}),
            over=_REPAIR,
        ),
        Told("NVMeoFReconnectStorm", "warning", ({},), everywhere=False),
    ),
}
