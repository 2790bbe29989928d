"""Rows of tensors, as torch's own collate makes them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import default_collate

from clew.reading.rows import is_by_row, library_of, row_of, shape_of


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_rows_of_what_default_collate_gives_are_the_samples(count: int) -> None:
    samples = [(torch.full((3, 8, 8), float(id)), {"label": id, "name": f"item {id}"}) for id in range(count)]
    batch = default_collate(samples)
    for row, (image, about) in enumerate(samples):
        rows = row_of(batch, row, count)
        assert torch.equal(rows[0], image)
        assert rows[1] == {"label": torch.tensor(about["label"]), "name": about["name"]}


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_rows_of_what_collate_is_given_are_the_samples(count: int) -> None:
    samples = [torch.full((3, 8, 8), float(id)) for id in range(count)]
    assert all(row_of(samples, row, count) is samples[row] for row in range(count))


def test_a_row_of_a_tensor_that_requires_grad_is_a_row() -> None:
    scores = torch.randn(3, 2, requires_grad=True)
    row = row_of(scores, 1, 3)
    assert torch.equal(row, scores[1]) and row.grad_fn is None


def test_a_loss_of_the_whole_batch_has_no_rows() -> None:
    loss = torch.tensor(0.5)
    assert row_of(loss, 0, 1) is loss and shape_of(loss) == ()
    assert not is_by_row(loss, 1)


def test_the_code_of_a_users_tensor_does_not_run() -> None:
    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AssertionError("asked")

    with torch._C.DisableTorchFunction():
        value = torch.zeros(3, 2).as_subclass(Loud)
    assert library_of(value) == "" and row_of(value, 1, 3) is value
