"""The catalogue of rules: what each one looks at, why it matters, and on whose word.

Thresholds are no part of it: those are the presets' and the configuration file's.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["RULES", "Kind", "Rule", "Scope"]


class Scope(enum.Enum):
    """What one verdict of a rule is about."""

    PATH = "path"
    SUBSYSTEM = "subsystem"
    HOST = "host"


class Kind(enum.Enum):
    """What a rule's limits are made of."""

    DURATION = "duration"
    """Seconds; ``inf`` is "off"."""
    NUMBER = "number"
    WORD = "word"
    """One of some words."""
    RESOURCES = "resources"
    """Of some words, each by itself."""
    SWITCH = "switch"
    """Nothing but on or off."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. ``why`` is for the person who reads the report; ``source`` what it rests on.

    ``lasting``: it judges how the node is set up. The others judge its present condition,
    which has metrics and alerts of its own, so only lasting rules are exported. ``words``
    are what its limits may be made of, empty where any word may be meant.
    """

    id: str
    scope: Scope
    kind: Kind
    why: str
    source: str
    lasting: bool = True
    words: tuple[str, ...] = ()


_ALL = (
    Rule(
        "native_multipath",
        Scope.HOST,
        Kind.SWITCH,
        "Without it every path is a disk of its own: nothing fails over, and what sits on "
        "top of the disks decides.",
        "nvme_core.multipath in drivers/nvme/host/multipath.c",
    ),
    Rule(
        "host_identity",
        Scope.HOST,
        Kind.SWITCH,
        "A host NQN and a host ID make one pair. Controllers that mix them look like several "
        "hosts to the target: reservations and access lists then go wrong, and newer kernels "
        "refuse the connection.",
        "NVMe Base Specification, Host Identifier; nvmf_host_add in drivers/nvme/host/fabrics.c",
    ),
    Rule(
        "host_id_matches",
        Scope.HOST,
        Kind.SWITCH,
        "A UUID host NQN whose UUID is not the host ID works, and some distributions' packages "
        "make them so; it can also be a cloned image of which only one of the two was made anew.",
        'nvme-cli, warning "use hostid which does not match uuid in hostnqn"; nvme-gen-hostnqn(1)',
    ),
    Rule(
        "redundancy",
        Scope.SUBSYSTEM,
        Kind.WORD,
        "The worst namespace decides: at-risk, the next failure stops its I/O; lost, it has "
        "stopped already.",
        "__nvme_find_path and nvme_path_is_disabled in drivers/nvme/host/multipath.c",
        lasting=False,
        words=("redundant", "degraded", "at-risk", "lost"),
    ),
    Rule(
        "shared_fate",
        Scope.SUBSYSTEM,
        Kind.RESOURCES,
        "Paths that share one of these fail together.",
        "counted as docs/shared-fate.md explains",
        lasting=False,
        words=("netdev", "nic", "rdma_device", "subnet", "switch", "target_address"),
    ),
    Rule(
        "paths",
        Scope.SUBSYSTEM,
        Kind.NUMBER,
        "With one path its failure is an outage.",
        "Linux kernel, Documentation/admin-guide/nvme-multipath.rst",
    ),
    Rule(
        "iopolicy",
        Scope.SUBSYSTEM,
        Kind.WORD,
        "Under numa all requests from one NUMA node go over one path: the others' bandwidth lies "
        "idle, and when that path falls silent everything stands still, not only a share.",
        "Linux kernel, Documentation/admin-guide/nvme-multipath.rst",
        words=("numa", "round-robin", "queue-depth"),
    ),
    Rule(
        "equal_settings",
        Scope.SUBSYSTEM,
        Kind.SWITCH,
        "Paths of one subsystem and transport that differ behave differently in the same "
        "failure; mostly one was connected by hand or before the configuration changed.",
        "nvme-connect(1): settings belong to a connection, not to a subsystem",
    ),
    Rule(
        "keep_alive",
        Scope.PATH,
        Kind.DURATION,
        "A path that falls silent is given up only after 1 to 1.5 keep-alive time-outs; until "
        "then its I/O stands still. Without keep-alive it takes the I/O time-out.",
        "NVMe Base Specification, Keep Alive; NVME_DEFAULT_KATO (5 s) in the kernel's "
        "drivers/nvme/host/nvme.h; nvme-connect(1), --keep-alive-tmo",
    ),
    Rule(
        "reconnect_delay",
        Scope.PATH,
        Kind.DURATION,
        "After the fault is over a path stays away for up to this long, and the namespace "
        "without its redundancy.",
        "NVMF_DEF_RECONNECT_DELAY (10 s) in drivers/nvme/host/fabrics.h; nvme-connect(1), "
        "--reconnect-delay",
    ),
    Rule(
        "ctrl_loss_tmo",
        Scope.PATH,
        Kind.DURATION,
        "A path that is down for longer is deleted and does not come back by itself; when it "
        "was the last one, waiting I/O fails.",
        "NVMF_DEF_CTRL_LOSS_TMO (600 s) in drivers/nvme/host/fabrics.h; nvme-connect(1), "
        "--ctrl-loss-tmo",
    ),
    Rule(
        "fast_io_fail_tmo",
        Scope.PATH,
        Kind.DURATION,
        "With every path down for this long, I/O fails instead of waiting: file systems shut "
        "down and jobs end, even if a path returns a second later.",
        "NVMF_DEF_FAIL_FAST_TMO (off) in drivers/nvme/host/fabrics.h; nvme_available_path in "
        "drivers/nvme/host/multipath.c",
    ),
    Rule(
        "io_timeout",
        Scope.PATH,
        Kind.DURATION,
        "A request that a live path never answers moves to another path only after this long, "
        "and may be stuck there once more. Collectives give up after 10 minutes, and the "
        "kernel reports hung tasks after 2.",
        "nvme_core.io_timeout (30 s) in drivers/nvme/host/core.c; PyTorch, "
        "torch.distributed.init_process_group, timeout; kernel.hung_task_timeout_secs",
    ),
    Rule(
        "queues",
        Scope.PATH,
        Kind.NUMBER,
        "The count includes the admin queue: with fewer than two the path is live and yet "
        "carries no I/O.",
        "nvme_sysfs_show_queue_count in drivers/nvme/host/sysfs.c; nvme-connect(1), --nr-io-queues",
    ),
)

#: Every rule by its identifier, in the order of reports. A remedy of one may undo what a later
#: one mends, never an earlier one: the delay comes before the time-out that is counted in it.
RULES = {rule.id: rule for rule in _ALL}
