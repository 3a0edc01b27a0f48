"""A browser, and what judges pages in it."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.dashboards.chromium import Chromium

if TYPE_CHECKING:
    from collections.abc import Iterator

BROWSER = Path(__file__).parent / "browser"


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """A browser."""
    found = Chromium(tmp_path_factory.mktemp("chromium"))
    yield found
    found.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, which looks for what keeps people from reading a page."""
    lock = hashlib.sha256((BROWSER / "package-lock.json").read_bytes()).hexdigest()
    installed = BROWSER / "node_modules" / ".installed-from"
    if not installed.is_file() or installed.read_text() != lock:
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        done = subprocess.run(command, cwd=BROWSER, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}"
        installed.write_text(lock)
    return (BROWSER / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")
