"""One line for a tensor; torch notices nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from clew.text.values import Look, change_line, value_line


def test_a_tensor_is_one_line() -> None:
    assert value_line(torch.zeros(3, 4)) == "float32 (3, 4)"
    assert value_line(torch.tensor(0.5, requires_grad=True)) == "float32 () 0.5"
    assert value_line(torch.nn.Parameter(torch.zeros(2))) == "float32 (2,)"
    assert value_line([torch.zeros(3, dtype=torch.int64)]) == "list[1] [int64 (3,)]"


def test_a_tensor_elsewhere_says_where() -> None:
    assert value_line(torch.zeros(3, device="meta"), stats=True) == "float32 (3,) on meta"


def test_nan_is_counted_in_every_float_type_and_layout() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        x = torch.zeros(4, 6, dtype=dtype)
        x[1, 2], x[3, 3] = float("nan"), float("-inf")
        name = str(dtype).removeprefix("torch.")
        assert value_line(x) == f"{name} (4, 6) nan 1 inf 1"
        assert value_line(x.t()) == f"{name} (6, 4) nan 1 inf 1"
        assert value_line(x[1, 1:4]) == f"{name} (3,) nan 1"
        assert value_line(x[::2]) == f"{name} (2, 6)"


def test_statistics_come_when_asked_for() -> None:
    assert value_line(torch.tensor([1.0, 3.0]), stats=True) == "float32 (2,) min 1.0 max 3.0 mean 2.0"
    assert value_line(torch.tensor([1, 3]), stats=True) == "int64 (2,) min 1 max 3 mean 2.0"


def test_odd_tensors_still_have_a_line() -> None:
    assert value_line(torch.zeros(3).to_sparse()) == "float32 sparse_coo (3,)"
    assert value_line(torch.zeros(2, dtype=torch.complex64).conj()) == "complex64 (2,)"
    given_back = torch.zeros(100)
    given_back.untyped_storage().resize_(0)
    assert value_line(given_back) == "float32 (100,)"


def test_a_change_between_libraries_is_reported() -> None:
    assert change_line(np.zeros((2, 3), np.uint8), torch.zeros(2, 3)) == "numpy → torch, uint8 → float32"
    assert change_line(torch.zeros(3), torch.zeros(3, device="meta")) == "cpu → meta"
    assert change_line(torch.tensor(0.5), torch.tensor(0.25)) == "float32 () 0.5 → 0.25"


def test_no_operator_runs_and_no_mode_is_asked() -> None:
    seen: list[Any] = []

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    class Dispatches(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    x = torch.ones(3, 4, requires_grad=True)
    y = x * 2
    version = y._version
    with Functions(), Dispatches():
        for value in (x, y, [y]):
            Look(value, stats=True).line()
            Look(value).shape()
            change_line(x, value, stats=True)
    assert seen == []
    assert y._version == version
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[2.0] * 4] * 3


def test_a_subclass_with_code_of_its_own_is_not_asked() -> None:
    class Odd(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AssertionError("user code ran")

    odd = torch.zeros(3).as_subclass(Odd)
    assert "Odd" in value_line(odd, stats=True)
