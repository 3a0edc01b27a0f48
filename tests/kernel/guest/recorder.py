"""The exporter, and a line of JSON for everything that its monitor is shown.

``python -m tests.kernel.guest.recorder FILE [FLAGS]`` runs the exporter with FLAGS.
Lines are those of ``tests/test_monitor/recording.py``; ``tests.kernel.replay`` reads them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec

from nvmeof_exporter import cli
from nvmeof_exporter.monitor.monitor import Monitor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nvmeof_exporter.model import Event, Snapshot
    from nvmeof_exporter.monitor.records import Occurrence

__all__ = ["main"]


def main(file: str, *flags: str) -> int:
    """Run the exporter with ``flags``, recording to ``file``; returns its exit status."""
    encoder = msgspec.json.Encoder()
    observe = Monitor.observe
    with open(file, "ab", buffering=0) as lines:

        def recorded(
            self: Monitor, snapshot: Snapshot, events: Iterable[Event] = ()
        ) -> list[Occurrence]:
            heard = tuple(events)
            lines.write(encoder.encode({"snapshot": snapshot, "events": heard}) + b"\n")
            return observe(self, snapshot, heard)

        Monitor.observe = recorded  # type: ignore[method-assign]
        return cli.main(["serve", *flags])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
