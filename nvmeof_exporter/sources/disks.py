"""One object per block device, holding the attributes that are read of it; see ``nodes``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nvmeof_exporter.model import NamespacePath
from nvmeof_exporter.sources import decode

if TYPE_CHECKING:
    from nvmeof_exporter.model import Controller
    from nvmeof_exporter.sources.reader import Attribute, Reader
    from nvmeof_exporter.sources.topology import DiskDirectory

__all__ = ["STATE_BYTES", "Changes", "DiskNode"]

#: Bytes that hold a state, and a ``stat`` line of 17 numbers of 64 bits. Python takes what is
#: larger than 512 bytes, its own header included, from the C library, and in twice the time.
STATE_BYTES = 64
_STAT_BYTES = 384


@dataclass(slots=True)
class Changes:
    """What is not as it was of a subsystem: noted by its devices, heeded by the next poll.

    ``dirty``: something about itself, its controllers or its disks; ``moved``: counters or
    ANA states of its disks.
    """

    dirty: bool = True
    moved: bool = True


class DiskNode:
    """A head, a hidden path disk, or a plain disk.

    ``nsid``, ``wwid`` and ``size`` are slow. ``failovers`` (paths),
    ``requeued`` and ``failed`` (heads) are ``diag/`` counters of kernel 7.2+.

    ``built`` is the newest value object of a path disk or plain disk, ``moved`` says
    that what was built of it, or with it, is out of date. ``changes`` are its subsystem's.
    """

    __slots__ = (
        "ana_state",
        "built",
        "changes",
        "directory",
        "failed",
        "failovers",
        "moved",
        "nsid",
        "requeued",
        "size",
        "stat",
        "wwid",
    )

    def __init__(self, reader: Reader, directory: DiskDirectory, *, head: bool) -> None:
        self.directory = directory
        self.changes: Changes | None = None
        self.moved = True
        self.built: NamespacePath | None = None
        base = directory.path
        self.stat = reader.attribute(f"{base}/stat", decode.io_counters, size=_STAT_BYTES)
        self.nsid = reader.attribute(f"{base}/nsid", decode.required_text, keep=False)
        self.wwid = reader.attribute(f"{base}/wwid", decode.text, keep=False)
        self.size = reader.attribute(f"{base}/size", decode.sectors, keep=False)
        self.ana_state: Attribute[str] | None = None
        self.failovers: Attribute[int] | None = None
        self.requeued: Attribute[int] | None = None
        self.failed: Attribute[int] | None = None
        diag = f"{base}/diag"
        if head:
            self.requeued = reader.attribute(
                f"{diag}/io_requeue_no_usable_path_count", decode.counter, size=STATE_BYTES
            )
            self.failed = reader.attribute(
                f"{diag}/io_fail_no_available_path_count", decode.counter, size=STATE_BYTES
            )
        else:
            self.ana_state = reader.attribute(
                f"{base}/ana_state", decode.ana_state, size=STATE_BYTES
            )
            self.failovers = reader.attribute(
                f"{diag}/multipath_failover_count", decode.counter, size=STATE_BYTES
            )
        self.refresh_slow()

    @property
    def gone(self) -> bool:
        """Whether the device went away."""
        return self.stat.gone or (self.ana_state is not None and self.ana_state.gone)

    @property
    def counters(self) -> list[Attribute[Any]]:
        """What is read at every poll, but for the ANA state. Must be read before the states.

        The kernel changes a path's state first and cancels its requests then,
        so a cancellation is never seen beside an older state. The failover
        count, which the kernel raises before it ends the request, is read after.
        """
        return [a for a in (self.stat, self.requeued, self.failed) if a is not None]

    def move(self) -> None:
        """Take it that a counter or the ANA state is another one."""
        self.moved = True
        if self.changes is not None:
            self.changes.moved = True

    def refresh_slow(self) -> bool:
        """Read the size again, and the names until they are known. Returns whether one changed."""
        changed = [a.refresh() for a in (self.nsid, self.wwid) if a.value is None]
        changed.append(self.size.refresh())
        if any(changed):
            self.moved = True
            if self.changes is not None:
                self.changes.dirty = True
        return any(changed)

    def retry_absent(self) -> None:
        """Look again for files that were absent."""
        for attribute in self._all():
            attribute.retry()

    def close(self) -> None:
        """Give back every descriptor."""
        for attribute in self._all():
            attribute.close()

    def build(self, controller: Controller) -> NamespacePath:
        """Make the value object of a path disk or plain disk over ``controller``."""
        ana, last_ana = self._ana()
        self.built = NamespacePath(
            disk=self.directory.name,
            controller=controller,
            ana_state=ana,
            io=self.stat.value,
            failovers=self.failovers.value if self.failovers is not None else None,
            hidden=self.directory.hidden,
            last_ana_state=last_ana,
        )
        self.moved = False
        return self.built

    def _ana(self) -> tuple[str | None, str]:
        """Return the ANA state (``""``: there is no ANA, None: not known) and the last one known.

        A disk that has not even counters is going: that its ANA state is
        absent does not mean that the controller has none.
        """
        own = self.ana_state
        if self.gone or own is None or (own.absent and self.stat.absent):
            return None, ""
        if own.absent:
            return "", ""
        return own.value, own.last or ""

    def _all(self) -> list[Attribute[Any]]:
        optional = (self.ana_state, self.failovers, self.requeued, self.failed)
        slow = (self.nsid, self.wwid, self.size)
        return [self.stat, *slow, *(a for a in optional if a is not None)]
