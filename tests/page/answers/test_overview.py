"""A run as a whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from clew.page.answers import overview
from clew.records import DELETED
from page.asking import Page
from reading.writing import simple_run


def test_names_are_reported_with_their_kind_count_and_functions(page: Page, folder: Path) -> None:
    answer = page.of(folder)
    assert answer["names"] == [
        {"name": "loss", "kind": "number", "count": 12, "functions": ["train"]},
        {"name": "weight", "kind": "tensor", "count": 10, "functions": ["train"]},
    ]
    assert answer["counts"] == {"changes": 22, "calls": 11, "names": 2, "functions": 2, "threads": 1, "ranks": 1}


def test_functions_ledger_and_metadata_are_reported(page: Page, folder: Path) -> None:
    answer = page.of(folder)
    assert [(one["function"], one["calls"], one["errors"]) for one in answer["functions"]] == [
        ("train", 1, 0),
        ("layer", 10, 1),
    ]
    assert answer["ledger"] == [{"kind": "never-seen", "subject": "accuracy", "text": "never seen in train()"}]
    assert answer["meta"]["git"]["branch"] == "main"
    assert answer["pages"] == {"series": True, "tree": True, "pipeline": False, "graph": True}


def test_a_kind_is_that_of_what_a_name_held_first(base: Path) -> None:
    values = {
        "none": [None, 1.0],
        "gone": [DELETED],
        "scalar": [np.float64(2.0)],
        "one": [np.array([1.0])],
        "text": ["a"],
        "list": [[1, 2]],
        "empty": [np.zeros((0, 2))],
    }
    answer = Page(base).of(simple_run(base, values).path)
    assert {row["name"]: row["kind"] for row in answer["names"]} == {
        "none": "number",
        "gone": "value",
        "scalar": "number",
        "one": "number",
        "text": "value",
        "list": "value",
        "empty": "tensor",
    }


def test_metadata_that_json_cannot_say_is_reported_as_text(base: Path) -> None:
    folder = simple_run(base, {"x": [1.0]}, tags={"lr": float("nan"), "deep": [float("inf")]}).path
    answer = Page(base).of(folder)
    assert answer["meta"]["tags"] == {"lr": "nan", "deep": ["inf"]}
    assert answer["run"]["tags"] == {"lr": "nan", "deep": "[inf]"}


def test_of_very_many_names_the_first_are_reported_and_the_others_searched(base: Path, monkeypatch: object) -> None:
    monkeypatch.setattr(overview, "NAMES", 10)  # type: ignore[attr-defined]
    folder = simple_run(base, {f"layer.{i}.weight": [1.0] for i in range(30)}).path
    page = Page(base)
    answer = page.of(folder)
    assert (len(answer["names"]), answer["counts"]["names"]) == (10, 30)
    part = page.of(folder, "names", search="LAYER weight", offset=10, limit=10)
    assert (part["found"], part["next"], part["names"][0]["name"]) == (30, 20, "layer.10.weight")
    assert page.of(folder, "names", search="layer.2?.*")["found"] == 10
    assert page.of(folder, "names", search="7")["found"] == 3
    assert page.of(folder, "names", search="nothing") == {"found": 0, "offset": 0, "names": [], "next": None}
