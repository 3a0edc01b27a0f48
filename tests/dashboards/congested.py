"""A node whose fabric is congested: what the make-believe nodes' driver does not tell, added."""

from __future__ import annotations

import re
import threading
import time
import urllib.request
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from re import Match

__all__ = ["Congested"]

#: Pause frames per second, and the share of time paused, by interface, direction and priority.
_PAUSES = {
    ("h2", "rx", "3"): (2400.0, 0.18),
    ("h2", "tx", "3"): (90.0, 0.01),
    ("h3", "rx", "3"): (700.0, 0.05),
}

#: What counters of RDMA ports gain per second.
_GAINS = {
    ("mlx5_2", "np_ecn_marked_roce_packets"): 5200.0,
    ("mlx5_2", "np_cnp_sent"): 4100.0,
    ("mlx5_2", "rp_cnp_handled"): 3300.0,
    ("mlx5_3", "rp_cnp_handled"): 900.0,
    ("mlx5_2", "out_of_sequence"): 2.5,
}

_STATISTIC = re.compile(
    r'^(nvmeof_rdma_port_statistic_total\{device="(\w+)",port="1",statistic="(\w+)"\}) \S+$',
    re.MULTILINE,
)


class Congested:
    """Answers scrapes with those of another exporter, and with a congested fabric.

    Args:
        exporter: the other one's address.

    """

    def __init__(self, exporter: str) -> None:
        self._exporter = exporter
        self._started = time.time()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def told(self) -> bytes:
        """What a scrape finds."""
        url = f"http://{self._exporter}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            text = answer.read().decode()
        seconds = time.time() - self._started

        def gained(found: Match[str]) -> str:
            return f"{found[1]} {_GAINS.get((found[2], found[3]), 0.0) * seconds}"

        lines = [_STATISTIC.sub(gained, text).rstrip("\n")]
        for (netdev, direction, priority), (frames, share) in _PAUSES.items():
            labels = f'netdev="{netdev}",direction="{direction}",priority="{priority}"'
            lines.append(f"nvmeof_link_pause_frames_total{{{labels}}} {frames * seconds}")
            lines.append(f"nvmeof_link_pause_seconds_total{{{labels}}} {share * seconds}")
        return ("\n".join(lines) + "\n").encode()


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, node: Congested, *arguments: object) -> None:
        self._node = node
        super().__init__(*arguments)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        content = self._node.told()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
