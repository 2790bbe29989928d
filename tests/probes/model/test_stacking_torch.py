"""Many tensors, or numbers, as one tensor."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from clew.errors import OptionError
from clew.probes.model.stacking import pad_tensors, stack_tensors


def test_tensors_of_one_shape_are_stacked_along_a_new_first_axis() -> None:
    values = [torch.arange(6.0).reshape(2, 3) + i for i in range(4)]
    stacked = stack_tensors(values)
    assert stacked.shape == (4, 2, 3)
    assert all(torch.equal(stacked[i], value) for i, value in enumerate(values))


def test_numbers_are_stacked() -> None:
    assert stack_tensors([1, 2, 3]).tolist() == [1, 2, 3]
    assert stack_tensors([0.5, 1.5]).tolist() == [0.5, 1.5]
    assert stack_tensors([True, False]).dtype is torch.bool


def test_numbers_and_tensors_without_axes_are_stacked_together() -> None:
    assert stack_tensors([torch.tensor(1.5), 2, 3.5]).tolist() == [1.5, 2.0, 3.5]


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.bfloat16, torch.complex64, torch.float8_e4m3fn])
@pytest.mark.parametrize("together", [stack_tensors, pad_tensors])
def test_the_dtype_stays(together: Any, dtype: torch.dtype) -> None:
    assert together([torch.ones(2).to(dtype), torch.zeros(2).to(dtype)]).dtype is dtype


@pytest.mark.parametrize("together", [stack_tensors, pad_tensors])
def test_different_dtypes_become_the_one_that_holds_both(together: Any) -> None:
    assert together([torch.ones(2), torch.ones(2, dtype=torch.float64)]).dtype is torch.float64


@pytest.mark.parametrize("together", [stack_tensors, pad_tensors])
def test_what_is_stacked_shares_no_memory_with_the_values(together: Any) -> None:
    value = torch.zeros(2)
    stacked = together([value])
    value += 1
    assert stacked.tolist() == [[0.0, 0.0]]


def test_different_shapes_are_not_stacked_and_the_error_names_them_and_padding() -> None:
    with pytest.raises(OptionError, match=r"\(2,\), \(3,\).*[Pp]ad") as caught:
        stack_tensors([torch.ones(2), torch.ones(3)])
    assert caught.value.slug == "stack-shapes"


def test_ragged_tensors_are_padded_to_the_largest_size_along_each_axis() -> None:
    padded = pad_tensors([torch.ones(1, 3), torch.full((2, 1), 2.0)])
    assert padded.tolist() == [[[1, 1, 1], [0, 0, 0]], [[2, 0, 0], [2, 0, 0]]]


def test_padding_is_what_was_asked_for() -> None:
    padded = pad_tensors([torch.ones(1), torch.ones(2)], fill=-1)
    assert padded.tolist() == [[1, -1], [1, 1]]
    assert pad_tensors([torch.ones(1), torch.ones(2)], float("nan")).isnan().tolist() == [[False, True], [False, False]]


@pytest.mark.parametrize(("dtype", "fill"), [(torch.int64, float("nan")), (torch.int64, 0.5), (torch.bool, -1)])
def test_padding_that_the_values_cannot_hold_is_refused(dtype: torch.dtype, fill: float) -> None:
    with pytest.raises(OptionError, match="fill="):
        pad_tensors([torch.ones(1, dtype=dtype), torch.ones(2, dtype=dtype)], fill)


def test_an_empty_tensor_is_all_padding() -> None:
    assert pad_tensors([torch.ones(0), torch.ones(2)]).tolist() == [[0, 0], [1, 1]]
    assert pad_tensors([torch.ones(0), torch.ones(0)]).shape == (2, 0)


def test_numbers_need_no_padding() -> None:
    assert pad_tensors([1, 2]).tolist() == [1, 2]


def test_different_numbers_of_axes_cannot_be_padded() -> None:
    with pytest.raises(OptionError, match=r"\(2,\), \(2, 2\).*axes") as caught:
        pad_tensors([torch.ones(2), torch.ones(2, 2)])
    assert caught.value.slug == "stack-shapes"


@pytest.mark.parametrize("together", [stack_tensors, pad_tensors])
def test_nothing_cannot_be_stacked(together: Any) -> None:
    with pytest.raises(OptionError, match="nothing"):
        together([])


@pytest.mark.parametrize("together", [stack_tensors, pad_tensors])
@pytest.mark.parametrize("wrong", ["text", None, [1.0]])
def test_only_tensors_and_numbers_can_be_stacked(together: Any, wrong: Any) -> None:
    with pytest.raises(OptionError, match=type(wrong).__name__):
        together([torch.tensor(1.0), wrong])
