"""Comparing what is served of ports and links with what other programs say, value by value."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tests.kernel.guest.hardware_truth import HARDWARE, STATES, expected_links, expected_ports
from tests.kernel.guest.waiting import await_

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.kernel.guest.exporter import Exporter, Sample
    from tests.kernel.guest.fabric import Fabric
    from tests.kernel.guest.initiator import FabricPath

__all__ = ["Traffic", "compare"]

#: The exporter reads ports and links every 5 s; a file that had no value it tries less often.
_SETTLE_SECONDS = 30.0

_PAUSE_SECONDS = 1.0

#: What a load must have moved over a path to be judged.
_ENOUGH_BYTES = 1 << 20

_READ, _WRITTEN, _SECTOR = 2, 6, 512  # positions in `stat`, Documentation/block/stat.rst


def compare(exporter: Exporter, fabric: Fabric) -> dict[str, Any]:
    """Compare until all is equal, or for half a minute, what no load changes meanwhile.

    Returns how many values were compared, and every mismatch as a sentence.
    """
    end = time.monotonic() + _SETTLE_SECONDS
    while True:
        served = _served(exporter, fabric)
        expected = _expected(fabric)
        wrong = _mismatches(served, expected)
        if not wrong or time.monotonic() > end:
            return {"compared": len(expected), "mismatches": wrong}
        time.sleep(_PAUSE_SECONDS)


class Traffic:
    """The traffic counters of each path's RDMA device before, during and after a load.

    ``before`` and ``after`` are to be called while they stand still.
    """

    def __init__(self, exporter: Exporter, fabric: Fabric) -> None:
        self._exporter = exporter
        self._fabric = fabric
        self._devices = {link: f"rxe{link}" for link in fabric.paths}
        self._moved = {link: _moved(path) for link, path in fabric.paths.items()}
        self._before = self._counters(_served(exporter, fabric))

    def await_growth(self) -> None:
        """Wait until every path has moved enough and each counter is served as grown."""
        await_(
            lambda: all(self._moved_since(link) > _ENOUGH_BYTES for link in self._devices),
            60,
            "the load to move enough",
        )
        await_(self._all_grown, _SETTLE_SECONDS, "counters to grow")
        # What is served was read before this is.
        self._limits = self._counters(_expected(self._fabric))

    def record(self) -> dict[str, Any]:
        """By device: the counters at each moment, and the bytes that its path has moved."""
        after = self._counters(_served(self._exporter, self._fabric))
        return {
            device: {
                "before": self._before[device],
                "during": self._during[device],
                "limits": self._limits[device],
                "after": after[device],
                "moved": self._moved_since(link),
            }
            for link, device in self._devices.items()
        }

    def _all_grown(self) -> bool:
        time.sleep(_PAUSE_SECONDS)
        self._during = self._counters(_served(self._exporter, self._fabric))
        return all(
            value > self._before[device][name]
            for device, counters in self._during.items()
            for name, value in counters.items()
        )

    def _moved_since(self, link: int) -> int:
        return _moved(self._fabric.paths[link]) - self._moved[link]

    def _counters(self, samples: Mapping[Sample, float]) -> dict[str, dict[str, float]]:
        """Bytes and packets of each device, by direction and unit."""
        found: dict[str, dict[str, float]] = {device: {} for device in self._devices.values()}
        for (name, labels), value in samples.items():
            kind = name.removeprefix("nvmeof_rdma_port_").removesuffix("_total")
            if kind.endswith(("_bytes", "_packets")):
                found[dict(labels)["device"]][kind] = value
        return found


def _expected(fabric: Fabric) -> dict[Sample, float]:
    devices = [f"rxe{link}" for link in fabric.paths] if _is_rdma(fabric) else []
    return {
        **expected_ports(devices),
        **expected_links(fabric.interface(link) for link in fabric.paths),
    }


def _served(exporter: Exporter, fabric: Fabric) -> dict[Sample, float]:
    """What is served of the fabric's own ports and links."""
    own = {("netdev", fabric.interface(link)) for link in fabric.paths}
    if _is_rdma(fabric):
        own |= {("device", f"rxe{link}") for link in fabric.paths}
    return {
        (name, labels): value
        for (name, labels), value in exporter.scrape().samples.items()
        if name in HARDWARE and own & labels and (value or name not in STATES)
    }


def _is_rdma(fabric: Fabric) -> bool:
    return fabric.settings.transport == "rdma"


def _mismatches(served: Mapping[Sample, float], expected: Mapping[Sample, float]) -> list[str]:
    wrong = [
        f"{_name(sample)}: served {served.get(sample)}, expected {value}"
        for sample, value in expected.items()
        if served.get(sample) != value
    ]
    extra = served.keys() - expected.keys()
    return wrong + [f"{_name(sample)}: served, but there is no such thing" for sample in extra]


def _name(sample: Sample) -> str:
    name, labels = sample
    return f"{name}{dict(sorted(labels))}"


def _moved(path: FabricPath) -> int:
    """Bytes read and written over ``path``, over all its namespaces."""
    stats = [file.read_text().split() for file in path.directory.glob("nvme*n*/stat")]
    return sum(int(stat[_READ]) + int(stat[_WRITTEN]) for stat in stats) * _SECTOR
