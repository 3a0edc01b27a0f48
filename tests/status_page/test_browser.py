"""The page in a real browser: live, in the dark and in the light, small, and without scripts.

The pictures are kept in ``pictures/`` beside this file, for people to look at.
"""

from __future__ import annotations

import os
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.demo.nodes import demo_node
from nvmeof_exporter.demo.tree import Tree
from tests.fixtures.node_files import NodeFiles
from tests.status_page.tab import DESK, PHONE, Tab
from tests.test_daemon.running import Exporter, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nvmeof_exporter.demo.simulation import Node
    from tests.dashboards.chromium import Chromium

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

NODE = os.uname().nodename
PICTURES = Path(__file__).parent / "pictures"

FIRST, SECOND = "tcp:10.0.0.2:4420%h0", "tcp:10.0.1.2:4420%h1"
STATE = "document.querySelector('.paths li .mark')?.innerText"
HOSTILE = "</script><script>window.hurt=1</script><img src=x onerror=window.hurt=2>\x1b[31m\u202e"


class Stage:
    """A make-believe node, and the exporter that watches it."""

    def __init__(self, node: Node, tree: Tree, exporter: Exporter) -> None:
        self._node = node
        self._tree = tree
        self.url = exporter.url

    def lose(self, *paths: str) -> None:
        """Take the target's ports behind paths away."""
        for path in paths:
            self._node.port_removed(self._node.connection(path))
        self._advance(0.1)

    def restore(self, *paths: str) -> None:
        """Give them back, and let the paths reconnect."""
        for path in paths:
            self._node.port_restored(self._node.connection(path))
        self._advance(10.0)

    def _advance(self, seconds: float) -> None:
        self._node.advance(seconds)
        self._tree.sync()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    node = demo_node()
    with (
        closing(Tree(node, tmp_path / "demo")) as tree,
        running("--path.sysfs", tree.sysfs) as exporter,
    ):
        yield Stage(node, tree, exporter)


@contextmanager
def opened(
    chromium: Chromium,
    url: str,
    size: tuple[int, int] = DESK,
    theme: str = "light",
    *,
    javascript: bool = True,
) -> Iterator[Tab]:
    with closing(Tab(chromium, size, theme, javascript=javascript)) as tab:
        tab.go(url)
        yield tab


def says(text: str) -> str:
    """Whether the heading says it: an expression."""
    return f"document.querySelector('h1').innerText.includes('{text}')"


def judged(tab: Tab, axe: str) -> list[str]:
    """What axe-core finds wrong with a page, where, and why."""
    tab.evaluate(f"{axe}\n;0")
    found: list[str] = tab.evaluate(
        "axe.run().then(r => r.violations.flatMap(v => v.nodes.map(n => "
        "`${v.id}: ${n.target} ${n.failureSummary}`)))"
    )
    return found


class TestLive:
    def test_a_failing_path_is_seen_without_doing_anything(
        self, stage: Stage, chromium: Chromium
    ) -> None:
        with opened(chromium, stage.url) as tab:
            assert tab.evaluate("document.title").startswith("● redundant: ")
            assert tab.evaluate(STATE) == "● live"
            stage.lose(FIRST)
            tab.await_(f"{STATE} === '◌ connecting'")
            tab.await_(says("▲ at risk"))
            assert f"{FIRST} is connecting" in tab.text()
            tab.picture(PICTURES / "failing.png")
            stage.restore(FIRST)
            tab.await_(f"{STATE} === '● live'")
            assert tab.complaints == []

    def test_a_second_passes_between_two_looks_and_no_more(
        self, stage: Stage, chromium: Chromium
    ) -> None:
        """With ten polls a second, a change is on the page within two."""
        with opened(chromium, stage.url) as tab:
            asked = (
                "new Promise(resolve => { const ask = window.fetch; const wait = window.setTimeout;"
                "window.fetch = (...of) => { window.fetch = ask;"
                "window.Date.now = () => 0;"
                "window.setTimeout = (f, ms) => { resolve(ms); wait(f, ms); };"
                "return ask(...of); }; })"
            )
            assert tab.evaluate(asked) == 1000

    def test_everything_lost(self, stage: Stage, chromium: Chromium) -> None:
        with opened(chromium, stage.url, PHONE, "dark") as tab:
            stage.lose(FIRST, SECOND)
            tab.await_(says("✕ lost"))
            assert "no path can carry I/O, and it waits for one" in tab.text()
            tab.picture(PICTURES / "lost-phone-dark.png")
            assert tab.complaints == []

    def test_what_its_reader_folded_and_chose_stays(self, stage: Stage, chromium: Chromium) -> None:
        with opened(chromium, stage.url) as tab:
            tab.evaluate(
                "document.querySelector('#subsystem-2').open = false;"
                "document.querySelector('nav a').focus();"
                "getSelection().selectAllChildren(document.querySelector('h1 .name'))"
            )
            stage.lose(FIRST)
            tab.await_(f"{STATE} === '◌ connecting'")
            assert tab.evaluate("document.querySelector('#subsystem-2').open") is False
            assert tab.evaluate("document.activeElement.innerText") == "Metrics"
            assert tab.evaluate("getSelection().toString() !== ''")

    def test_news_unfolds_what_was_well(self, stage: Stage, chromium: Chromium) -> None:
        with opened(chromium, stage.url) as tab:
            tab.evaluate("document.querySelector('#subsystem-1').dataset.wanted = 'folded'")
            tab.evaluate("document.querySelector('#subsystem-1').open = false")
            tab.await_("document.querySelector('#subsystem-1').open")

    def test_an_exporter_that_is_gone_is_told_and_so_is_its_return(
        self, tmp_path: Path, chromium: Chromium
    ) -> None:
        with closing(Tree(demo_node(), tmp_path / "demo")) as tree:
            with running("--path.sysfs", tree.sysfs) as exporter:
                tab = Tab(chromium)
                tab.go(exporter.url)
                assert tab.evaluate("document.getElementById('gone').hidden")
            with closing(tab):
                tab.await_("!document.getElementById('gone').hidden")
                assert "The exporter does not answer; what follows is " in tab.text()
                assert "● redundant" in tab.text()
                assert tab.evaluate("document.querySelector('h1').innerText") == NODE
                assert tab.evaluate("document.title") == f"? no answer: {NODE}"
                assert "less than a second ago" not in tab.text()
                address = exporter.url.removeprefix("http://")
                again = Exporter("--path.sysfs", tree.sysfs, f"--web.listen-address={address}")
                with again.process:
                    tab.await_("document.getElementById('gone').hidden")
                    assert tab.evaluate("document.title") == f"● redundant: {NODE}"
                    again.stop()


class TestReaders:
    @pytest.mark.parametrize("theme", ["light", "dark"])
    @pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
    def test_nothing_keeps_anybody_from_reading_it(
        self, theme: str, size: tuple[int, int], stage: Stage, chromium: Chromium, axe: str
    ) -> None:
        """Contrast, names, roles and order, while all is well and while it is not."""
        with opened(chromium, stage.url, size, theme) as tab:
            assert judged(tab, axe) == []
            name = "phone" if size == PHONE else "desk"
            tab.picture(PICTURES / f"healthy-{name}-{theme}.png")
            stage.lose(FIRST)
            tab.await_(f"{STATE} === '◌ connecting'")
            assert judged(tab, axe) == []
            stage.lose(SECOND)
            tab.await_(says("✕ lost"))
            assert judged(tab, axe) == []

    def test_a_phone_shows_all_of_it_without_scrolling_sideways(
        self, stage: Stage, chromium: Chromium
    ) -> None:
        with opened(chromium, stage.url, PHONE) as tab:
            stage.lose(FIRST, SECOND)
            tab.await_(says("✕ lost"))
            assert tab.evaluate("document.documentElement.scrollWidth") == PHONE[0]

    def test_the_keyboard_reaches_everything(self, stage: Stage, chromium: Chromium) -> None:
        with opened(chromium, stage.url) as tab:
            reached = []
            for _ in range(7):
                tab.press_tab()
                reached.append(
                    tab.evaluate(
                        "(document.activeElement.closest('details')?.id || '')"
                        " + ' ' + document.activeElement.innerText.split('\\n')[0]"
                    )
                )
                assert (
                    tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
                )
            assert [one.split()[0] for one in reached[:3]] == [
                "subsystem-1",
                "subsystem-2",
                "policy",
            ]
            assert reached[3:] == [
                " Metrics",
                " Status as JSON",
                " Events as JSON",
                " Health",
            ]

    def test_the_keyboard_folds_and_unfolds(self, stage: Stage, chromium: Chromium) -> None:
        with opened(chromium, stage.url) as tab:
            tab.press_tab()
            tab.press_enter()
            assert tab.evaluate("document.querySelector('#subsystem-1').open") is False

    def test_without_scripts_it_is_whole_and_loads_itself_again(
        self, stage: Stage, chromium: Chromium
    ) -> None:
        with opened(chromium, stage.url, javascript=False) as tab:
            assert FIRST in tab.text()
            stage.lose(FIRST)
            tab.await_(f"{STATE} === '◌ connecting'")


class TestHostileNames:
    def test_they_do_nothing(self, tmp_path: Path, chromium: Chromium, axe: str) -> None:
        node = NodeFiles(
            "subsystem nvme-subsys0 subsysnqn=x model=x\n"
            "controller nvme0 in nvme-subsys0 transport=tcp state=live subsysnqn=x\n"
            "path nvme0c0n1 of nvme0 nsid=1 ana_state=optimized\n"
            "head nvme0n1 in nvme-subsys0 nsid=1\n",
            tmp_path / "sys",
        )
        for device, names in (
            ("nvme-subsys0", ("subsysnqn", "model", "iopolicy")),
            ("nvme0", ("subsysnqn", "address", "state")),
            ("nvme0c0n1", ("nsid",)),
            ("nvme0n1", ("nsid",)),
        ):
            for name in names:
                (node.place(device) / name).write_text(f"{HOSTILE}\n")
        with (
            running("--path.sysfs", node.sysfs) as exporter,
            opened(chromium, exporter.url, PHONE) as tab,
        ):
            tab.await_("performance.getEntriesByType('resource').length > 3")
            assert tab.evaluate("window.hurt") is None
            assert "<img src=x onerror=window.hurt=2>" in tab.text()
            assert tab.evaluate("document.documentElement.scrollWidth") == PHONE[0]
            assert judged(tab, axe) == []
            assert tab.complaints == []
            tab.picture(PICTURES / "hostile-phone-light.png")
