"""The exporter's Debian package, built on the host for guests that install it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.kernel.lab.machine import CHECKOUT, MachineError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["build_package"]

_LIBRARIES = "usr/lib/nvmeof-exporter"


def build_package(directory: Path) -> Path:
    """Build the package into ``directory``, with its modules compiled in ``compiled.tar``.

    Returns ``directory``. Raises MachineError with what was written on standard error.
    """
    shutil.rmtree(directory, ignore_errors=True)
    program = CHECKOUT / "packaging/debian/build.py"
    package = _run(sys.executable, program, "--output", directory)
    tree = directory / "tree"
    _run("dpkg-deb", "--extract", package, tree)
    # As the guest's python3 would, which is this machine's.
    _run("/usr/bin/python3", "-m", "compileall", "-q", tree / _LIBRARIES)
    compiled = directory / "compiled.tar"
    _run("tar", "--create", "--file", compiled, "--directory", tree / _LIBRARIES, ".")
    shutil.rmtree(tree)
    return directory


def _run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MachineError(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout.strip()
