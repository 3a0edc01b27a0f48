"""Runs one group of scenarios in the guest, one after the other, in this one process.

Results go to ``results.jsonl`` in the output directory as they come, so that
even a panicking kernel leaves those before it. During a scenario nothing is
written there: the guest's clock leaps while it awaits its host.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kernel.guest.lab import Lab
from tests.kernel.guest.load import warm_up
from tests.kernel.guest.logs import mark, say

if TYPE_CHECKING:
    from tests.kernel.guest.scenario import Registry, Scenario

__all__ = ["main"]

_WORK = Path("/run/lab")

#: What the exporter renames when it is written: it may be gone when it is to be copied.
_PASSING = shutil.ignore_patterns("*.new")


def main() -> None:
    """Run what LAB_GROUP and LAB_SCENARIOS name, into LAB_OUTPUT."""
    output = Path(os.environ["LAB_OUTPUT"])
    group = importlib.import_module(f"tests.kernel.guest.{os.environ['LAB_GROUP']}")
    registry: Registry = group.REGISTRY
    os.setpriority(os.PRIO_PROCESS, 0, -20)  # whoever watches must not wait for what it watches
    _WORK.mkdir()
    lab = Lab(_WORK)
    say(f"booted {lab.kernel}")
    warm_up(_WORK)
    if registry.exporter:
        say(f"the exporter answered after {lab.exporter.start_seconds:.1f} s")
    with (output / "results.jsonl").open("a", buffering=1) as results:
        for name in os.environ["LAB_SCENARIOS"].split():
            result = _run(registry.scenarios[name], lab)
            shutil.copytree(_WORK, output, dirs_exist_ok=True, ignore=_PASSING)
            shutil.rmtree(lab.scenario_directory(name))
            print(json.dumps(result), file=results)
    (output / "finished").touch()


def _run(scenario: Scenario, lab: Lab) -> dict[str, Any]:
    say(f"{scenario.name}: {scenario.title}")
    mark(scenario.name)
    started = time.monotonic()
    result: dict[str, Any] = {"name": scenario.name, "kernel": lab.kernel}
    try:
        result["found"] = scenario.run(lab)
    except Exception:  # noqa: BLE001 - whatever went wrong is this scenario's result
        result["error"] = traceback.format_exc()
        say(result["error"])
    result["seconds"] = time.monotonic() - started
    log = lab.scenario_directory(scenario.name) / "kernel.log"
    log.write_text("\n".join(lab.kernel_log.new_lines()) + "\n")
    say(f"{scenario.name}: {result['seconds']:.1f} s")
    return result


if __name__ == "__main__":
    main()
