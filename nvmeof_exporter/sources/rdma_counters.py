"""What the files of an RDMA port mean: its states, its rate, and which files count what.

Formats and names: drivers/infiniband/core/sysfs.c for all drivers, and of each driver the
source named beside its row. ``docs/rdma.md`` tells the same to people.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from nvmeof_exporter.sources import decode

__all__ = [
    "CEILINGS",
    "NO_COUNTERS",
    "PHYSICAL_STATES",
    "PORT_STATES",
    "TRAFFIC",
    "Source",
    "counter",
    "physical_state",
    "port_state",
    "rate",
    "words_of",
]

#: Words of ``state`` (``state_show``), in lower case; ``unknown`` for any other.
PORT_STATES = ("nop", "down", "init", "armed", "active", "active_defer", "unknown")

#: Words of ``phys_state`` (``phys_state_to_str``), in lower case; ``unknown`` for any other.
PHYSICAL_STATES = (
    "sleep",
    "polling",
    "disabled",
    "portconfigurationtraining",
    "linkup",
    "linkerrorrecovery",
    "phy test",
    "unknown",
)

#: Where counters of ``counters/`` stop (IBA 16.1.3.5: at all ones, until someone resets them);
#: widths as ``PORT_PMA_ATTR`` of core/sysfs.c has them. The others there are of 64 bits, except
#: data and packets of devices without the extended set: those stop at 32 bits.
CEILINGS = {
    "VL15_dropped": 0xFFFF,
    "excessive_buffer_overrun_errors": 0xF,
    "link_downed": 0xFF,
    "link_error_recovery": 0xFF,
    "local_link_integrity_errors": 0xF,
    "port_rcv_constraint_errors": 0xFF,
    "port_rcv_errors": 0xFFFF,
    "port_rcv_remote_physical_errors": 0xFFFF,
    "port_rcv_switch_relay_errors": 0xFFFF,
    "port_xmit_constraint_errors": 0xFF,
    "port_xmit_discards": 0xFFFF,
    "port_xmit_wait": 0xFFFF_FFFF,
    "symbol_error": 0xFFFF,
}

#: Files among the counters that hold a setting or a present level.
NO_COUNTERS = re.compile(
    r"lifespan"  # milliseconds that hw_counters are cached (core/sysfs.c)
    # bnxt_re/hw_counters.c: objects that exist, the most there ever were, a register
    r"|active_\w+|watermark_\w+|db_fifo_register"
    r"|current_rate|num_qps_(?:congested|recovered)"  # mana/counters.c
    r"|DRIVER_CtxtsOpen",  # hfi1/verbs.c
    re.ASCII,
)


class Source(NamedTuple):
    """Files, below a port, whose sum times ``unit`` is one of the four traffic counters.

    ``unit`` is None for data in words: see ``words_of``.
    """

    files: tuple[str, ...]
    unit: int | None = 1


#: Where a port's traffic is counted, best first: the first source whose files can be read is
#: taken for as long as the device stays: never do two of them make one counter. First the
#: performance counters that InfiniBand's own tools show. Some drivers have packets only, and
#: some (cxgb4, siw) neither.
TRAFFIC: dict[str, tuple[Source, ...]] = {
    "received_bytes": (
        Source(("counters/port_rcv_data",), unit=None),
        Source(("hw_counters/rx_bytes",)),  # bnxt_re, efa/efa_verbs.c, mana
        Source(("hw_counters/rcvd_bytes",)),  # rxe/rxe_hw_counters.c
        Source(("hw_counters/rx_rdma_ucast_bytes",)),  # ionic
        Source(("hw_counters/rx_bytes_cnt",)),  # erdma/erdma_verbs.c
        Source(("hw_counters/ip4InOctets", "hw_counters/ip6InOctets")),  # irdma/verbs.c
    ),
    "transmitted_bytes": (
        Source(("counters/port_xmit_data",), unit=None),
        Source(("hw_counters/tx_bytes",)),
        Source(("hw_counters/sent_bytes",)),
        Source(("hw_counters/tx_rdma_ucast_bytes",)),
        Source(("hw_counters/tx_bytes_cnt",)),
        Source(("hw_counters/ip4OutOctets", "hw_counters/ip6OutOctets")),
    ),
    "received_packets": (
        Source(("counters/port_rcv_packets",)),
        Source(("hw_counters/rx_pkts",)),  # bnxt_re, efa
        Source(("hw_counters/rx_packets",)),  # mana
        Source(("hw_counters/rcvd_pkts",)),
        Source(("hw_counters/rx_rdma_ucast_pkts",)),
        Source(("hw_counters/rx_packets_cnt",)),
        Source(("hw_counters/rx_pkt",)),  # hns/hns_roce_main.c
        Source(("hw_counters/ip4InPkts", "hw_counters/ip6InPkts")),
    ),
    "transmitted_packets": (
        Source(("counters/port_xmit_packets",)),
        Source(("hw_counters/tx_pkts",)),
        Source(("hw_counters/tx_packets",)),
        Source(("hw_counters/sent_pkts",)),
        Source(("hw_counters/tx_rdma_ucast_pkts",)),
        Source(("hw_counters/tx_packets_cnt",)),
        Source(("hw_counters/tx_pkt",)),
        Source(("hw_counters/ip4OutPkts", "hw_counters/ip6OutPkts")),
    ),
}

#: Octets in a unit of ``port_rcv_data`` and ``port_xmit_data``. IBA says 4, and so do the
#: drivers: ``>> 2`` in mlx4/mad.c, mlx5/mad.c and rxe/rxe_mad.c, ``/ 4`` in
#: bnxt_re/hw_counters.c and ocrdma/ocrdma_stats.c, words of the hardware in qib/qib_mad.c.
#: hfi1/mad.c hands out its flits of 8 octets as they are.
_WORD_OCTETS = 4
_FLIT_OCTETS = 8

_STATE = re.compile(r"\d+: *(.+)", re.ASCII)
_RATE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) G([bB])/sec(?: +\(.*\))?", re.ASCII)
_GIGABIT_BYTES = 125_000_000
_NO_ANSWER = "N/A"


def words_of(driver: str) -> int:
    """Return how many octets a driver's ``port_*_data`` count at a time."""
    return _FLIT_OCTETS if driver.startswith("hfi") else _WORD_OCTETS


def port_state(raw: bytes) -> str:
    """Decode ``state`` (``4: ACTIVE``) into one of PORT_STATES."""
    return _word(raw, PORT_STATES)


def physical_state(raw: bytes) -> str:
    """Decode ``phys_state`` (``5: LinkUp``) into one of PHYSICAL_STATES."""
    return _word(raw, PHYSICAL_STATES)


def _word(raw: bytes, known: tuple[str, ...]) -> str:
    match = _STATE.fullmatch(decode.required_text(raw))
    word = match[1].lower() if match else ""
    return word if word in known else "unknown"


def rate(raw: bytes) -> float:
    """Decode ``rate`` (``400 Gb/sec (4X NDR)``) into bytes per second.

    ``0 GB/sec`` was seen of an empty cage; of the unit, only its zero is believed.
    """
    own = decode.required_text(raw)
    match = _RATE.fullmatch(own)
    if match is None or (match[2] == "B" and float(match[1])):
        raise ValueError(f"expected a rate in Gb/sec, found {own!r}")
    return float(match[1]) * _GIGABIT_BYTES


def counter(raw: bytes) -> int | None:
    """Decode a counter; None for ``N/A (no PMA)``, where the device does not count this."""
    return None if raw.startswith(_NO_ANSWER.encode()) else decode.counter(raw)
