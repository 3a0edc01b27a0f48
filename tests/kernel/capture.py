"""Makes the archives under tests/fixtures/trees: ``python -m tests.kernel.capture [SUITE ...]``."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.kernel.lab import kernels
from tests.kernel.lab.boots import Boot, group_registry

__all__ = ["main"]

_TREES = Path(__file__).resolve().parents[1] / "fixtures/trees"
_GROUPS = ("captures", "captures_without_multipath")
_LARGEST = 15 * 1024


def main(suites: list[str]) -> int:
    """Boot the kernel of each suite, keep what its scenarios archive, return the exit status."""
    too_large = []
    for suite in suites or kernels.SUITES:
        home = _TREES / kernels.fetch(suite).version
        home.mkdir(parents=True, exist_ok=True)
        for group in _GROUPS:
            boot = Boot(suite, group, list(group_registry(group).scenarios))
            for result in boot.all_results():
                sys.stdout.write(f"{result.kernel} {result.name}: {result.found}\n")
            for tree in sorted((boot.output / "trees").glob("*.tar.xz")):
                shutil.copyfile(tree, home / tree.name)
                if tree.stat().st_size > _LARGEST:
                    too_large.append(str(home / tree.name))
    for name in too_large:
        sys.stderr.write(f"{name}: more than {_LARGEST} bytes\n")
    return bool(too_large)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
