"""What the tests in a browser share: made once, the slow parts at the same time."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.dashboards.boards import DIRECTORY
from tests.dashboards.chromium import Chromium
from tests.dashboards.fleet import make_fleet
from tests.dashboards.recorded import Nodes, Recording
from tests.dashboards.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

BROWSER = Path(__file__).parent / "browser"


@pytest.fixture(scope="session")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Make-believe nodes, some of which will be in trouble soon."""
    found = Nodes(tmp_path_factory.mktemp("nodes"))
    yield found
    found.close()


@pytest.fixture(scope="session")
def packages(nodes: Nodes) -> Path:
    """The Node.js packages, installed while trouble brews at the nodes."""
    lock = hashlib.sha256((BROWSER / "package-lock.json").read_bytes()).hexdigest()
    installed = BROWSER / "node_modules" / ".installed-from"
    if not installed.is_file() or installed.read_text() != lock:
        _npm("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
        installed.write_text(lock)
    return BROWSER / "node_modules"


@pytest.fixture(scope="session")
def recording(nodes: Nodes, packages: Path) -> Recording:
    """What a Prometheus saw of the nodes; they are gone."""
    return nodes.record()


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recording]:
    """A Prometheus that knows 200 nodes."""
    prometheus, found = make_fleet(tmp_path_factory.mktemp("fleet"))
    yield found
    prometheus.close()


@pytest.fixture(scope="session")
def site(packages: Path) -> Iterator[Site]:
    """The pages, bundled and served."""
    _run(["node", "build.mjs"])
    found = Site(BROWSER, DIRECTORY)
    yield found
    found.close()


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """A browser."""
    found = Chromium(tmp_path_factory.mktemp("chromium"))
    yield found
    found.close()


@pytest.fixture(scope="session")
def schema(packages: Path) -> Path:
    """The JSON Schema of dashboards, made from the types of @grafana/schema."""
    target = BROWSER / "build" / "schema.json"
    target.parent.mkdir(exist_ok=True)
    generator = packages / ".bin" / "ts-json-schema-generator"
    options = ["--path=src/schema.ts", "--tsconfig=tsconfig.json", "--no-type-check"]
    _run([str(generator), *options, f"--out={target}"])
    return target


def _npm(*arguments: str) -> None:
    _run(["npm", *arguments])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, cwd=BROWSER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
