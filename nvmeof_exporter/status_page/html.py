"""HTML out of Python calls: what is not made here is a text, and is made harmless.

The page is one list of names that come from the other end of a cable, so nothing may be
forgotten: a text becomes HTML only by being escaped, whoever it is from.
"""

from __future__ import annotations

from html import escape

from nvmeof_exporter.terminal import printable

__all__ = ["Html", "joined", "tag"]

#: Elements without content: HTML's (Living Standard, 13.1.2) and SVG's, which must be closed.
_VOID = frozenset({"link", "meta"})
_EMPTY = frozenset({"line", "rect"})


class Html(str):
    """HTML that was made by ``tag``."""

    __slots__ = ()


def tag(name: str, *children: str | None, **attributes: str | float | bool | None) -> Html:
    """Make an element.

    Args:
        name: of the element.
        children: HTML stands as it is, every other text is escaped; None is left out.
        attributes: ``class_`` is ``class``, other underscores are hyphens; True is an
            attribute without a value, None and False are none at all.

    """
    start = f"<{name}{''.join(_attribute(*one) for one in attributes.items())}>"
    if name in _VOID:
        return Html(start)
    if name in _EMPTY:
        return Html(f"{start[:-1]}/>")
    return Html(f"{start}{joined(*children)}</{name}>")


def joined(*children: str | None) -> Html:
    """Put one after the other."""
    return Html("".join(map(_safe, children)))


def _safe(child: str | None) -> str:
    if child is None:
        return ""
    return child if isinstance(child, Html) else escape(printable(child))


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f' {name}="{escape(printable(text))}"'
