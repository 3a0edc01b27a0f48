"""A real Prometheus, which scrapes what it is told to."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import urllib.error
import urllib.parse
from typing import TYPE_CHECKING, Any

from tests.test_daemon.running import eventually, fetch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Prometheus", "scraping"]


class Prometheus:
    """Runs with a configuration, in a directory of its own.

    Args:
        scrape_configs: YAML of that section.
        directory: for its configuration, data and log.

    """

    def __init__(self, scrape_configs: str, directory: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        self.url = f"http://{address}"
        self.log = directory / "log"
        configuration = directory / "prometheus.yml"
        configuration.write_text(
            "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
            f"scrape_configs:\n{scrape_configs}"
        )
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={configuration}",
                    f"--storage.tsdb.path={directory}/data",
                    f"--web.listen-address={address}",
                    "--log.level=debug",
                ],
                stderr=log,
                stdout=log,
            )

    def ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            fetch(f"{self.url}/-/ready")
        except (urllib.error.URLError, ConnectionError):
            return False
        return True

    def query(self, expression: str) -> list[dict[str, Any]]:
        query = urllib.parse.urlencode({"query": expression})
        found = json.loads(fetch(f"{self.url}/api/v1/query?{query}"))
        assert found["status"] == "success"
        result: list[dict[str, Any]] = found["data"]["result"]
        return result

    def value(self, expression: str) -> float:
        (only,) = self.query(expression)
        return float(only["value"][1])

    def targets(self) -> dict[str, dict[str, Any]]:
        """Return the targets by job."""
        found = json.loads(fetch(f"{self.url}/api/v1/targets"))["data"]["activeTargets"]
        return {target["labels"]["job"]: target for target in found}


@contextlib.contextmanager
def scraping(scrape_configs: str, directory: Path) -> Iterator[Prometheus]:
    """Run a Prometheus that is ready, and gone at the end."""
    prometheus = Prometheus(scrape_configs, directory)
    try:
        eventually(prometheus.ready, "Prometheus is ready")
        yield prometheus
    finally:
        prometheus.process.terminate()
        prometheus.process.wait(30)
