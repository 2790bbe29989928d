"""Runs as CSV."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from clew.export import export
from clew.export.csv import COLUMNS
from clew.records import DELETED
from reading.writing import simple_run


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_row_a_change(tmp_path: Path) -> None:
    run = simple_run(tmp_path / "runs", {"loss": [0.1, 1 / 3], "n": [7]})
    path = export(run, "csv", tmp_path / "out.csv")
    assert path.read_text().splitlines()[0] == ",".join(COLUMNS)
    records = rows(path)
    assert [(row["name"], row["step"], row["line"], row["function"]) for row in records] == [
        ("loss", "0", "10", "train"),
        ("loss", "1", "10", "train"),
        ("n", "0", "11", "train"),
    ]
    assert [float(row["value"]) for row in records] == [0.1, 1 / 3, 7.0], "numbers are exact"


def test_values_of_every_kind_have_a_text(tmp_path: Path) -> None:
    values = ['a,"b"\nc', True, None, [1], np.array([1, 2]), DELETED, "\udc80"]
    run = simple_run(tmp_path / "runs", {"x": values})
    records = [row["value"] for row in rows(export(run, "csv", tmp_path / "out.csv"))]
    assert records[:4] == ['a,"b"\nc', "True", "None", "[1]"]
    assert '"values": [1, 2]' in records[4]
    assert records[5:] == ["", "\\udc80"]
