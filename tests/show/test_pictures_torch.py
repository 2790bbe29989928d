"""Tensors are drawn like arrays, and do not notice."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from clew.show.pictures import picture

IMAGE = torch.linspace(-2, 2, 3 * 8 * 12).reshape(3, 8, 12)


class Counting(TorchDispatchMode):
    """Counts the operators that run."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "value",
    [
        IMAGE.clone().requires_grad_(),
        IMAGE.requires_grad_(False).permute(1, 2, 0).contiguous().permute(2, 0, 1),
        torch.nn.Parameter(IMAGE.clone()),
        IMAGE.flip(1).flip(1)[:, :, :],
        IMAGE.double(),
    ],
    ids=["with a gradient", "not contiguous", "a parameter", "a view", "double"],
)
def test_a_tensor_is_drawn_like_the_array_of_its_numbers(value: Any) -> None:
    assert picture(value) == picture(IMAGE.numpy())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_halves_are_drawn_like_the_floats_they_stand_for(dtype: torch.dtype) -> None:
    value = IMAGE.to(dtype)
    assert picture(value) == picture(value.float())


def test_a_part_of_a_bfloat16_batch_is_drawn() -> None:
    batch = torch.rand(4, 3, 300, 16 * 16, dtype=torch.bfloat16)[1:3]
    assert (picture(batch) or "").count("<img") == 2


def test_masks_and_sounds_are_drawn() -> None:
    mask = torch.zeros(2, 16, 16, dtype=torch.int64)
    mask[:, 4:8] = 1
    assert (picture(mask) or "").count("<img") == 2
    assert "16,000 samples" in (picture(torch.zeros(1, 16000)) or "")


def test_no_operator_runs() -> None:
    with Counting() as counting:
        assert picture(IMAGE) is not None
        assert picture(torch.nn.Parameter(IMAGE)) is not None
        counting.count = 0
        picture(IMAGE)
    assert counting.count == 0


@pytest.mark.parametrize(
    "value",
    [
        IMAGE.to_sparse(),
        torch.zeros(3, 8, 8, device="meta"),
        torch.zeros(3, 8, 8).to(torch.float8_e4m3fn),
        torch.zeros(8, 8, dtype=torch.complex64).conj(),
        torch.zeros(0, 8, 8),
    ],
    ids=["sparse", "meta", "float8", "conjugate", "empty"],
)
def test_what_cannot_be_read_as_it_lies_is_not_drawn(value: Any) -> None:
    assert picture(value) is None
