"""The source of a call, with the values at each line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from page.asking import Page, training
from reading.writing import Written

CALL = "host-r0-100-0:1"
TEXT = """def train(epochs):
    for step in range(10):
        loss = 1 / (step + 1)
        weight = step
    return loss
"""


def source(base: Path, text: str | None = TEXT, **params: Any) -> Any:
    writer = training(base, source=text)
    return Page(base).of(writer.folder, "source", call=CALL, **params)


def test_the_lines_of_the_function_are_shown(base: Path) -> None:
    answer = source(base)
    assert (answer["first"], answer["lines"]) == (3, TEXT.splitlines())
    assert answer["missing"] is None


def test_after_so_many_changes_each_line_has_its_last_value(base: Path) -> None:
    answer = source(base, at=4)
    assert (answer["total"], answer["at"]) == (22, 4)
    fields = ("line", "name", "nth", "of", "now")
    refusal = [(*(one[field] for field in fields), one["value"]["text"]) for one in answer["values"]]
    assert refusal == [(5, "loss", 2, 12, False, "0.5"), (6, "weight", 2, 10, True, "float32 (4, 6)")]


def test_it_stands_where_a_value_of_a_series_had_come(base: Path) -> None:
    answer = source(base, of="loss", nth=1)
    now = next(one for one in answer["values"] if one["now"])
    assert (now["name"], now["line"], now["nth"], now["value"]["text"]) == ("loss", 5, 2, "0.5")


def test_up_to_a_value_that_is_not_there_is_to_the_end(base: Path) -> None:
    answer = source(base, of="loss", nth=9999)
    assert answer["at"] == answer["total"]


def test_a_point_comes_with_its_line_of_source(base: Path) -> None:
    writer = training(base, source=TEXT)
    assert Page(base).of(writer.folder, "point", name="loss", index=1)["code"] == "loss = 1 / (step + 1)"


def test_a_point_of_a_run_without_source_has_no_line(base: Path) -> None:
    writer = training(base)
    assert Page(base).of(writer.folder, "point", name="loss", index=1)["code"] is None


def test_before_the_first_change_there_are_no_values(base: Path) -> None:
    assert source(base, at=0)["values"] == []


def test_without_a_place_it_stands_at_the_end(base: Path) -> None:
    answer = source(base)
    assert answer["at"] == answer["total"] == 22
    assert answer["values"][0]["value"]["text"] == "'gone'"
    assert [one["now"] for one in answer["values"]] == [True, False]


def test_arguments_stand_at_the_line_of_the_function(base: Path) -> None:
    writer = training(base, source=TEXT)
    answer = Page(base).of(writer.folder, "source", call="host-r0-100-0:2")
    assert [(one["line"], one["name"]) for one in answer["values"]] == [(20, "x")]


def test_a_run_without_source_says_so_and_still_shows_its_values(base: Path) -> None:
    answer = source(base, text=None)
    assert answer["lines"] == []
    assert "the run does not hold it" in answer["missing"]
    assert answer["values"]


def test_a_recorded_function_without_source_says_what_may_be_the_reason(base: Path) -> None:
    writer = Written(base)
    shard = writer.shard()
    shard.call("f", code_hash="cpython-311-O0:00")
    shard.close()
    assert "library" in Page(base).of(writer.folder, "source", call=CALL)["missing"]


def test_of_a_very_long_function_the_first_lines_are_shown(base: Path) -> None:
    assert len(source(base, text="x = 1\n" * 5_000)["lines"]) == 2_000
