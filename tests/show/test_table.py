"""Tables in a terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from clew.show.overview import name_line
from clew.show.table import change_lines, functions_table, names_table, run_head, runs_table
from reading.writing import simple_run


def text_of(table: RenderableType) -> str:
    out = io.StringIO()
    Console(file=out, width=1000, markup=False).print(table)
    return out.getvalue()


def test_names_are_shown_with_their_range_and_shape(tmp_path: Path) -> None:
    run = simple_run(tmp_path, {"loss": [1.0, 0.5, 0.25], "text": ["a", "b"]})
    loss, text = text_of(names_table(name_line(run[name]) for name in run.names)).splitlines()[1:]
    for part in ("loss", "3", "1.0 → 0.25", "0.25 … 1.0", "█▃▁", "train:10"):
        assert part in loss
    assert "'a' → 'b'" in text
    assert "█" not in text


def test_markup_in_a_name_or_value_is_text(tmp_path: Path) -> None:
    run = simple_run(tmp_path, {'d["[red]x[/red]"]': ["[bold]no[/bold]", ":smile:"]})
    shown = text_of(names_table([name_line(run[run.names[0]])]))
    assert "[red]x[/red]" in shown
    assert "[bold]no[/bold]" in shown
    assert ":smile:" in shown


def test_a_long_series_is_shown_from_both_ends(tmp_path: Path) -> None:
    run = simple_run(tmp_path, {"x": list(range(12_375))})
    lines = list(change_lines(run["x"], 20, 10))
    assert len(lines) == 32
    assert "... 12,345 more (use --all)" in lines[21]
    assert lines[-1].split()[-1] == "12374"


def test_a_short_series_is_shown_whole(tmp_path: Path) -> None:
    run = simple_run(tmp_path, {"x": list(range(30))})
    lines = list(change_lines(run["x"], 20, 10))
    assert len(lines) == 31
    assert not any("more" in line for line in lines)


def test_a_line_of_a_change_fits_the_width(tmp_path: Path) -> None:
    run = simple_run(tmp_path, {"x": ["x" * 1000]})
    assert [len(line) <= 80 for line in change_lines(run["x"], 20, 10, width=80)] == [True, True]


def test_the_head_of_a_run_says_what_people_ask_first(tmp_path: Path) -> None:
    shown = text_of(run_head(simple_run(tmp_path, {"x": [1]}, error="ValueError: no", how="failed", tags={"lr": 0.1})))
    for part in ("test", "failed: ValueError: no", "5 s", "train.py --lr 0.1", "0123456789 main (dirty)", "lr=0.1"):
        assert part in shown


def test_a_head_with_nothing_known_is_short(tmp_path: Path) -> None:
    nothing = {key: None for key in ("argv", "git", "started", "host", "ended_ns")}
    assert text_of(run_head(simple_run(tmp_path, {"x": [1]}, **nothing)))


def test_runs_and_functions_have_a_line_each(tmp_path: Path) -> None:
    run = simple_run(tmp_path, {"x": [1]})
    assert "2023-11-14/120000-test" in text_of(runs_table([run, run]))
    shown = text_of(functions_table(run.functions()))
    assert "train" in shown
    assert "mod.py:1" in shown


@pytest.mark.parametrize("odd", [None, 1, "text", [1], {"commit": 5}])
def test_a_page_of_metadata_with_odd_values_is_shown(tmp_path: Path, odd: object) -> None:
    keys = ("argv", "git", "tags", "started", "host", "ended_ns", "error", "python", "pid")
    run = simple_run(tmp_path, {"x": [1]}, **dict.fromkeys(keys, odd))
    assert "finished" in text_of(run_head(run))
    assert "finished" in text_of(runs_table([run]))
    assert run._repr_html_()
