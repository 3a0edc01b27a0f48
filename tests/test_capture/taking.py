"""Captures for tests: a tree in, the unpacked bundle's tree out."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

from nvmeof_exporter.capture.bundle import archive
from nvmeof_exporter.capture.contents import assemble
from nvmeof_exporter.capture.reading import read_whole
from nvmeof_exporter.capture.tree import capture_tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvmeof_exporter.capture.redact import Redactor

__all__ = ["TREES", "taken", "unpack"]

TREES = sorted((Path(__file__).parents[1] / "fixtures/trees").glob("*/*.tar.xz"))


def taken(
    sysfs: str,
    directory: Path,
    read: Callable[[str], bytes] = read_whole,
    redactor: Redactor | None = None,
) -> Path:
    """Capture a tree, unpack it below ``directory`` and return where its ``sys`` is."""
    tree = capture_tree(sysfs, read)
    if redactor is not None:
        for entry in tree.entries:
            redactor.learn(entry.name.rpartition("/")[2], entry.content)
    bundle = archive(assemble(tree, [], {"format": 1}, redactor), "node", 0.0)
    return unpack(bundle, directory) / "node/sys"


def unpack(bundle: bytes, directory: Path) -> Path:
    """Unpack as a careful user would: nothing outside, nothing but files, links, directories."""
    with tarfile.open(fileobj=io.BytesIO(bundle)) as tar:
        tar.extractall(directory, filter="data")
    return directory
