"""The page at ``/`` for people who come with a browser."""

from __future__ import annotations

import base64
import hashlib
from html import escape

from nvmeof_exporter import __version__

__all__ = ["LANDING_HEADERS", "landing_page"]

_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:1rem/1.5 system-ui,sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem}"
    "dt{font-weight:600;margin-top:.8rem}dd{margin:0}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

#: The page may use its own style and nothing else, from nowhere, in nobody's frame.
_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
LANDING_HEADERS = (("Content-Security-Policy", _POLICY),)

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>nvmeof-exporter</title>
<style>{style}</style>
</head>
<body>
<h1>nvmeof-exporter {version}</h1>
<p>The true state of this node's NVMe-oF multipath, its failovers and I/O pauses.</p>
<dl>
<dt><a href="{metrics}">Metrics</a></dt>
<dd>for Prometheus; every name is explained in docs/metrics.md of the project</dd>
<dt><a href="./-/healthy">Health</a></dt>
<dd>whether the state shown is fresh</dd>
<dt><a href="./-/ready">Readiness</a></dt>
<dd>whether there is a state to show yet</dd>
</dl>
</body>
</html>
"""


def landing_page(telemetry_path: str) -> str:
    """The HTML text. Links are relative, so that it also works behind a path prefix."""
    return _PAGE.format(
        style=_STYLE, version=escape(__version__), metrics=escape(f".{telemetry_path}")
    )
