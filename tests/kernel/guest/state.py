"""States of a node, each compared value by value with what the kernel's own files say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.kernel.guest import initiator
from tests.kernel.guest.compare import compare
from tests.kernel.guest.fabric import RDMA_LINK_LOSS, Fabric, FabricSettings
from tests.kernel.guest.initiator import ConnectOptions
from tests.kernel.guest.network import LINKS
from tests.kernel.guest.scenario import Registry

if TYPE_CHECKING:
    from tests.kernel.guest.lab import Lab

__all__ = ["REGISTRY"]

REGISTRY = Registry()

_TWO_NAMESPACES = FabricSettings(
    namespaces=2, options=ConnectOptions(keep_alive=1, ctrl_loss=60, fast_io_fail=20)
)
_DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"


class Story:
    """Comparisons of one fabric by the name of the moment; each also has the redundancy level."""

    def __init__(self, lab: Lab, fabric: Fabric) -> None:
        self._exporter = lab.exporter
        self._fabric = fabric
        self.moments: dict[str, dict[str, Any]] = {}
        # In virtual time a path may be lost within milliseconds of its connection: what it
        # ran over, and which namespaces it had, nobody would know.
        compare(self._exporter, fabric.nqn)

    def tell(self, moment: str, redundancy: str) -> None:
        """Compare everything now, and the redundancy level with what this moment has."""
        nqn = self._fabric.nqn
        labels = frozenset(self._fabric.label(link) for link in LINKS)
        compared = compare(self._exporter, nqn, labels)
        served = self._exporter.scrape().matching("nvmeof_subsystem_redundancy", nqn=nqn)
        levels = [labels["level"] for labels, value in served if value]
        if levels != [redundancy]:
            compared["mismatches"].append(f"redundancy {levels}, expected {redundancy}")
        compared["compared"] += 1
        self.moments[moment] = compared


@REGISTRY.scenario
def two_paths_with_ana_groups(lab: Lab) -> Any:
    """Healthy, each namespace optimized on another path, idle and under load."""
    lab.exporter  # noqa: B018 - runs before anything is connected
    with lab.fabric(_TWO_NAMESPACES) as fabric:
        fabric.set_ana(2, "non-optimized", group=1)
        fabric.set_ana(1, "non-optimized", group=2)
        story = Story(lab, fabric)
        story.tell("idle", "redundant")
        with lab.load(fabric, "two_paths_with_ana_groups"):
            story.tell("under load", "redundant")
        story.tell("idle again", "redundant")
        return story.moments


@REGISTRY.scenario
def a_link_down_and_up_again(lab: Lab) -> Any:
    """The path's own interface goes down; later it comes back."""
    with lab.fabric(_TWO_NAMESPACES) as fabric:
        story = Story(lab, fabric)
        fabric.lower_link(1)
        fabric.await_down(1)
        story.tell("down", "at-risk")
        fabric.raise_link(1)
        fabric.await_live()
        story.tell("back", "redundant")
        return story.moments


@REGISTRY.scenario
def target_ports_removed_and_back(lab: Lab) -> Any:
    """One port of the target vanishes, then both, then they are back."""
    with lab.fabric(_TWO_NAMESPACES) as fabric:
        story = Story(lab, fabric)
        fabric.close_port(2)
        fabric.await_down(2)
        story.tell("one removed", "at-risk")
        fabric.close_port(1)
        fabric.await_down(1)
        story.tell("both removed", "lost")
        fabric.open_port(1, 2)
        fabric.await_live()
        story.tell("back", "redundant")
        return story.moments


@REGISTRY.scenario
def ana_states_of_every_kind(lab: Lab) -> Any:
    """Every ANA state that a target can announce, with live controllers throughout."""
    with lab.fabric(_TWO_NAMESPACES) as fabric:
        story = Story(lab, fabric)
        for state, redundancy in (
            ("inaccessible", "redundant"),
            ("change", "at-risk"),
            ("persistent-loss", "at-risk"),
            ("non-optimized", "redundant"),
            ("optimized", "redundant"),
        ):
            fabric.set_ana(1, state)
            story.tell(state, redundancy)
        fabric.set_ana(1, "inaccessible")
        fabric.set_ana(2, "inaccessible")
        story.tell("inaccessible everywhere", "lost")
        return story.moments


@REGISTRY.scenario
def a_controller_removed_and_connected_again(lab: Lab) -> Any:
    """ctrl_loss_tmo removes a path; it returns under another number, as the same path."""
    settings = FabricSettings(namespaces=2, options=ConnectOptions(ctrl_loss=2))
    with lab.fabric(settings) as fabric:
        story = Story(lab, fabric)
        fabric.close_port(2)
        fabric.await_gone(2)
        story.tell("removed", "at-risk")
        former = fabric.paths[2].controller
        discovery = initiator.connect(_DISCOVERY, "tcp", fabric.address(1), ConnectOptions())
        fabric.open_port(2)
        fabric.connect(2)
        fabric.await_live(2)
        story.tell("connected again", "redundant")
        found = lab.exporter.scrape().value("nvmeof_discovery_controllers")
        if found != 1 or fabric.paths[2].controller == former:
            story.moments["connected again"]["mismatches"].append(
                f"{found} discovery controllers; {former} is {fabric.paths[2].controller} now"
            )
        initiator.FabricPath(discovery, 1).disconnect()
        return story.moments


@REGISTRY.scenario
def rdma_link_down_and_up_again(lab: Lab) -> Any:
    """Two soft-RoCE paths; one loses its link, and later returns over a device made anew."""
    with lab.fabric(RDMA_LINK_LOSS) as fabric:
        story = Story(lab, fabric)
        story.tell("healthy", "redundant")
        with lab.load(fabric, "rdma_link_down_and_up_again"):
            fabric.lower_link(1)
            fabric.await_state("connecting", 1)
        story.tell("down", "at-risk")
        fabric.raise_link(1)
        fabric.replace_rdma_device(1)
        story.tell("back", "redundant")
        return story.moments
