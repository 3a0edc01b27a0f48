"""Looks at make-believe nodes, and policies written as they are in a file."""

from __future__ import annotations

import textwrap
from contextlib import closing
from typing import TYPE_CHECKING

import yaml

from nvmeof_exporter.config.file import FileNode
from nvmeof_exporter.model import Controller, Namespace, NamespacePath, PathId, PathSettings
from nvmeof_exporter.policy import Verdict
from nvmeof_exporter.policy.section import decode_policy
from nvmeof_exporter.sources.nvme import NvmeSource
from tests.fixtures.node_files import FaultyReader, NodeFiles

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from nvmeof_exporter.model import Snapshot
    from nvmeof_exporter.policy import Finding, Policy

NQN = "nqn.2026-01.org.example:array"

#: What a kernel of today connects with when nobody says anything.
KERNEL_DEFAULTS = PathSettings(
    keep_alive_timeout=5.0,
    ctrl_loss_timeout=600.0,
    reconnect_delay=10.0,
    fast_io_fail_timeout=float("inf"),
    io_timeout=30.0,
    queues=9,
)


def look(name: str, directory: Path) -> Snapshot:
    """One look at a node that is kept as a file."""
    node = NodeFiles.load(name, directory)
    with closing(NvmeSource(FaultyReader(), node.sysfs)) as source:
        return source.poll(0.0, 0.0)


def controller(
    number: int = 0,
    settings: PathSettings = KERNEL_DEFAULTS,
    *,
    transport: str = "tcp",
    state: str = "live",
) -> Controller:
    path = PathId(transport, f"10.0.{number}.2", "4420")
    return Controller(f"nvme{number}", NQN, path, state, state, settings=settings)


def namespace(controllers: Iterable[Controller], ana_state: str = "optimized") -> Namespace:
    paths = tuple(NamespacePath(f"{c.name}c1n1", c, ana_state) for c in controllers)
    return Namespace(NQN, "1", "nvme0n1", paths=paths)


def policy(text: str) -> Policy:
    """The policy of a file of that contents."""
    root = yaml.compose(textwrap.dedent(text), Loader=yaml.SafeLoader)
    assert root is not None
    ((_, section),) = FileNode(root, "policy.yaml", "").entries("a mapping")
    return decode_policy(section)


def violated(findings: Iterable[Finding]) -> dict[str, str]:
    """What was found, by rule, of the rules that are violated."""
    return {f.rule: f.found for f in findings if f.verdict is Verdict.VIOLATED}


def verdicts(findings: Iterable[Finding]) -> dict[str, Verdict]:
    return {finding.rule: finding.verdict for finding in findings}
