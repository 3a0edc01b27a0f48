from __future__ import annotations

import time
from contextlib import closing

from nvmeof_exporter.demo.devices import Timeouts
from nvmeof_exporter.demo.load import Load
from nvmeof_exporter.demo.log import LogPipe
from nvmeof_exporter.demo.nodes import array_node
from nvmeof_exporter.sources.kmsg import KernelLog


def test_the_exporter_reads_it_as_it_reads_dev_kmsg() -> None:
    node = array_node(load=Load(), timeouts=Timeouts(keep_alive=1))
    with closing(LogPipe()) as pipe, closing(KernelLog(pipe.path)) as log:
        node.drain_events()
        node.black_hole(node.subsystems[0].connections[0])
        node.advance(3)
        events = node.drain_events()
        pipe.write(events, time.monotonic() - node.now)
        read = log.read()
        logged = [event for event in events if event.source == "kmsg"]
        assert len(logged) >= 4
        assert [(e.kind, e.device, e.text) for e in read] == [
            (e.kind, e.device, e.text) for e in logged
        ]
        gaps = [e.time - read[0].time for e in read]
        expected = [e.time - logged[0].time for e in logged]
        assert all(abs(a - b) < 1e-3 for a, b in zip(gaps, expected, strict=True))


def test_nobody_reading_it_holds_nothing_up() -> None:
    node = array_node(load=Load(queue_depth=16, rate=1000))
    with closing(LogPipe()) as pipe:
        for connection in node.subsystems[0].connections:
            node.port_removed(connection)
        node.advance(500)
        events = node.drain_events()
        assert len(events) > 500
        pipe.write(events, 0)
