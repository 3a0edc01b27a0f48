"""One boot per kernel and group of scenarios, and each scenario's result to the test that asks."""

from __future__ import annotations

import compileall
import importlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kernel.lab import kernels
from tests.kernel.lab.kernels import KernelError
from tests.kernel.lab.machine import CHECKOUT, Machine, MachineError, missing_packages
from tests.kernel.lab.package import build_package

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.kernel.guest.scenario import Registry

__all__ = ["ARTEFACTS", "Boot", "Result", "group_registry"]

#: What runs leave behind: logs of the guest, fio's slowest requests, tables of results.
ARTEFACTS = Path(__file__).resolve().parents[1] / "artefacts"

_FIXED_SECONDS = 180.0  # boot, first start of the exporter, and a busy machine
_TAIL = 40


@dataclass(frozen=True)
class Result:
    """What one scenario found on one kernel, with the logs that explain it."""

    name: str
    kernel: str
    found: Any
    directory: Path

    def explain(self, reason: str) -> str:
        """``reason`` with what was found and the end of the kernel's log, for an assertion."""
        log = self.directory / "kernel.log"
        lines = log.read_text().splitlines()[-_TAIL:] if log.exists() else []
        found = json.dumps(self.found, indent=1)[:6000]
        return "\n".join([f"{self.name} on {self.kernel}: {reason}", found, "--- kernel", *lines])


class Boot:
    """Results of ``scenarios`` of ``group`` on the kernel of ``suite``, booted when first asked.

    A boot that fails fails every test whose scenario it did not come to, each with
    the same report.
    """

    def __init__(self, suite: str, group: str, scenarios: Sequence[str]) -> None:
        self.suite = suite
        self.output = ARTEFACTS / suite / group
        self._group = group
        self._scenarios = scenarios
        self._results: dict[str, dict[str, Any]] | None = None
        self._failure: Exception | None = None

    def result(self, name: str) -> Result:
        """The result of scenario ``name``; raises AssertionError with its traceback and logs."""
        everything = self._everything()
        if name not in everything:
            raise self._failure or MachineError(f"{name}: no result in {self.output}")
        found = everything[name]
        result = Result(name, found["kernel"], found.get("found"), self.output / name)
        if "error" in found:
            raise AssertionError(result.explain(found["error"]))
        return result

    def results(self) -> list[Result]:
        """The results of every scenario that came to its end."""
        return [self.result(name) for name, found in self._everything().items() if "found" in found]

    def all_results(self) -> list[Result]:
        """The results of every scenario; raises what ``result`` does for one that failed."""
        return [self.result(name) for name in self._scenarios]

    def _everything(self) -> dict[str, dict[str, Any]]:
        """What the guest has left; where the boot failed, that is what came before."""
        if self._results is None:
            try:
                self._run()
            except (MachineError, KernelError) as failure:
                self._failure = failure
            self._results = self._left()
        return self._results

    def _left(self) -> dict[str, dict[str, Any]]:
        file = self.output / "results.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        return {result["name"]: result for result in map(json.loads, lines)}

    def _run(self) -> None:
        shutil.rmtree(self.output, ignore_errors=True)
        absent = missing_packages()
        if absent:
            raise MachineError(f"the kernel lab needs: apt-get install {' '.join(absent)}")
        group = group_registry(self._group)
        # The guest cannot keep what it compiles, and would take a minute for it.
        for package in ("nvmeof_exporter", "tests/kernel"):
            compileall.compile_dir(CHECKOUT / package, quiet=2)
        machine = Machine(
            kernels.fetch(self.suite),
            self.output,
            {
                "LAB_GROUP": self._group,
                "LAB_SCENARIOS": " ".join(self._scenarios),
                "LAB_RECORD": os.environ.get("NVMEOF_LAB_RECORD", ""),
                "LAB_PACKAGE": str(build_package(ARTEFACTS / "package")) if group.package else "",
            },
            deadline=_FIXED_SECONDS + group.scenario_seconds * len(self._scenarios),
            devices=group.devices,
            kernel_arguments=group.kernel_arguments,
        )
        machine.run()


def group_registry(group: str) -> Registry:
    """The scenarios of ``group``, importable on the host as well."""
    registry: Registry = importlib.import_module(f"tests.kernel.guest.{group}").REGISTRY
    return registry
