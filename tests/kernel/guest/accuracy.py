"""Pauses and failovers under load. Every fault runs on a subsystem of its own.

A covering selection, not the product: each fault, keep-alive time, queue depth,
direction, number of namespaces and I/O policy occurs, in few combinations.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.kernel.guest.fabric import RDMA_LINK_LOSS, FabricSettings
from tests.kernel.guest.initiator import ConnectOptions
from tests.kernel.guest.load import LoadSettings
from tests.kernel.guest.measure import Expected, measured
from tests.kernel.guest.scenario import Registry

if TYPE_CHECKING:
    from tests.kernel.guest.measure import Measurement

__all__ = ["REGISTRY"]

REGISTRY = Registry()

_QUICK = ConnectOptions(keep_alive=1)


@measured(
    REGISTRY.scenario,
    Expected(causes=("ana",)),
    FabricSettings(ana=("optimized", "non-optimized")),
    LoadSettings("randwrite", depth=32, think_ms=10),
)
def ana_of_the_active_path_turns_inaccessible(run: Measurement) -> None:
    """The target withdraws the active path; the other is usable; then it gives it back."""
    run.fabric.set_ana(run.active, "inaccessible")
    run.await_rerouted()
    run.fabric.set_ana(run.active, "optimized")
    run.await_failed_back()


@measured(REGISTRY.scenario, Expected(causes=("ana",)), load=LoadSettings("randrw"))
def ana_turns_inaccessible_everywhere(run: Measurement) -> None:
    """No path is usable for three seconds; then the other one is."""
    for path in (run.active, run.standby):
        run.fabric.set_ana(path, "inaccessible")
    time.sleep(3)  # the length of the outage is the scenario's to choose
    run.fabric.set_ana(run.standby, "optimized")
    run.await_resumed()


@measured(
    REGISTRY.scenario,
    Expected(causes=("transport",)),
    FabricSettings(namespaces=4),
    LoadSettings("randrw"),
)
def target_port_of_the_active_path_is_removed(run: Measurement) -> None:
    """The target breaks the connection; four namespaces move over at once."""
    run.fabric.close_port(run.active)
    run.await_rerouted()


@measured(REGISTRY.scenario, Expected(causes=("keep_alive",)))
def black_hole_of_the_active_path(run: Measurement) -> None:
    """Packets vanish silently; the keep-alive timer (5 s) tells; later the path comes back."""
    run.fabric.black_hole(run.active)
    run.await_rerouted()
    run.fabric.restore_packets()
    run.fabric.await_live()
    run.await_resumed()


@measured(
    REGISTRY.scenario,
    Expected(causes=("keep_alive",)),
    FabricSettings(namespaces=4, options=_QUICK),
    LoadSettings("randwrite", depth=32, think_ms=60),  # as much as an emulated machine can bear
)
def black_hole_with_a_keep_alive_of_one_second(run: Measurement) -> None:
    """The same with the shortest timer, four namespaces and many writes in flight."""
    run.fabric.black_hole(run.active)
    run.await_rerouted()


@measured(
    REGISTRY.scenario,
    Expected(causes=("keep_alive",)),
    FabricSettings(options=ConnectOptions(keep_alive=15)),
    LoadSettings("randrw"),
)
def black_hole_with_a_keep_alive_of_fifteen_seconds(run: Measurement) -> None:
    """The same with a slow timer, reads and writes mixed."""
    run.fabric.black_hole(run.active)
    run.await_rerouted()


@measured(
    REGISTRY.scenario,
    Expected(causes=("keep_alive",)),
    FabricSettings(iopolicy="round-robin", options=_QUICK),
    LoadSettings("randread", depth=32, think_ms=10),
)
def black_hole_under_round_robin(run: Measurement) -> None:
    """Half of the requests are caught on the lost path."""
    run.fabric.black_hole(run.active)
    run.await_rerouted()


@measured(
    REGISTRY.scenario,
    Expected(causes=("keep_alive",)),
    FabricSettings(iopolicy="queue-depth", options=_QUICK),
    LoadSettings("randrw", depth=32, think_ms=10),
)
def black_hole_under_queue_depth(run: Measurement) -> None:
    """The policy avoids the path with the longer queue; kernels before 6.11 have no such policy."""
    run.fabric.black_hole(run.active)
    run.await_rerouted()


@measured(
    REGISTRY.scenario,
    Expected(causes=("link_down",)),
    FabricSettings(options=ConnectOptions(keep_alive=2)),
)
def own_link_of_the_active_path_goes_down(run: Measurement) -> None:
    """The interface is down at once; the kernel still waits for its keep-alive timer."""
    run.fabric.lower_link(run.active)
    run.await_rerouted()


@measured(
    REGISTRY.scenario,
    Expected(failovers=None, causes=("link_down",)),
    FabricSettings(options=_QUICK),
    LoadSettings("randwrite"),
)
def both_links_go_down_and_come_back(run: Measurement) -> None:
    """Nothing is left; the first path back carries on, whichever that is."""
    run.fabric.lower_link(1, 2)
    run.fabric.await_down(1, 2)
    time.sleep(2)  # the length of the outage is the scenario's to choose
    run.fabric.raise_link(1, 2)
    run.await_resumed()


@measured(
    REGISTRY.scenario,
    Expected(causes=("transport",)),
    FabricSettings(options=ConnectOptions(ctrl_loss=2)),
)
def active_controller_is_removed_by_ctrl_loss_tmo(run: Measurement) -> None:
    """The path is lost, reconnecting fails until the time is up, and the path is gone."""
    run.fabric.close_port(run.active)
    run.await_rerouted()
    run.fabric.await_gone(run.active)


@measured(
    REGISTRY.scenario,
    Expected(failovers=None, causes=("transport",), pause_is_logged=False),
    FabricSettings(options=ConnectOptions(ctrl_loss=2)),
)
def every_controller_is_removed_by_ctrl_loss_tmo(run: Measurement) -> None:
    """I/O waits until the last controller is removed and then fails.

    The ports close one after the other: for a moment I/O may go over the second.
    """
    run.fabric.close_port(1, 2)
    run.fabric.await_gone(1, 2)
    run.await_load_ended(30)


@measured(
    REGISTRY.scenario,
    Expected(causes=("transport",)),
    FabricSettings(transport="rdma", options=RDMA_LINK_LOSS.options),
    LoadSettings("randrw"),
)
def rdma_link_of_the_active_path_goes_down(run: Measurement) -> None:
    """The RDMA device flushes its work requests; the other device takes over.

    The kernel reports a transport error; which link an RDMA path uses, it does not show.
    """
    run.fabric.lower_link(run.active)
    run.await_rerouted()
