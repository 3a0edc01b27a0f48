"""``python -m tests.bench`` (``make bench``): what the exporter costs, beside what else there is.

Benchmarks, no tests: nothing fails because a machine is slow. Figures of a loaded machine
are worth little; the ratios to what is measured in the same run are worth more.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from nvmeof_exporter.demo.nodes import SIZES
from tests.bench.polls import measure_polls
from tests.bench.report import fit, table, targets
from tests.bench.servers import measure_exporter, measure_node_exporter, measure_nvme_list
from tests.bench.stage import Stage


def main() -> None:
    """Measure, write the figures to a file, and print them."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--size", action="append", choices=[*SIZES], help="Default: all.")
    parser.add_argument("--seconds", type=float, default=8.0, help="Each server's windows.")
    parser.add_argument("--rounds", type=int, default=100, help="Polls that are measured.")
    parser.add_argument("--output", type=Path, default=Path("bench.json"))
    options = parser.parse_args()
    results = {}
    for size in options.size or SIZES:
        sys.stderr.write(f"measuring {size}\n")
        results[size] = _measure(size, options.seconds, options.rounds)
    machine = {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "processors": os.cpu_count(),
        "load": os.getloadavg(),
    }
    options.output.write_text(json.dumps({"machine": machine, "sizes": results}, indent=1) + "\n")
    _say(json.dumps(machine), *table(results), "", *fit(results), "", *map(str, targets(results)))


def _measure(size: str, seconds: float, rounds: int) -> dict[str, Any]:
    with closing(Stage(size)) as stage, tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        figures: dict[str, Any] = {"namespace_paths": stage.namespace_paths}
        figures["polls"] = measure_polls(stage, directory, rounds)
        figures["exporter"] = measure_exporter(stage, directory, seconds)
        text = figures["exporter"].pop("text")
        figures["node_exporter"] = measure_node_exporter(stage, directory, text, seconds)
        figures["nvme_list"] = measure_nvme_list(stage, 20)
        return figures


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
