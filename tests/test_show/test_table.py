"""Tables that fit, whatever the texts are."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter.show.table import Cell, Column, Paint, table
from nvmeof_exporter.terminal import printable, shortened, width

PLAIN = Paint(colours=False)
COLUMNS = (Column("NAME"), Column("STATE", 1), Column("NOTE", 2))


def rows(*texts: str) -> list[list[Cell]]:
    return [[Cell(text) for text in row.split("|")] for row in texts]


def test_columns_are_aligned() -> None:
    assert table(COLUMNS, rows("a|live|x", "a longer one|connecting|y"), None, PLAIN) == [
        "NAME          STATE       NOTE",
        "a             live        x",
        "a longer one  connecting  y",
    ]


def test_a_column_that_is_empty_everywhere_is_left_out() -> None:
    assert table(COLUMNS, rows("a||x", "b||"), None, PLAIN) == ["NAME  NOTE", "a     x", "b"]


def test_the_least_important_columns_go_first() -> None:
    wide = rows("tcp:10.0.0.2:4420|live|a note")
    assert table(COLUMNS, wide, 25, PLAIN)[1] == "tcp:10.0.0.2:4420  live"
    assert table(COLUMNS, wide, 20, PLAIN)[1] == "tcp:10.0.0.2:4420"


def test_what_is_still_too_long_loses_its_middle() -> None:
    assert table(COLUMNS, rows("tcp:10.0.0.2:4420%h0||"), 12, PLAIN)[1] == "tcp:1…420%h0"


def test_colours_take_no_room() -> None:
    coloured = table(
        COLUMNS, [[Cell("a", "bad"), Cell("b", "good"), Cell("c")]], None, Paint(colours=True)
    )
    assert coloured == [
        "\033[2mNAME\033[0m  \033[2mSTATE\033[0m  \033[2mNOTE\033[0m",
        "\033[1;31ma\033[0m     \033[32mb\033[0m      c",
    ]


TEXTS = st.text(max_size=40)


@given(
    cells=st.lists(st.tuples(TEXTS, TEXTS, TEXTS), max_size=5),
    room=st.none() | st.integers(8, 120),
)
def test_any_texts_make_lines_that_fit_and_obey_nobody(
    cells: list[tuple[str, str, str]], room: int | None
) -> None:
    lines = table(COLUMNS, [[Cell(text) for text in row] for row in cells], room, PLAIN)
    assert len(lines) == len(cells) + 1
    for line in lines:
        assert line.isprintable()
        assert room is None or width(line) <= max(room, 8)


@given(text=st.text())
def test_what_is_printable_stays_and_the_rest_is_escaped(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert shown == text or not text.isprintable()


@given(text=TEXTS.map(printable), room=st.integers(1, 60))
def test_a_shortened_text_fits_and_keeps_its_ends(text: str, room: int) -> None:
    short = shortened(text, room)
    assert width(short) <= room
    if short != text:
        head, _, tail = short.partition("…")
        assert text.startswith(head)
        assert text.endswith(tail)


def test_escape_sequences_lose_their_power() -> None:
    hostile = "a\033[2J\x9b31m\u202eb\r\n\x07\x00"
    assert printable(hostile) == r"a\x1b[2J\x9b31m\u202eb\r\n\x07\x00"
    assert re.fullmatch(r"[ -~]+", printable(hostile))
