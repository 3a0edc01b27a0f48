"""Writes the metric reference from the table.

Run as ``python -m nvmeof_exporter.exposition.reference``.
"""

from __future__ import annotations

import sys

from nvmeof_exporter.exposition.metrics import SECTIONS

__all__ = ["reference"]

_HEAD = """\
# Metrics

Generated from `nvmeof_exporter/exposition/metrics.py` by `make docs`; do not edit.

A series exists only while its subject does, except where "remembered" is said.
A value that cannot be read is absent, never 0. `nqn` is the subsystem NQN and
`nsid` the namespace ID (with `#2`, `#3` where one NQN shows several block
devices of one ID).

`path` is the stable name of a path: `TRANSPORT:TRADDR[:TRSVCID]`, then
`@HOST_TRADDR` and `%HOST_IFACE` where given at connect time; IPv6 in brackets;
`#2`, `#3` where two controllers of one NQN have the same addresses. It is the
same before and after a reconnect as a new controller instance.

`device` and `port` are an RDMA device and its port (`""`: the device as a
whole), `netdev` is a network interface. They are shown where they carry a path
(an interface also where it is part of a bond, bridge or VLAN that does), with
`--collector.links=all` every one of the node. What drivers and firmware are
asked for is read every few seconds (`--poll.slow-interval`), everything else
with every poll.

The client library's `process_*` metrics of the exporter itself come with them
(`--no-collector.process` leaves them out).
"""


def reference() -> str:
    """Return the reference as Markdown."""
    lines = [_HEAD]
    for heading, metrics in SECTIONS.items():
        lines += [f"## {heading}", "", "| metric | kind | labels | meaning |", "|---|---|---|---|"]
        for metric in metrics:
            labels = " ".join(f"`{label}`" for label in metric.labels)
            lines.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(reference())
