"""Tensors of torch on the page."""

from __future__ import annotations

from pathlib import Path

import torch

from page.asking import Page
from page.contract import misfits
from reading.writing import simple_run


def test_a_loss_that_is_still_a_tensor_is_a_curve(base: Path) -> None:
    halved = torch.tensor(3.5, dtype=torch.bfloat16)
    losses = [torch.tensor(1.5), torch.tensor([2.5]), halved, torch.tensor(float("nan"))]
    folder = simple_run(base, {"loss": losses}).path
    page = Page(base)
    assert page.of(folder)["names"][0]["kind"] == "number"
    curve = page.of(folder, "series", name="loss")
    assert curve["y"] == [1.5, 2.5, 3.5, None]
    assert [mark["what"] for mark in curve["marks"]] == ["nan"]


def test_tensors_of_every_kind_have_statistics_histograms_and_slices(base: Path) -> None:
    whole = torch.arange(6).reshape(2, 3)
    tensors = [whole.float(), whole.bfloat16(), whole.half(), whole, whole.bool(), whole.to(torch.complex64)]
    folder = simple_run(base, {"x": tensors}).path
    page = Page(base)
    answer = page.of(folder, "tensors", name="x")
    assert misfits(answer, "TensorCurve") == []
    assert answer["max"][:4] == [5.0] * 4
    assert misfits(page.of(folder, "histogram", name="x"), "Histogram") == []
    for index in range(len(tensors)):
        cut = page.of(folder, "slice", name="x", index=index)
        assert misfits(cut, "Slice") == []
        assert cut["data"] == ([0, 1, 1, 1, 1, 1] if index == 4 else [0, 1, 2, 3, 4, 5])


def test_empty_tensors_are_no_error(base: Path) -> None:
    folder = simple_run(base, {"x": [torch.zeros(0, 3), torch.zeros(2, 0)]}).path
    page = Page(base)
    assert page.of(folder, "tensors", name="x")["mean"] == [None, None]
    assert page.of(folder, "slice", name="x", index=0)["data"] == []
    assert page.of(folder, "point", name="x", index=1)["value"]["shape"] == [2, 0]
