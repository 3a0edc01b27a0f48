from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.test_docs.markdown import Code, anchors, code_blocks, dead_links, headings

if TYPE_CHECKING:
    from pathlib import Path


class TestAnchors:
    @pytest.mark.parametrize(
        ("heading", "anchor"),
        [
            ("Taking stock", "taking-stock"),
            ("The kernel log's words", "the-kernel-logs-words"),
            ("RDMA: `rate`, and more", "rdma-rate-and-more"),
            ("I/O per path", "io-per-path"),
            ("What a `path_label` is", "what-a-path_label-is"),
            ("See [the rules](alerting.md)", "see-the-rules"),
            ("Überblick", "überblick"),
        ],
    )
    def test_a_heading_is_named_as_github_does(self, heading: str, anchor: str) -> None:
        assert anchors(f"text\n\n## {heading}\n") == {anchor}

    def test_a_repeated_heading_is_numbered(self) -> None:
        assert anchors("# Repair\n## Repair\n### Repair\n") == {"repair", "repair-1", "repair-2"}

    def test_an_anchor_may_be_given_in_html(self) -> None:
        assert anchors('<a id="here"></a>\n') == {"here"}

    def test_a_comment_in_code_is_no_heading(self) -> None:
        assert headings("# One\n\n```sh\n# two\n```\n") == ["One"]


class TestCode:
    def test_a_block_in_a_list_loses_the_indent_of_its_fence(self) -> None:
        page = "- do\n\n  ```sh\n  one\n    two\n  ```\n\n```promql\nup\n```\n"
        assert code_blocks(page) == [Code("sh", "one\n  two\n"), Code("promql", "up\n")]


class TestDeadLinks:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        root = tmp_path / "project"
        (root / "docs").mkdir(parents=True)
        (root / "docs" / "other.md").write_text("# A heading\n")
        (root / "docs" / "picture.svg").write_text("<svg/>")
        (tmp_path / "outside.md").write_text("# Outside\n")
        return root

    @pytest.mark.parametrize(
        "link",
        [
            "[x](other.md)",
            "[x](other.md#a-heading)",
            "[x](#my-own)",
            "[over two\nlines](other.md)",
            "![x](picture.svg)",
            '[x](other.md "a title")',
            "[x]: other.md",
            '<img src="picture.svg">',
            "[x](.)",
            "[x](https://example.org/nowhere#at-all)",
            "`[x](gone.md)`",
            "```\n[x](gone.md)\n```",
            "<!-- [x](gone.md) -->",
        ],
    )
    def test_a_link_that_leads_somewhere_is_none(self, root: Path, link: str) -> None:
        page = root / "docs" / "page.md"
        page.write_text(f"# My own\n\n{link}\n")
        assert dead_links(page, root) == []

    @pytest.mark.parametrize(
        ("link", "target"),
        [
            ("[x](gone.md)", "gone.md"),
            ("[x](other.md#gone)", "other.md#gone"),
            ("[x](#gone)", "#gone"),
            ("[`code`](gone.md)", "gone.md"),
            ("![x](gone.svg)", "gone.svg"),
            ("[x]: gone.md", "gone.md"),
            ('<img src="gone.svg">', "gone.svg"),
            ("[x](picture.svg#part)", "picture.svg#part"),
            ("[x](/docs/other.md)", "/docs/other.md"),
            ("[x](../../outside.md)", "../../outside.md"),
            ("| [x](gone.md) |", "gone.md"),
        ],
    )
    def test_any_other_is_told(self, root: Path, link: str, target: str) -> None:
        page = root / "docs" / "page.md"
        page.write_text(f"# My own\n\n{link}\n")
        assert dead_links(page, root) == [target]
