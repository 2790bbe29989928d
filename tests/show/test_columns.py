"""Tables that fit their terminal."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from clew.show.table_layout import Column, Columns

COLUMNS = [
    Column("name", folds=True, least=12),
    Column("status"),
    Column("started", optional=1),
    Column("command", optional=2, least=6),
]
ROW = ("2026-11-18/120000-a-long-name-of-a-run", "finished", "2026-11-18 12:00:00", "train.py --rate 0.1")


def lines_of(table: Columns, width: int, *, terminal: bool = True) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=terminal, color_system=None).print(table)
    return out.getvalue().splitlines()


def table_of(*rows: tuple[str, ...]) -> Columns:
    table = Columns(COLUMNS)
    for row in rows:
        table.add(*row)
    return table


def test_where_there_is_room_everything_stands_in_one_line() -> None:
    header, row = lines_of(table_of(ROW), 120)
    assert header.split() == ["name", "status", "started", "command"]
    assert all(cell in row for cell in ROW)


@pytest.mark.parametrize("width", [80, 60, 40])
def test_a_name_is_folded_and_a_status_is_whole_at_any_width(width: int) -> None:
    header, *rows = lines_of(table_of(ROW), width)
    assert max(map(len, [header, *rows])) <= width
    at = header.index("status")
    assert "".join(row[:at].strip() for row in rows) == ROW[0]
    assert rows[0][at:].split()[0] == "finished"


def test_the_columns_that_matter_least_go_first() -> None:
    shown = [lines_of(table_of(ROW), width)[0].split() for width in (60, 45, 30)]
    assert shown == [["name", "status", "started", "command"], ["name", "status", "started"], ["name", "status"]]


def test_a_column_without_anything_in_it_is_not_shown() -> None:
    assert lines_of(table_of((ROW[0], "finished", "", "")), 120)[0].split() == ["name", "status"]


def test_in_a_pipe_cells_are_separated_by_tabs_and_nothing_is_cut_or_padded() -> None:
    assert lines_of(table_of(ROW, ("b", "failed", "", "")), 1000, terminal=False) == [
        "name\tstatus\tstarted\tcommand",
        "\t".join(ROW),
        "b\tfailed",
    ]


@given(
    st.lists(st.tuples(*[st.text(st.characters(categories=["L", "N"]), max_size=60)] * 4), max_size=4),
    st.integers(24, 120),
)
def test_no_line_is_wider_than_the_terminal(rows: list[tuple[str, str, str, str]], width: int) -> None:
    table = Columns([Column("a", folds=True), Column("b", least=4), Column("c", optional=1), Column("d", least=4)])
    for row in rows:
        table.add(*row)
    assert all(len(line) <= width for line in lines_of(table, width))
