"""Fixtures of the kernel lab: a test module names its ``GROUP``, a test asks for ``result``.

A module may also name the ``KERNELS`` that it runs on; else it runs on all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kernel.lab.boots import Boot, Result, group_registry
from tests.kernel.lab.kernels import SUITES

if TYPE_CHECKING:
    from collections.abc import Iterator

# A boot is part of the first test that asks for it, with all scenarios of its group.
_TIMEOUT = 4500


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test the kernels, and one that asks for ``result`` the scenarios, it runs for."""
    if "boot" not in metafunc.fixturenames:
        return
    kernels = getattr(metafunc.module, "KERNELS", SUITES)
    metafunc.parametrize("suite", kernels, scope="session")
    if "scenario" in metafunc.fixturenames:
        names = list(group_registry(metafunc.module.GROUP).scenarios)
        metafunc.parametrize("scenario", names, scope="session")


@pytest.hookimpl(tryfirst=True)  # xdist looks for groups when it is its turn
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what boots a kernel."""
    for item in items:
        if isinstance(item, pytest.Function) and "boot" in item.fixturenames:
            item.add_marker(pytest.mark.kernel)
            item.add_marker(pytest.mark.timeout(_TIMEOUT))


@pytest.fixture(scope="session")
def boots() -> dict[tuple[str, str], Boot]:
    """Every boot of this session, by suite and group."""
    return {}


@pytest.fixture
def boot(request: pytest.FixtureRequest, suite: str, boots: dict[tuple[str, str], Boot]) -> Boot:
    """The boot of this test's kernel and group, with the scenarios that this session runs."""
    group: str = request.module.GROUP
    if (suite, group) not in boots:
        boots[suite, group] = Boot(suite, group, _selected(request.session, suite, group))
    return boots[suite, group]


@pytest.fixture
def result(boot: Boot, scenario: str) -> Result:
    """What this test's scenario found on its kernel."""
    return boot.result(scenario)


def _selected(session: pytest.Session, suite: str, group: str) -> list[str]:
    """Scenarios of ``group`` that tests collected for ``suite`` ask for; all when none does."""
    asked = dict.fromkeys(_asked(session, suite, group))
    return list(asked or group_registry(group).scenarios)


def _asked(session: pytest.Session, suite: str, group: str) -> Iterator[str]:
    for item in session.items:
        if not isinstance(item, pytest.Function) or "boot" not in item.fixturenames:
            continue
        asks = item.callspec.params
        if (item.module.GROUP, asks["suite"]) == (group, suite) and "scenario" in asks:
            yield str(asks["scenario"])
