"""Exports and views of values that are small to store and would be endless to write out."""

from __future__ import annotations

import csv
import datetime as dt
import decimal
import fractions
import json
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew.errors import OptionError
from clew.export import export
from clew.export.csv import escape_formula
from clew.export.plain_data import to_plain
from clew.export.ztrace_values import json_value
from clew.reading.checks.leaves import leaves_of
from clew.reading.rows import row_of
from hostile.reading import READERS, command, surprises
from reading.writing import simple_run

LONG = 10**5000 + 1


def shared(depth: int, make: Any = lambda x: [x, x]) -> Any:
    """A value of `depth` nodes that has 2**depth paths."""
    found: Any = make(1)
    for _ in range(depth):
        found = make(found)
    return found


def _objects(*items: Any) -> Any:
    array = np.empty(len(items), object)
    for place, item in enumerate(items):
        array[place] = item
    return array


def in_itself() -> list[Any]:
    found: list[Any] = []
    found += [found, found]
    return found


SHARED = {
    "lists": shared(40),
    "tuples": shared(40, lambda x: (x, x)),
    "dictionaries": shared(40, lambda x: {"a": x, "b": x}),
    "keys that are no texts": shared(40, lambda x: {1: x, 2: x}),
    "namespaces": shared(40, lambda x: types.SimpleNamespace(a=x, b=x)),
    "proxies": shared(40, lambda x: types.MappingProxyType({"a": x, "b": x})),
    "empty lists": shared(40, lambda x: [x, x] if x != 1 else []),
    "a list in itself, twice": in_itself(),
    "the same array often": [np.zeros(1000)] * 500,
    "arrays of objects": shared(40, lambda x: _objects(x, x)),
}

NUMBERS: dict[str, Any] = {
    "an integer": LONG,
    "a negative one": -LONG,
    "a fraction": fractions.Fraction(LONG, 3),
    "a fraction beneath": fractions.Fraction(1, LONG),
    "a range": range(0, LONG, 7),
    "a range that stands twice": [range(LONG)] * 2,
    "a slice": slice(LONG),
    "a key": {LONG: 1},
    "a key of keys": {(1, (LONG, fractions.Fraction(LONG, 2))): [LONG]},
    "a set": {LONG, -LONG},
    "a decimal": decimal.Decimal("1E+999999"),
    "a decimal of many digits": decimal.Decimal("1" * 6000),
    "a complex number": complex(1e308, float("-inf")),
    "a time difference": dt.timedelta.max,
    "objects of NumPy's": np.array([LONG, fractions.Fraction(LONG, 3)], object),
    "an object alone": np.array(LONG, object),
    "a date out of range": np.datetime64(2**62, "us"),
    "dates out of range": np.array([2**62, -(2**62)], "M8[s]"),
    "a difference out of range": np.timedelta64(2**62, "D"),
    "a long double": np.longdouble("1e4000"),
    "long doubles": np.array(["1e4000", "-1e4000"], np.longdouble),
    "a namespace": types.SimpleNamespace(n=LONG),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs with all of these values, as changes, arguments and steps; they differ in the last."""
    base = tmp_path_factory.mktemp("numbers")
    values = [*NUMBERS.values(), *SHARED.values()]
    runs = [
        simple_run(base / name, {"value": [*values, last], "other": [[last]]}) for name, last in (("a", 1), ("b", LONG))
    ]
    return runs[0].path, runs[1].path


@pytest.mark.parametrize("reader", READERS)
def test_every_view_and_export_has_a_text_for_any_number_and_an_end(
    folders: tuple[Path, Path], tmp_path: Path, reader: str
) -> None:
    assert surprises(*folders, tmp_path / "out", [reader]) == {}


@pytest.mark.parametrize("convert", [to_plain, json_value])
@pytest.mark.parametrize("name", SHARED)
def test_what_a_value_holds_often_is_written_out_a_bounded_number_of_times(name: str, convert: Any) -> None:
    text = json.dumps(convert(SHARED[name]))
    assert len(text) < 200_000
    assert "left_out" in text


def test_an_ordinary_repetition_is_written_out() -> None:
    row = [1, 2]
    assert to_plain([row] * 50_000) == [[1, 2]] * 50_000


def test_a_long_integer_is_exact_in_hexadecimal() -> None:
    assert to_plain(LONG) == {"hex": hex(LONG)}
    assert to_plain(2**1999) == 2**1999


@pytest.mark.parametrize("name", SHARED)
def test_rows_and_leaves_of_shared_values_are_found_in_time(name: str) -> None:
    leaves_of(SHARED[name])
    row_of(SHARED[name], 0, 2)


# ---- CSV

FORMULAS = [
    *("=1+1", "+1+1", "-1+cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\r=1", " =1", "\n=1", '"=1"', "-", "+", "=", "-x"),
    *("\uff1d1", "\uff0b1", "\uff0d1", "\uff201", "\ufeff=1", "-1.5e", "--1", "+-1", "-0x10", "-1,5", "\x00=1"),
    *("\ufe661", "\ufe621", "\ufe631", "\ufe6b1", "\u200b=1", "\u2060@x", "\u202e=1"),
]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_text_that_begins_a_formula_gets_an_apostrophe(text: str) -> None:
    assert escape_formula(text) == f"'{text}"


@pytest.mark.parametrize(
    "content", ["-1.5", "+3", "-1e-5", ".5", "-inf", "nan", "a=b", "1-2", "", "x@y", -1.5, -3, True]
)
def test_numbers_and_other_texts_stay_as_they_are(content: Any) -> None:
    assert escape_formula(content) is content


def cells(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_every_cell_of_a_csv_file_is_defused(tmp_path: Path) -> None:
    run = simple_run(tmp_path / "runs", {"=name": ["=value", -1.5, "-2", ["=x"]], "@n": [1]})
    found = cells(export(run, "csv", tmp_path / "out.csv"))
    assert [row[0] for row in found[1:]] == ["'=name"] * 4 + ["'@n"]
    assert [row[-1] for row in found[1:]] == ["'=value", "-1.5", "-2", '["=x"]', "1"]


def test_cells_can_be_left_raw(tmp_path: Path) -> None:
    run = simple_run(tmp_path / "runs", {"=name": ["=value"]})
    assert cells(export(run, "csv", tmp_path / "out.csv", raw_cells=True))[1][0::7] == ["=name", "=value"]
    command(["export", str(run.path), "--to", "csv", "--raw-cells", "-o", str(tmp_path / "raw.csv")])
    assert cells(tmp_path / "raw.csv")[1][0] == "=name"
    with pytest.raises(OptionError):
        export(run, "json", tmp_path / "out.json", raw_cells=True)


def test_values_are_read_by_their_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal arrays are stored once: rows say nothing about memory."""
    from clew.export import whole_files

    monkeypatch.setattr(whole_files, "BYTES", 8_000)
    run = simple_run(tmp_path / "runs", {"x": [np.zeros(1000)] * 10})
    assert [len(block.rows) for block in whole_files.read_blocks(run, "x")] == [1] * 10
    monkeypatch.setattr(whole_files, "BYTES", 1 << 20)
    assert [len(block.rows) for block in whole_files.read_blocks(run, "x")] == [10]
