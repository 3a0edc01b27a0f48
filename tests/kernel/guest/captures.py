"""States worth keeping as test input: each leaves an archive of the tree that the kernel shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.kernel.guest import initiator
from tests.kernel.guest.archive import archive
from tests.kernel.guest.fabric import RDMA_LINK_LOSS, FabricSettings
from tests.kernel.guest.initiator import ConnectOptions
from tests.kernel.guest.lab import load_modules, module_exists, unload_modules
from tests.kernel.guest.scenario import Registry
from tests.kernel.guest.waiting import await_

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kernel.guest.lab import Lab

__all__ = ["REGISTRY"]

_DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"
_TWO_NAMESPACES = FabricSettings(namespaces=2)

#: A drive of its own, and one that two controllers share.
_DRIVES = (
    *("-blockdev", "driver=null-co,node-name=private,size=67108864,read-zeroes=on"),
    *("-blockdev", "driver=null-co,node-name=common,size=134217728,read-zeroes=on"),
    *("-device", "nvme,id=single,serial=LAB-SINGLE,drive=private"),
    *("-device", "nvme-subsys,id=pair,nqn=lab-pair"),
    *("-device", "nvme,id=first,serial=LAB-PAIR,subsys=pair"),
    *("-device", "nvme,id=second,serial=LAB-PAIR,subsys=pair"),
    *("-device", "nvme-ns,bus=first,drive=common,nsid=1,shared=on"),
)

REGISTRY = Registry(exporter=False, devices=_DRIVES)


def _keep(lab: Lab, name: str) -> dict[str, Any]:
    target: Path = lab.output / "trees" / f"{name}.tar.xz"
    archive(target)
    return {"name": name, "bytes": target.stat().st_size}


@REGISTRY.scenario
def pcie_single_and_shared(lab: Lab) -> Any:
    """A private PCIe drive and one of two controllers; first, for its driver goes again."""
    load_modules("nvme")
    drives = [initiator.FabricPath(f"nvme{number}", number) for number in range(3)]
    await_(lambda: all(drive.state == "live" for drive in drives), 20, "three live controllers")
    found = _keep(lab, "pcie-single-and-shared")
    unload_modules("nvme")
    return found


@REGISTRY.scenario
def nothing_connected(lab: Lab) -> Any:
    """Drivers are loaded and links are up, and no subsystem is connected."""
    lab.black_hole  # noqa: B018 - brings links and drivers into being
    return _keep(lab, "nothing-connected")


@REGISTRY.scenario
def tcp_healthy(lab: Lab) -> Any:
    """Two live paths to two namespaces, both optimized everywhere."""
    with lab.fabric(_TWO_NAMESPACES):
        return _keep(lab, "tcp-healthy")


@REGISTRY.scenario
def tcp_one_path_connecting(lab: Lab) -> Any:
    """One port of the target is gone."""
    with lab.fabric(_TWO_NAMESPACES) as fabric:
        fabric.close_port(2)
        fabric.await_state("connecting", 2)
        return _keep(lab, "tcp-one-path-connecting")


@REGISTRY.scenario
def tcp_all_paths_connecting(lab: Lab) -> Any:
    """Both ports of the target are gone."""
    with lab.fabric(_TWO_NAMESPACES) as fabric:
        fabric.close_port(1, 2)
        fabric.await_state("connecting", 1, 2)
        return _keep(lab, "tcp-all-paths-connecting")


@REGISTRY.scenario
def tcp_ana_mixed(lab: Lab) -> Any:
    """Inaccessible, changing and non-optimized ANA groups over live controllers."""
    with lab.fabric(_TWO_NAMESPACES) as fabric:
        states = {(1, 1): "inaccessible", (1, 2): "change", (2, 2): "non-optimized"}
        for (link, group), state in states.items():
            fabric.set_ana(link, state, group)
        shown = {1: ["inaccessible", "change"], 2: ["optimized", "non-optimized"]}
        await_(
            lambda: all(
                sorted(fabric.paths[link].ana_states()) == sorted(shown[link]) for link in shown
            ),
            10,
            "the ANA states",
        )
        return _keep(lab, "tcp-ana-mixed")


@REGISTRY.scenario
def tcp_reconnected_as_new_instance(lab: Lab) -> Any:
    """A path was removed by ctrl_loss_tmo and connected again under another number."""
    settings = FabricSettings(namespaces=2, options=ConnectOptions(ctrl_loss=2))
    with lab.fabric(settings) as fabric:
        fabric.close_port(2)
        fabric.await_gone(2)
        decoy = initiator.connect(_DISCOVERY, "tcp", fabric.address(1), ConnectOptions())
        fabric.open_port(2)
        fabric.connect(2)
        fabric.await_live()
        initiator.FabricPath(decoy, 1).disconnect()
        return _keep(lab, "tcp-reconnected-as-new-instance")


@REGISTRY.scenario
def tcp_round_robin_discovery(lab: Lab) -> Any:
    """The round-robin policy, and a persistent discovery controller beside the paths."""
    with lab.fabric(FabricSettings(namespaces=2, iopolicy="round-robin")) as fabric:
        discovery = initiator.connect(_DISCOVERY, "tcp", fabric.address(1), ConnectOptions())
        found = _keep(lab, "tcp-round-robin-discovery")
        initiator.FabricPath(discovery, 1).disconnect()
        return found


@REGISTRY.scenario
def loop(lab: Lab) -> Any:
    """The loop transport, whose controllers have no address; Debian's 6.1 has none of it."""
    if not module_exists("nvme-loop"):
        return {"unsupported": "nvme-loop"}
    load_modules("nvme-loop")
    with lab.loop_controller():
        return _keep(lab, "loop")


@REGISTRY.scenario
def rdma_healthy(lab: Lab) -> Any:
    """Two soft-RoCE paths, then one of them with its interface down."""
    with lab.fabric(RDMA_LINK_LOSS) as fabric:
        healthy = _keep(lab, "rdma-healthy")
        with lab.load(fabric, "rdma_healthy"):
            fabric.lower_link(1)
            fabric.await_state("connecting", 1)
        return [healthy, _keep(lab, "rdma-link-down")]
