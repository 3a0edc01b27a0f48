"""The real parts between a path and a pager, each a process or a server of this machine."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

__all__ = [
    "Alertmanager",
    "Demo",
    "Notification",
    "Prometheus",
    "Receiver",
    "Target",
    "await_",
    "free_address",
]

_PATIENCE = 60.0

#: The route of facts that change with the configuration only waits this long; here it does not.
_ONCE_A_DAY_WAIT, _SHORT_WAIT = "5m", "1m"


def free_address() -> str:
    """A loopback address that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"127.0.0.1:{probe.getsockname()[1]}"


def await_(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait until ``condition`` holds; fail naming ``what`` when it does not within ``seconds``."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.2)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - http, made here
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


class _Process:
    """A program with its output in a file, gone when closed."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output)

    def await_ready(self, url: str) -> None:
        """Wait until ``url`` answers with 200."""

        def ready() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            return _answers(url)

        await_(ready, _PATIENCE, f"{url} ({self.log})")

    def close(self) -> None:
        """End it, by force if need be."""
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass(frozen=True)
class Target:
    """What Prometheus scrapes, and the labels that tell the nodes apart."""

    address: str
    cluster: str
    instance: str


class Demo(_Process):
    """The exporter over a make-believe node with a script of faults.

    Args:
        script: a name that ``--demo.script`` knows, or a file.
        node: the node's name; each lives a life of its own.
        directory: where its log goes.
        address: where it listens.
        flags: more of the exporter's.

    """

    def __init__(self, script: str, node: str, directory: Path, address: str, *flags: str) -> None:
        self.address = address
        super().__init__(
            [
                *(sys.executable, "-m", "nvmeof_exporter", "demo"),
                f"--demo.script={script}",
                f"--demo.node={node}",
                f"--web.listen-address={address}",
                *flags,
            ],
            directory / f"{node}.log",
        )
        #: When its life began; by its own log once it is ready: busy machines take their time.
        self.started = time.time()

    def ready(self) -> None:
        """Wait for the first poll."""
        self.await_ready(f"http://{self.address}/-/ready")
        said = re.search(r"ts=(\S+)Z level=info msg=starting", self.log.read_text())
        assert said is not None, self.log.read_text()
        began = datetime.fromisoformat(said[1]).replace(tzinfo=timezone.utc)
        self.started = began.timestamp()


class Prometheus(_Process):
    """Debian's Prometheus with rule files and targets, each with labels of its own."""

    def __init__(
        self,
        directory: Path,
        rules: Sequence[Path],
        targets: Sequence[Target],
        alertmanager: str,
        interval: str,
    ) -> None:
        self.url = f"http://{free_address()}"
        configuration = {
            "global": {"scrape_interval": interval, "evaluation_interval": interval},
            "rule_files": [str(path) for path in rules],
            "alerting": {
                "alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}],
            },
            "scrape_configs": [
                {
                    "job_name": "nvmeof",
                    "static_configs": [
                        {
                            "targets": [target.address],
                            "labels": {"cluster": target.cluster, "instance": target.instance},
                        }
                        for target in targets
                    ],
                }
            ],
        }
        file = directory / "prometheus.yml"
        file.write_text(yaml.safe_dump(configuration))
        super().__init__(
            [
                "prometheus",
                f"--config.file={file}",
                f"--storage.tsdb.path={directory}/prometheus",
                f"--web.listen-address={self.url.removeprefix('http://')}",
            ],
            directory / "prometheus.log",
        )
        self.await_ready(f"{self.url}/-/ready")


class Alertmanager(_Process):
    """Debian's Alertmanager with the example's routes, and a webhook in place of each receiver."""

    def __init__(self, directory: Path, example: Path, receiver: Receiver) -> None:
        configuration = yaml.safe_load(example.read_text())
        for route in configuration["route"]["routes"]:
            if route.get("group_wait") == _ONCE_A_DAY_WAIT:
                route["group_wait"] = _SHORT_WAIT
        for one in configuration["receivers"]:
            name = one["name"]
            one.clear()
            one["name"] = name
            one["webhook_configs"] = [{"url": f"{receiver.url}/{name}", "send_resolved": True}]
        file = directory / "alertmanager.yml"
        file.write_text(yaml.safe_dump(configuration))
        self.address = free_address()
        super().__init__(
            [
                "prometheus-alertmanager",
                f"--config.file={file}",
                f"--storage.path={directory}/alertmanager",
                f"--web.listen-address={self.address}",
                "--cluster.listen-address=",
            ],
            directory / "alertmanager.log",
        )
        self.await_ready(f"http://{self.address}/-/ready")


@dataclass(frozen=True)
class Notification:
    """One message of Alertmanager: when it came, to whom, and the alerts it names."""

    time: float
    receiver: str
    status: str
    group: dict[str, str]
    alerts: list[dict[str, Any]] = field(default_factory=list)


class Receiver:
    """The pager: a webhook that keeps what it is told."""

    def __init__(self) -> None:
        self.notifications: list[Notification] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                receiver.notifications.append(
                    Notification(
                        time.time(),
                        self.path.lstrip("/"),
                        message["status"],
                        message["groupLabels"],
                        message["alerts"],
                    )
                )
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(OSError):
            self._server.shutdown()
        self._server.server_close()
        self._thread.join()
