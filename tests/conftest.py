"""For every test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

# How long an example takes says more about the machine's other work than about the code.
settings.register_profile("nvmeof-exporter", deadline=None)
settings.load_profile("nvmeof-exporter")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Let ``--dist loadfile`` part the kernels of a file of the lab."""
    if config.getvalue("dist") != "loadfile":
        return None
    from tests.kernel.lab.scheduling import ByBoot  # noqa: PLC0415 - xdist may be missing

    return ByBoot(config, log)
