"""Chromium without a window, driven by its DevTools protocol over a pair of pipes.

Protocol: chromedevtools.github.io/devtools-protocol. With ``--remote-debugging-pipe``, Chromium
reads messages from file descriptor 3 and writes them to 4, each a JSON text that ends in a NUL.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.fixtures.descriptors import readable

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Chromium", "Page"]

_FLAGS = (
    "--headless",
    "--no-sandbox",  # for root; the only pages are the test's own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
    "--lang=en-US",
)

#: Seconds that a page may take to draw, on a machine that is busy with other things.
_PATIENCE = 90.0


@dataclass
class Page:
    """What one page said: its report, what its console complained of, and how it looks."""

    report: dict[str, Any]
    complaints: list[str] = field(default_factory=list)
    png: bytes = b""


class Chromium:
    """One browser; each page has a window of its own.

    Args:
        profile: an empty directory for what it keeps.

    """

    def __init__(self, profile: Path) -> None:
        read_by_it, self._to = os.pipe()
        self._from, written_by_it = os.pipe()
        program = shutil.which("chromium")
        assert program, "there is no chromium: apt-get install chromium"
        # The shell puts the pipes where Chromium looks for them.
        script = f'exec "$@" 3<&{read_by_it} 4>&{written_by_it}'
        arguments = [program, *_FLAGS, "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        with (profile / "log").open("wb") as log:
            self._process = subprocess.Popen(
                ["bash", "-c", script, "bash", *arguments, "about:blank"],
                stdout=log,
                stderr=log,
                pass_fds=(read_by_it, written_by_it),
                env={**os.environ, "HOME": str(profile), "TZ": "UTC"},
            )
        os.close(read_by_it)
        os.close(written_by_it)
        self._buffer = b""
        self._number = 0

    def close(self) -> None:
        """End the browser, by force if need be."""
        with contextlib.suppress(BrokenPipeError):
            self._send("Browser.close", {}, None)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def visit(self, url: str, width: int, height: int) -> Page:
        """Open a page, wait for its report, and take a picture of it."""
        page = Page({})
        target = self._call("Target.createTarget", {"url": "about:blank"}, page)["targetId"]
        attached = {"targetId": target, "flatten": True}
        session = self._call("Target.attachToTarget", attached, page)["sessionId"]

        def call(method: str, **parameters: object) -> dict[str, Any]:
            return self._call(method, parameters, page, session)

        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        call("Emulation.setDeviceMetricsOverride", **size)
        for domain in ("Runtime", "Log", "Page"):
            call(f"{domain}.enable")
        call("Page.navigate", url=url)
        page.report = self._report(call)
        picture = call("Page.captureScreenshot", format="png")
        page.png = base64.b64decode(picture["data"])
        self._call("Target.closeTarget", {"targetId": target}, page)
        return page

    @staticmethod
    def _report(call: Any) -> dict[str, Any]:
        """Wait for ``window.report``: the document that has it may not be there yet."""
        end = time.monotonic() + _PATIENCE
        expression = "globalThis.report ?? new Promise(r => setTimeout(r, 50))"
        while time.monotonic() < end:
            answer = call(
                "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
            )
            value = answer.get("result", {}).get("value")
            if value is not None:
                report: dict[str, Any] = value
                return report
        raise TimeoutError("the page does not say that it is done")

    def _call(
        self, method: str, parameters: dict[str, Any], page: Page, session: str | None = None
    ) -> dict[str, Any]:
        number = self._send(method, parameters, session)
        while True:
            message = self._receive(method)
            if message.get("id") == number:
                # Navigation takes away the document that an evaluation waits for: try again.
                result: dict[str, Any] = message.get("result", {})
                return result
            page.complaints += _complaints(message)

    def _send(self, method: str, parameters: dict[str, Any], session: str | None) -> int:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        return self._number

    def _receive(self, what: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not readable([self._from], _PATIENCE):
                raise TimeoutError(f"Chromium does not answer: {what}")
            part = os.read(self._from, 1 << 20)
            if not part:
                raise ConnectionError(f"Chromium is gone: {what}")
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message


def _complaints(message: dict[str, Any]) -> list[str]:
    """Return what an event of the console, the log or the run time complains of."""
    method, parameters = message.get("method", ""), message.get("params", {})
    if method == "Runtime.consoleAPICalled" and parameters["type"] in {"error", "assert"}:
        words = [str(one.get("value", one.get("description"))) for one in parameters["args"]]
        return [" ".join(words)]
    if method == "Runtime.exceptionThrown":
        details = parameters["exceptionDetails"]
        return [details.get("exception", {}).get("description", details["text"])]
    if method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
        entry = parameters["entry"]
        return [f"{entry['text']} {entry.get('url', '')}"]
    return []
