"""The fast tests that need bonds, VLANs and VRFs, each of them on stock kernels."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tests.kernel.guest.namespaces import MODULES
from tests.kernel.lab.machine import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from tests.kernel.lab.boots import Boot

GROUP = "namespaces"

_SCENARIO = "every_kind_of_interface"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each test in MODULES."""
    if "inner" in metafunc.fixturenames:
        metafunc.parametrize("inner", [test for module in MODULES for test in _tests_in(module)])


def test_passes_where_the_kernel_has_every_interface(boot: Boot, inner: str) -> None:
    result = boot.result(_SCENARIO)
    outcomes = {
        case: outcome for case, outcome in result.found.items() if case.partition("[")[0] == inner
    }
    assert outcomes, result.explain(f"{inner} did not run")
    failed = {case: reason for case, (outcome, reason) in outcomes.items() if outcome != "passed"}
    assert not failed, "\n".join(f"{case}: {reason}" for case, reason in failed.items())


def _tests_in(module: str) -> Iterator[str]:
    """Node IDs of the tests in ``module``, without their parameters."""
    tree = ast.parse((CHECKOUT / module).read_text())
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield f"{module}::{node.name}"
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and part.name.startswith("test_"):
                    yield f"{module}::{node.name}::{part.name}"
