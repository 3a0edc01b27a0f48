"""One object per NVMe device, holding the attributes that are read of it.

*Fast* attributes (state, ANA state, disk counters) are read at every poll on
kept descriptors; *slow* ones (names, addresses, settings) when a device is
found and every few seconds after, a few devices per poll.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nvmeof_exporter.model import Controller, NamespacePath, PathId, PathSettings
from nvmeof_exporter.sources import decode

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvmeof_exporter.sources.reader import Attribute, Reader
    from nvmeof_exporter.sources.topology import (
        ControllerDirectory,
        DiskDirectory,
        SubsystemDirectory,
    )

__all__ = ["ControllerNode", "DiskNode", "SubsystemNode"]

#: Bytes that hold a state or a ``stat`` line with room to spare.
_STATE_BYTES = 64
_STAT_BYTES = 512

#: Transports of NVMe over Fabrics; what else is not below ``nvme-fabrics`` is a local drive.
_FABRICS = frozenset({"tcp", "rdma", "fc", "loop"})

#: The well-known NQN of discovery services (NVMe Base Specification).
DISCOVERY_NQN = "nqn.2014-08.org.nvmexpress.discovery"


class DiskNode:
    """A head, a hidden path disk, or a plain disk.

    ``nsid``, ``wwid`` and ``size`` are slow. ``failovers`` (paths),
    ``requeued`` and ``failed`` (heads) are ``diag/`` counters of kernel 7.2+.
    """

    def __init__(self, reader: Reader, directory: DiskDirectory, *, head: bool) -> None:
        self.directory = directory
        self.dirty = True
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
                f"{diag}/io_requeue_no_usable_path_count", decode.counter, size=_STATE_BYTES
            )
            self.failed = reader.attribute(
                f"{diag}/io_fail_no_available_path_count", decode.counter, size=_STATE_BYTES
            )
        else:
            self.ana_state = reader.attribute(
                f"{base}/ana_state", decode.ana_state, size=_STATE_BYTES
            )
            self.failovers = reader.attribute(
                f"{diag}/multipath_failover_count", decode.counter, size=_STATE_BYTES
            )
        self._slow: tuple[Attribute[Any], ...] = (self.nsid, self.wwid, self.size)
        self.refresh_slow()

    @property
    def gone(self) -> bool:
        """Whether the device went away."""
        return self.stat.gone or (self.ana_state is not None and self.ana_state.gone)

    def refresh_counters(self) -> None:
        """Read the disk's counters. Must come before the states of the same poll.

        The kernel changes a path's state first and cancels its requests then,
        so a cancellation is never seen beside an older state. The failover
        count, which the kernel raises before it ends the request, is read after.
        """
        if self.stat.refresh():
            self.dirty = True
            if self.failovers is not None:
                self.failovers.refresh()
        if self.requeued is not None and self.requeued.refresh():
            self.dirty = True
        if self.failed is not None and self.failed.refresh():
            self.dirty = True

    def refresh_ana_state(self) -> None:
        """Read the ANA state of a path disk."""
        if self.ana_state is not None and self.ana_state.refresh():
            self.dirty = True

    def refresh_slow(self) -> bool:
        """Read the names and the size again. Returns whether one changed."""
        changed = [attribute.refresh() for attribute in self._slow]
        if any(changed):
            self.dirty = True
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
        return NamespacePath(
            disk=self.directory.name,
            controller=controller,
            ana_state=ana,
            io=self.stat.value,
            failovers=self.failovers.value if self.failovers is not None else None,
            hidden=self.directory.hidden,
            last_ana_state=last_ana,
        )

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
        return [self.stat, *self._slow, *(a for a in optional if a is not None)]


class ControllerNode:
    """A controller with its path disks.

    ``identity`` is what never changes while the controller exists; it is kept
    when ``address`` cannot be read for a while. ``ordinal`` tells equal
    identities of one NQN apart and is given once; 0 until then.
    """

    def __init__(self, reader: Reader, directory: ControllerDirectory) -> None:
        self.directory = directory
        self.disks: list[DiskNode] = []
        self.dirty = True
        self.ordinal = 0
        base = directory.path

        def fast(name: str, how: Callable[[bytes], Any]) -> Attribute[Any]:
            return reader.attribute(f"{base}/{name}", how, size=_STATE_BYTES)

        def slow(name: str, how: Callable[[bytes], Any]) -> Attribute[Any]:
            return reader.attribute(f"{base}/{name}", how, keep=False)

        self.state: Attribute[tuple[str, str]] = fast("state", decode.controller_state)
        self.transport: Attribute[str] = slow("transport", decode.required_text)
        self.address: Attribute[decode.Address] = slow("address", decode.address)
        self.subsysnqn: Attribute[str] = slow("subsysnqn", decode.subsystem_nqn)
        self.cntrltype: Attribute[str] = slow("cntrltype", decode.text)
        self.cntlid: Attribute[str] = slow("cntlid", decode.required_text)
        self._host = [slow("hostnqn", decode.text), slow("hostid", decode.text)]
        self._diag = [
            slow("diag/reset_count", decode.counter),
            slow("diag/reconnect_count", decode.counter),
        ]
        self._settings = {
            "keep_alive_timeout": slow("kato", decode.seconds),
            "ctrl_loss_timeout": slow("ctrl_loss_tmo", decode.seconds_or_off),
            "reconnect_delay": slow("reconnect_delay", decode.seconds_or_off),
            "fast_io_fail_timeout": slow("fast_io_fail_tmo", decode.seconds_or_off),
            "io_timeout": slow("io_timeout", decode.milliseconds),
            "queues": slow("queue_count", decode.counter),
        }
        self._slow: list[Attribute[Any]] = [
            self.transport,
            self.address,
            self.subsysnqn,
            self.cntrltype,
            self.cntlid,
            *self._host,
            *self._diag,
            *self._settings.values(),
        ]
        self.identity = PathId(transport="unknown", traddr="unknown")
        self.state.refresh()
        self.refresh_slow()

    @property
    def nqn(self) -> str:
        """The NQN of its subsystem, ``""`` while it could not be read."""
        return self.subsysnqn.last or ""

    @property
    def discovery(self) -> bool:
        """Whether this is a discovery controller: no way to any namespace."""
        return self.cntrltype.last == "discovery" or self.nqn == DISCOVERY_NQN

    @property
    def fabric(self) -> bool:
        """Whether this is NVMe over Fabrics and not a local drive."""
        return self.transport.last in _FABRICS or "/nvme-fabrics/" in self.directory.path

    @property
    def stale(self) -> bool:
        """Whether the device, or a disk of it, may have gone: it no longer answers."""
        return self.state.value is None or any(disk.gone for disk in self.disks)

    def refresh_state(self) -> None:
        """Read ``state``; what a reconnect may have changed is read again with it."""
        if self.state.refresh():
            self.dirty = True
            self.refresh_slow()

    def refresh_slow(self) -> None:
        """Read identity and settings again; a new identity asks for a new ordinal."""
        changed = [attribute.refresh() for attribute in self._slow]
        if not any(changed):
            return
        self.dirty = True
        before = self.identity
        transport = self.transport.last or "unknown"
        address = self.address.last
        if address is not None:
            self.identity = PathId(
                transport=transport,
                traddr=address.traddr,
                trsvcid=address.trsvcid,
                host_traddr=address.host_traddr,
                host_iface=address.host_iface,
            )
        elif self.address.absent:
            # nvme-loop has no address, and on some kernels not even the file.
            self.identity = PathId(transport=transport, traddr="")
        else:
            self.identity = replace(self.identity, transport=transport)
        if self.identity != before:
            self.ordinal = 0

    def retry_absent(self) -> None:
        """Look again for files that were absent."""
        for attribute in self._all():
            attribute.retry()

    def close(self) -> None:
        """Give back every descriptor."""
        for attribute in self._all():
            attribute.close()

    def _all(self) -> list[Attribute[Any]]:
        return [self.state, *self._slow]

    def build(self, nqn: str, default_io_timeout: float | None) -> Controller:
        """Make the value object; ``default_io_timeout`` (seconds) is the module's."""
        state = self.state.value[0] if self.state.value is not None else None
        # Of a device that is gone, the last state says nothing any more.
        last = self.state.last if not self.state.gone else None
        settings = {name: attribute.value for name, attribute in self._settings.items()}
        if settings["io_timeout"] is None:
            settings["io_timeout"] = default_io_timeout
        address = self.address.value
        hostnqn, hostid = (attribute.last or "" for attribute in self._host)
        resets, reconnects = (attribute.value for attribute in self._diag)
        return Controller(
            name=self.directory.name,
            nqn=nqn,
            path=replace(self.identity, ordinal=max(self.ordinal, 1)),
            state=state,
            raw_state=last[1] if last is not None else "",
            cntlid=self.cntlid.value or "",
            hostnqn=hostnqn,
            hostid=hostid,
            src_addr=address.src_addr if address is not None else "",
            resets=resets,
            reconnects=reconnects,
            settings=PathSettings(**settings),
        )


class SubsystemNode:
    """A subsystem with its controllers and heads; without a directory it gathers orphans."""

    def __init__(self, reader: Reader, directory: SubsystemDirectory) -> None:
        self.directory = directory
        self.controllers: list[ControllerNode] = []
        self.heads: list[DiskNode] = []
        self.dirty = True
        self._local = False
        base = directory.path
        self._slow = {
            name: reader.attribute(f"{base}/{name}", how, keep=False)
            for name, how in (
                ("subsysnqn", decode.text),
                ("subsystype", decode.text),
                ("model", decode.padded_text),
                ("serial", decode.padded_text),
                ("firmware_rev", decode.padded_text),
                ("iopolicy", decode.text),
            )
            if base
        }
        self.refresh_slow()

    def text(self, name: str) -> str:
        """Return a slow attribute's newest value, ``""`` when there never was one."""
        attribute = self._slow.get(name)
        return (attribute.last or "") if attribute is not None else ""

    @property
    def nqn(self) -> str:
        """The subsystem NQN; a controller's word for it when the directory has none."""
        own = self.text("subsysnqn")
        if own or not self.directory.path:
            return own
        return next((c.nqn for c in self.controllers if c.nqn), "")

    @property
    def discovery(self) -> bool:
        """Whether this is a discovery subsystem."""
        return (
            self.text("subsystype") == "discovery"
            or self.nqn == DISCOVERY_NQN
            or (bool(self.controllers) and all(c.discovery for c in self.controllers))
        )

    @property
    def fabric(self) -> bool:
        """Whether this is reached over fabrics, or over nothing any more and was no local drive."""
        if self.controllers:
            self._local = not any(c.fabric for c in self.controllers)
        return not self._local

    def refresh_slow(self) -> None:
        """Read names and policy again."""
        changed = [attribute.refresh() for attribute in self._slow.values()]
        if any(changed):
            self.dirty = True

    def retry_absent(self) -> None:
        """Look again for files that were absent."""
        for attribute in self._slow.values():
            attribute.retry()

    def close(self) -> None:
        """Give back every descriptor."""
        for attribute in self._slow.values():
            attribute.close()
