"""A thousand scrapes a second: no poll is late, and afterwards nothing is held that was not before.

The rate is what a soak asks for and reports; a test run only makes sure that nothing grows.
"""

from __future__ import annotations

import contextlib
import http.client
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.node_files import NodeFiles
from tests.soak.amount import amount
from tests.soak.process import held
from tests.test_daemon.running import Exporter, eventually, running

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.timeout(0), pytest.mark.thorough]

SCRAPES = amount(1_000, 60_000)
CLIENTS = 10
PER_SECOND = 1_000
OVERRUNS = "nvmeof_exporter_poll_overruns_total"

#: Of memory in use: what the allocators of threads may keep for themselves.
MOST_GROWTH = 4 << 20


class Scraping:
    """Clients that each keep a connection and scrape at their share of the rate."""

    def __init__(self, exporter: Exporter) -> None:
        host, _, port = exporter.url.removeprefix("http://").rpartition(":")
        self._address = (host, int(port))
        self.statuses: list[int] = []
        self.longest = 0.0

    def run(self, scrapes: int, *, fresh: bool) -> float:
        """Scrape so often; ``fresh`` connects anew each time. Returns the seconds it took."""
        started = time.monotonic()
        share = scrapes // CLIENTS
        threads = [
            threading.Thread(target=self._scrape, args=(share, fresh)) for _ in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.monotonic() - started

    def _scrape(self, number: int, fresh: bool) -> None:
        connection = http.client.HTTPConnection(*self._address, timeout=30)
        due = time.monotonic()
        with contextlib.closing(connection):
            for _ in range(number):
                began = time.monotonic()
                connection.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"})
                response = connection.getresponse()
                response.read()
                self.statuses.append(response.status)
                self.longest = max(self.longest, time.monotonic() - began)
                if fresh:
                    connection.close()
                due += CLIENTS / PER_SECOND
                time.sleep(max(due - time.monotonic(), 0.0))


@pytest.mark.parametrize("fresh", [False, True], ids=["kept connections", "new connections"])
def test_scrapes_by_the_thousand_leave_nothing_behind(tmp_path: Path, fresh: bool) -> None:
    node = NodeFiles.load("four-gateways", tmp_path / "sys")
    with running(f"--path.sysfs={node.sysfs}") as exporter:
        scraping = Scraping(exporter)
        scraping.run(amount(500, 5_000), fresh=fresh)
        exporter.samples()
        before, overruns = held(exporter.process.pid), exporter.samples()[OVERRUNS]
        seconds = scraping.run(SCRAPES, fresh=fresh)
        after = exporter.samples()
        eventually(
            lambda: held(exporter.process.pid).descriptors <= before.descriptors, "all parted"
        )
        now = held(exporter.process.pid)
        assert set(scraping.statuses) == {200}
        assert now.threads <= before.threads
        assert now.memory - before.memory < MOST_GROWTH
        assert exporter.status("/-/healthy") == 200
    sys.stdout.write(
        f"\n{SCRAPES} scrapes in {seconds:.1f} s ({SCRAPES / seconds:.0f}/s), the longest "
        f"{scraping.longest * 1000:.0f} ms; {after[OVERRUNS] - overruns:g} poll overruns; "
        f"{(now.memory - before.memory) / 1024:+.0f} KiB\n"
    )
