"""From a path that the kernel loses to the pager that rings, with every part a real one."""

from __future__ import annotations

import json
import shutil
import time
import urllib.request
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.alerts.chain.parts import Alertmanager, Prometheus, Receiver, Target
from tests.kernel.guest.fabric import FabricSettings
from tests.kernel.guest.initiator import ConnectOptions
from tests.kernel.guest.logs import say
from tests.kernel.guest.scenario import Registry
from tests.kernel.guest.waiting import await_

if TYPE_CHECKING:
    from tests.kernel.guest.lab import Lab

__all__ = ["INTERVAL_SECONDS", "REGISTRY"]

REGISTRY = Registry(scenario_seconds=600)

#: Seconds between two scrapes, and between two evaluations of the rules.
INTERVAL_SECONDS = 15

_ALERTS = Path(__file__).parents[3] / "alerts"
_EXPORTER = "127.0.0.1:10067"  # the exporter of the lab is where exporters are by default
_PROGRAMS = ("prometheus", "prometheus-alertmanager")

#: Redundancy is lost for a minute, and then some, before somebody is paged.
_PAGE_SECONDS = 180.0

#: A page is taken back two minutes after the path is back, with its group's next message.
_RESOLVED_SECONDS = 600.0

#: Nothing happens for so long before, and after.
_QUIET_SECONDS = 60.0


@REGISTRY.scenario
def a_lost_path_becomes_a_page(lab: Lab) -> Any:
    """A path falls silent and is given up; a minute later the pager rings, once."""
    directory = lab.scenario_directory("a_lost_path_becomes_a_page")
    _read_from_host()
    settings = FabricSettings(options=ConnectOptions(keep_alive=5, reconnect_delay=10))
    with ExitStack() as parts:
        receiver = parts.enter_context(closing(Receiver()))
        alertmanager = parts.enter_context(
            closing(Alertmanager(directory, _ALERTS / "alertmanager.example.yaml", receiver))
        )
        say("Alertmanager is ready")
        fabric = parts.enter_context(lab.fabric(settings))
        lab.exporter.await_value("nvmeof_subsystem_paths_usable", 2, nqn=fabric.nqn)
        prometheus = parts.enter_context(
            closing(
                Prometheus(
                    directory,
                    [_ALERTS / "nvmeof.rules.yaml"],
                    [Target(_EXPORTER, "lab", "node")],
                    alertmanager.address,
                    f"{INTERVAL_SECONDS}s",
                )
            )
        )
        say("Prometheus is ready")
        time.sleep(_QUIET_SECONDS)
        fabric.black_hole(1)
        lost = time.time()
        await_(lambda: bool(receiver.notifications), _PAGE_SECONDS, "a page")
        say("paged")
        fabric.restore_packets()
        fabric.await_live(1)
        back = time.time()
        await_(lambda: len(receiver.notifications) > 1, _RESOLVED_SECONDS, "the end of the page")
        say("all is well")
        time.sleep(_QUIET_SECONDS)
        return {
            "nqn": fabric.nqn,
            "lost": lost,
            "back": back,
            "notifications": [asdict(each) for each in receiver.notifications],
            "left": _alerts(prometheus),
        }


def _alerts(prometheus: Prometheus) -> list[dict[str, Any]]:
    """What is pending or firing now."""
    with urllib.request.urlopen(f"{prometheus.url}/api/v1/alerts", timeout=20) as answer:  # noqa: S310 - http, made here
        alerts: list[dict[str, Any]] = json.load(answer)["data"]["alerts"]
        return alerts


def _read_from_host() -> None:
    """Read the programs before time matters: the clock leaps while the guest awaits its host."""
    for program in _PROGRAMS:
        found = shutil.which(program)
        if found is None:
            raise LookupError(f"{program} is not installed")
        Path(found).read_bytes()
