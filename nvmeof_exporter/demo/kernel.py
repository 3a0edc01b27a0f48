"""What differs between kernel generations, as far as an observer can tell.

Every figure was seen on stock Debian kernels (6.1, 6.12, 7.3) or, for 6.6, read
in drivers/nvme/host/multipath.c.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KERNELS", "Kernel"]


@dataclass(frozen=True, slots=True)
class Kernel:
    """One generation. Times are in seconds.

    Attributes:
        version: the key in KERNELS.
        release: what ``uname -r`` would say.
        firmware: what the in-kernel target reports, 8 characters.
        head_counters: the head disk's ``stat`` is real (6.5 and later).
        head_leaks: requests cancelled by a failover stay in flight on the head (6.5 to 6.9).
        csi: disks have ``csi`` and ``metadata_bytes`` (6.10 and later).
        diag: ``diag/`` counters, and ``io_timeout`` per controller (7.2 and later).
        multipath_links: heads have ``multipath/``, paths ``queue_depth`` and ``numa_nodes``.
        policies: values of ``iopolicy`` that it knows.
        attempt_limits: the log counts attempts as ``N/M``.
        rdma_reports_loss: the RDMA transport itself gives up on a silent peer.
        silent_teardown: how long a silently lost path stays ``resetting`` with its requests.

    """

    version: str
    release: str
    firmware: str
    head_counters: bool
    head_leaks: bool
    csi: bool
    diag: bool
    multipath_links: bool
    policies: tuple[str, ...]
    attempt_limits: bool
    rdma_reports_loss: bool
    silent_teardown: float


_OLD_POLICIES = ("numa", "round-robin")
_ALL_POLICIES = (*_OLD_POLICIES, "queue-depth")

#: The generations that tests cover, by version.
KERNELS = {
    kernel.version: kernel
    for kernel in (
        Kernel(
            version="6.1",
            release="6.1.0-57-amd64",
            firmware="6.1.0-57",
            head_counters=False,
            head_leaks=False,
            csi=False,
            diag=False,
            multipath_links=False,
            policies=_OLD_POLICIES,
            attempt_limits=False,
            rdma_reports_loss=False,
            silent_teardown=4.0,
        ),
        Kernel(
            version="6.6",
            release="6.6.13-amd64",
            firmware="6.6.13-a",
            head_counters=True,
            head_leaks=True,
            csi=False,
            diag=False,
            multipath_links=False,
            policies=_OLD_POLICIES,
            attempt_limits=False,
            rdma_reports_loss=True,
            silent_teardown=0.02,
        ),
        Kernel(
            version="6.12",
            release="6.12.117-amd64",
            firmware="6.12.117",
            head_counters=True,
            head_leaks=False,
            csi=True,
            diag=False,
            multipath_links=False,
            policies=_ALL_POLICIES,
            attempt_limits=True,
            rdma_reports_loss=True,
            silent_teardown=0.02,
        ),
        Kernel(
            version="7.3",
            release="7.3.4+deb13-amd64",
            firmware="7.3.4+de",
            head_counters=True,
            head_leaks=False,
            csi=True,
            diag=True,
            multipath_links=True,
            policies=_ALL_POLICIES,
            attempt_limits=True,
            rdma_reports_loss=True,
            silent_teardown=0.02,
        ),
    )
}
