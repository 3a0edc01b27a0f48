"""Shows the monitor a recording of the lab again: ``python -m tests.kernel.replay FILE [NQN]``."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from nvmeof_exporter.monitor.monitor import Monitor
from tests.test_monitor.recording import Poll

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nvmeof_exporter.model import Controller, Subsystem
    from nvmeof_exporter.monitor.records import Occurrence

__all__ = ["main", "replay"]


def replay(file: Path, nqn: str = "") -> Iterator[tuple[Poll, list[Occurrence]]]:
    """Each poll of ``file``, of one subsystem or all, and what the monitor tells of it."""
    monitor = Monitor(netdev_of=_interface)
    monitor.log_readable = True
    decoder = msgspec.json.Decoder(Poll)
    # A recording that was copied while it grew may end in the middle of a line.
    whole, _, _ = file.read_bytes().rpartition(b"\n")
    for line in whole.splitlines():
        poll = decoder.decode(line)
        wanted = tuple(s for s in poll.snapshot.subsystems if nqn in {"", s.nqn})
        poll = Poll(replace(poll.snapshot, subsystems=wanted), poll.events)
        yield poll, monitor.observe(poll.snapshot, poll.events)


def main(file: str, nqn: str = "") -> None:
    """Write a line per poll that shows something new, and what is told of it."""
    shown: list[str] = []
    for poll, told in replay(Path(file), nqn):
        now = poll.snapshot.monotonic
        events = [f"  {e.time:.3f} {e.source} {e.kind.value} {e.device}" for e in poll.events]
        seen = [line for subsystem in poll.snapshot.subsystems for line in _lines(subsystem)]
        if events or told or seen != shown:
            occurred = [f"  > {each.kind} {each.fields}" for each in told]
            sys.stdout.write("\n".join([f"{now:.3f}", *events, *seen, *occurred]) + "\n")
        shown = seen


def _interface(controller: Controller) -> str:
    """The lab's links: 10.0.N.1 is on ``hN``."""
    address = controller.src_addr.split(".")
    return f"h{address[2]}" if len(address) > 2 else ""


def _lines(subsystem: Subsystem) -> Iterator[str]:
    for namespace in subsystem.namespaces:
        for path in namespace.paths:
            io = path.io
            counts = f"{io.completed} in {io.waited_ms} ms, {io.in_flight} in flight" if io else "-"
            yield (
                f"  {path.disk} {path.controller.state} {path.ana_state or '-'}: {counts}, "
                f"{path.failovers} failed over"
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
