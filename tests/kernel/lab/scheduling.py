"""Which tests xdist gives to one worker: those of one file and, in the lab, of one kernel.

A boot serves every test of its group and kernel, so these belong together; the boots of
several kernels do not, and run side by side.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

from tests.kernel.lab.kernels import SUITES

__all__ = ["ByBoot"]


class ByBoot(LoadScopeScheduling):  # type: ignore[misc]  # xdist tells no types
    """Hands out tests boot by boot, and elsewhere file by file, in the order of collection."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        for suite in SUITES:
            # A kernel is the first or the last of a test's parameters.
            if f"[{suite}-" in test or test.endswith((f"[{suite}]", f"-{suite}]")):
                return f"{file}::{suite}"
        return file
