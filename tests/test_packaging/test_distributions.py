"""The wheel and the source distribution: the same every time, and fit to be uploaded."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from nvmeof_exporter import __version__

ROOT = Path(__file__).parents[2]
WHEEL = f"nvmeof_exporter-{__version__}-py3-none-any.whl"
SOURCES = f"nvmeof_exporter-{__version__}.tar.gz"

pytestmark = pytest.mark.packaging


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("dist"))


def build(checkout: Path, target: Path) -> Path:
    """Build both as PyPI would get them: the wheel out of the source distribution."""
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", target, checkout],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1788134400"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def test_there_is_one_of_each(distributions: Path) -> None:
    assert sorted(path.name for path in distributions.iterdir()) == [WHEEL, SOURCES]


def test_they_may_be_uploaded(distributions: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *distributions.iterdir()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_same_sources_make_the_same_bytes_anywhere(distributions: Path, tmp_path: Path) -> None:
    with tarfile.open(distributions / SOURCES) as archive:
        archive.extractall(tmp_path, filter="data")  # with other times than the checkout's
    (elsewhere,) = tmp_path.iterdir()
    (elsewhere / "PKG-INFO").unlink()  # it is made
    again = build(elsewhere, tmp_path / "dist")
    for name in (WHEEL, SOURCES):
        assert (again / name).read_bytes() == (distributions / name).read_bytes(), name


def test_the_wheel_holds_the_package_and_its_licence_and_nothing_else(
    distributions: Path,
) -> None:
    with zipfile.ZipFile(distributions / WHEEL) as wheel:
        names = set(wheel.namelist())
    info = f"nvmeof_exporter-{__version__}.dist-info"
    assert f"{info}/licenses/LICENSE" in names
    assert {name.partition("/")[0] for name in names} == {"nvmeof_exporter", info}
    sources = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "nvmeof_exporter").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if not name.startswith(info)} == sources


def test_the_source_distribution_holds_what_a_distributor_needs(distributions: Path) -> None:
    with tarfile.open(distributions / SOURCES) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "LICENSE",
        "CHANGELOG.md",
        "docs/man/nvmeof-exporter.8",
        "systemd/nvmeof-exporter.service",
        "packaging/completion/nvmeof-exporter.bash",
        "alerts/nvmeof.rules.yaml",
        "tests/conftest.py",
    } <= names
    left_behind = {"__pycache__", "artefacts", "node_modules", ".venv"}
    assert not [name for name in names if left_behind & set(name.split("/"))]
    assert not [name for name in names if name.startswith("tests/dashboards/browser/build/")]
