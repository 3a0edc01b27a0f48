"""One object per NVMe device, holding the attributes that are read of it.

*Fast* attributes (state, ANA state, disk counters) are read at every poll on
kept descriptors; *slow* ones (names, addresses, settings) when a device is
found and every few seconds after, a few devices per poll.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nvmeof_exporter.model import Controller, PathId, PathSettings
from nvmeof_exporter.sources import decode
from nvmeof_exporter.sources.disks import STATE_BYTES, Changes

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvmeof_exporter.model import Subsystem
    from nvmeof_exporter.sources.disks import DiskNode
    from nvmeof_exporter.sources.namespaces import Arranged
    from nvmeof_exporter.sources.reader import Attribute, Reader
    from nvmeof_exporter.sources.topology import (
        ControllerDirectory,
        SubsystemDirectory,
    )

__all__ = ["ControllerNode", "SubsystemNode"]

#: Transports of NVMe over Fabrics; what else is not below ``nvme-fabrics`` is a local drive.
_FABRICS = frozenset({"tcp", "rdma", "fc", "loop"})

#: The well-known NQN of discovery services (NVMe Base Specification).
DISCOVERY_NQN = "nqn.2014-08.org.nvmexpress.discovery"


class ControllerNode:
    """A controller with its path disks.

    ``identity`` is what never changes while the controller exists; it is kept
    when ``address`` cannot be read for a while. ``ordinal`` tells equal
    identities of one NQN apart and is given once; 0 until then. ``built`` is the
    newest value object, None when it is out of date; ``changes`` are its subsystem's.
    """

    def __init__(self, reader: Reader, directory: ControllerDirectory) -> None:
        self.directory = directory
        self.disks: list[DiskNode] = []
        self.changes: Changes | None = None
        self.built: Controller | None = None
        self.ordinal = 0
        base = directory.path

        def fast(name: str, how: Callable[[bytes], Any]) -> Attribute[Any]:
            return reader.attribute(f"{base}/{name}", how, size=STATE_BYTES)

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
        #: Given once, at connect time: read until they are known.
        self._given: list[Attribute[Any]] = [self.transport, self.subsysnqn, *self._host]
        self._slow: list[Attribute[Any]] = [
            self.address,
            self.cntrltype,
            self.cntlid,
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

    def change(self) -> None:
        """Take it that the state, or what was read with it, is another one."""
        self.built = None
        if self.changes is not None:
            self.changes.dirty = True

    def change_state(self) -> None:
        """Take it that ``state`` changed; what a reconnect may have changed is read again."""
        self.change()
        self.refresh_slow()

    def refresh_slow(self) -> None:
        """Read identity and settings again; a new identity asks for a new ordinal."""
        changed = [a.refresh() for a in self._given if not a.value]
        changed += [attribute.refresh() for attribute in self._slow]
        if not any(changed):
            return
        self.change()
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
        return [self.state, *self._given, *self._slow]

    def build(self, nqn: str, default_io_timeout: float | None) -> Controller:
        """Return the value object, made anew when it is out of date.

        Args:
            nqn: of its subsystem.
            default_io_timeout: the module's, seconds.

        """
        if self.built is not None and self.built.nqn == nqn:
            return self.built
        state = self.state.value[0] if self.state.value is not None else None
        # Of a device that is gone, the last state says nothing any more.
        last = self.state.last if not self.state.gone else None
        settings = {name: attribute.value for name, attribute in self._settings.items()}
        if settings["io_timeout"] is None:
            settings["io_timeout"] = default_io_timeout
        address = self.address.value
        hostnqn, hostid = (attribute.last or "" for attribute in self._host)
        resets, reconnects = (attribute.value for attribute in self._diag)
        self.built = Controller(
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
        return self.built


class SubsystemNode:
    """A subsystem with its controllers and heads; without a directory it gathers orphans.

    ``built`` is the newest value object, ``changes`` say what of it is out of date.
    ``arranged`` are its disks by namespace.
    """

    def __init__(self, reader: Reader, directory: SubsystemDirectory) -> None:
        self.directory = directory
        self.controllers: list[ControllerNode] = []
        self.heads: list[DiskNode] = []
        self.changes = Changes()
        self.built: Subsystem | None = None
        self.arranged: tuple[Arranged, ...] = ()
        self._local = False
        base = directory.path
        self._slow = {
            name: reader.attribute(f"{base}/{name}", how, keep=False)
            for name, how in (
                ("subsysnqn", decode.subsystem_nqn),
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
            self.changes.dirty = True

    def retry_absent(self) -> None:
        """Look again for files that were absent."""
        for attribute in self._slow.values():
            attribute.retry()

    def close(self) -> None:
        """Give back every descriptor."""
        for attribute in self._slow.values():
            attribute.close()
