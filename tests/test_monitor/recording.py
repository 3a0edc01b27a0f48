"""Recordings: what the sources showed and announced, to be replayed as often as one likes.

A file is JSON lines, compressed with xz. The first line says what the rest is
(Header), each further line is one poll (Poll): a snapshot and what was announced
since the one before. Field names and units are those of nvmeof_exporter.model.
Beside it, ``NAME.expected.json`` holds the occurrences that the monitor must tell.

``python -m tests.test_monitor.recording`` makes the simulated ones anew.
"""

from __future__ import annotations

import lzma
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from nvmeof_exporter.demo.devices import Timeouts
from nvmeof_exporter.demo.load import Load
from nvmeof_exporter.model import Event, PathSettings, Snapshot
from nvmeof_exporter.monitor.monitor import Monitor
from tests.test_monitor.simulated import Setting, Watched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nvmeof_exporter.model import Controller
    from nvmeof_exporter.monitor.records import Occurrence

__all__ = ["DIRECTORY", "Header", "Poll", "expected", "load", "names", "replay", "save"]

DIRECTORY = Path(__file__).parent / "recordings"
FORMAT = 1

_SUFFIX = ".jsonl.xz"


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a recording is of. ``interfaces`` goes by address, as rtnetlink told them."""

    format: int
    about: str
    kernel: str
    log_readable: bool
    interfaces: dict[str, str]


class Poll(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One look, and what was announced since the one before."""

    snapshot: Snapshot
    events: tuple[Event, ...]


def names() -> list[str]:
    """Return the names of all recordings, sorted."""
    return sorted(file.name.removesuffix(_SUFFIX) for file in DIRECTORY.glob(f"*{_SUFFIX}"))


def load(name: str) -> tuple[Header, list[Poll]]:
    """Read a recording.

    Raises:
        ValueError: it is of another format.
        msgspec.ValidationError: a line is not what it should be.

    """
    first, *rest = lzma.decompress((DIRECTORY / (name + _SUFFIX)).read_bytes()).splitlines()
    header = msgspec.json.decode(first, type=Header)
    if header.format != FORMAT:
        raise ValueError(f"{name}: format {header.format}, expected {FORMAT}")
    decoder = msgspec.json.Decoder(Poll)
    return header, [decoder.decode(line) for line in rest]


def save(name: str, header: Header, polls: Iterable[Poll]) -> None:
    """Write a recording."""
    lines = [msgspec.json.encode(entry) for entry in (header, *polls)]
    (DIRECTORY / (name + _SUFFIX)).write_bytes(lzma.compress(b"\n".join(lines) + b"\n"))


def expected(name: str) -> list[dict[str, Any]]:
    """Return the occurrences that the monitor must tell, in order."""
    found: list[dict[str, Any]] = msgspec.json.decode(_expected(name).read_bytes())
    return found


def replay(header: Header, polls: Iterable[Poll]) -> list[dict[str, Any]]:
    """Let the monitor see a recording; returns what it tells, wall-clock times included."""

    def netdev_of(controller: Controller) -> str:
        return controller.path.host_iface or header.interfaces.get(controller.src_addr, "")

    monitor = Monitor(netdev_of=netdev_of)
    monitor.log_readable = header.log_readable
    told = [each for poll in polls for each in monitor.observe(poll.snapshot, poll.events)]
    return [_plain(each) for each in told]


def _expected(name: str) -> Path:
    return DIRECTORY / f"{name}.expected.json"


def _plain(each: Occurrence) -> dict[str, Any]:
    return {"wall": each.wall, "kind": each.kind, "nqn": each.nqn, **each.fields}


def _bounded(snapshot: Snapshot) -> Snapshot:
    """Leave out settings: the monitor reads none, and JSON has no infinity."""
    plain = PathSettings()

    def without(controller: Controller) -> Controller:
        return replace(controller, settings=plain)

    return replace(
        snapshot,
        subsystems=tuple(
            replace(
                subsystem,
                controllers=tuple(without(c) for c in subsystem.controllers),
                namespaces=tuple(
                    replace(
                        namespace,
                        paths=tuple(
                            replace(path, controller=without(path.controller))
                            for path in namespace.paths
                        ),
                    )
                    for namespace in subsystem.namespaces
                ),
            )
            for subsystem in snapshot.subsystems
        ),
    )


def _black_hole(watched: Watched) -> None:
    watched.run(2, keep=True)
    lost = watched.active
    watched.node.black_hole(lost)
    watched.run(6.5, keep=True)
    watched.node.heal(lost)
    watched.run(4, keep=True)


def _links_down(watched: Watched) -> None:
    watched.run(2, keep=True)
    for netdev in watched.node.netdevs.values():
        watched.node.link_down(netdev)
    watched.run(4, keep=True)
    for netdev in watched.node.netdevs.values():
        watched.node.link_up(netdev)
    watched.run(5, keep=True)


_SIMULATED: dict[str, tuple[str, str, Callable[[Watched], None]]] = {
    "simulated-black-hole": (
        "6.1",
        "The active path of two falls silent; the other takes over; then it heals.",
        _black_hole,
    ),
    "simulated-both-links-down": (
        "7.3",
        "Both interfaces lose their carrier and get it back.",
        _links_down,
    ),
}


def _record() -> None:
    for name, (kernel, about, happens) in _SIMULATED.items():
        timeouts = Timeouts(keep_alive=1, reconnect_delay=1)
        watched = Watched(Setting(kernel, "numa", Load(4, 100.0), 2, timeouts))
        happens(watched)
        interfaces = {netdev.address: netdev.name for netdev in watched.node.netdevs.values()}
        polls = [Poll(_bounded(snapshot), tuple(events)) for snapshot, events in watched.seen]
        header = Header(FORMAT, about, kernel, log_readable=True, interfaces=interfaces)
        save(name, header, polls)
        told = msgspec.json.format(msgspec.json.encode(replay(header, polls)), indent=1)
        _expected(name).write_bytes(told + b"\n")


if __name__ == "__main__":
    _record()
