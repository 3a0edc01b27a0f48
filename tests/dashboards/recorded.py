"""A real Prometheus that has watched make-believe nodes; what happened when is asked of it."""

from __future__ import annotations

import contextlib
import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.alerts.chain.parts import Demo, Prometheus, Target, await_, free_address
from tests.dashboards.congested import Congested

__all__ = ["ALERTS", "Nodes", "Recording", "Scene", "ask", "value"]

ALERTS = Path(__file__).parents[2] / "alerts"

#: What befalls each node, by its name.
_SCRIPTS = {
    "calm": "calm",
    "drilled": str(Path(__file__).parent / "drill.script.yaml"),
    "lost": "all-paths-lost",
    "unplugged": "port-down",
}
_SCRAPE = "2s"

#: Seconds that something may take to happen; a node's scripts take half a minute.
_PATIENCE = 240.0

#: Seconds after the first answers from which there are rates.
_WARM = 9.0


@dataclass(frozen=True)
class Scene:
    """What a picture is of: a node, and times; ``end`` is "now" in it."""

    instance: str
    start: float
    end: float


@dataclass(frozen=True)
class Recording:
    """A Prometheus and the scenes in it, by name."""

    prometheus: str
    scenes: dict[str, Scene]


def ask(prometheus: str, path: str, **parameters: str) -> Any:
    """Ask Prometheus' HTTP API; an error is a failed test that says what Prometheus said."""
    url = f"{prometheus}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - http, made here
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{json.load(error)['error']}: {parameters}") from error


def value(prometheus: str, expr: str) -> float | None:
    """Return the one value of an expression now; None without any."""
    found = ask(prometheus, "query", query=expr)["result"]
    return float(found[0]["value"][1]) if found else None


class Nodes:
    """The nodes and their Prometheus, running.

    Args:
        directory: for their logs and data.

    """

    def __init__(self, directory: Path) -> None:
        with contextlib.ExitStack() as stack:
            self._demos = []
            for name, script in _SCRIPTS.items():
                demo = Demo(script, name, directory, free_address())
                stack.callback(demo.close)
                self._demos.append(demo)
            addresses = {
                name: demo.address for demo, name in zip(self._demos, _SCRIPTS, strict=True)
            }
            # I/O over one link of two: it is congested.
            congested = Congested(addresses["unplugged"])
            stack.callback(congested.close)
            addresses["unplugged"] = congested.address
            targets = [Target(address, "hall-1", name) for name, address in addresses.items()]
            rules = sorted(ALERTS.glob("*.rules.yaml"))
            self.prometheus = Prometheus(directory, rules, targets, free_address(), _SCRAPE)
            stack.callback(self.prometheus.close)
            self._running = stack.pop_all()

    def close(self) -> None:
        """End them all."""
        self._running.close()

    def _await(self, expr: str, what: str) -> None:
        await_(lambda: value(self.prometheus.url, expr) is not None, _PATIENCE, what)

    def record(self) -> Recording:
        """Wait until everything has happened, end the nodes, and tell what happened when."""
        url = self.prometheus.url
        unplugged = 'max(nvmeof_path_last_transition_timestamp_seconds{instance="unplugged"})'
        for expr, what in {
            # And has been for a while: the picture shows it.
            'nvmeof_failbacks_total{instance="drilled"} offset 8s > 0': "I/O is back on its path",
            'max(nvmeof_namespace_io_stalled_seconds{instance="lost"}) > 8': "I/O stands still",
            # Rates of drivers' counters are drawn every 15 s: once at least, since.
            f"time() - {unplugged} > 18": "the path of an unplugged link is gone",
        }.items():
            self._await(expr, what)
        recording = Recording(url, self._scenes())
        for demo in self._demos:
            demo.close()
        return recording

    def _scenes(self) -> dict[str, Scene]:
        def when(expr: str) -> float:
            found = value(self.prometheus.url, expr)
            assert found is not None, expr
            return found

        up = "timestamp(up == 1)[10m:1s]"
        going_on = 'timestamp(nvmeof_failover_in_progress{instance="drilled"} == 1)[10m:1s]'
        start = when(f"max(min_over_time({up}))") + _WARM
        end = when(f"min(max_over_time({up}))")
        before = when(f"min(min_over_time({going_on}))") - 3
        during = when(f"max(max_over_time({going_on}))")
        return {
            "healthy": Scene("calm", start, end),
            "before": Scene("drilled", start, before),
            "during": Scene("drilled", start, during),
            "after": Scene("drilled", start, end),
            "lost": Scene("lost", start, end),
            "unplugged": Scene("unplugged", start, end),
        }
