"""What one poll costs, beside the floor: a C program that only reads the same files."""

from __future__ import annotations

import gc
import math
import shutil
import statistics
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nvmeof_exporter.monitor.monitor import Monitor
from nvmeof_exporter.sources.nvme import NvmeSource
from nvmeof_exporter.sources.reader import Reader, raise_descriptor_limit

if TYPE_CHECKING:
    from tests.bench.stage import Stage

__all__ = ["measure_polls"]


_WARM_UP = 5
_FLOOR_ROUNDS = 50
_SOURCE = Path(__file__).with_name("floor.c")


def measure_polls(stage: Stage, directory: Path, rounds: int) -> dict[str, Any]:
    """Poll in this process, in virtual time; seconds of processor time, medians.

    ``poll_seconds`` is with every namespace's counters moved since the poll before,
    ``poll_still_seconds`` with nothing moved.
    """
    raise_descriptor_limit()
    source = NvmeSource(Reader(), stage.tree.sysfs)
    monitor = Monitor()
    program = _compiled(directory) if shutil.which("cc") else None
    moved: list[float] = []
    walls: list[float] = []
    gc.collect()
    gc.freeze()
    try:
        for number in range(_WARM_UP + rounds):
            stage.step()
            processor, wall = _poll(source, monitor, number)
            if number >= _WARM_UP:
                moved.append(processor)
                walls.append(wall)
        floor = _floor(program, source.files)
        numbers = range(_WARM_UP + rounds, _WARM_UP + 2 * rounds)
        still = [_poll(source, monitor, number)[0] for number in numbers]
        floor = (floor + _floor(program, source.files)) / 2
    finally:
        gc.unfreeze()
        files = len(source.files)
        source.close()
    percentiles = statistics.quantiles(walls, n=100)
    return {
        "files": files,
        "floor_seconds": floor,
        "poll_seconds": statistics.median(moved),
        "poll_still_seconds": statistics.median(still),
        "poll_wall_p50_seconds": percentiles[49],
        "poll_wall_p99_seconds": percentiles[98],
    }


def _poll(source: NvmeSource, monitor: Monitor, number: int) -> tuple[float, float]:
    now = 1_000.0 + number / 10
    wall, processor = time.perf_counter(), time.process_time()
    monitor.observe(source.poll(now, now))
    return time.process_time() - processor, time.perf_counter() - wall


def _compiled(directory: Path) -> Path:
    program = directory / "floor"
    subprocess.run(["cc", "-O2", "-o", str(program), str(_SOURCE)], check=True)
    return program


def _floor(program: Path | None, files: list[str]) -> float:
    """Run the floor over files; seconds of processor time for reading each of them once.

    Not a number where there is no compiler.
    """
    if program is None:
        return math.nan
    ran = subprocess.run(
        [str(program), str(_FLOOR_ROUNDS)],
        input="".join(f"{file}\n" for file in files),
        capture_output=True,
        text=True,
        check=True,
    )
    return float(ran.stdout)
