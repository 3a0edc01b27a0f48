"""In which circumstances a fault is injected, and what must be said of it."""

from __future__ import annotations

from dataclasses import dataclass

from tests.kernel.guest.fabric import FabricSettings
from tests.kernel.guest.initiator import ConnectOptions
from tests.kernel.guest.load import LoadSettings

__all__ = ["Case", "Expected"]


#: Requests in flight at most, over all disks, for each millisecond between two bursts.
_PER_MS = 2


@dataclass(frozen=True)
class Case:
    """One combination of connection and load. Times in seconds.

    ``ana`` has the first state of each port, hence also how many paths there are.
    ``slow_seconds`` and ``fails`` are those of FabricSettings and LoadSettings.
    ``busy``: the application does nothing but requests, so that the processor has no time
    to spare; ``quiet``: it does little. Else all disks have some thousand requests a second.
    """

    keep_alive: int = 1
    depth: int = 1
    namespaces: int = 1
    pattern: str = "randread"
    iopolicy: str = "numa"
    transport: str = "tcp"
    ana: tuple[str, ...] = ("optimized", "optimized")
    reconnect_delay: int = 1
    ctrl_loss: int = 600
    slow_seconds: float = 0.0
    busy: bool = False
    quiet: bool = False
    fails: bool = False

    @property
    def fabric(self) -> FabricSettings:
        """What is served and how it is connected."""
        options = ConnectOptions(self.keep_alive, self.reconnect_delay, self.ctrl_loss)
        return FabricSettings(
            self.transport, self.namespaces, self.iopolicy, self.ana, self.slow_seconds, options
        )

    @property
    def load(self) -> LoadSettings:
        """What the application does."""
        if self.quiet:
            return LoadSettings(self.pattern, self.depth, think_ms=9000, burst=100)
        think_ms = 0 if self.busy else max(1, self.depth * self.namespaces // _PER_MS)
        return LoadSettings(self.pattern, self.depth, think_ms, self.depth, self.fails)

    def __str__(self) -> str:
        """A name that tells cases apart, of letters, digits and underscores."""
        policy = self.iopolicy.replace("-", "_")
        paths = len(self.ana)
        return (
            f"{policy}_{self.pattern}_qd{self.depth}_ns{self.namespaces}_ka{self.keep_alive}"
            + (f"_paths{paths}" if paths > 2 else "")
            + ("_busy" if self.busy else "")
        )


@dataclass(frozen=True)
class Expected:
    """What the exporter must say.

    ``failovers``: True for exactly one of each path that was lost, False for none, None
    where the kernel may go on over any path. ``pause``: whether there is one, to be held
    against what the application has timed.
    """

    failovers: bool | None = True
    causes: tuple[str, ...] = ()
    pause: bool = True
