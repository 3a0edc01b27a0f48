"""What the documentation's tests read out of Markdown: links, anchors, sections, code.

Enough of CommonMark for how these pages are written, and of the way in which GitHub
names the anchors of headings.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Code", "anchors", "code_blocks", "dead_links", "headings", "prose"]

_FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>```+|~~~+) *(?P<language>[^\n`]*)\n(?P<text>.*?)^ *(?P=fence)[ ]*$",
    re.MULTILINE | re.DOTALL,
)
_CODE_SPAN = re.compile(r"(?P<ticks>`+)(?:.|\n(?!\n))+?(?<!`)(?P=ticks)(?!`)")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(?P<text>.+?)(?: +#+)? *$", re.MULTILINE)
_LINK = re.compile(r"\]\(\s*<?(?P<target>[^\s()<>]+)>?(?:\s+(?:\"[^\"]*\"|'[^']*'))?\s*\)")
_DEFINITION = re.compile(r"^ {0,3}\[[^\]]+\]: *<?(?P<target>[^\s>]+)", re.MULTILINE)
_ATTRIBUTE = re.compile(r"<[^>]*\b(?:href|src)=[\"'](?P<target>[^\"']+)[\"']")
_NAMED = re.compile(r"<[^>]*\b(?:id|name)=[\"'](?P<name>[^\"']+)[\"']")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)
_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")
_LINKED_TEXT = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


class Code(NamedTuple):
    """A fenced block: what it says it is written in, and its lines without the fence's indent."""

    language: str
    text: str


def code_blocks(page: str) -> list[Code]:
    """Return the fenced blocks in their order."""
    return [
        Code(
            found["language"].strip(),
            re.sub(rf"^{found['indent']}", "", found["text"], flags=re.MULTILINE),
        )
        for found in _FENCE.finditer(page)
    ]


def prose(page: str) -> str:
    """Return the page without fenced blocks and comments."""
    return _COMMENT.sub("", _FENCE.sub("", page))


def headings(page: str) -> list[str]:
    """Return the texts of the headings in their order."""
    return [found["text"] for found in _HEADING.finditer(prose(page))]


def anchors(page: str) -> set[str]:
    """Return what may follow a ``#`` in a link to this page."""
    names: set[str] = set()
    seen: Counter[str] = Counter()
    for heading in headings(page):
        text = _LINKED_TEXT.sub(r"\1", heading).lower()
        name = _NOT_IN_ANCHORS.sub("", text).replace(" ", "-")
        names.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    names.update(found["name"] for found in _NAMED.finditer(prose(page)))
    return names


def dead_links(page: Path, root: Path) -> list[str]:
    """Return the relative links of a page that lead nowhere, or out of ``root``."""
    text = _CODE_SPAN.sub("", prose(page.read_text(encoding="utf-8")))
    targets = [
        found["target"]
        for pattern in (_LINK, _DEFINITION, _ATTRIBUTE)
        for found in pattern.finditer(text)
    ]
    return [
        target
        for target in targets
        if not _ELSEWHERE.match(target) and not _leads_somewhere(page, target, root)
    ]


def _leads_somewhere(page: Path, target: str, root: Path) -> bool:
    name, _, anchor = target.partition("#")
    if name.startswith("/"):  # where that leads depends on who shows the page
        return False
    file = (page.parent / name).resolve() if name else page
    if not file.exists() or not file.is_relative_to(root.resolve()):
        return False
    if not anchor:
        return True
    return file.suffix == ".md" and anchor in anchors(file.read_text(encoding="utf-8"))
