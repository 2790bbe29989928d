"""Statistics of tensors: those that `stats.describe` gives, without a trace in torch."""

from __future__ import annotations

import math
import warnings
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from xxhash import xxh3_128_digest

from clew.records import Summary
from clew.values import LIGHT, capture, parse_keep, summary_of
from clew.values.array_stats import describe
from clew.values.dtypes import numbers_from
from clew.values.tensor_stats import _BLOCK, _ROW, _fill_from_device, summarise
from clew.values.tensor_stats import described as described_from_pieces

NAN, INF = math.nan, math.inf
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]
WHOLE = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool, torch.uint16, torch.uint32]
COMPLEX = [torch.complex64, torch.complex128, torch.complex32]


def described(tensor: torch.Tensor) -> Summary:
    """By the reference, from a copy of the bytes."""
    plain = tensor.detach().resolve_neg().resolve_conj().clone(memory_format=torch.contiguous_format).reshape(-1)
    name = str(tensor.dtype)[6:]
    summary = Summary(tuple(tensor.shape), name, "cpu", size=tensor.nbytes)
    pieces = [numbers_from(plain.view(torch.uint8).numpy().tobytes(), name)] if plain.numel() else []
    with np.errstate(all="ignore"):
        describe(pieces, summary)
    return summary


def on_device(tensor: torch.Tensor) -> Summary:
    """By the way of tensors on other devices."""
    summary = Summary(tuple(tensor.shape), str(tensor.dtype)[6:], "cpu", size=tensor.nbytes)
    _fill_from_device(tensor, summary)
    return summary


def agree(found: Summary, expected: Summary, rel: float = 2e-5) -> None:
    got, wanted = asdict(found), asdict(expected)
    known = [abs(x) for x in (expected.min, expected.max) if x is not None and math.isfinite(x)]
    peak = max([*known, expected.std or 0.0, abs(expected.mean or 0.0)], default=0.0)
    for name in ("mean", "std", "norm"):
        one, other = got.pop(name), wanted.pop(name)
        assert (one is None) == (other is None), name
        assert one is None or one == pytest.approx(other, rel=rel, abs=rel * peak), name
    assert got == wanted


def cast(numbers: Any, dtype: torch.dtype) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.as_tensor(numbers).to(dtype)


numbers = st.one_of(st.sampled_from([0.0, -0.0, 1.0, NAN, INF, -INF]), st.floats(-1e3, 1e3, width=32))
shapes = st.lists(st.integers(0, 4), max_size=3)


@st.composite
def tensors(draw: Any, dtypes: list[torch.dtype]) -> torch.Tensor:
    """Small ones, of any layout."""
    shape = draw(shapes)
    dtype = draw(st.sampled_from(dtypes))
    items = st.integers(0, 1) if dtype is torch.bool else st.integers(0, 100) if dtype in WHOLE else numbers
    flat = draw(st.lists(items, min_size=math.prod(shape), max_size=math.prod(shape)))
    tensor = cast(torch.tensor(flat, dtype=torch.float64 if dtype not in WHOLE else torch.int64), dtype).reshape(shape)
    how = draw(st.sampled_from(["plain", "turned", "part", "expanded"]))
    if how == "turned":
        return tensor.permute(draw(st.permutations(range(tensor.dim()))))
    if how == "part" and tensor.dim():
        return tensor[..., ::2]
    return tensor.expand(3, *tensor.shape) if how == "expanded" else tensor


@settings(max_examples=300, deadline=None)
@given(tensors([*FLOATS, *FLOAT8, *WHOLE, *COMPLEX]))
def test_any_tensor_is_summarised_as_described(tensor: torch.Tensor) -> None:
    agree(summarise(tensor), described(tensor))


@settings(max_examples=100, deadline=None)
@given(tensors([*FLOATS, *FLOAT8, *WHOLE, *COMPLEX[:2]]).filter(lambda tensor: tensor.numel() > 0))
def test_a_tensor_elsewhere_is_summarised_as_described(tensor: torch.Tensor) -> None:
    agree(on_device(tensor), described(tensor))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([1, 100, _ROW - 1, _ROW, _ROW + 1, 3 * _ROW + 5, _BLOCK, _BLOCK + 1, 2 * _BLOCK + _ROW + 9]),
    st.sampled_from([0.0, 1.0, -50.0, 1e4]),
    st.floats(1e-9, 1e9),
    st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
)
def test_large_tensors_are_summarised_as_described(
    seed: int, count: int, mean: float, scale: float, dtype: torch.dtype
) -> None:
    drawn = np.random.default_rng(seed).normal(mean, 1, count) * scale
    drawn[drawn < (mean - 1) * scale] = 0
    tensor = cast(drawn, dtype)
    agree(summarise(tensor), described(tensor))


@pytest.mark.parametrize("lost", [NAN, INF, -INF])
@pytest.mark.parametrize("place", [0, _BLOCK - 1, _BLOCK + 7])
def test_one_broken_number_in_a_large_tensor_is_found(lost: float, place: int) -> None:
    tensor = torch.from_numpy(np.random.default_rng(0).normal(size=2 * _BLOCK)).float()
    tensor[place] = lost
    found = summarise(tensor)
    agree(found, described(tensor))
    assert found.nan == int(math.isnan(lost)) and found.inf == int(math.isinf(lost))


def test_the_spread_around_a_large_mean_is_right() -> None:
    drawn = np.random.default_rng(0).normal(1e6, 1, 200_000).astype("f4")
    for found in (summarise(torch.from_numpy(drawn)), on_device(torch.from_numpy(drawn))):
        assert found.std == pytest.approx(drawn.astype("f8").std(), rel=1e-6)
        assert found.mean == pytest.approx(drawn.astype("f8").mean(), rel=1e-12)
        assert found.norm == pytest.approx(np.linalg.norm(drawn.astype("f8")), rel=1e-12)


def test_equal_numbers_have_no_spread() -> None:
    found = summarise(torch.full((100_003,), 0.1))
    assert (found.mean, found.std) == (found.min, 0.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sums_of_half_floats_do_not_overflow(dtype: torch.dtype) -> None:
    found = summarise(torch.tensor([60000.0, 30000.0], dtype=dtype).repeat(50_000))
    assert found.mean == pytest.approx(45000, rel=0.01) and found.std == pytest.approx(15000, rel=0.02)
    assert found.norm is not None and math.isfinite(found.norm)


@pytest.mark.parametrize("size", [1e-40, 1e-25, 1e18, 1e38])
def test_numbers_whose_squares_no_float32_holds_are_summarised(size: float) -> None:
    tensor = torch.tensor([1.0, 2.0, -3.0, 0.0]) * size
    found = summarise(tensor)
    agree(found, described(tensor))
    assert found.norm == pytest.approx(math.sqrt(14) * size, rel=1e-3)


def test_the_norm_of_numbers_whose_squares_no_float_holds_is_known() -> None:
    assert summarise(torch.tensor([3e200, -4e200], dtype=torch.float64)).norm == pytest.approx(5e200)
    assert summarise(torch.tensor([3e-200, 4e-200], dtype=torch.float64)).norm == pytest.approx(5e-200)


def test_large_integers_are_rounded_not_wrapped() -> None:
    found = summarise(torch.tensor([2**62, 1, -(2**63)]))
    assert (found.min, found.max) == (-(2.0**63), 2.0**62)
    assert found.norm == pytest.approx(math.hypot(2**62, 2**63))


def test_complex_numbers_have_a_norm_but_no_order() -> None:
    found = summarise(torch.tensor([3 + 4j, 0, complex(NAN, 1), complex(1, INF)]).conj())
    assert (found.min, found.max, found.mean, found.std) == (None, None, None, None)
    assert (found.norm, found.zeros, found.nan, found.inf) == (5.0, 0.25, 1, 1)


def test_an_empty_tensor_has_nothing_but_its_outline() -> None:
    assert summarise(torch.empty(0, 3)) == Summary((0, 3), "float32", "cpu", size=0, nan=0, inf=0)


def test_a_tensor_without_dimensions_is_one_number() -> None:
    expected = Summary((), "float32", "cpu", None, 4, -2.5, -2.5, -2.5, 0.0, 0, 0, 2.5, 0.0)
    assert summarise(torch.tensor(-2.5)) == expected


def test_a_negated_view_is_summarised_as_it_means() -> None:
    found = summarise(torch._neg_view(torch.tensor([1.0, 2.0])))
    assert (found.min, found.max, found.mean) == (-2, -1, -1.5)


def test_a_large_expanded_tensor_is_not_laid_out() -> None:
    found = summarise(torch.tensor([[1.0], [NAN], [3.0]]).expand(3, 1 << 40))
    assert (found.nan, found.mean, found.norm) == (1 << 40, 2, pytest.approx(math.sqrt(10) * (1 << 20)))


@pytest.mark.filterwarnings("ignore")  # torch says that quantised tensors go away
def test_what_has_no_plain_numbers_shows_its_outline() -> None:
    quantised = torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 2, torch.quint8)
    for tensor in (torch.ones(2, 3, device="meta"), torch.ones(2, 3).to_sparse(), quantised):
        assert summarise(tensor) == Summary((2, 3), str(tensor.dtype)[6:], str(tensor.device))


@pytest.mark.filterwarnings("ignore")  # torch says that they may change
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_a_nested_tensor_has_no_shape(layout: torch.layout) -> None:
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)
    assert summarise(nested) == Summary(None, "float32", "cpu")


def test_a_storage_given_back_is_not_read() -> None:
    tensor = torch.ones(100)
    tensor.untyped_storage().resize_(0)
    assert summarise(tensor) == Summary((100,), "float32", "cpu", size=400)


def test_tensors_inside_functorch_show_their_outline() -> None:
    seen: list[Summary] = []

    def inside(x: torch.Tensor) -> torch.Tensor:
        seen.append(summarise(x))
        return x.sum()

    torch.vmap(inside)(torch.ones(2, 3))
    assert seen[0].dtype == "float32" and seen[0].shape == (3,)


def test_a_subclass_with_its_own_dispatch_runs_none_of_its_code() -> None:
    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls: Any, inner: torch.Tensor) -> Any:
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape)

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AssertionError("user code ran")

    assert summarise(Wrapper(torch.zeros(2))) == Summary((2,), "float32", "cpu")


def test_no_mode_and_no_subclass_sees_a_summary_being_made() -> None:
    seen: list[Any] = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    class Functions(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    class Mine(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    plain = [torch.zeros(4), torch.ones(4, 4).t(), torch._neg_view(torch.ones(2)), torch.ones(3).expand(2, 3)]
    values = [*plain, torch.ones(2).as_subclass(Mine), torch.nn.Parameter(torch.ones(2))]
    seen.clear()
    with Mode(), Functions():
        found = [summarise(value) for value in values]
    assert seen == [] and all(one.norm is not None for one in found)


@pytest.mark.parametrize("take", [summarise, lambda x: capture(x, parse_keep("summary"))], ids=["summary", "capture"])
def test_gradients_random_state_and_versions_stay_as_they_are(take: Any) -> None:
    def gradients(look: bool) -> list[Any]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(), torch.nn.Linear(8, 2))
        out = torch.randn(4, 8)
        for layer in model:
            out = layer(out)
            if look:
                state, version, step = torch.get_rng_state(), out._version, out.grad_fn
                take(out)
                take(out.t())
                assert out._version == version and out.grad_fn is step
                assert torch.equal(torch.get_rng_state(), state)
        out.square().sum().backward()
        if look:
            for parameter in model.parameters():
                take(parameter), take(parameter.grad)
        return [parameter.grad.tolist() for parameter in model.parameters() if parameter.grad is not None]

    assert gradients(look=True) == gradients(look=False)


def test_strict_floating_point_errors_of_the_program_do_not_reach_into_summaries() -> None:
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for tensor in (torch.tensor([1e-30, 1.0]), torch.tensor([NAN, INF]), torch.tensor([3e38, -3e38, 1e-45])):
            assert summarise(tensor).zeros == 0


def test_a_capture_without_bytes_has_the_same_statistics_and_digest() -> None:
    for tensor in (torch.randn(300, 400), torch.randn(300, 400).t(), torch.randn(300, 400).bfloat16()):
        found = capture(tensor, parse_keep("summary")).value
        assert found.summary == summarise(tensor)
        assert found.digest == capture(tensor).digest
        light = capture(tensor, replace(LIGHT, stats=True)).value
        assert light.summary == found.summary


def test_bytes_brought_from_elsewhere_are_hashed_and_described_in_one_pass() -> None:
    elsewhere = SimpleNamespace(is_cpu=False, dtype=torch.float32)
    raw = np.array([3, 0, NAN, -4], "f4").tobytes()
    summary = Summary((4,), "float32", "cuda:0")
    assert described_from_pieces(elsewhere, iter([raw[:8], raw[8:]]), summary) == xxh3_128_digest(raw)
    assert (summary.norm, summary.zeros, summary.nan, summary.min) == (5.0, 0.25, 1, -4)


def test_a_reader_fills_in_norm_and_zeros_of_what_was_kept() -> None:
    tensor = torch.tensor([3.0, 0.0, -4.0, 0.0])
    found = summary_of(capture(tensor).value)
    assert (found.norm, found.zeros) == (5.0, 0.5)
    agree(found, summarise(tensor))
