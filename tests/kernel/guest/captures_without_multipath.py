"""The one state that needs a boot of its own: native multipath is off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.kernel.guest import initiator
from tests.kernel.guest.archive import archive
from tests.kernel.guest.initiator import ConnectOptions
from tests.kernel.guest.network import LINKS
from tests.kernel.guest.scenario import Registry
from tests.kernel.guest.target import Target
from tests.kernel.guest.waiting import await_

if TYPE_CHECKING:
    from tests.kernel.guest.lab import Lab

__all__ = ["REGISTRY"]

REGISTRY = Registry(exporter=False, kernel_arguments="nvme_core.multipath=N")


@REGISTRY.scenario
def tcp_multipath_off(lab: Lab) -> Any:
    """Two controllers of one subsystem, each with disks of its own and no head."""
    lab.black_hole  # noqa: B018 - brings links and drivers into being
    target = Target("nqn.2014-08.org.nvmexpress:lab-1", lab.disks[:2])
    paths = []
    for link in LINKS:
        name = initiator.connect(target.nqn, "tcp", target.address(link), ConnectOptions())
        paths.append(initiator.FabricPath(name, link))
    for path in paths:
        await_(lambda path=path: len(path.disks()) == len(target.groups), 10, "a disk each")  # type: ignore[misc]
    tree = lab.output / "trees/tcp-multipath-N.tar.xz"
    archive(tree)
    return {"name": "tcp-multipath-N", "bytes": tree.stat().st_size}
