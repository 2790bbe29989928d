"""torch tensors: exact, without leaving a trace in torch."""

from __future__ import annotations

import gc
import sys
import warnings
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from clew.records import Kept, NotKept, Object
from clew.values import Keep, capture, decode, parse_keep, summary_of

DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128, torch.complex32,
    torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool, torch.uint16, torch.uint32,
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
]  # fmt: skip


def raw(tensor: torch.Tensor) -> bytes:
    return tensor.detach().contiguous().view(torch.uint8).numpy().tobytes() if tensor.dim() else raw(tensor.reshape(1))


def some(dtype: torch.dtype) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.tensor([[0.0, 1.0, 2.0], [3.0, 1.5, 1.0]]).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_tensor_of_any_dtype_reads_back(dtype: torch.dtype) -> None:
    tensor = some(dtype)
    found = capture(tensor)
    back = decode(found.value)
    assert type(back) is torch.Tensor and back.dtype is dtype and back.shape == tensor.shape
    assert raw(back) == raw(tensor)
    assert found.unchanged(tensor) and found.value.kept is Kept.FULL


@pytest.mark.parametrize("dtype", [d for d in DTYPES if not d.is_complex], ids=str)
def test_without_torch_the_values_come_back_as_numpy(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = some(dtype)
    value = capture(tensor).value
    adapter = sys.modules["clew.values.torch"]
    monkeypatch.setattr(adapter, "torch", None)
    back = decode(value)
    assert type(back) is np.ndarray and back.shape == (2, 3)
    expected = tensor.to(torch.float64) if dtype.is_floating_point else tensor
    assert back.tolist() == expected.tolist()


def test_all_float8_codes_read_as_torch_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from clew.values.dtypes import numbers_from

    codes = torch.arange(256, dtype=torch.uint8)
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"):
        expected = codes.view(getattr(torch, name)).float().numpy()
        np.testing.assert_array_equal(numbers_from(codes.numpy().tobytes(), name), expected)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(12.0).reshape(3, 4).t(),
        torch.arange(12.0)[::3],
        torch.tensor([1 + 2j]).conj(),
        torch._neg_view(torch.tensor([1.0, 2.0])),
        torch.arange(12.0)[4:8],
        torch.tensor(1.5),
        torch.empty(0, 3),
        torch.zeros(3).expand(2, 3),
    ],
    ids=["transposed", "strided", "conj", "neg", "view", "0-d", "empty", "expanded"],
)
def test_a_tensor_lying_in_any_way_reads_back_and_is_watched(tensor: torch.Tensor) -> None:
    found = capture(tensor)
    assert torch.equal(decode(found.value), tensor.resolve_conj().resolve_neg())
    assert found.unchanged(tensor)
    assert found.digest == capture(tensor.clone(memory_format=torch.contiguous_format)).digest


def test_any_change_in_place_is_noticed() -> None:
    tensor = torch.zeros(1000)
    found = capture(tensor)
    tensor[500] = -0.0
    assert not found.unchanged(tensor)
    assert capture(tensor).digest != found.digest


def test_changes_that_do_not_move_the_version_are_noticed_in_small_tensors() -> None:
    shared = np.zeros(4, "f4")
    tensor = torch.from_numpy(shared)
    found = capture(tensor)
    shared[1] = 5
    assert not found.unchanged(tensor)
    other = torch.zeros(4)
    found = capture(other)
    other.data[0] = 1
    assert not found.unchanged(other)


def test_a_large_tensor_is_judged_by_version_and_place() -> None:
    tensor = torch.zeros(1 << 20)
    found = capture(tensor)
    assert found.unchanged(tensor)
    tensor.add_(0)
    assert not found.unchanged(tensor)
    assert capture(tensor).digest == found.digest


def test_data_exchanged_under_a_tensor_is_noticed() -> None:
    tensor = torch.zeros(2, 3)
    found = capture(tensor)
    tensor.data = tensor.data.view(3, 2)
    assert not found.unchanged(tensor)
    tensor = torch.zeros(1 << 18)
    found = capture(tensor)
    tensor.data = torch.ones(1 << 18)
    assert not found.unchanged(tensor)


def test_requires_grad_is_part_of_the_value() -> None:
    tensor = torch.zeros(2)
    found = capture(tensor)
    tensor.requires_grad_()
    assert not found.unchanged(tensor)
    assert capture(tensor).digest != found.digest
    assert decode(capture(tensor).value).requires_grad


def test_a_parameter_reads_back_as_a_tensor_that_requires_grad() -> None:
    found = capture(torch.nn.Parameter(torch.ones(2)))
    assert found.value.type == "torch.nn.Parameter"
    back = decode(found.value)
    assert type(back) is torch.Tensor and back.requires_grad


def test_a_captured_tensor_is_not_kept_alive() -> None:
    tensor = torch.zeros(1 << 18)
    ref = weakref.ref(tensor)
    found = capture(tensor)
    del tensor
    gc.collect()
    assert ref() is None
    assert not found.unchanged(torch.zeros(1 << 18))


def test_inference_tensors_have_no_version_and_are_always_hashed() -> None:
    with torch.inference_mode():
        tensor = torch.zeros(1 << 17)
        found = capture(tensor)
        assert found.unchanged(tensor)
        tensor[70_000] = 1
        assert not found.unchanged(tensor)


def test_looking_leaves_no_trace() -> None:
    weight = torch.ones(3, requires_grad=True)
    middle = (weight * 2).t()
    view = middle[::2]
    state = torch.get_rng_state()
    versions = [t._version for t in (weight, middle, view)]
    for tensor in (weight, middle, view):
        capture(tensor).unchanged(tensor)
    assert [t._version for t in (weight, middle, view)] == versions
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.is_grad_enabled()
    middle.sum().backward()
    assert weight.grad is not None and weight.grad.tolist() == [2, 2, 2]


def test_modes_of_the_user_see_nothing() -> None:
    seen: list[Any] = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    class Functions(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    tensors = [torch.zeros(4), torch.zeros(4, 4).t(), torch.tensor([1j]).conj(), torch.eye(2).to_sparse()]
    with Mode(), Functions():
        for tensor in tensors:
            found = capture(tensor)
            assert found.unchanged(tensor)
            capture(tensor, parse_keep("summary"))
    assert seen == []


def test_a_subclass_runs_none_of_its_code_and_keeps_its_attributes() -> None:
    ran: list[Any] = []

    class Mine(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            ran.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    value = torch.arange(3.0).as_subclass(Mine)
    value.unit = "m"  # type: ignore[attr-defined]
    ran.clear()
    found = capture(value)
    assert found.unchanged(value)
    back = decode(found.value)
    assert ran == []
    assert isinstance(back, Object) and back.unit == "m" and back.value.tolist() == [0, 1, 2]
    value[0] = 9
    assert not found.unchanged(value)


def test_a_subclass_with_its_own_dispatch_is_left_alone() -> None:
    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls: Any, inner: torch.Tensor) -> Any:
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape)

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AssertionError("user code ran")

    value = Wrapper(torch.zeros(2))
    found = capture(value)
    assert found.value.kept is Kept.OPAQUE and found.unchanged(value)


def test_sparse_tensors_say_what_they_are_and_are_hashed() -> None:
    dense = torch.eye(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        csr = dense.to_sparse_csr()
    for tensor, words in ((dense.to_sparse(), "coo"), (csr, "csr")):
        found = capture(tensor)
        assert found.value.kept is Kept.SUMMARY and words in found.value.why and "3 values of 9" in found.value.why
        assert found.value.summary.shape == (3, 3)
        assert found.digest == capture(tensor).digest
    other = torch.eye(3)
    other[0, 0] = 2
    assert capture(dense.to_sparse()).digest != capture(other.to_sparse()).digest


def test_quantised_tensors_say_scale_and_zero_point() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensor = torch.quantize_per_tensor(torch.ones(3), 0.1, 2, torch.qint8)
        other = torch.quantize_per_tensor(torch.zeros(3), 0.1, 2, torch.qint8)
    found = capture(tensor)
    assert found.value.kept is Kept.SUMMARY and "scale 0.1, zero point 2" in found.value.why
    assert found.digest != capture(other).digest


def test_a_meta_tensor_has_no_data_and_says_so() -> None:
    tensor = torch.zeros(3, device="meta")
    found = capture(tensor)
    assert found.value.kept is Kept.SUMMARY and "no data" in found.value.why
    assert isinstance(decode(found.value), NotKept) and found.unchanged(tensor)


def test_a_tensor_whose_storage_was_given_back_is_not_read() -> None:
    tensor = torch.zeros(100)
    tensor.untyped_storage().resize_(0)
    found = capture(tensor)
    assert found.value.kept is Kept.SUMMARY and "cannot be read" in found.value.why


def test_a_storage_given_back_after_the_capture_is_noticed_and_not_read() -> None:
    tensor = torch.zeros(100)
    found = capture(tensor)
    tensor.untyped_storage().resize_(0)
    assert not found.unchanged(tensor)


def test_tensors_inside_functorch_are_summarised() -> None:
    seen: list[Any] = []

    def inside(x: torch.Tensor) -> torch.Tensor:
        seen.append(capture(x).value)
        return x * 2

    torch.func.vmap(inside)(torch.zeros(3, 2))
    assert seen[0].kept is Kept.SUMMARY and seen[0].summary.dtype == "float32"


def test_a_tensor_over_the_limit_is_summarised() -> None:
    tensor = torch.tensor([1.0, 2.0, float("nan"), 3.0], dtype=torch.bfloat16)
    found = capture(tensor, Keep(array_limit=2))
    s = found.value.summary
    assert found.value.kept is Kept.SUMMARY
    assert (s.shape, s.dtype, s.device, s.size, s.min, s.max, s.mean, s.nan) == ((4,), "bfloat16", "cpu", 8, 1, 3, 2, 1)
    assert found.digest == capture(tensor).digest


def test_a_large_scattered_tensor_is_summarised_piece_by_piece() -> None:
    tensor = torch.arange(1 << 20, dtype=torch.float32).reshape(1024, 1024).t()
    found = capture(tensor, parse_keep("summary"))
    assert found.digest == capture(tensor).digest
    assert found.value.summary.max == (1 << 20) - 1


def test_the_reader_computes_statistics_of_bfloat16() -> None:
    summary = summary_of(capture(torch.tensor([1.0, 2.0, 3.0], dtype=torch.bfloat16)).value)
    assert (summary.min, summary.max, summary.mean) == (1, 3, 2)


def test_modules_and_optimizers_are_opaque_and_say_how_large_they_are() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 5))
    found = capture(model)
    assert found.value.kept is Kept.OPAQUE and "4 parameters of 41 numbers" in found.value.why
    assert found.unchanged(model) and not found.unchanged(torch.nn.Linear(1, 1))
    assert capture(torch.optim.SGD(model.parameters(), 0.1)).value.kept is Kept.OPAQUE


def test_a_state_dict_reads_back() -> None:
    state = torch.nn.Linear(3, 2).state_dict()
    back = decode(capture(dict(state)).value)
    assert torch.equal(back["weight"], state["weight"])


def test_sizes_dtypes_and_devices_read_back() -> None:
    value = [torch.Size([2, 3]), torch.float16, torch.device("cpu")]
    back = decode(capture(value).value)
    assert back == value and type(back[0]) is torch.Size


def test_a_tensor_in_a_container_is_watched() -> None:
    value = {"w": [torch.zeros(3)]}
    found = capture(value)
    assert found.unchanged(value)
    value["w"][0][0] = 1
    assert not found.unchanged(value)


def test_tensors_and_arrays_with_the_same_bytes_differ() -> None:
    assert capture(torch.zeros(3)).digest != capture(np.zeros(3, "f4")).digest


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(1.5),
        torch.randn(3, 4, requires_grad=True),
        torch.nn.Parameter(torch.ones(2)),
        torch.arange(6).view(2, 3)[1],
        torch.randn(4).bfloat16(),
        torch.randn(4, 4).t(),
        torch.zeros(0),
        torch.randn(2, dtype=torch.complex64).conj(),
    ],
    ids=["0-d", "requires grad", "parameter", "a view", "bfloat16", "turned", "empty", "conjugate"],
)
def test_a_tensor_by_itself_is_captured_as_by_the_walk(tensor: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    capture(tensor)  # so that its type is known
    quick = capture(tensor)
    monkeypatch.setattr(sys.modules["clew.values.capture"], "alone_of", lambda key: None)
    walked = capture(tensor)
    assert repr(quick.value) == repr(walked.value)
    assert quick.value.part_digests == walked.value.part_digests
    assert quick.unchanged(tensor)
