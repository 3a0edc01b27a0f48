"""The pages' web server: the bundle, the dashboards, and a way through to Prometheus."""

from __future__ import annotations

import contextlib
import threading
import urllib.error
import urllib.request
from datetime import datetime, timezone
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

__all__ = ["Site"]

_TYPES = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}

#: Debian's package fonts-inter.
_FONTS = Path("/usr/share/fonts/opentype/inter")

_NO_ICON = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"></svg>'

_PAGE = b"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/build/main.css">
<style>body { margin: 0 }</style>
<script>
window.grafanaBootData = {
  user: { timezone: 'utc', locale: 'en-US' },
  settings: { buildInfo: {}, featureToggles: {}, datasources: {}, appUrl: '/', appSubUrl: '' },
  navTree: [],
};
window.__grafana_public_path__ = '/public/';
</script>
</head>
<body>
<div id="root"></div>
<script type="module" src="/build/main.js"></script>
</body>
</html>
"""


class Site:
    """Serves on a free loopback port; ``prometheus`` may change between pages."""

    def __init__(self, browser: Path, dashboards: Path) -> None:
        self.prometheus = ""
        self.folders = {
            "build": browser / "build",
            "dashboards": dashboards,
            "public/build": browser / "node_modules/@grafana/ui/dist/public",
            "public/fonts/inter": _FONTS,
        }
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def address(self, dashboard: str, start: float, end: float, **choices: str) -> str:
        """Return the address of a dashboard's page; times are in seconds since 1970."""
        first, last = (datetime.fromtimestamp(time, timezone.utc) for time in (start, end))
        query = {"dashboard": dashboard, "from": first.isoformat(), "to": last.isoformat()}
        return f"{self.url}/?{urlencode(query | choices)}"

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, site: Site, *arguments: Any) -> None:
        self._site = site
        super().__init__(*arguments)

    def do_GET(self) -> None:
        path = urlsplit(self.path).path.strip("/")
        if not path:
            self._answer(200, "text/html", _PAGE)
        elif path.startswith("prometheus/"):
            self._ask(self._site.prometheus + self.path.removeprefix("/prometheus"))
        else:
            self._file(path)

    def _file(self, path: str) -> None:
        place = self._place(path)
        if place is not None and place.is_file():
            kind = _TYPES.get(place.suffix, "application/octet-stream")
            self._answer(200, kind, place.read_bytes())
        elif path.endswith(".svg"):
            # A few icons are part of Grafana's server, and not of its library.
            self._answer(200, _TYPES[".svg"], _NO_ICON)
        else:
            self._answer(404, "text/plain", b"")

    def _place(self, path: str) -> Path | None:
        for name, folder in self._site.folders.items():
            if path.startswith(f"{name}/"):
                place = folder / path[len(name) + 1 :]
                # Debian has the fonts in another format; browsers look inside.
                return place.with_suffix(".otf") if place.suffix == ".woff2" else place
        return None

    def _ask(self, url: str) -> None:
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - http, loopback
                self._answer(answer.status, "application/json", answer.read())
        except urllib.error.HTTPError as error:
            self._answer(error.code, "application/json", error.read())

    def _answer(self, status: int, kind: str, content: bytes) -> None:
        # A page that is closed waits for nothing any more.
        with contextlib.suppress(ConnectionError):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
