"""Tables that fit: columns go, the least important first, and long names lose their middle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from nvmeof_exporter.terminal import printable, shortened, width

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Cell", "Column", "Paint", "table"]

_GAP = "  "

#: Parameters of ECMA-48's SGR, by what a colour means.
_CODES = {"good": "32", "warning": "33", "bad": "1;31", "faint": "2", "strong": "1"}

#: No column is made narrower than this.
_LEAST = 8


class Cell(NamedTuple):
    """A text and its colour: one of the names that Paint knows, ``""`` for none."""

    text: str
    colour: str = ""


class Column(NamedTuple):
    """A column. Of those that do not fit the greatest ``rank`` goes first, 0 never."""

    title: str
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Paint:
    """Colours text, or does not."""

    colours: bool

    def __call__(self, text: str, colour: str) -> str:
        """Return the text in a colour; nothing but its looks says how it is meant."""
        if not (self.colours and colour and text):
            return text
        return f"\033[{_CODES[colour]}m{text}\033[0m"


def table(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], room: int | None, paint: Paint
) -> list[str]:
    """Lay rows out below their titles.

    Args:
        columns: one for each cell of a row. One that is empty in every row is left out.
        rows: what the cells say; texts need not be printable.
        room: how many columns of characters there are; None for any number.
        paint: colours the cells.

    """
    cells = [[Cell(printable(cell.text), cell.colour) for cell in row] for row in rows]
    kept = [i for i in range(len(columns)) if any(row[i].text for row in cells)]
    widths = {
        i: max(width(t) for t in [columns[i].title, *(r[i].text for r in cells)]) for i in kept
    }
    if room is not None:
        _fit(widths, columns, room)
    titles = [Cell(column.title, "faint") for column in columns]
    return [_line(row, widths, paint) for row in [titles, *cells]]


def _fit(widths: dict[int, int], columns: Sequence[Column], room: int) -> None:
    """Drop columns until the rest fits, then narrow the widest of those that stay."""

    def excess() -> int:
        return sum(widths.values()) + len(_GAP) * (len(widths) - 1) - room

    while excess() > 0:
        ranked = [i for i in widths if columns[i].rank]
        if not ranked:
            break
        del widths[max(ranked, key=lambda i: columns[i].rank)]
    while excess() > 0:
        widest = max(widths, key=lambda i: widths[i])
        if widths[widest] <= _LEAST:
            break
        widths[widest] = max(widths[widest] - excess(), _LEAST)


def _line(row: Sequence[Cell], widths: dict[int, int], paint: Paint) -> str:
    parts = []
    for index, columns in widths.items():
        text = shortened(row[index].text, columns)
        parts.append(paint(text, row[index].colour) + " " * (columns - width(text)))
    return _GAP.join(parts).rstrip()
