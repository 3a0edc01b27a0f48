"""Pauses and failovers under load. Every fault runs on a subsystem of its own, in each case.

Not the product of all there is, but combinations of it: each fault with each kind of load
that matters to it; each keep-alive time, queue depth, direction, number of namespaces
and I/O policy with several others.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.kernel.guest.case import Case, Expected
from tests.kernel.guest.measure import measured
from tests.kernel.guest.scenario import Registry

if TYPE_CHECKING:
    from tests.kernel.guest.measure import Measurement

__all__ = ["REGISTRY"]

REGISTRY = Registry()

_THREE = ("optimized", "optimized", "optimized")
_PREFERRED = ("optimized", "non-optimized")


# -- silent losses ---------------------------------------------------------------------------


@measured(
    REGISTRY,
    Expected(causes=("keep_alive",)),
    Case(keep_alive=1, depth=32, namespaces=4, pattern="randwrite"),
    Case(keep_alive=1, depth=1, namespaces=4, pattern="randrw"),
    Case(keep_alive=1, depth=32, namespaces=4, pattern="randrw", busy=True),
    Case(keep_alive=5, depth=32, pattern="randread"),
    Case(keep_alive=15, depth=1, pattern="randrw"),
    Case(keep_alive=15, depth=32, pattern="randwrite", iopolicy="round-robin"),
    Case(keep_alive=1, depth=1, pattern="randread", iopolicy="round-robin"),
    Case(keep_alive=1, depth=32, namespaces=4, pattern="randrw", iopolicy="round-robin"),
    Case(keep_alive=5, depth=1, namespaces=4, pattern="randwrite", iopolicy="round-robin"),
    Case(keep_alive=1, depth=32, pattern="randwrite", iopolicy="queue-depth"),
    Case(keep_alive=1, depth=1, namespaces=4, pattern="randread", iopolicy="queue-depth"),
    Case(keep_alive=1, depth=32, pattern="randrw", iopolicy="round-robin", ana=_THREE),
)
def black_hole(run: Measurement) -> None:
    """Packets of the active path vanish silently; the keep-alive timer tells."""
    run.fabric.black_hole(run.active)
    run.await_rerouted()


@measured(
    REGISTRY,
    Expected(causes=("keep_alive",)),
    Case(keep_alive=5, depth=1, pattern="randread"),
)
def black_hole_that_ends(run: Measurement) -> None:
    """The same; then the path comes back and I/O returns to it."""
    run.fabric.black_hole(run.active)
    run.await_rerouted()
    run.fabric.restore_packets()
    run.await_failed_back()


@measured(
    REGISTRY,
    Expected(causes=("keep_alive",)),
    Case(keep_alive=1, depth=1, pattern="randread", iopolicy="round-robin", ana=_THREE),
    Case(keep_alive=1, depth=32, namespaces=2, iopolicy="round-robin", ana=_THREE),
)
def black_hole_of_two_carriers_of_three(run: Measurement) -> None:
    """One event takes several paths that carry I/O, as a switch does."""
    run.lost = (1, 2)
    run.fabric.black_hole(*run.lost)
    run.await_rerouted()


@measured(
    REGISTRY,
    Expected(failovers=None, causes=("keep_alive",)),
    Case(keep_alive=1, depth=1, pattern="randrw"),
    Case(keep_alive=1, depth=32, namespaces=4, pattern="randread", iopolicy="round-robin"),
)
def black_hole_of_every_path(run: Measurement) -> None:
    """Nothing is left until packets flow again; the first path back carries on."""
    run.fabric.black_hole(1, 2)
    run.fabric.await_down(1, 2)
    time.sleep(1)  # the length of the outage is the scenario's to choose
    run.fabric.restore_packets()
    run.await_resumed()


# -- links -----------------------------------------------------------------------------------


@measured(
    REGISTRY,
    Expected(causes=("link_down",)),
    Case(keep_alive=5, depth=1, pattern="randread"),
    Case(keep_alive=1, depth=32, namespaces=4, pattern="randrw"),
    Case(keep_alive=1, depth=32, pattern="randwrite", iopolicy="round-robin"),
)
def own_link_goes_down(run: Measurement) -> None:
    """The interface is down at once; the kernel still waits for its keep-alive timer."""
    run.fabric.lower_link(run.active)
    run.await_rerouted()


@measured(
    REGISTRY,
    Expected(failovers=None, causes=("link_down",)),
    Case(keep_alive=1, depth=1, pattern="randwrite"),
    Case(keep_alive=1, depth=32, namespaces=4, pattern="randrw"),
    Case(keep_alive=1, depth=32, pattern="randread", iopolicy="round-robin"),
)
def both_links_go_down_and_come_back(run: Measurement) -> None:
    """Nothing is left; the first path back carries on, whichever that is."""
    run.fabric.lower_link(1, 2)
    run.fabric.await_down(1, 2)
    time.sleep(1)  # the length of the outage is the scenario's to choose
    run.fabric.raise_link(1, 2)
    run.await_resumed()


@measured(
    REGISTRY,
    Expected(causes=("link_down",)),
    Case(keep_alive=60, reconnect_delay=60, transport="rdma", namespaces=2, pattern="randrw"),
    Case(keep_alive=60, reconnect_delay=60, transport="rdma", depth=32, iopolicy="round-robin"),
)
def rdma_link_goes_down(run: Measurement) -> None:
    """The RDMA device flushes its work requests; the other device takes over.

    The kernel reports a transport error; the link, which is known to be the path's, is the cause.
    Both ends share the device, see RDMA_LINK_LOSS in fabric.py for the timers.
    """
    run.fabric.lower_link(run.active)
    run.await_rerouted()


# -- the target ------------------------------------------------------------------------------


@measured(
    REGISTRY,
    Expected(causes=("transport",)),
    Case(namespaces=4, pattern="randrw"),
    Case(pattern="randread"),
    Case(pattern="randwrite", iopolicy="round-robin", ana=_THREE),
)
def target_port_is_removed(run: Measurement) -> None:
    """The target breaks the connection; I/O moves over at once."""
    run.fabric.close_port(run.active)
    run.await_rerouted()


@measured(
    REGISTRY,
    Expected(causes=("ana",)),
    Case(depth=32, pattern="randwrite", ana=_PREFERRED),
    Case(depth=1, namespaces=4, pattern="randread", ana=_PREFERRED),
    Case(depth=32, namespaces=4, pattern="randrw", iopolicy="round-robin"),
    Case(depth=1, pattern="randrw", iopolicy="queue-depth"),
)
def ana_turns_inaccessible(run: Measurement) -> None:
    """The target withdraws the active path and later gives it back."""
    run.fabric.set_ana(run.active, "inaccessible")
    run.await_rerouted()
    run.fabric.set_ana(run.active, "optimized")
    run.await_failed_back()


@measured(
    REGISTRY,
    Expected(causes=("ana",)),
    Case(depth=1, pattern="randrw"),
    Case(depth=32, namespaces=2, pattern="randread"),
)
def ana_turns_inaccessible_everywhere(run: Measurement) -> None:
    """No path is usable for three seconds; then the other one is."""
    for path in (run.active, run.standby):
        run.fabric.set_ana(path, "inaccessible")
    time.sleep(3)  # the length of the outage is the scenario's to choose
    run.fabric.set_ana(run.standby, "optimized")
    run.await_resumed()


@measured(
    REGISTRY,
    Expected(causes=("transport",)),
    Case(ctrl_loss=2, pattern="randread"),
)
def controller_is_removed_by_ctrl_loss_tmo(run: Measurement) -> None:
    """The path is lost, reconnecting fails until the time is up, and the path is gone."""
    run.fabric.close_port(run.active)
    run.await_rerouted()
    run.fabric.await_gone(run.active)


@measured(
    REGISTRY,
    Expected(failovers=None, causes=("transport",)),
    Case(ctrl_loss=2, pattern="randread", fails=True),
    Case(ctrl_loss=2, pattern="randwrite", fails=True),
)
def every_controller_is_removed_by_ctrl_loss_tmo(run: Measurement) -> None:
    """I/O waits until the last controller is removed and then fails.

    The ports close one after the other: for a moment I/O may go over the second.
    """
    run.fabric.close_port(1, 2)
    run.fabric.await_gone(1, 2)
    run.await_failed()


# -- the administrator -----------------------------------------------------------------------


@measured(
    REGISTRY,
    Expected(causes=("administrative",)),
    Case(depth=1, pattern="randread"),
    Case(depth=1, namespaces=4, pattern="randwrite"),
)
def controller_is_reset(run: Measurement) -> None:
    """``nvme reset`` of the active path, which is back within milliseconds."""
    run.fabric.reset(run.active)
    run.await_resumed()


# -- nothing ---------------------------------------------------------------------------------


@measured(
    REGISTRY,
    Expected(failovers=False, pause=False),
    Case(depth=8, pattern="randrw", slow_seconds=0.3),
    Case(depth=8, pattern="randread", slow_seconds=0.3, iopolicy="round-robin"),
)
def slow_device(run: Measurement) -> None:
    """Every request takes 0.3 s, on any path: slow, but moving."""
    assert run.active
    time.sleep(10)


@measured(
    REGISTRY,
    Expected(failovers=False, pause=False),
    Case(depth=4, namespaces=2, pattern="randrw", quiet=True),
)
def quiet_minutes(run: Measurement) -> None:
    """Nothing is wrong, and now and then an application does a little."""
    assert run.active
    time.sleep(120)
