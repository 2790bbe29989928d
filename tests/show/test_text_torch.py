"""Tensors as a short line."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from clew.text.brief import brief


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.tensor(1.5), "1.5 (float32)"),
        (torch.zeros(2, 2), "float32[2, 2] [[0.0, 0.0], [0.0, 0.0]]"),
        (torch.zeros(100, dtype=torch.bfloat16), "bfloat16[100]"),
        (torch.nn.Parameter(torch.ones(2)), "float32[2] [1.0, 1.0]"),
        (torch.zeros(2, device="meta"), "float32[2] on meta"),
        (torch.eye(3).to_sparse(), "float32[3, 3] on cpu"),
    ],
)
def test_a_tensor_in_short(value: Any, text: str) -> None:
    assert brief(value) == text


def test_a_tensor_of_a_users_class_is_not_asked() -> None:
    class Mine(torch.Tensor):
        @classmethod
        def __torch_function__(cls, *args: Any, **kwargs: Any) -> Any:
            raise AssertionError("user code was run")

    value = torch.zeros(2).as_subclass(Mine)
    assert brief(value, 200).endswith("Mine>")
