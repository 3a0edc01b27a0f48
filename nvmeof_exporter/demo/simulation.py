"""A node in virtual time: devices, faults, the passing of time, and what there is to see.

Pure: no clock, no thread, no file. The same seed and the same calls give the
same history, so that a failure can be replayed.
"""

from __future__ import annotations

import random
import uuid
from typing import TYPE_CHECKING

from nvmeof_exporter.demo import view
from nvmeof_exporter.demo.agenda import Agenda
from nvmeof_exporter.demo.announcer import Announcer
from nvmeof_exporter.demo.devices import (
    Connection,
    Controller,
    Namespace,
    Netdev,
    Subsystem,
    Timeouts,
)
from nvmeof_exporter.demo.inventory import Inventory
from nvmeof_exporter.demo.kernel import KERNELS
from nvmeof_exporter.demo.recovery import Recovery
from nvmeof_exporter.demo.traffic import Traffic, waiting
from nvmeof_exporter.demo.truth import Truth
from nvmeof_exporter.model import ANA_STATES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvmeof_exporter.demo.load import Load
    from nvmeof_exporter.model import Event, PathId, Snapshot

__all__ = ["DISCOVERY_NQN", "Node"]

DISCOVERY_NQN = "nqn.2014-08.org.nvmexpress.discovery"

_HOST_UUID = uuid.UUID("2277e1a9-8364-4aca-974f-47b268ce22da")


class Node:
    """One host with its subsystems, and the targets behind them.

    Args:
        kernel: a key of KERNELS.
        seed: of all randomness.
        name: makes the host's identity; always the same one when empty.
        io_timeout: ``nvme_core.io_timeout`` in seconds.

    Raises:
        ValueError: nobody knows that kernel.

    """

    def __init__(
        self, kernel: str = "7.3", seed: int = 1, *, name: str = "", io_timeout: int = 30
    ) -> None:
        if kernel not in KERNELS:
            known = ", ".join(KERNELS)
            raise ValueError(f"kernel {kernel!r}: expected one of {known}")
        self.kernel = KERNELS[kernel]
        self.io_timeout = io_timeout
        self.hostid = str(uuid.uuid5(_HOST_UUID, name) if name else _HOST_UUID)
        self.hostnqn = f"nqn.2014-08.org.nvmexpress:uuid:{self.hostid}"
        self.netdevs: dict[str, Netdev] = {}
        self.truth = Truth()
        self._agenda = Agenda()
        self._chance = random.Random(seed)
        self._announcer = Announcer(self._agenda, self.kernel)
        self._traffic = Traffic(
            self._agenda, self.kernel, self._chance, self.truth, self._announcer
        )
        self._recovery = Recovery(
            self._agenda, self.kernel, self._chance, self._traffic, self._announcer, io_timeout
        )
        self._inventory = Inventory(self._agenda, self._traffic, self._announcer)
        self._recovery.on_live = self._inventory.scan
        self._recovery.on_removed = self._inventory.remove
        self.subsystems = self._inventory.subsystems

    # Time, and what is to be seen

    @property
    def now(self) -> float:
        """Seconds since the node began."""
        return self._agenda.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._agenda.run(seconds)

    @property
    def events(self) -> tuple[Event, ...]:
        """What the kernel announced since the last ``drain_events``."""
        return self._announcer.events

    def drain_events(self) -> list[Event]:
        """Return what the kernel announced since the last call; long runs must."""
        return self._announcer.drain()

    def snapshot(self, monotonic: float, wall: float) -> Snapshot:
        """Return what the exporter would read of this node's ``/sys`` now."""
        return view.snapshot(self, monotonic, wall)

    def waiting(self, namespace: Namespace) -> int:
        """Count the requests of a namespace that neither completed nor failed yet."""
        return len(waiting(namespace))

    def longest_wait(self, namespace: Namespace) -> float:
        """Return for how many seconds the oldest unanswered request has waited; 0 for none."""
        return max((self.now - request.issued for request in waiting(namespace)), default=0.0)

    def connection(self, label: str) -> Connection:
        """Find a path by its label (``str(PathId)``).

        Raises:
            KeyError: there is none.

        """
        for subsystem in self.subsystems:
            for connection in subsystem.connections:
                if str(connection.path_id) == label and not subsystem.discovery:
                    return connection
        raise KeyError(label)

    # Building

    def add_netdev(
        self, name: str, address: str, *, rdma: str = "", pci: str = "", speed: int = 10_000
    ) -> Netdev:
        """Add an interface with its address.

        Args:
            name: the kernel's.
            address: IPv4.
            rdma: name of the RDMA device on it; none when empty.
            pci: its PCI function; virtual when empty.
            speed: in Mb/s, one that has a name in InfiniBand.

        """
        netdev = self.netdevs[name] = Netdev(name, address, rdma, pci, speed)
        return netdev

    def add_subsystem(
        self,
        nqn: str,
        *,
        iopolicy: str = "numa",
        model: str = "ACME-Flash",
        serial: str = "",
        discovery: bool = False,
    ) -> Subsystem:
        """Add a target subsystem, to be connected to later.

        Raises:
            ValueError: this kernel does not have the policy.

        """
        if iopolicy not in self.kernel.policies:
            raise ValueError(f"iopolicy {iopolicy!r}: kernel {self.kernel.version} has it not")
        subsystem = Subsystem(
            nqn=nqn,
            model=model,
            serial=serial or f"{self._chance.getrandbits(80):020x}",
            firmware=self.kernel.firmware,
            iopolicy=iopolicy,
            discovery=discovery,
        )
        self.subsystems.append(subsystem)
        return subsystem

    def add_namespace(
        self, subsystem: Subsystem, nsid: int, *, group: int = 1, size_bytes: int = 128 << 20
    ) -> Namespace:
        """Add a namespace in an ANA group; controllers that are live find it at once."""
        identity = uuid.UUID(int=self._chance.getrandbits(128), version=4)
        namespace = Namespace(subsystem, nsid, group, size_bytes, str(identity))
        subsystem.namespaces.append(namespace)
        for connection in subsystem.connections:
            connection.ana.setdefault(group, "optimized")
        self._inventory.scan_live(subsystem)
        return namespace

    def add_path(
        self,
        subsystem: Subsystem,
        path_id: PathId,
        netdev: Netdev,
        *,
        timeouts: Timeouts | None = None,
        ana: dict[int, str] | None = None,
    ) -> Connection:
        """Configure a path over ``netdev`` and connect it; ``ana`` per group, else optimized."""
        groups = {namespace.group: "optimized" for namespace in subsystem.namespaces}
        connection = Connection(
            subsystem, path_id, netdev, timeouts or Timeouts(), {**groups, **(ana or {})}
        )
        subsystem.connections.append(connection)
        self.connect(connection)
        return connection

    def connect(
        self, connection: Connection, instance: int | None = None, *, renumber: bool = False
    ) -> Controller:
        """Make a new controller for a path; see ``Inventory.connect``."""
        return self._inventory.connect(connection, instance, renumber=renumber)

    def set_load(self, namespace: Namespace, load: Load | None) -> None:
        """Start, change or (None) stop the I/O of a namespace's application."""
        self._traffic.set_load(namespace, load)
        self._inventory.forget_if_unused(namespace.subsystem)

    # Faults, each with its end

    def black_hole(self, connection: Connection) -> None:
        """Drop every packet of a path: nobody is told."""
        already, connection.dropping = connection.silent, True
        if not already:
            self._recovery.silenced(connection)

    def heal(self, connection: Connection) -> None:
        """Let the packets through again."""
        connection.dropping = False
        self._recovery.heard(connection)

    def link_down(self, netdev: Netdev) -> None:
        """Take the carrier of an interface away; every path over it falls silent."""
        if netdev.carrier:
            netdev.carrier = False
            netdev.carrier_changes += 1
            self._announcer.carrier(netdev)
            for connection in self._over(netdev):
                if not connection.dropping:
                    self._recovery.silenced(connection)

    def link_up(self, netdev: Netdev) -> None:
        """Give the carrier back."""
        if not netdev.carrier:
            netdev.carrier = True
            netdev.carrier_changes += 1
            self._announcer.carrier(netdev)
            for connection in self._over(netdev):
                self._recovery.heard(connection)

    def port_removed(self, connection: Connection) -> None:
        """Remove the target's port: it closes the connection and refuses new ones."""
        connection.refusing = True
        self._recovery.refused(connection)

    def port_restored(self, connection: Connection) -> None:
        """Bring the target's port back; the next attempt succeeds."""
        connection.refusing = False

    def set_ana(self, connection: Connection, group: int, state: str) -> None:
        """Change the ANA state of a group at the target's end of a path.

        Raises:
            ValueError: no such state.

        """
        if state not in ANA_STATES or state == "unknown":
            raise ValueError(f"ANA state {state!r}: expected one of {', '.join(ANA_STATES[:-1])}")
        connection.ana[group] = state
        if connection.controller is not None:
            self._recovery.ana_changed(connection.controller)

    def reset(self, connection: Connection) -> None:
        """Reset the path's controller, as ``nvme reset`` does."""
        if connection.controller is not None:
            self._recovery.reset(connection.controller)

    def disconnect(self, connection: Connection) -> None:
        """Remove the path's controller, as ``nvme disconnect`` does."""
        if connection.controller is not None:
            self._recovery.disconnect(connection.controller)

    def disable(self, namespace: Namespace) -> None:
        """Disable a namespace at the target: its disks go, its I/O fails."""
        namespace.enabled = False
        self._inventory.scan_live(namespace.subsystem)

    def enable(self, namespace: Namespace) -> None:
        """Enable a namespace again: it comes back as another head."""
        namespace.enabled = True
        self._inventory.scan_live(namespace.subsystem)

    def _over(self, netdev: Netdev) -> Sequence[Connection]:
        return [c for s in self.subsystems for c in s.connections if c.netdev is netdev]
