"""The I/O of one node: who carries it, how fast, how long it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards.source.panels import Look, Query, Say, lines
from dashboards.source.queries import pick

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders import timeseries

__all__ = ["panels"]

_PATH = "{{nqn}} · {{path}}"
_STACKED = Look(stacked=True, by_port=True)


def panels() -> list[timeseries.Panel]:
    """Return the panels."""
    return [_bytes(), _requests(), _latency(), _heads(), _in_flight(), _stalls()]


def _rate(name: str, by: str, subject: str = "namespace_path") -> str:
    return f"sum by ({by}) (rate({pick(f'nvmeof_{subject}_{name}_total')}[$__rate_interval]))"


def _bytes() -> timeseries.Panel:
    read, written = _rate("read_bytes", "nqn, path"), _rate("written_bytes", "nqn, path")
    return lines(
        Say(
            "Throughput by path",
            "Bps",
            (12, 8),
            "Bytes read and written per second, stacked: which path carries the load.",
            "no I/O is counted",
        ),
        [Query(f"{read} + {written}", _PATH)],
        _STACKED,
    )


def _requests() -> timeseries.Panel:
    reads, writes = _rate("reads_completed", "nqn, path"), _rate("writes_completed", "nqn, path")
    return lines(
        Say(
            "Requests by path",
            "iops",
            (12, 8),
            "Requests that ended per second, stacked. When a path is lost the kernel counts "
            "those it gives up there as ended, too: a peak just then is no work done.",
            "no I/O is counted",
        ),
        [Query(f"{reads} + {writes}", _PATH)],
        _STACKED,
    )


def _latency() -> timeseries.Panel:
    time = (
        f"({_rate('read_time_seconds', 'nqn, path')} + {_rate('write_time_seconds', 'nqn, path')})"
    )
    ended = f"({_rate('reads_completed', 'nqn, path')} + {_rate('writes_completed', 'nqn, path')})"
    return lines(
        Say(
            "Mean time of a request by path",
            "s",
            (12, 8),
            "Over reads and writes that ended. Nothing while none ended: a path that stands "
            "still has no latency, see the panel of pauses.",
            "no I/O is counted",
        ),
        [Query(f"{time} / ({ended} > 0)", _PATH)],
        Look(log=True, by_port=True),
    )


def _heads() -> timeseries.Panel:
    by = "nqn, nsid"
    return lines(
        Say(
            "Throughput by namespace",
            "Bps",
            (12, 8),
            "What applications read and write, whatever path it goes.",
            "no I/O is counted",
        ),
        [
            Query(_rate("read_bytes", by, "namespace"), "{{nqn}} namespace {{nsid}} read"),
            Query(_rate("written_bytes", by, "namespace"), "{{nqn}} namespace {{nsid}} written"),
        ],
    )


def _in_flight() -> timeseries.Panel:
    return lines(
        Say(
            "Requests in flight by path",
            "short",
            (12, 8),
            "Requests under way. A flat line on a path that ends none is I/O that is stuck.",
            "no I/O is counted",
        ),
        [Query(f"sum by (nqn, path) ({pick('nvmeof_namespace_path_io_now')})", _PATH)],
        Look(by_port=True),
    )


def _stalls() -> timeseries.Panel:
    head = pick("nvmeof_namespace_io_stalled_seconds")
    path = pick("nvmeof_namespace_path_io_stalled_seconds")
    return lines(
        Say(
            "I/O standing still",
            "s",
            (12, 8),
            "How long wanted I/O of each subsystem, and requests caught on each path, have made "
            "no progress.",
        ),
        [
            Query(f"max by (nqn) ({head})", "{{nqn}} as a whole"),
            Query(f"max by (nqn, path) ({path})", _PATH),
        ],
        Look(by_port=True, colours={"/ as a whole$/": "text"}),
    )
