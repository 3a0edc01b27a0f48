"""RDMA ports and links: what the paths of a node run over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards.source import queries as ask
from dashboards.source.frame import Frame, Variables, start
from dashboards.source.meaning import GREEN, ORANGE, PORT, RED, steps, words
from dashboards.source.panels import Column, Look, Query, Say, bars, lines, rows, tile, timeline
from dashboards.source.queries import NODE, pick

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders import (
        bargauge,
        dashboard,
        stat,
        statetimeline,
        table,
        timeseries,
    )

__all__ = ["fabric"]

_FRAME = Frame(
    uid="nvmeof-rdma-and-links",
    title="NVMe-oF RDMA and links",
    description=(
        "The RDMA ports and interfaces under a node's paths: state, load, errors, congestion."
    ),
    span="1h",
    refresh="10s",
    variables=Variables.NODE,
)

_WINDOW = "$__rate_interval"
#: The exporter asks drivers and firmware every few seconds only, and so a rate over less than
#: that is one of nothing and then of much: with this step the window is a minute at least.
_STEP = "15s"
_PORT = "{{device}}/{{port}}"
_STATISTIC = _PORT + " {{statistic}}"


def fabric() -> dashboard.Dashboard:
    """Return the dashboard."""
    board = start(_FRAME)
    for panel in (
        *_tiles(),
        _states(),
        _mapping(),
        _throughput(),
        _packets(),
        _load(),
        _errors(),
        _congestion(),
        _carrier(),
        _pause_frames(),
        _pause_time(),
        _ports(),
    ):
        board.with_panel(panel)
    return board


def _tiles() -> list[stat.Panel]:
    ports = pick("nvmeof_rdma_port_state", NODE, state="active")
    links = pick("nvmeof_link_up", NODE)
    errors = ask.rdma_rates(ask.ERRORS, "5m")
    return [
        tile(
            Say(
                "RDMA ports not active",
                "short",
                (6, 3),
                "Ports that carry a path and cannot carry data.",
                "no RDMA ports",
            ),
            [Query(f"count({ports}) - sum({ports})")],
            limits=steps(GREEN, (1, RED)),
        ),
        tile(
            Say(
                "Links down",
                "short",
                (6, 3),
                "Interfaces that carry a path, or are part of a bond that does, without a carrier.",
                "no links",
            ),
            [Query(f"count({links}) - sum({links})")],
            limits=steps(GREEN, (1, RED)),
        ),
        tile(
            Say(
                "Errors of RDMA ports",
                "cps",
                (6, 3),
                "All error counters of all ports together, within the last five minutes.",
                "no RDMA ports",
            ),
            [Query(f"sum({errors})")],
            limits=steps(GREEN, (0.01, ORANGE), (1, RED)),
            decimals=2,
        ),
        tile(
            Say(
                "Pause frames",
                "cps",
                (6, 3),
                "Of all interfaces, both directions, within the last five minutes. A few are "
                "usual where priority flow control is on.",
                "not told by the driver",
            ),
            [Query(f"sum({ask.pause_frames('5m')})")],
            limits=steps(GREEN, (100, ORANGE), (1000, RED)),
            decimals=1,
        ),
    ]


def _states() -> statetimeline.Panel:
    return timeline(
        Say(
            "State of links and RDMA ports",
            "short",
            (12, 8),
            "Carrier of each interface and logical state of each RDMA port. A link that is up "
            "while its port is not points at the port's configuration or the subnet manager.",
        ),
        [Query(ask.link_state(), "{{netdev}}"), Query(ask.port_state(), _PORT)],
        PORT,
    )


def _mapping() -> table.Panel:
    info = pick("nvmeof_path_info", NODE)
    link = pick("nvmeof_path_link_up", NODE)
    return rows(
        Say(
            "Which path uses what",
            "short",
            (12, 8),
            "The interface and RDMA port that each path uses, or last used, and whether its "
            "link is up.",
            "no paths",
        ),
        [
            Query(f"group by (nqn, path, controller, netdev, rdma_device, rdma_port) ({info})"),
            Query(f"4 + 3 * min by (nqn, path) ({link})"),
        ],
        [
            Column("nqn", "Subsystem"),
            Column("path", "Path", width=190),
            Column("controller", "Controller", width=85),
            Column("netdev", "Interface", width=85),
            Column("rdma_device", "RDMA device", width=105),
            Column("rdma_port", "Port", width=50),
            Column("Value #B", "Link", width=65, shown=words(PORT), coloured=True),
        ],
        sort=("Interface", False),
    )


def _rates(unit: str) -> tuple[str, str]:
    """Return what each port received and transmitted per second."""
    received, sent = (
        pick(f"nvmeof_rdma_port_{direction}_{unit}_total", NODE)
        for direction in ("received", "transmitted")
    )
    by = "sum by (device, port)"
    return f"{by} (rate({received}[{_WINDOW}]))", f"{by} (rate({sent}[{_WINDOW}]))"


def _throughput() -> timeseries.Panel:
    received, sent = _rates("bytes")
    return lines(
        Say(
            "Throughput of RDMA ports",
            "Bps",
            (8, 8),
            "What each port received and sent, all traffic, not only storage.",
            "the driver does not count bytes",
        ),
        [Query(received, f"{_PORT} in", _STEP), Query(sent, f"{_PORT} out", _STEP)],
        Look(by_port=True),
    )


def _packets() -> timeseries.Panel:
    received, sent = _rates("packets")
    return lines(
        Say(
            "Packets of RDMA ports",
            "pps",
            (8, 8),
            "What each port received and sent.",
            "the driver does not count packets",
        ),
        [Query(received, f"{_PORT} in", _STEP), Query(sent, f"{_PORT} out", _STEP)],
        Look(by_port=True),
    )


def _load() -> bargauge.Panel:
    received, sent = _rates("bytes")
    rate = pick("nvmeof_rdma_port_rate_bytes_per_second", NODE)
    busier = f"({received} > {sent} or {sent})"
    return bars(
        Say(
            "Load of RDMA ports",
            "percentunit",
            (8, 8),
            "The busier direction against the port's signalling rate. Not to be believed of "
            "soft-RoCE, whose rate is made up.",
            "no rate known",
        ),
        [Query(f"{busier} / max by (device, port) ({rate} > 0)", _PORT, _STEP)],
        steps(GREEN, (0.8, ORANGE), (0.95, RED)),
        decimals=1,
    )


def _errors() -> timeseries.Panel:
    return lines(
        Say(
            "Errors of RDMA ports",
            "cps",
            (12, 8),
            "The ten counters that rise fastest, by the kernel's own name: of the link (symbol, "
            "CRC), of packets lost on the way (out of sequence), of answers that did not come "
            "(time-outs, retries).",
            "no errors",
        ),
        [Query(f"topk(10, {ask.rdma_rates(ask.ERRORS, _WINDOW)} > 0)", _STATISTIC, _STEP)],
    )


def _congestion() -> timeseries.Panel:
    return lines(
        Say(
            "Congestion of RDMA ports",
            "cps",
            (12, 8),
            "Congestion notifications sent (np_), handled (rp_), marked packets, waits. They "
            "are how RoCE slows down before it loses packets: high means contention, not faults.",
            "no congestion",
        ),
        [
            Query(
                f"topk(10, {ask.rdma_rates(ask.CONGESTION, _WINDOW)} > 0)",
                _STATISTIC,
                _STEP,
            )
        ],
    )


def _carrier() -> timeseries.Panel:
    changes = pick("nvmeof_link_carrier_changes_total", NODE)
    return lines(
        Say(
            "Carrier changes",
            "short",
            (8, 7),
            "How often the carrier of each interface came or went, per minute. An interface "
            "that does so again and again has a bad cable or transceiver.",
            "no links",
        ),
        [Query(f"sum by (netdev) (increase({changes}[1m]))", "{{netdev}}")],
        Look(by_port=True, legend=False),
    )


def _pause_frames() -> timeseries.Panel:
    return lines(
        Say(
            "Pause frames",
            "pps",
            (8, 7),
            "*rx*: the peer asked this host to stop (congestion behind the switch port). *tx*: "
            "this host asked the peer (it cannot take what it is sent).",
            "not told by the driver",
        ),
        [Query(ask.pause_frames(_WINDOW), "{{netdev}} {{direction}}", _STEP)],
        Look(by_port=True, legend=False),
    )


def _pause_time() -> timeseries.Panel:
    time = pick("nvmeof_link_pause_seconds_total", NODE)
    return lines(
        Say(
            "Time paused",
            "percentunit",
            (8, 7),
            "The share of time for which the sender was stopped by pause frames.",
            "not told by the driver",
        ),
        [
            Query(
                f"max by (netdev, direction) (rate({time}[{_WINDOW}]))",
                "{{netdev}} {{direction}}",
                _STEP,
            )
        ],
        Look(by_port=True, legend=False),
    )


def _ports() -> table.Panel:
    port = pick("nvmeof_rdma_port_info", NODE)
    rate = pick("nvmeof_rdma_port_rate_bytes_per_second", NODE)
    return rows(
        Say(
            "RDMA ports",
            "short",
            (24, 6),
            "What each port is: card, firmware, link layer, interfaces, signalling rate.",
            "no RDMA ports",
        ),
        [
            Query(f"group by (device, port, netdev, link_layer, hca, firmware) ({port})"),
            Query(f"max by (device, port) ({rate})"),
        ],
        [
            Column("device", "Device"),
            Column("port", "Port"),
            Column("netdev", "Interfaces"),
            Column("link_layer", "Link layer"),
            Column("hca", "Card"),
            Column("firmware", "Firmware"),
            Column("Value #B", "Rate", "Bps"),
        ],
        sort=("Device", False),
    )
