"""Rows with the right checksum that say what no writer writes: they are taken for damage, and told as such."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.commands.main import main
from clew.reading.annotations import check_annotation, id_name
from hostile.forging import Row, copied, put_cell, read_flushes, write_flushes
from hostile.reading import surprises
from reading.writing import Written


@pytest.fixture
def run(tmp_path: Path) -> Path:
    written = Written(tmp_path / "runs")
    shard = written.shard()
    outer = shard.call("train", args={"epochs": 2})
    for step in range(4):
        shard.step(outer, step)
        shard.change(outer, "loss", step / 2)
        shard.change(outer, "words", [step, "a"])
        inner = shard.call("layer", parent=outer, stage="model")
        shard.change(inner, "i", {"trace": "t", "ids": [step], "source": "s", "batch": 0}, role="item")
        shard.end(inner, error="ValueError: no" if step == 2 else None)
    shard.end(outer, result=0.5)
    shard.close()
    return written.folder


def forged(run: Path, change: Callable[[list[Row]], None]) -> Path:
    head, flushes = read_flushes(run)
    flushes = copy.deepcopy(flushes)
    change(flushes)
    folder = copied(run, run.parent / "forged")
    write_flushes(folder, head, flushes)
    return folder


REFUSED: list[tuple[str, str, Any]] = [
    *(("starts", "time", -1), ("starts", "time", 2**63 - 1), ("ends", "time", -5), ("spans", "start", -(2**63))),
    *(("starts", "call", -7), ("starts", "parent", -2), ("starts", "args", 2**60), ("starts", "line", -9)),
    *(("ends", "call", -3), ("ends", "result", -2), ("spans", "call", -2), ("spans", "changes", -1)),
    *(("functions", "id", -1), ("functions", "line", -1), ("sites", "id", -1), ("sites", "line", -4)),
    *(("changes", "kind", 6), ("changes", "kind", 255), ("values", "id", -1), ("values", "id", 2**62)),
    *(("values", "length", -1), ("values", "size", -1), ("values", "nan", -1), ("values", "shape", [-1])),
]


@pytest.mark.parametrize(("table", "column", "cell"), REFUSED, ids=lambda part: str(part)[:20])
def test_a_cell_that_is_out_of_range_is_damage(run: Path, table: str, column: str, cell: Any) -> None:
    folder = forged(run, lambda flushes: put_cell(flushes, table, column, cell, lambda number: number == 0))
    assert any("makes no sense" in problem for problem in clew.open(folder).problems)


def test_spans_whose_sum_comes_round_are_damage(run: Path) -> None:
    """Two counts of 2**63 - 1 and one of two more than there are changes add up, in 64 bits, to what there are."""

    def change(flushes: list[Row]) -> None:
        row = next(row for row in flushes if row["changes"])
        count, span = len(row["changes"]), row["spans"][0]
        row["spans"] = [{**span, "changes": number} for number in (2**63 - 1, 2**63 - 1, count + 2)]

    assert any("makes no sense" in problem for problem in clew.open(forged(run, change)).problems)


CALLERS = ["{", "[[1,2,3]]", '[["a",1]]', '["abc"]', "[" * 5000, '[["a", 1e999, "b"]]', "null", '{"a": 1}', "9" * 5000]


@pytest.mark.parametrize("text", CALLERS, ids=lambda text: text[:12])
def test_callers_that_make_no_sense_are_left_out(run: Path, tmp_path: Path, text: str) -> None:
    folder = forged(run, lambda flushes: put_cell(flushes, "starts", "callers", text, lambda number: True))
    assert clew.open(folder).calls()[0].callers == []
    assert surprises(folder, run, tmp_path / "out", ["calls", "trees", "page tree", "page call", "page source"]) == {}


LONG = 10**5000
NOTED: list[dict[Any, Any]] = [
    *({"trace": 1}, {"trace": ["x"]}, {"trace": "t", "facts": None}, {"trace": "t", "facts": {"stages": [{}]}}),
    *({"trace": "t", "facts": {"state": {}}}, {"trace": "t", "facts": {"notes": "abc"}}, {"facts": {}}, {1: 2}),
    *(
        {"trace": "t", "ids": 5},
        {"trace": "t", "ids": [{}], "source": []},
        {"trace": "t", "ids": [LONG], "called": LONG},
    ),
    *(
        {"trace": "t", "files": [1]},
        {"trace": "t", "devices": {1: 2}},
        {"trace": "t", "batch": -1},
        {"trace": "t", "took": "x"},
    ),
    *({"trace": "t", "convolved": [-1]}, {"trace": "t", "convolved_range": [1.0]}, {"trace": "t", "rows": 2**70}),
]


@pytest.mark.parametrize("noted", NOTED, ids=lambda noted: str(check_annotation(noted))[:30])
def test_notes_of_items_that_make_no_sense_are_left_out(tmp_path: Path, noted: dict[str, Any]) -> None:
    written = Written(tmp_path / "runs")
    shard = written.shard()
    for number in range(2):
        call = shard.call("load", stage="load")
        shard.change(call, "i", noted if number else {"trace": "t", "ids": [7], "source": "s"}, role="item")
        shard.end(call)
    shard.close()
    readers = ["traces", "page pipeline", "diff", "shown"]
    assert surprises(written.folder, written.folder, tmp_path / "out", readers) == {}
    wrong = check_annotation(noted)[1]
    notes = [note for trace in written.open().traces for note in trace.notes]
    assert any("damaged" in note for note in notes) == bool(wrong)


def test_an_id_is_as_it_is_or_a_short_text() -> None:
    for id in (1, "a", True, None, 1.5, b"x", (1, "a")):
        assert id_name(id) == id
    assert all(type(id_name(id)) is str for id in ([1], {}, LONG, ((1,),), (1,) * 50))


@pytest.mark.parametrize("role", ["step", "input", "output", "item", "value", "nobody", ""])
@pytest.mark.parametrize("name", ["loss", "words", "i"])
def test_a_site_in_another_role_is_read(run: Path, tmp_path: Path, role: str, name: str) -> None:
    def change(flushes: list[Row]) -> None:
        for row in flushes:
            for site in row["sites"]:
                site["role"] = role if site["name"] == name else site["role"]

    folder = forged(run, change)
    readers = ["names", "calls", "trees", "traces", "diff", "shown", "export json", "export csv", "export perfetto"]
    assert (
        surprises(folder, run, tmp_path / "out", [*readers, "page tree", "page series", "page pipeline", "page "]) == {}
    )


@pytest.mark.parametrize("words", [["show", "RUN", "nosuch"], ["show", "RUN", "--function", "nosuch"]])
def test_a_forged_name_cannot_act_on_the_terminal_in_an_error(
    run: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "e\x1b]0;owned\x07\r\nclew: all is well\x9b31m\u202e"

    def rename(flushes: list[Row]) -> None:
        put_cell(flushes, "sites", "name", evil, lambda number: True)
        put_cell(flushes, "functions", "name", evil, lambda number: True)

    folder = forged(run, rename)
    assert main([str(folder) if word == "RUN" else word for word in words]) == 2
    said = capsys.readouterr().err
    assert not set(said) & set("\x1b\x07\r\x9b\u202e")
    assert said.count("\n") == 1
