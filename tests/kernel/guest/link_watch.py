"""What is said of a path, poll by poll, while its link goes away and returns."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tests.kernel.guest.logs import KernelLog, mark

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kernel.guest.exporter import Exporter, Scrape
    from tests.kernel.guest.fabric import Fabric

__all__ = ["LinkWatch"]

#: Longer than it takes the kernel to give a path up, by a short keep-alive or by a request.
_SECONDS = 20.0

#: Shorter than the interval of the polls, and long enough to leave the processor to them.
#: The first polls are what matters: afterwards it is only awaited what the kernel does.
_PAUSE_SECONDS, _CLOSELY, _RELAXED_SECONDS = 0.03, 5, 0.3

_CLOCK = "nvmeof_exporter_last_poll_timestamp_seconds"


class LinkWatch:
    """Changes the link under a path, then watches what is said of the path.

    ``record`` has when the change was done, what each poll since then has shown, and when the
    kernel wrote its first line of the controller since then (0: none yet). Times are in
    seconds on the wall clock.
    """

    def __init__(
        self, exporter: Exporter, fabric: Fabric, link: int, change: Callable[[], None]
    ) -> None:
        self._exporter = exporter
        self._controller = fabric.paths[link].controller
        self._labels = {"nqn": fabric.nqn, "path": fabric.label(link)}
        self._log = KernelLog()
        mark(f"link of {self._controller}")
        change()
        self.record: dict[str, Any] = {"done": time.time(), "seen": [], "kernel": 0.0}

    def until_told(self, *, up: bool) -> None:
        """Watch until the link is served as ``up``."""
        self._watch(lambda seen: seen["link_up"] == up)

    def until_given_up(self) -> None:
        """Watch until the path is served as no longer live."""
        self._watch(lambda seen: seen["state"] != "live")
        self.record["kernel"] = _first_line(self._log, f"{self._controller}: ")

    def _watch(self, condition: Callable[[dict[str, Any]], bool]) -> None:
        seen = self.record["seen"]
        end = time.monotonic() + _SECONDS
        while not (seen and condition(seen[-1])):
            if time.monotonic() > end:
                raise TimeoutError(f"not within {_SECONDS} s; last seen: {seen[-3:]}")
            time.sleep(_PAUSE_SECONDS if len(seen) < _CLOSELY else _RELAXED_SECONDS)
            scrape = self._exporter.scrape()
            if not seen or scrape.value(_CLOCK) != seen[-1]["poll"]:
                seen.append(self._look(scrape))

    def _look(self, scrape: Scrape) -> dict[str, Any]:
        states = scrape.matching("nvmeof_path_state", **self._labels)
        return {
            "poll": scrape.value(_CLOCK),
            "link_up": scrape.value("nvmeof_path_link_up", **self._labels),
            "state": next((labels["state"] for labels, value in states if value), ""),
        }


def _first_line(log: KernelLog, about: str) -> float:
    """When the first line with ``about`` was written."""
    offset = time.time() - time.monotonic()
    lines = (line.partition(" ") for line in log.new_lines())
    return next((float(stamp) + offset for stamp, _, text in lines if about in text), 0.0)
