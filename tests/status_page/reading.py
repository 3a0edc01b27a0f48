"""A page as a reader has it: its words, without looking at them through a browser."""

from __future__ import annotations

from html.parser import HTMLParser

__all__ = ["Element", "elements", "words"]

#: Elements that begin a line of their own.
_BLOCKS = frozenset(
    {"details", "div", "footer", "h1", "h2", "h3", "li", "main", "nav", "p", "summary", "svg", "tr"}
)
_CELLS = frozenset({"th", "td"})


class Element:
    """A start tag and its attributes."""

    def __init__(self, name: str, attributes: dict[str, str | None]) -> None:
        self.name = name
        self.attributes = attributes


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[str] = [""]
        self.elements: list[Element] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = Element(tag, dict(attrs))
        self.elements.append(found)
        if tag in {"head", "title"}:
            self._silent += 1
        if tag in _BLOCKS:
            self.lines.append("")
        elif tag in _CELLS and self.lines[-1]:
            self.lines[-1] += " | "
        if tag == "svg" and found.attributes.get("aria-label"):
            self.lines[-1] += f"[{found.attributes['aria-label']}]"

    def handle_endtag(self, tag: str) -> None:
        if tag in {"head", "title"}:
            self._silent -= 1
        if tag in _BLOCKS:
            self.lines.append("")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.lines[-1] += data


def words(page: str) -> str:
    """Return what a page says, a line for each block, pictures by what is told of them."""
    lines = (" ".join(line.split()) for line in _read(page).lines)
    return "\n".join(line for line in lines if line) + "\n"


def elements(page: str) -> list[Element]:
    """Return every element of a page."""
    return _read(page).elements


def _read(page: str) -> _Reader:
    reader = _Reader()
    reader.feed(page)
    reader.close()
    return reader
