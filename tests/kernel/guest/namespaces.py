"""The fast tests that make interfaces, on kernels that have every kind of them.

The kernel of a developer's machine or of a build server may lack bonds, VLANs or VRFs; there
those tests are skipped. Stock kernels have them all.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests.kernel.guest.lab import load_modules
from tests.kernel.guest.scenario import Registry

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kernel.guest.lab import Lab

__all__ = ["MODULES", "REGISTRY"]

REGISTRY = Registry(exporter=False, scenario_seconds=900)

#: The modules that make interfaces of their own, below the checkout.
MODULES = (
    "tests/test_sources/test_netlink.py",
    "tests/test_sources/test_ports.py",
    "tests/test_sources/test_ports_rdma.py",
    "tests/test_sources/test_routes.py",
    "tests/test_sources/test_stack.py",
)

_OUTCOMES = "outcomes.json"

_INTERFACES = ("bonding", "8021q", "vrf", "bridge", "veth", "dummy", "macvlan")


@REGISTRY.scenario
def every_kind_of_interface(lab: Lab) -> Any:
    """What became of each test of MODULES."""
    load_modules(*_INTERFACES)
    directory = lab.scenario_directory("every_kind_of_interface")
    # First a few, for what they all use to be read from the host: the clock leaps meanwhile,
    # past any deadline.
    _run(directory, "-k=renamed or vlan")
    _run(directory, "-v")
    return json.loads((directory / _OUTCOMES).read_text())


def _run(directory: Path, option: str) -> None:
    command = [sys.executable, "-m", "tests.kernel.guest.inner_tests", option]
    with (directory / "tests.log").open("a") as log:
        subprocess.run(
            [*command, str(directory / _OUTCOMES), *MODULES], stdout=log, stderr=log, check=True
        )
