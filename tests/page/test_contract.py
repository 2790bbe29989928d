"""Every answer is as web/src/types.ts declares it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from page.asking import Page
from page.contract import declared, misfits
from reading.writing import Written

QUESTIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("Overview", "", {}),
    ("Names", "names", {"search": "lo"}),
    ("Version", "version", {}),
    ("Curve", "series", {"name": "loss"}),
    ("Curve", "series", {"name": "loss", "axis": "time", "px": 10, "from": 0, "to": 1}),
    ("Curve", "series", {"name": "weight", "axis": "index"}),
    ("Point", "point", {"name": "loss", "x": 3}),
    ("Point", "point", {"name": "weight", "index": 9}),
    ("TensorCurve", "tensors", {"name": "weight"}),
    ("TensorCurve", "tensors", {"name": "loss"}),
    ("Histogram", "histogram", {"name": "weight"}),
    ("Histogram", "histogram", {"name": "loss"}),
    ("Slice", "slice", {"name": "weight", "index": 2}),
    ("Slice", "slice", {"call": "host-r0-100-0:2", "value": "x"}),
    ("Branch", "tree", {}),
    ("Branch", "tree", {"parent": "host-r0-100-0:1"}),
    ("Branch", "tree", {"parent": "host-r0-100-0:1", "fold": 0, "errors": 1}),
    ("CallDetail", "call", {"call": "host-r0-100-0:2"}),
    ("Source", "source", {"call": "host-r0-100-0:1", "at": 4}),
    ("Graph", "graph", {}),
]


@pytest.mark.parametrize(("kind", "what", "params"), QUESTIONS, ids=lambda given: str(given))
def test_an_answer_has_exactly_what_is_declared(
    page: Page, folder: Path, kind: str, what: str, params: dict[str, Any]
) -> None:
    assert misfits(page.of(folder, what, **params), kind) == []


def test_the_list_of_runs_is_as_declared(page: Page) -> None:
    assert misfits(page.ask("/api/runs"), "Runs") == []


def test_a_refusal_is_as_declared(page: Page, folder: Path) -> None:
    assert misfits(page.refused(404, f"{page.run(folder)}/series", name="lost"), "Refusal") == []


def test_a_reduced_curve_is_as_declared(base: Path) -> None:
    writer = Written(base)
    shard = writer.shard()
    call = shard.call()
    for value in range(100):
        shard.change(call, "x", float(value))
    shard.close()
    curve = Page(base).of(writer.folder, "series", name="x", px=10)
    assert curve["reduced"]
    assert misfits(curve, "Curve") == []


def test_a_pipeline_is_as_declared(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import clew

    monkeypatch.setenv("CLEW_DIR", str(base))

    @clew.stage("load")
    def load(index: int) -> Any:
        return np.full((16, 16, 3), index * 40, np.uint8)

    @clew.stage("scale")
    def scale(image: Any) -> Any:
        return image / 255

    with clew.run("items") as run, clew.items(2):
        for index in range(5):
            scale(load(index))
    answer = Page(base).of(Path(str(run.path)), "pipeline")
    assert misfits(answer, "Pipeline") == []
    assert [stage["name"] for stage in answer["stages"]] == ["load", "scale"]
    assert answer["total"] == 2
    assert answer["cells"][0]["outs"][0]["value"]["picture"].startswith("data:image/png;base64,")


@pytest.mark.parametrize(
    ("row", "names"),
    [
        (lambda image: {"image": image, "label": 3}, ["image", "label"]),
        (lambda image: (image, 3), ["[0]", "[1]"]),
        (lambda image: {"x": {"image": image}, "label": 3}, ["x.image", "label"]),
    ],
)
def test_a_picture_inside_what_a_stage_gave_is_drawn(
    base: Path, monkeypatch: pytest.MonkeyPatch, row: Any, names: list[str]
) -> None:
    import clew

    monkeypatch.setenv("CLEW_DIR", str(base))

    @clew.stage("load")
    def load(index: int) -> Any:
        return row(np.full((16, 16, 3), index * 40, np.uint8))

    with clew.run("items") as run, clew.items(1):
        load(0)
    outs = Page(base).of(Path(str(run.path)), "pipeline")["cells"][0]["outs"]
    assert [one["name"] for one in outs] == names
    assert outs[0]["value"]["picture"].startswith("data:image/png;base64,")
    assert "picture" not in outs[1]["value"]


def test_the_check_sees_what_is_missing_too_much_or_of_another_type() -> None:
    good = {"error": "a", "remedy": "b", "slug": "c"}
    assert misfits(good, "Refusal") == []
    assert misfits({**good, "more": 1}, "Refusal") == ["Refusal.more is not declared"]
    assert misfits({"error": "a", "remedy": "b"}, "Refusal") == ["Refusal.slug is missing"]
    assert misfits({**good, "slug": None}, "Refusal") == ["Refusal.slug is None, no string"]


def test_all_interfaces_are_read() -> None:
    assert {"Runs", "Overview", "Curve", "TreeNode", "Graph", "Refusal"} <= set(declared())
    assert declared()["Status"][0] == "union"
    assert json.dumps(declared()["Curve"])
