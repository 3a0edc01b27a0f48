from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter import __version__
from nvmeof_exporter.status_page.html import joined, tag
from nvmeof_exporter.status_page.page import page
from nvmeof_exporter.status_page.timeline import Span, spans
from nvmeof_exporter.terminal import printable
from tests.fixtures.node_files import NodeFiles
from tests.fixtures.serving import Served
from tests.fixtures.viewing import SilentPath, served_node, view_of
from tests.status_page.reading import elements, words

if TYPE_CHECKING:
    from pathlib import Path

    from nvmeof_exporter.view.model import NodeView

FILES = {name: f"./{name}?1" for name in ("status.css", "status.js", "status.svg")}

#: What names may hold that come from the other end of a cable.
HOSTILE = (
    "</span><script>alert(1)</script>",
    '" onmouseover="alert(1)" x="',
    "<img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    "&lt;b&gt;",
    "\x1b[31mred\x07\u202egnp.exe",
)


def shown(view: NodeView | None, objective: float = 5.0) -> str:
    return page(view, FILES, "/metrics", objective)


@pytest.fixture(scope="module")
def moments(tmp_path_factory: pytest.TempPathFactory) -> dict[float, NodeView]:
    """A path falls silent at 3 s, I/O goes on at 10 s, and it is well again at 15 s."""
    path = SilentPath(tmp_path_factory.mktemp("node"))
    return {at: view_of(path.run_until(at)) for at in (2.0, 8.0, 25.0)}


class TestWhatItSays:
    def test_the_whole_page_after_a_failover(self, moments: dict[float, NodeView]) -> None:
        assert words(shown(moments[25.0])) == WHOLE.replace("VERSION", __version__)

    def test_io_that_stands_still_comes_first(self, moments: dict[float, NodeView]) -> None:
        text = shown(moments[8.0])
        assert "<title>✕ I/O stands still: gpu1</title>" in text
        lines = words(text).splitlines()
        assert lines[0] == "✕ I/O stands still ● redundant gpu1"
        assert lines[2] == (
            "nqn.2026-01.org.example:array1: I/O of namespaces 1, 2 stands still, for 4.85 s "
            "by now; a failover is going on"
        )

    def test_a_failover_is_held_against_the_objective_that_is_asked_for(
        self, moments: dict[float, NodeView]
    ) -> None:
        text = words(shown(moments[25.0], 7.5))
        assert "● 7.02 s, objective of 7.5 s met I/O left" in text
        assert "missed" not in text

    def test_before_the_first_poll_it_says_so(self) -> None:
        assert words(shown(None)).splitlines()[:2] == [
            "○ not polled yet nvmeof-exporter",
            "The exporter has just begun and knows nothing yet.",
        ]

    def test_nothing_connected_is_no_trouble_and_no_health(self, tmp_path: Path) -> None:
        served = Served(NodeFiles("", tmp_path / "sys").sysfs)
        served.poll()
        text = words(shown(view_of(served)))
        assert text.splitlines()[0] == "○ nothing connected gpu1"
        assert "No NVMe over Fabrics subsystem is connected." in text

    def test_everything_lost(self, tmp_path: Path) -> None:
        served, node = served_node("four-gateways", tmp_path)
        for number in range(1, 5):
            node.apply(f"set nvme{number} state=connecting")
        served.poll(10.0)
        lines = words(shown(view_of(served))).splitlines()
        assert lines[0] == "✕ lost gpu1"
        assert lines[3].startswith("no path can carry I/O, and it waits for one: ")

    def test_gateways_that_stand_by_are_live(self, tmp_path: Path) -> None:
        served, _ = served_node("four-gateways", tmp_path)
        lines = words(shown(view_of(served))).splitlines()
        assert lines[3] == (
            "any one path may fail and I/O goes on, once the target opens another"
            " · 4 of 4 paths live"
        )

    def test_an_exporter_that_is_not_healthy_says_it_before_all_else(self, tmp_path: Path) -> None:
        served, _ = served_node("four-gateways", tmp_path)
        text = words(shown(view_of(served, later=7.0, health=lambda: "no poll for 7 s")))
        assert text.splitlines()[1:3] == [
            "read 7s ago, every 100 ms; watching for 7s",
            "The exporter is not healthy: no poll for 7 s",
        ]

    def test_what_is_not_known_is_not_told_as_nothing(self, tmp_path: Path) -> None:
        served, _ = served_node("odd-texts", tmp_path)
        text = shown(view_of(served))
        assert "None" not in words(text)
        assert "null" not in words(text)


class TestManySubsystems:
    @pytest.fixture
    def text(self, tmp_path: Path) -> str:
        lines = []
        for n in range(8):
            nqn = f"nqn.2026-01.org.example:s{n}"
            lines.append(f"subsystem nvme-subsys{n} subsysnqn={nqn}")
            for c in (0, 1):
                state = "connecting" if (n, c) == (3, 1) else "live"
                name = f"nvme{10 * n + c}"
                lines.append(
                    f"controller {name} in nvme-subsys{n} transport=tcp state={state} "
                    f"subsysnqn={nqn} address=traddr=10.0.{c}.{n + 1},trsvcid=4420"
                )
                lines.append(f"path nvme{n}c{c}n1 of {name} nsid=1 ana_state=optimized")
            lines.append(f"head nvme{n}n1 in nvme-subsys{n} nsid=1")
        served = Served(NodeFiles("\n".join(lines), tmp_path / "sys").sysfs)
        served.poll()
        return shown(view_of(served))

    def test_those_that_are_well_are_folded(self, text: str) -> None:
        folded = {
            element.attributes["id"]: "open" not in element.attributes
            for element in elements(text)
            if element.attributes.get("class") == "subsystem"
        }
        assert [name for name, is_folded in folded.items() if not is_folded] == ["subsystem-4"]
        assert len(folded) == 8

    def test_and_the_others_are_named_at_the_top(self, text: str) -> None:
        lines = words(text).splitlines()
        assert lines[2:4] == [
            "8 subsystems, 7 of them redundant",
            "nqn.2026-01.org.example:s3 ▲ at risk",
        ]


class TestHostileNames:
    @pytest.mark.parametrize("name", HOSTILE)
    def test_they_are_words_and_nothing_else(self, name: str, tmp_path: Path) -> None:
        node = NodeFiles(
            "subsystem nvme-subsys0 subsysnqn=x model=x\n"
            "controller nvme0 in nvme-subsys0 transport=tcp state=live subsysnqn=x\n"
            "path nvme0c0n1 of nvme0 nsid=1 ana_state=optimized\n"
            "head nvme0n1 in nvme-subsys0 nsid=1\n",
            tmp_path / "sys",
        )
        raw = f"{name}\n".encode()
        for device, file in (
            *(("nvme-subsys0", file) for file in ("subsysnqn", "model", "iopolicy")),
            *(("nvme0", file) for file in ("subsysnqn", "address", "state")),
            ("nvme0c0n1", "nsid"),
            ("nvme0n1", "nsid"),
        ):
            (node.place(device) / file).write_bytes(raw)
        served = Served(node.sysfs)
        served.poll()
        text = shown(view_of(served))
        assert printable(name) in words(text)
        for element in elements(text):
            assert element.name not in {"img", "b"}
            assert element.name != "script" or element.attributes.get("src") == FILES["status.js"]
            assert not [a for a in element.attributes if a.startswith("on") or a == "style"]
            assert not (element.attributes.get("href") or "").startswith("javascript:")


class TestHtml:
    @given(st.text(), st.text())
    def test_any_text_is_told_and_is_no_markup(self, text: str, value: str) -> None:
        (element,) = elements(tag("b", text, title=value))
        assert element.attributes == {"title": printable(value)}
        assert words(tag("b", text)).split() == printable(text).split()

    def test_html_stands_as_it_is(self) -> None:
        assert joined(tag("b", "<"), "<", None) == "<b>&lt;</b>&lt;"

    def test_attributes(self) -> None:
        made = tag("rect", class_="x", aria_label='"', hidden=True, open=False, id=None, x=1.5)
        assert made == '<rect class="x" aria-label="&quot;" hidden x="1.5"/>'


class TestSpans:
    def test_the_last_hour_and_no_more(self) -> None:
        timeline = ((0.0, "new"), (100.0, "live"), (4000.0, "connecting"), (4010.0, "live"))
        assert spans(timeline, 5000.0) == [
            Span(1400.0, 4000.0, "live"),
            Span(4000.0, 4010.0, "connecting"),
            Span(4010.0, 5000.0, "live"),
        ]

    def test_nothing_is_known_of_nothing(self) -> None:
        assert spans((), 5000.0) == []


WHOLE = """\
● redundant gpu1
read less than a second ago, every 100 ms; watching for 24s
● redundant nqn.2026-01.org.example:array1
any one path may fail and I/O goes on · 2 of 2 paths live
ACME-Flash · numa · nvme-subsys0
Paths
● live tcp:10.0.0.2:4420%h0 ⇄ carries I/O
for 7s · optimized · h0 (link up) · mlx5_0/1 · nvme0
[last hour: live 17s, connecting 7s]
2 changes in the last hour, the last one from connecting to live at 00:00:17 UTC; watched for 24s
● live tcp:10.0.1.2:4420%h1
for more than 24s · optimized · h1 (link up) · mlx5_1/1 · nvme1
[last hour: live 24s]
no change seen; watched for 24s
Namespaces
Namespace | Paths | I/O
1 nvme0n1 · 2.20 TB | 2 usable | over tcp:10.0.0.2:4420%h0
2 nvme0n2 · 8.80 TB | 2 usable | over tcp:10.0.0.2:4420%h0
Last failovers
▲ 7.02 s, objective of 5 s missed I/O left tcp:10.0.0.2:4420%h0 (cause: unknown)
14s ago, at 00:00:10 UTC: detection 7.02 s, reroute 0 ms, reconnect 7.10 s, failback 0 ms
● redundant nqn.2026-01.org.example:scratch
any one path may fail and I/O goes on · 2 of 2 paths live
ACME-Flash · round-robin · nvme-subsys2
Paths
● live rdma:10.0.2.2:4420%h2 ⇄ carries I/O
for more than 24s · optimized · h2 (link up) · mlx5_2/1 · nvme2
[last hour: live 24s]
no change seen; watched for 24s
● live rdma:10.0.3.2:4420%h3 ⇄ carries I/O
for more than 24s · optimized · h3 (link up) · mlx5_3/1 · nvme3
[last hour: live 24s]
no change seen; watched for 24s
Namespaces
Namespace | Paths | I/O
1 nvme2n1 · 4.40 TB | 2 usable | over 2 paths
Last failovers
none seen in 24s
Policy conservative: 32 ok
nothing to say against it
Metrics Status as JSON Events as JSON Health
nvmeof-exporter VERSION; docs/status-page.md explains this page, docs/metrics.md every metric.
"""
