"""A subsystem connected over several paths, with the faults that can befall it."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.kernel.guest import initiator, network
from tests.kernel.guest.initiator import ConnectOptions, FabricPath
from tests.kernel.guest.target import SERVICE, Target
from tests.kernel.guest.waiting import await_

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.kernel.guest.network import BlackHole
    from tests.kernel.guest.target import BackingDisk

__all__ = ["RDMA_LINK_LOSS", "Fabric", "FabricSettings"]

#: Long enough for a reconnect whose first SYN packets a black hole swallowed.
_CONNECT_SECONDS = 30.0


@dataclass(frozen=True)
class FabricSettings:
    """How a subsystem is served and connected.

    ``ana`` holds the first state of each port, hence also how many paths there are.
    With ``slow_seconds`` its disks take that long for each request.
    """

    transport: str = "tcp"
    namespaces: int = 1
    iopolicy: str = "numa"
    ana: tuple[str, ...] = ("optimized", "optimized")
    slow_seconds: float = 0.0
    options: ConnectOptions = field(default_factory=ConnectOptions)

    @property
    def links(self) -> tuple[int, ...]:
        """Numbers of the links, each with a port and a path."""
        return tuple(range(1, len(self.ana) + 1))


#: For soft-RoCE links that go down. Both ends share the device, whose connection manager
#: answers nobody after that: an attempt to reconnect would take more than a minute to fail.
#: A target whose own keep-alive timer ends meanwhile never gets rid of its half of the
#: connection (6.1), so requests must show the loss instead.
RDMA_LINK_LOSS = FabricSettings(
    transport="rdma",
    namespaces=2,
    iopolicy="round-robin",
    options=ConnectOptions(keep_alive=60, reconnect_delay=60),
)


class Fabric:
    """Target and initiator of one subsystem; a context manager that leaves no trace."""

    def __init__(
        self,
        nqn: str,
        settings: FabricSettings,
        disks: Sequence[BackingDisk],
        black_hole: BlackHole,
    ) -> None:
        self.nqn = nqn
        self.settings = settings
        self._black_hole = black_hole
        self._links = settings.links
        used = list(disks[: settings.namespaces])
        self._target = Target(nqn, used, settings.transport, self._links)
        self.paths: dict[int, FabricPath] = {}
        self._worn_out: set[int] = set()  # links whose soft-RoCE device accepts no connection

    def __enter__(self) -> Fabric:  # noqa: PYI034 - typing.Self is of Python 3.11
        with ExitStack() as undo:
            undo.callback(self.close)
            for link, state in zip(self._links, self.settings.ana, strict=True):
                self.set_ana(link, state)
            for link in self._links:
                self.connect(link)
            self.await_live()
            self.set_iopolicy(self.settings.iopolicy)
            await_(
                lambda: len(self.heads()) == self.settings.namespaces, 10, "a disk per namespace"
            )
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Undo every fault, disconnect and stop serving."""
        self._black_hole.restore()
        for link in self._links:
            self.raise_link(link)
        for path in self.paths.values():
            path.disconnect()
        self._target.remove()
        for link in self._worn_out:
            network.replace_rdma_device(link)

    # -- looking -------------------------------------------------------------------------

    def heads(self) -> list[str]:
        """Names of the disks that applications open."""
        return initiator.heads(self.nqn)

    def address(self, link: int) -> str:
        """The transport address of the path over ``link``."""
        return self._target.address(link)

    def label(self, link: int) -> str:
        """The exporter's name of the path over ``link``."""
        return f"{self.settings.transport}:{self.address(link)}:{SERVICE}"

    def interface(self, link: int) -> str:
        """The initiator's network interface of ``link``."""
        return f"{'h' if self.settings.transport == 'tcp' else 'r'}{link}"

    def describe(self) -> str:
        """The state of every path, for a failure report."""
        return "\n".join(
            f"path {link}: {path.controller} {path.state} {path.ana_states()}, "
            f"{path.completed()} completed, {path.in_flight()} in flight"
            for link, path in self.paths.items()
        )

    def await_live(self, *links: int) -> None:
        """Wait until the controllers over ``links`` (default: all) are live."""
        for link in links or self._links:
            path = self.paths[link]
            await_(lambda path=path: path.state == "live", _CONNECT_SECONDS, f"path {link} live")  # type: ignore[misc]

    def await_state(self, state: str, *links: int) -> None:
        """Wait until the controllers over ``links`` are in ``state``."""
        for link in links:
            path = self.paths[link]
            await_(lambda path=path: path.state == state, 20, f"path {link} {state}")  # type: ignore[misc]

    def await_down(self, *links: int, seconds: float = 40.0) -> None:
        """Wait until the kernel has given up the paths over ``links``."""
        for link in links:
            path = self.paths[link]
            await_(lambda path=path: path.state != "live", seconds, f"path {link} down")  # type: ignore[misc]

    def await_gone(self, *links: int, seconds: float = 40.0) -> None:
        """Wait until the kernel has removed the controllers over ``links``."""
        for link in links:
            path = self.paths[link]
            await_(lambda path=path: path.state == "gone", seconds, f"path {link} gone")  # type: ignore[misc]

    # -- what an administrator does --------------------------------------------------------

    def connect(self, link: int) -> None:
        """Connect the path over ``link`` with the fabric's options."""
        settings = self.settings
        controller = initiator.connect(
            self.nqn, settings.transport, self.address(link), settings.options
        )
        self.paths[link] = FabricPath(controller, link)

    def set_iopolicy(self, policy: str) -> None:
        """Choose how the kernel spreads I/O; raises OSError where it knows no such policy."""
        subsystem = initiator.subsystem_of(self.nqn)
        if subsystem is None:
            raise LookupError(f"{self.nqn}: not connected")
        (subsystem / "iopolicy").write_text(policy)

    def replace_rdma_device(self, link: int) -> None:
        """Connect the path over ``link`` anew after its soft-RoCE device was made anew."""
        self.paths[link].disconnect()
        self.close_port(link)
        network.replace_rdma_device(link)
        self._worn_out.discard(link)
        self.open_port(link)
        self.connect(link)
        self.await_live(link)

    # -- faults --------------------------------------------------------------------------

    def black_hole(self, *links: int) -> None:
        """Drop every packet on ``links``; the carrier stays."""
        for link in links:
            self._black_hole.swallow(link)

    def restore_packets(self) -> None:
        """End every black hole."""
        self._black_hole.restore()

    def lower_link(self, *links: int) -> None:
        """Take the initiator's interface of each of ``links`` down."""
        for link in links:
            network.set_link(self.interface(link), up=False)
        if self.settings.transport == "rdma":
            self._worn_out.update(links)

    def raise_link(self, *links: int) -> None:
        """Take the initiator's interface of each of ``links`` up again."""
        for link in links:
            network.set_link(self.interface(link), up=True)

    def close_port(self, *links: int) -> None:
        """Remove the target's port of each of ``links``."""
        for link in links:
            self._target.close_port(link)

    def open_port(self, *links: int) -> None:
        """Serve the target's port of each of ``links`` again."""
        for link in links:
            with suppress(FileExistsError):
                self._target.open_port(link)

    def reset(self, link: int) -> None:
        """Reset the controller over ``link``, as ``nvme reset`` does."""
        initiator.reset(self.paths[link].controller)

    def set_ana(self, link: int, state: str, group: int | None = None) -> None:
        """Announce an ANA ``state`` of ``group`` (default: every one) on the port of ``link``."""
        self._target.set_ana(link, state, group)
