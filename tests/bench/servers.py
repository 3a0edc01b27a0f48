"""The exporter as a process of its own, and what people run today, on the same tree."""

from __future__ import annotations

import resource
import shutil
import statistics
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.processes import Process, free_port, samples_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.bench.stage import Stage

__all__ = ["measure_exporter", "measure_node_exporter", "measure_nvme_list"]

#: By name: what is asked for, and whether compressed.
FORMS = {
    "text": ("", False),
    "text gzip": ("", True),
    "openmetrics": ("application/openmetrics-text; version=1.0.0", False),
    "openmetrics gzip": ("application/openmetrics-text; version=1.0.0", True),
}

#: Between two scrapes several polls go by, so that none gets the bytes of the one before.
_SCRAPE_SPACING = 0.25

_NODE_EXPORTER = "prometheus-node-exporter"


def measure_exporter(stage: Stage, directory: Path, seconds: float) -> dict[str, Any]:
    """Run the exporter while the tree moves: processor time, memory, scrapes, detection.

    ``share`` is processor time over real time without scrapes. Of each scrape: its latency
    as the client sees it, and the processor time that the window with scrapes took more
    than one without.
    """
    port = free_port()
    log = directory / "exporter.log"
    command = [
        *(sys.executable, "-m", "nvmeof_exporter"),
        f"--path.sysfs={stage.tree.sysfs}",
        f"--path.procfs={stage.tree.procfs}",
        f"--path.state={directory / 'state'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--poll.incident-interval=100ms",
    ]
    with closing(Process(command, port, log)) as exporter:
        started = exporter.wait_for("nvmeof_path_info")
        with stage.moving():
            time.sleep(2)
            share = _share(exporter, seconds)
            scrapes = {
                name: _scrapes(exporter, share, seconds, *form) for name, form in FORMS.items()
            }
            resident = exporter.resident_bytes
            text = exporter.get()
        detection = _detection(stage, log, round(seconds * 4))
    return {
        "start_seconds": started,
        "share": share,
        "scrapes": scrapes,
        "samples": samples_in(text),
        "resident_bytes": resident,
        "detection_p50_seconds": statistics.median(detection),
        "detection_p99_seconds": statistics.quantiles(detection, n=100)[98],
        "text": text,
    }


def measure_node_exporter(
    stage: Stage, directory: Path, text: bytes, seconds: float
) -> dict[str, Any] | None:
    """Run Debian's node exporter: once with the same samples in a file, once on the tree.

    None where it is not installed.
    """
    if shutil.which(_NODE_EXPORTER) is None:
        return None
    files = directory / "textfile"
    files.mkdir()
    (files / "nvmeof.prom").write_bytes(_own_only(text))
    own = [f"--path.sysfs={stage.tree.sysfs}", f"--path.procfs={stage.tree.procfs}"]
    return {
        "textfile": _node_exporter(
            directory,
            seconds,
            "nvmeof_path_info",
            "--collector.textfile",
            f"--collector.textfile.directory={files}",
        ),
        "own": _node_exporter(
            directory,
            seconds,
            "node_nvme_info",
            *own,
            "--collector.nvme",
            "--collector.infiniband",
            "--collector.diskstats",
        ),
    }


def _node_exporter(directory: Path, seconds: float, name: str, *collectors: str) -> dict[str, Any]:
    port = free_port()
    command = [
        _NODE_EXPORTER,
        "--collector.disable-defaults",
        "--web.disable-exporter-metrics",
        f"--web.listen-address=127.0.0.1:{port}",
        *collectors,
    ]
    log = directory / f"node-exporter-{name}.log"
    with closing(Process(command, port, log)) as exporter:
        exporter.wait_for(name)
        share = _share(exporter, 2.0)
        return {
            "scrapes": {
                form: _scrapes(exporter, share, seconds, *FORMS[form])
                for form in ("text", "text gzip")
            },
            "samples": samples_in(exporter.get()),
            "resident_bytes": exporter.resident_bytes,
        }


def measure_nvme_list(stage: Stage, rounds: int) -> dict[str, float] | None:
    """Run ``nvme list-subsys -o json`` on the tree, in a mount namespace of its own.

    Seconds of one run; what the namespace itself costs is taken off. None where it cannot be
    done: without root, or without the programs.
    """
    if shutil.which("nvme") is None or shutil.which("unshare") is None:
        return None
    mount = f'mount --bind "{stage.tree.sysfs}" /sys && exec "$@"'

    def run(*command: str) -> None:
        subprocess.run(
            ["unshare", "--mount", "sh", "-c", mount, "sh", *command],
            stdout=subprocess.DEVNULL,
            check=True,
        )

    try:
        empty = _processor_seconds_of(lambda: run("true"), rounds)
        listing = _processor_seconds_of(lambda: run("nvme", "list-subsys", "-o", "json"), rounds)
    except subprocess.CalledProcessError:
        return None
    return {name: listing[name] - empty[name] for name in listing}


def _processor_seconds_of(run: Callable[[], None], rounds: int) -> dict[str, float]:
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    for _ in range(rounds):
        run()
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"processor_seconds": used / rounds, "wall_seconds": wall / rounds}


def _share(process: Process, seconds: float) -> float:
    before, started = process.processor_seconds, time.perf_counter()
    time.sleep(seconds)
    return (process.processor_seconds - before) / (time.perf_counter() - started)


def _scrapes(
    process: Process, share: float, seconds: float, accept: str, compressed: bool
) -> dict[str, float]:
    process.get(accept, compressed=compressed)
    latencies = []
    before, started = process.processor_seconds, time.perf_counter()
    while time.perf_counter() - started < seconds:
        time.sleep(_SCRAPE_SPACING)
        asked = time.perf_counter()
        process.get(accept, compressed=compressed)
        latencies.append(time.perf_counter() - asked)
    elapsed = time.perf_counter() - started
    used = process.processor_seconds - before - share * elapsed
    return {
        "p50_seconds": statistics.median(latencies),
        "most_seconds": max(latencies),
        "processor_seconds": used / len(latencies),
    }


def _detection(stage: Stage, log: Path, rounds: int) -> list[float]:
    """Change a controller's state file at odd moments; seconds until the log tells of it."""
    states = sorted(Path(stage.tree.sysfs, "class/nvme").glob("nvme*/state"))
    found = []
    with log.open("rb") as lines:
        lines.seek(0, 2)
        for number in range(rounds):
            time.sleep(0.11 + number % 7 * 0.013)
            file = states[number % len(states)].resolve()
            written = time.perf_counter()
            file.write_text("connecting\n" if file.read_text() == "live\n" else "live\n")
            found.append(_told(lines, written) - written)
    return found


def _told(lines: Any, written: float) -> float:
    while time.perf_counter() - written < 5:
        if b"path state changed" in lines.readline():
            return time.perf_counter()
        time.sleep(0.0005)
    raise RuntimeError("a change of state was not told")


def _own_only(text: bytes) -> bytes:
    """Leave out the process metrics: node exporter has its own of the same names."""
    lines = text.splitlines(keepends=True)
    return b"".join(line for line in lines if b"nvmeof_" in line.split(b"{")[0])
