"""One window of the browser, in which a test does what a reader does."""

from __future__ import annotations

import base64
import time
from typing import TYPE_CHECKING, Any

from tests.dashboards.chromium import Page

if TYPE_CHECKING:
    from pathlib import Path

    from tests.dashboards.chromium import Chromium

__all__ = ["DESK", "PHONE", "Tab"]

DESK = (1280, 800)
PHONE = (360, 740)

#: Seconds that anything may take on a machine that is busy with other things.
PATIENCE = 60.0

_TAB = {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}
_ENTER = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}


class Tab:
    """A window of a size; what its console complains of is in ``complaints``.

    Args:
        chromium: the browser.
        size: width and height.
        theme: ``light`` or ``dark``.
        javascript: whether the page's scripts run.

    """

    def __init__(
        self,
        chromium: Chromium,
        size: tuple[int, int] = DESK,
        theme: str = "light",
        *,
        javascript: bool = True,
    ) -> None:
        self._chromium = chromium
        self._page = Page({})
        self._session: str | None = None
        made = self._call("Target.createTarget", url="about:blank")
        self._target = made["targetId"]
        attached = self._call("Target.attachToTarget", targetId=self._target, flatten=True)
        self._session = attached["sessionId"]
        width, height = size
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < DESK[0],
        )
        self._call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": theme}],
        )
        self._call("Emulation.setScriptExecutionDisabled", value=not javascript)
        for domain in ("Runtime", "Log", "Page"):
            self._call(f"{domain}.enable")

    @property
    def complaints(self) -> list[str]:
        """What the console complained of so far."""
        self.evaluate("0")  # whatever was said before its answer is known with it
        return self._page.complaints

    def go(self, url: str) -> None:
        """Open a page and wait until it is there."""
        self._call("Page.navigate", url=url)
        self.await_("document.readyState === 'complete' && location.href !== 'about:blank'")

    def evaluate(self, expression: str) -> Any:
        """Return what an expression is worth in the page."""
        answer = self._call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer.get("result", {}).get("value")

    def await_(self, expression: str) -> None:
        """Wait until an expression is true in the page."""
        end = time.monotonic() + PATIENCE
        while not self.evaluate(expression):
            assert time.monotonic() < end, f"never true: {expression}\n{self.text()}"
            time.sleep(0.02)

    def text(self) -> str:
        """Return what the page says, as a reader sees it."""
        return str(self.evaluate("document.body.innerText"))

    def press_tab(self) -> None:
        """Go on to the next thing that takes the keyboard's focus."""
        self._press(_TAB)

    def press_enter(self) -> None:
        """Do what has the focus."""
        self._press(_ENTER)

    def _press(self, key: dict[str, Any]) -> None:
        self._call("Input.dispatchKeyEvent", type="keyDown", **key)
        self._call("Input.dispatchKeyEvent", type="keyUp", **key)

    def picture(self, file: Path) -> None:
        """Keep how the whole page looks."""
        size = self._call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {**size, "x": 0, "y": 0, "scale": 1}
        shot = self._call(
            "Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True
        )
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        """Close the window."""
        self._session = None
        self._call("Target.closeTarget", targetId=self._target)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._chromium._call(method, parameters, self._page, self._session)
