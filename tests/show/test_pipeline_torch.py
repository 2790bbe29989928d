"""Tensors in a trace: the same words as arrays, and their device."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

from clew.show.pipeline import text
from clew.show.pipeline_values import value_rows
from show.pipelines import passage, trace_of


def line_of(value: Any, devices: dict[str, str] | None = None) -> str:
    return value_rows("x", value, 0, devices or {})[0].line.text


def hash_of(value: Any) -> str:
    hashes = re.search(r"hash ([0-9a-f]{8})\b", line_of(value))
    assert hashes is not None
    return hashes[1]


def test_a_tensor_shows_its_device() -> None:
    assert re.fullmatch(r"x: Tensor float32 \(2, 3\)  0.0…0.0  hash [0-9a-f]{8}  cpu", line_of(torch.zeros(2, 3)))


def test_the_device_it_was_on_is_reported_not_the_one_it_was_read_back_to() -> None:
    assert line_of(torch.zeros(2, 3), {"x": "cuda:0"}).endswith("  cuda:0")


def test_the_device_of_a_tensor_inside_is_reported() -> None:
    devices = {"batch[0]": "cuda:0", "batch[1]['mask']": "cuda:1"}
    value = [torch.zeros(9), {"mask": torch.zeros(9)}]
    lines = text(trace_of(passage(outputs={"batch": value}, devices=devices))).splitlines()
    assert lines[-3].endswith("cuda:0") and lines[-1].endswith("cuda:1")


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "uint8", "bool", "complex64"])
def test_a_tensor_and_an_array_of_the_same_content_have_the_same_hash(dtype: str) -> None:
    array = np.arange(24).reshape(4, 6).astype(dtype)
    assert hash_of(torch.from_numpy(array)) == hash_of(array)
    assert hash_of(torch.from_numpy(array).t().contiguous().t()) == hash_of(array)


def test_bfloat16_and_float8_have_a_hash_of_their_own() -> None:
    value = torch.linspace(-1, 1, 24)
    hashes = {hash_of(value), hash_of(value.bfloat16()), hash_of(value.half()), hash_of(value.to(torch.float8_e4m3fn))}
    assert len(hashes) == 4


def test_few_numbers_are_shown_themselves() -> None:
    assert "[1.5, 0.25]" in line_of(torch.tensor([1.5, 0.25], requires_grad=True))
    assert "[1.5, 0.25]" in line_of(torch.tensor([1.5, 0.25], dtype=torch.bfloat16))


@pytest.mark.parametrize(
    "value", [torch.zeros(3, 3).to_sparse(), torch.zeros(3, 3, device="meta"), torch.zeros(0, 3)], ids=str
)
def test_a_tensor_whose_numbers_cannot_be_read_is_shown_without_them(value: Any) -> None:
    assert "(3, 3)" in line_of(value) or "(0, 3)" in line_of(value)
