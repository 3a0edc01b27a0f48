"""RDMA ports: their state and every file of theirs that counts, whatever the driver.

A read may ask the firmware: it can take milliseconds, or until a reset is over. So
devices are read one by one, beside the poll loop, and one that hangs costs itself.
Layout: drivers/infiniband/core/sysfs.c (``ports/N/{state,rate,counters,hw_counters,...}``).
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeVar

from nvmeof_exporter.hardware import RdmaPort
from nvmeof_exporter.sources import decode, rdma_counters
from nvmeof_exporter.sources.once import read_once
from nvmeof_exporter.sources.rdma_netdevs import PortNetdevs
from nvmeof_exporter.sources.reader import FORBIDDEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nvmeof_exporter.sources.rdma_counters import Source
    from nvmeof_exporter.sources.reader import Attribute, Reader

__all__ = ["RdmaSource"]

T = TypeVar("T")

#: A file without a value is tried again after 1, 3, 7, ... and then each so many reads of the
#: device (5 minutes at 5 s): most such files never will have one, some come back from a reset.
_MOST_SKIPPED = 59

#: Seconds for one device, after which the rest of its files is not tried: each command to a
#: dead firmware waits for its own time-out, and the thread that does is lost for other work.
_GIVE_UP_SECONDS = 10.0

#: Digits of 64 bits and a newline.
_COUNTER_BYTES = 24

_DIRECTORIES = ("hw_counters", "counters")
_DEVICE_NAME = re.compile(r"([a-z][a-z0-9]*)_\d+", re.ASCII)


class RdmaSource:
    """The RDMA devices below ``class/infiniband``.

    Different devices may be read at the same time, one device by one thread at a time.

    Args:
        reader: counts what cannot be read.
        sysfs: where ``/sys`` is.
        include: names of devices that are read, matched whole; None: all.
        exclude: names of devices that are not, matched whole; None: none.
        clock: monotonic seconds.

    """

    def __init__(
        self,
        reader: Reader,
        sysfs: str,
        include: re.Pattern[str] | None = None,
        exclude: re.Pattern[str] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._class = f"{sysfs}/class/infiniband"
        self._include = include
        self._exclude = exclude
        self._clock = clock
        self._devices: dict[str, _Device] = {}

    def devices(self) -> list[str]:
        """List the devices to read, in order; asks no device. Those that went are forgotten.

        A link whose device is gone (a module that was removed half) is no device.
        """
        names = sorted(name for name in self._reader.names(self._class) if self._wanted(name))
        for name in set(self._devices) - set(names):
            self._forget(name)
        return names

    def read(self, device: str) -> tuple[RdmaPort, ...]:
        """Read the ports of one device; ``()`` when it is gone. May take as long as it likes.

        Counters of the device as a whole, where a port has none of its own: of a device with
        one port they are told as that port's, of one with several as those of port ``""``,
        which has statistics and traffic, but no state.

        Raises:
            TimeoutError: it answers so slowly that the rest of its files was not tried.

        """
        directory = os.path.realpath(f"{self._class}/{device}")
        try:
            inode = os.stat(directory).st_ino
        except OSError:
            self._forget(device)
            return ()
        known = self._devices.get(device)
        if known is None or not known.is_at(directory, inode):
            self._forget(device)
            known = _Device(self._reader, device, directory, inode)
            self._devices[device] = known
        return known.read(self._clock)

    def _wanted(self, name: str) -> bool:
        if self._include is not None and not self._include.fullmatch(name):
            return False
        if self._exclude is not None and self._exclude.fullmatch(name):
            return False
        return os.path.isdir(f"{self._class}/{name}")

    def _forget(self, name: str) -> None:
        gone = self._devices.pop(name, None)
        if gone is not None:
            self._reader.forget({gone.directory})


class _Device:
    """One device for as long as it stays. What never changes is read when it is found."""

    def __init__(self, reader: Reader, name: str, directory: str, inode: int) -> None:
        self.directory = directory
        self._inode = inode
        text = decode.text
        firmware = read_once(reader, f"{directory}/fw_ver", text) or ""
        hca = (
            read_once(reader, f"{directory}/hca_type", text)
            or read_once(reader, f"{directory}/board_id", text)
            or ""
        )
        octets = rdma_counters.words_of(_driver(name, directory))
        ports = f"{directory}/ports"
        numbers = sorted(filter(str.isdecimal, reader.names(ports)), key=int)
        found = {number: _files(reader, f"{ports}/{number}") for number in numbers}
        if not (found and all(map(_has_own, found.values()))):
            whole = {
                path: f for path, f in _files(reader, directory).items() if _has_own({path: f})
            }
            if len(numbers) == 1:
                found[numbers[0]].update(whole)
            elif whole:
                found[""] = whole
        self._ports = [
            _Port(
                reader, RdmaPort(name, number, firmware=firmware, hca=hca), directory, files, octets
            )
            for number, files in found.items()
        ]

    def is_at(self, directory: str, inode: int) -> bool:
        """Whether this is still the device there, not its successor of the same name."""
        return (self.directory, self._inode) == (directory, inode)

    def read(self, clock: Callable[[], float]) -> tuple[RdmaPort, ...]:
        """Read every port; raises TimeoutError."""
        ends = clock() + _GIVE_UP_SECONDS

        def check() -> None:
            if clock() > ends:
                raise TimeoutError(f"{self.directory}: no end after {_GIVE_UP_SECONDS:g} s")

        return tuple(port.read(check) for port in self._ports)


class _Port:
    """One port, or the device as a whole (number ``""``)."""

    def __init__(
        self,
        reader: Reader,
        port: RdmaPort,
        device: str,
        files: dict[str, str],
        word_octets: int,
    ) -> None:
        self._port = port
        base = f"{device}/ports/{port.port}"
        self._state = _Patient(reader.attribute(f"{base}/state", rdma_counters.port_state))
        self._physical = _Patient(
            reader.attribute(f"{base}/phys_state", rdma_counters.physical_state)
        )
        self._rate = _Patient(reader.attribute(f"{base}/rate", rdma_counters.rate))
        self._link_layer = _Patient(reader.attribute(f"{base}/link_layer", decode.text))
        self._netdevs = PortNetdevs(reader, device, port.port)
        self._counters = {path: _counter(reader, file) for path, file in files.items()}
        self._traffic = {
            field: _Traffic(sources, word_octets)
            for field, sources in rdma_counters.TRAFFIC.items()
        }

    def read(self, check: Callable[[], None]) -> RdmaPort:
        """Read the port; ``check`` is called before each counter."""
        port = self._read_link() if self._port.port else self._port
        values = {}
        for path, counter in self._counters.items():
            check()
            value = counter.read()
            if value is not None:
                values[path] = value
        amounts = {field: chosen.amount(values) for field, chosen in self._traffic.items()}
        told = {file for chosen in self._traffic.values() for file in chosen.files}
        return replace(
            port,
            received_bytes=amounts["received_bytes"],
            transmitted_bytes=amounts["transmitted_bytes"],
            received_packets=amounts["received_packets"],
            transmitted_packets=amounts["transmitted_packets"],
            statistics=_statistics(values, told),
        )

    def _read_link(self) -> RdmaPort:
        return replace(
            self._port,
            netdevs=self._netdevs.read(),
            link_layer=self._link_layer.read() or "",
            state=self._state.read() or "",
            physical_state=self._physical.read() or "",
            rate=self._rate.read(),
        )


class _Traffic:
    """One traffic counter: the first of its sources that ever had a value."""

    def __init__(self, sources: Iterable[Source], word_octets: int) -> None:
        self._sources = tuple(sources)
        self._word_octets = word_octets
        self._chosen: Source | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """The file that this counter is, which is told nowhere else; none where it is a sum."""
        chosen = self._chosen
        return chosen.files if chosen is not None and len(chosen.files) == 1 else ()

    def amount(self, values: dict[str, int]) -> int | None:
        """Return the counter, by the values of the port's files; None where none is known."""
        if self._chosen is None:
            self._chosen = next(
                (s for s in self._sources if all(file in values for file in s.files)), None
            )
            if self._chosen is None:
                return None
        if not all(file in values for file in self._chosen.files):
            return None
        unit = self._word_octets if self._chosen.unit is None else self._chosen.unit
        return unit * sum(values[file] for file in self._chosen.files)


class _Patient(Generic[T]):
    """A file that is tried less and less often while it has no value."""

    __slots__ = ("_attribute", "_failures", "_skip")

    def __init__(self, attribute: Attribute[T]) -> None:
        self._attribute = attribute
        self._failures = 0
        self._skip = 0

    def read(self) -> T | None:
        """Return the value, None when there is none or it is not its turn to be tried."""
        if self._skip:
            self._skip -= 1
            return None
        if self._failures:
            self._attribute.retry()
        self._attribute.refresh()
        value = self._attribute.value
        if value is None:
            self._failures += 1
            self._skip = min(2**self._failures - 1, _MOST_SKIPPED)
        else:
            self._failures = 0
        return value


def _counter(reader: Reader, path: str) -> _Patient[int | None]:
    """Make a counter's file. ``N/A``: counted for itself, but told once for its directory."""

    def count(raw: bytes) -> int | None:
        value = rdma_counters.counter(raw)
        if value is None:
            reader.failed(os.path.dirname(path), decode.text(raw))
        return value

    return _Patient(reader.attribute(path, count, size=_COUNTER_BYTES))


def _files(reader: Reader, base: str) -> dict[str, str]:
    """List the files that count below a port or device: ``hw_counters/NAME`` to its path."""
    return {
        f"{directory}/{name}": f"{base}/{directory}/{name}"
        for directory in _DIRECTORIES
        for name in sorted(reader.names(f"{base}/{directory}"))
        if name not in FORBIDDEN and not rdma_counters.NO_COUNTERS.fullmatch(name)
    }


def _has_own(files: dict[str, str]) -> bool:
    return any(path.startswith("hw_counters/") for path in files)


def _statistics(values: dict[str, int], told: set[str]) -> tuple[tuple[str, int], ...]:
    """Name what is not told as traffic; of two files of one name ``hw_counters`` is told.

    Its counters are of 64 bits, where those of ``counters`` may stop at 255.
    """
    named: dict[str, int] = {}
    for path, value in values.items():
        if path not in told:
            named.setdefault(_label(path.partition("/")[2]), value)
    return tuple(sorted(named.items()))


def _label(name: str) -> str:
    """Return a file's name as text: bytes that are no UTF-8 become U+FFFD."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _driver(name: str, directory: str) -> str:
    """Name the driver: of the device below, else (a copied tree) as the device is named."""
    try:
        return os.path.basename(os.readlink(f"{directory}/device/driver"))
    except OSError:
        match = _DEVICE_NAME.fullmatch(name)
        return match[1] if match else ""
