"""The report of a drill: as JSON, as a page, and several side by side."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import msgspec
import pytest

from nvmeof_exporter.cli import main
from nvmeof_exporter.drill.page import matrix_page, page
from nvmeof_exporter.drill.picture import picture_of
from nvmeof_exporter.drill.report import ReportError, decode, encode
from tests.test_drill.staged import A, B, staged_report

if TYPE_CHECKING:
    from pathlib import Path

    from nvmeof_exporter.drill.report import Report

HOSTILE = "<script>alert('x')</script>&\""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return staged_report(tmp_path_factory.mktemp("node") / "tree")


class TestAReport:
    def test_judges_a_keep_alive_of_5_s_by_an_objective_of_5_s(self, report: Report) -> None:
        verdicts = {one.objective: one.verdict for one in report.objectives}
        assert verdicts == {
            "reroute": "missed",
            "errors": "met",
            "back": "met",
            "second-stall": "met",
            "share": "met",
            "checkpoints": "met",
        }
        assert report.verdict == "fail"

    def test_judges_it_the_other_way_by_one_of_8_s(self, tmp_path: Path) -> None:
        assert staged_report(tmp_path / "tree", pause=8.0).verdict == "pass"

    def test_has_the_pause_that_the_exporter_tells_within_50_ms(self, report: Report) -> None:
        assert report.exporter_pause is not None
        assert report.figures.fault_whole == pytest.approx(report.exporter_pause, abs=0.05)

    def test_has_what_the_paths_did_and_their_settings(self, report: Report) -> None:
        first, second = report.paths
        assert (first.path, second.path) == (A, B)
        assert [span.state for span in second.spans] == ["live optimized"]
        assert first.spans[0].state == first.spans[-1].state == "live optimized"
        assert first.settings["keep_alive_timeout"] == 5.0

    def test_is_the_same_after_it_was_written_and_read(self, report: Report) -> None:
        assert decode(encode(report)) == report

    @pytest.mark.parametrize("raw", [b"", b"{}", b"[1]", b"\xff", b'{"format": "x"}', b"[" * 9999])
    def test_that_is_none_is_refused(self, raw: bytes) -> None:
        with pytest.raises(ReportError, match="no report of a drill"):
            decode(raw)

    def test_of_another_version_is_refused(self, report: Report) -> None:
        with pytest.raises(ReportError, match="another format or version"):
            decode(encode(msgspec.structs.replace(report, version=2)))


class Elements(HTMLParser):
    """Every element, its attributes, and all text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.text += " "
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


class TestAPage:
    def test_needs_nothing_beside_it(self, report: Report) -> None:
        seen = Elements(page(report))
        assert not {"script", "link", "img", "iframe", "object"} & set(seen.tags)
        assert not {"src", "href", "xlink:href"} & {name for name, _ in seen.attributes}
        assert "url(" not in page(report)
        assert "@import" not in page(report)

    def test_tells_each_objective_with_its_verdict(self, report: Report) -> None:
        text = " ".join(Elements(page(report)).text.split())
        for one in report.objectives:
            assert f"{one.objective} {one.verdict} {one.found} {one.wanted}" in text

    def test_escapes_what_comes_from_elsewhere(self, report: Report) -> None:
        hostile = msgspec.structs.replace(
            report,
            name=HOSTILE,
            problems=(HOSTILE,),
            commands={"trigger": HOSTILE},
            paths=tuple(
                msgspec.structs.replace(path, path=HOSTILE, settings={HOSTILE: HOSTILE})
                for path in report.paths
            ),
        )
        for text in (page(hostile), matrix_page([hostile])):
            seen = Elements(text)
            assert "script" not in seen.tags
            assert HOSTILE in seen.text

    def test_has_a_picture_that_is_well_formed(self, report: Report) -> None:
        svg = re.search(r"<svg.*?</svg>", page(report), re.DOTALL)
        assert svg is not None
        drawn = ET.fromstring(svg[0])  # noqa: S314  # it is our own
        assert len(drawn.findall("polyline")) == 3
        assert len(drawn.findall("rect")) == sum(len(path.spans) for path in report.paths)


class TestAPicture:
    def test_shows_the_pause_as_no_throughput(self, report: Report) -> None:
        (panel, _) = picture_of(report).panels
        (_, points), _ = panel.curves
        ys = [float(point.partition(",")[2]) for point in points.split()]
        bottoms = sum(y == panel.bottom for y in ys) * report.timeline.step
        assert report.figures.fault_whole is not None
        assert bottoms == pytest.approx(report.figures.fault_whole, abs=0.4)

    def test_keeps_within_its_frame(self, report: Report) -> None:
        picture = picture_of(report)
        for row in picture.rows:
            assert all(picture.left <= bar.x <= picture.right for bar in row.bars)
            assert all(bar.x + bar.width <= picture.right + 1 for bar in row.bars)

    def test_of_a_drill_that_did_nothing_is_drawn(self, report: Report) -> None:
        empty = msgspec.structs.replace(
            report.timeline, read=(0.0,), written=(0.0,), worst=(0.0,), failed=(0,)
        )
        nothing = msgspec.structs.replace(report, timeline=empty, seconds=0.0, paths=(), marks={})
        assert "<svg" in page(nothing)


class TestComparing:
    def test_puts_drills_side_by_side(
        self, report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        good = msgspec.structs.replace(
            staged_report(tmp_path / "tree", pause=8.0), name="array 2", scenario="failback"
        )
        files = []
        for index, one in enumerate((report, good)):
            files.append(str(tmp_path / f"{index}.json"))
            (tmp_path / f"{index}.json").write_bytes(encode(one))
        assert main(["drill", "compare", *files, "--html", str(tmp_path / "matrix.html")]) == 1
        waited = f"{report.figures.fault_pause:.3f} s"
        assert capsys.readouterr().out == (
            "              array 1   array 2\n"
            "scenario      failback  failback\n"
            "verdict       fail      pass\n"
            "reroute       missed    met\n"
            "errors        met       met\n"
            "back          met       met\n"
            "second-stall  met       met\n"
            "share         met       met\n"
            "checkpoints   met       met\n"
            f"longest wait  {waited}   {waited}\n"
        )
        assert "array 2" in (tmp_path / "matrix.html").read_text()

    def test_what_is_no_report_is_named(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "x.json").write_text("{}")
        assert main(["drill", "compare", str(tmp_path / "x.json")]) == 2
        assert capsys.readouterr().err.startswith(
            f"nvmeof-exporter: error: {tmp_path}/x.json: no report of a drill: "
        )
