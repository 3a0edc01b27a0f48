"""What the exporter has to say, read from the kernel's files by other means than the exporter's.

Plain reading, file by file, of one subsystem: no cache, no kept descriptors, no
shared code. Expected samples have the names and labels of the metric reference.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.kernel.guest.exporter import Sample

__all__ = ["COUNTERS", "FACTS", "Truth"]

_STATES = ("new", "live", "resetting", "connecting", "deleting", "dead", "missing", "unknown")
_ANA = ("optimized", "non-optimized", "inaccessible", "persistent-loss", "change", "unknown")

#: Metrics of which every sample of the subsystem must be expected, and every expected one served.
FACTS = frozenset(
    {
        "nvmeof_subsystem_info",
        "nvmeof_path_info",
        "nvmeof_path_state",
        "nvmeof_path_keep_alive_timeout_seconds",
        "nvmeof_path_ctrl_loss_timeout_seconds",
        "nvmeof_path_reconnect_delay_seconds",
        "nvmeof_path_fast_io_fail_timeout_seconds",
        "nvmeof_path_io_timeout_seconds",
        "nvmeof_path_queues",
        "nvmeof_namespace_info",
        "nvmeof_namespace_size_bytes",
        "nvmeof_namespace_path_ana_state",
        "nvmeof_namespace_path_usable",
        "nvmeof_namespace_paths",
        "nvmeof_subsystem_paths",
        "nvmeof_subsystem_paths_usable",
    }
)

_STAT = {  # position in `stat` and unit of each counter, Documentation/block/stat.rst
    "reads_completed_total": (0, 1.0),
    "read_bytes_total": (2, 512.0),
    "read_time_seconds_total": (3, 0.001),
    "writes_completed_total": (4, 1.0),
    "written_bytes_total": (6, 512.0),
    "write_time_seconds_total": (7, 0.001),
}

#: Metrics that grow: what is served lies between a reading before and one after.
COUNTERS = frozenset(f"nvmeof_namespace_path_{name}" for name in _STAT)


class Truth:
    """One reading of the subsystem of ``nqn``; ``remembered`` are labels of paths that are gone."""

    def __init__(self, nqn: str, remembered: frozenset[str] = frozenset()) -> None:
        self.nqn = nqn
        self.facts: dict[Sample, float] = {}
        self.counters: dict[Sample, float] = {}
        self._controllers = [
            directory
            for directory in sorted(Path("/sys/class/nvme").glob("nvme*"))
            if _text(directory / "subsysnqn") == nqn
        ]
        # A path without namespaces can carry I/O for all that it has, when its controller can.
        self._usable = {path_label(one): _carries(one) for one in self._controllers}
        self._subsystem()
        for controller in self._controllers:
            self._path(controller)
        for label in remembered - self._usable.keys():
            self._states(label, "missing")

    def _fact(self, name: str, value: float, **labels: str) -> None:
        self.facts[_sample(name, nqn=self.nqn, **labels)] = value

    def _subsystem(self) -> None:
        for directory in Path("/sys/class/nvme-subsystem").glob("nvme-subsys*"):
            if _text(directory / "subsysnqn") != self.nqn:
                continue
            self._fact(
                "nvmeof_subsystem_info",
                1,
                subsystem=directory.name,
                model=_text(directory / "model"),
                serial=_text(directory / "serial"),
                firmware=_text(directory / "firmware_rev"),
                iopolicy=_text(directory / "iopolicy"),
            )
            for head in sorted(directory.glob("nvme*n*")):
                self._namespace(head)
        self._fact("nvmeof_subsystem_paths", len(self._controllers))
        self._fact("nvmeof_subsystem_paths_usable", sum(self._usable.values()))

    def _namespace(self, head: Path) -> None:
        nsid = _text(head / "nsid")
        self._fact(
            "nvmeof_namespace_info", 1, nsid=nsid, device=head.name, wwid=_text(head / "wwid")
        )
        size = int(_text(head / "size")) * 512
        self._fact("nvmeof_namespace_size_bytes", size, nsid=nsid)
        states = {}
        for controller in self._controllers:
            for disk in controller.glob("nvme*n*"):
                if _text(disk / "nsid") == nsid:
                    self._namespace_path(controller, disk, nsid)
                    states[disk.name] = (_carries(controller), _text(disk / "ana_state"))
        self._conditions(nsid, list(states.values()))

    def _namespace_path(self, controller: Path, disk: Path, nsid: str) -> None:
        path, ana = path_label(controller), _text(disk / "ana_state")
        for state in _ANA:
            self._fact(
                "nvmeof_namespace_path_ana_state",
                state == ana,
                nsid=nsid,
                path=path,
                ana_state=state,
            )
        usable = _carries(controller) and ana in {"optimized", "non-optimized"}
        self._fact("nvmeof_namespace_path_usable", usable, nsid=nsid, path=path)
        self._usable[path] &= usable
        stat = [int(number) for number in _text(disk / "stat").split()]
        for name, (position, unit) in _STAT.items():
            sample = _sample(f"nvmeof_namespace_path_{name}", nqn=self.nqn, nsid=nsid, path=path)
            self.counters[sample] = stat[position] * unit

    def _conditions(self, nsid: str, paths: list[tuple[bool, str]]) -> None:
        counts = {
            "optimized": paths.count((True, "optimized")),
            "non-optimized": paths.count((True, "non-optimized")),
        }
        usable = sum(counts.values())
        counts["standby"] = paths.count((True, "inaccessible")) if usable else 0
        counts["unusable"] = len(paths) - usable - counts["standby"]
        for condition, count in counts.items():
            self._fact("nvmeof_namespace_paths", count, nsid=nsid, condition=condition)

    def _path(self, controller: Path) -> None:
        label = path_label(controller)
        address = _address(controller)
        link = address["traddr"].split(".")[2]
        self._fact(
            "nvmeof_path_info",
            1,
            path=label,
            controller=controller.name,
            transport=_text(controller / "transport"),
            traddr=address["traddr"],
            trsvcid=address["trsvcid"],
            host_traddr=address.get("host_traddr", ""),
            host_iface=address.get("host_iface", ""),
            src_addr=address.get("src_addr", ""),
            cntlid=_text(controller / "cntlid"),
            **self._port(link, rdma=_text(controller / "transport") == "rdma"),
        )
        self._states(label, _text(controller / "state"))
        self._settings(controller, label)

    @staticmethod
    def _port(link: str, *, rdma: bool) -> dict[str, str]:
        """Interface and RDMA port of a path; the lab has named them by the path's subnet."""
        if rdma:
            return {"netdev": f"r{link}", "rdma_device": f"rxe{link}", "rdma_port": "1"}
        return {"netdev": f"h{link}", "rdma_device": "", "rdma_port": ""}

    def _states(self, label: str, present: str) -> None:
        present = "deleting" if present == "deleting (no IO)" else present
        for state in _STATES:
            self._fact("nvmeof_path_state", state == present, path=label, state=state)

    def _settings(self, controller: Path, label: str) -> None:
        for file, name in (
            ("kato", "keep_alive_timeout_seconds"),
            ("ctrl_loss_tmo", "ctrl_loss_timeout_seconds"),
            ("reconnect_delay", "reconnect_delay_seconds"),
            ("fast_io_fail_tmo", "fast_io_fail_timeout_seconds"),
            ("queue_count", "queues"),
        ):
            text = _text(controller / file)
            self._fact(
                f"nvmeof_path_{name}", math.inf if text == "off" else float(text), path=label
            )
        own = controller / "io_timeout"  # milliseconds, from 7.2
        seconds = (
            float(_text(own)) / 1000
            if own.exists()
            else float(_text(Path("/sys/module/nvme_core/parameters/io_timeout")))
        )
        self._fact("nvmeof_path_io_timeout_seconds", seconds, path=label)


def path_label(controller: Path) -> str:
    """The stable name of the path over ``controller``, IPv4 and no host address assumed."""
    address = _address(controller)
    return f"{_text(controller / 'transport')}:{address['traddr']}:{address['trsvcid']}"


def _address(controller: Path) -> dict[str, str]:
    return dict(part.split("=", 1) for part in _text(controller / "address").split(","))


def _carries(controller: Path) -> bool:
    return _text(controller / "state") in {"live", "deleting"}


def _sample(name: str, **labels: str) -> Sample:
    return name, frozenset(labels.items())


def _text(file: Path) -> str:
    return file.read_text().strip()
