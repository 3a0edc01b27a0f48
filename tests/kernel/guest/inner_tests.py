"""Runs tests of this checkout with pytest, and leaves the outcome of each in a file.

``python -m tests.kernel.guest.inner_tests OPTION FILE MODULE...`` writes a JSON object: by node
ID what became of a test, ``passed``, ``failed`` or ``skipped``, and why where it did not pass.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

__all__ = ["main"]

#: Deadlines of the guest mean nothing here: its clock leaps while it reads a file of the host.
_OPTIONS = (
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "--timeout=0",
    "--durations=15",
    "--tb=short",
)

#: Property tests are about texts, which are the same on every machine: a few examples do.
_EXAMPLES = 5


class _Outcomes:
    """A plugin that keeps what became of each test."""

    def __init__(self) -> None:
        self.by_test: dict[str, list[str]] = {}

    def pytest_sessionstart(self) -> None:
        """Replace the profile of the checkout's own conftest."""
        from hypothesis import settings  # noqa: PLC0415 - pytest must see it first, to rewrite it

        settings.register_profile("lab", deadline=None, max_examples=_EXAMPLES)
        settings.load_profile("lab")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome of the call, or of what went wrong before or after it."""
        if report.when == "call" or not report.passed:
            reason = "" if report.passed else report.longreprtext or str(report.longrepr)
            self.by_test[report.nodeid] = [report.outcome, reason[-2000:]]


def main(option: str, file: str, *modules: str) -> None:
    """Run the tests of ``modules`` with one more ``option`` of pytest, and write ``file``."""
    outcomes = _Outcomes()
    pytest.main([*_OPTIONS, option, *modules], [outcomes])
    Path(file).write_text(json.dumps(outcomes.by_test))


if __name__ == "__main__":
    main(*sys.argv[1:])
