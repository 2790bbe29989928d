"""NumPy arrays and scalars: bytes, outlines, and what is said of those that are not kept."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from clew.records import Kept, NotKept, Object
from clew.values import Keep, capture, decode, parse_keep, summary_of

STRUCTURED = np.array([(1, 2.5, "ab")], dtype=[("a", "i4"), ("b", "f8"), ("c", "U3")])
ALIGNED = np.zeros(2, np.dtype({"names": ["x", "y"], "formats": ["u1", "<f8"], "offsets": [0, 8], "itemsize": 24}))
NESTED = np.zeros(2, np.dtype([("p", [("x", "f4"), ("y", "f4", (2, 3))]), ("q", "M8[ns]")]))

ARRAYS: list[Any] = [
    np.arange(6, dtype="f4").reshape(2, 3),
    np.arange(6, dtype=">i4"),
    np.arange(12)[::-2],
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1),
    np.array(5),
    np.empty((0, 3)),
    np.array(["2020-01-01", "NaT"], dtype="M8[D]"),
    np.array([1, 2], dtype="m8[ms]"),
    np.array([True, False]),
    np.array([1 + 2j]),
    np.array(["a", "bcd"]),
    np.array([b"a", b"bcd"]),
    np.array([1.5, np.nan, np.inf], dtype="f2"),
    np.array([1.25, 2.5], dtype=np.longdouble),
    STRUCTURED,
    ALIGNED,
    NESTED,
    np.broadcast_to(np.arange(3), (4, 3)),
    np.array([], dtype="U0"),
]

SCALARS: list[Any] = [
    np.float32(1.5), np.float64("nan"), np.int8(-3), np.uint64(2**64 - 1), np.bool_(True), np.complex64(1j),
    np.str_("a\udcffb"), np.bytes_(b"x"), np.datetime64("2020-01-01T00:00", "s"), np.timedelta64(5, "D"),
    np.float16(2), np.longdouble(1) / 3, np.datetime64("NaT", "s"),
]  # fmt: skip


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}"[:40])
def test_an_array_reads_back_with_its_dtype_and_can_be_written_to(array: Any) -> None:
    found = capture(array)
    back = decode(found.value)
    assert type(back) is np.ndarray
    assert back.dtype == array.dtype and back.shape == array.shape
    assert back.tobytes() == array.tobytes()
    assert back.flags.writeable
    assert found.unchanged(array)
    assert found.value.kept is Kept.FULL


@pytest.mark.parametrize("scalar", SCALARS, ids=lambda s: type(s).__name__)
def test_a_numpy_scalar_reads_back_as_itself(scalar: Any) -> None:
    found = capture([scalar])
    back = decode(found.value)[0]
    assert type(back) is type(scalar)
    assert back.dtype == scalar.dtype
    assert repr(back) == repr(scalar)
    assert found.unchanged(found._root)


def test_kinds_of_one_are_all_different() -> None:
    ones = [1, 1.0, True, np.int64(1), np.int32(1), np.float64(1), np.array(1), np.array([1]), np.array(1.0), [1]]
    assert len({capture(v).digest for v in ones}) == len(ones)


def test_the_digest_knows_the_elements_and_not_how_they_lie() -> None:
    array = np.arange(6.0).reshape(2, 3)
    lying = [array, np.asfortranarray(array), np.arange(12.0).reshape(2, 6)[:, ::2] / 2 * 1.0, array.copy()]
    lying[2] = np.repeat(array, 2, axis=1)[:, ::2]
    assert len({capture(a).digest for a in lying}) == 1


@pytest.mark.parametrize(
    "array", [np.zeros((50, 70)), np.asfortranarray(np.zeros((50, 70))), np.zeros((50, 140))[:, ::2]]
)
def test_one_element_in_the_middle_is_a_change(array: Any) -> None:
    found = capture(array)
    array[25, 35] = -0.0
    assert not found.unchanged(array)
    assert capture(array).digest != found.digest


def test_a_new_shape_or_dtype_in_place_is_a_change() -> None:
    array = np.zeros(6)
    found = capture(array)
    array = array.reshape(2, 3)
    assert not found.unchanged(array)
    assert not found.unchanged(np.zeros(6, "i8"))


def test_another_array_with_the_same_bytes_is_unchanged() -> None:
    assert capture(np.arange(5)).unchanged(np.arange(5))
    assert not capture(np.arange(5)).unchanged([0, 1, 2, 3, 4])


def test_a_captured_array_can_still_be_resized_by_its_owner() -> None:
    array = np.arange(4)
    found = capture(array)
    array.resize((2, 2))
    assert not found.unchanged(array)


def test_an_array_inside_containers_is_watched() -> None:
    value = {"a": [np.zeros(3)], "b": (np.ones(2),)}
    found = capture(value)
    assert found.unchanged(value)
    value["a"][0][1] = 5
    assert not found.unchanged(value)
    back = decode(capture(value).value)
    assert back["a"][0].tolist() == [0, 5, 0]


def test_an_array_of_objects_is_a_container() -> None:
    inner = [1]
    array = np.array([inner, "a", None, np.zeros(2)], dtype=object)
    found = capture(array)
    back = decode(found.value)
    assert back.dtype == object and back[0] == [1] and back[3].tolist() == [0, 0]
    assert found.unchanged(array)
    inner.append(2)
    assert not found.unchanged(array)


def test_an_array_that_holds_itself_reads_back() -> None:
    array = np.empty(1, object)
    array[0] = array
    back = decode(capture(array).value)
    assert back[0] is back


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="NumPy 1 has no such strings")
def test_strings_of_any_length_read_back() -> None:
    array = np.array(["a", "b" * 100], dtype=np.dtypes.StringDType())
    back = decode(capture(array).value)
    assert back.dtype == array.dtype and back.tolist() == array.tolist()


def test_a_masked_array_reads_back_with_mask_and_fill() -> None:
    array = np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0], fill_value=-1.0)
    found = capture(array)
    back = decode(found.value)
    assert type(back) is np.ma.MaskedArray
    assert back.mask.tolist() == [False, True, False] and back.fill_value == -1 and back.data.tolist() == [1, 2, 3]
    assert found.unchanged(array)
    array[0] = np.ma.masked
    assert not found.unchanged(array)


def test_a_mask_that_comes_into_being_is_a_change() -> None:
    array = np.ma.array([1.0, 2.0])
    found = capture(array)
    array[1] = np.ma.masked
    assert not found.unchanged(array)


def test_records_and_matrices_come_back_as_such() -> None:
    back = decode(capture(STRUCTURED.view(np.recarray)).value)
    assert type(back) is np.recarray and back.b[0] == 2.5
    assert type(decode(capture(STRUCTURED[0]).value)) is np.void


def test_a_structured_scalar_that_is_written_to_is_a_change() -> None:
    scalar = STRUCTURED.copy()[0]
    found = capture(scalar)
    assert found.unchanged(scalar)
    scalar["a"] = 99
    assert not found.unchanged(scalar)


def test_a_users_subclass_keeps_its_attributes_and_runs_none_of_its_code() -> None:
    ran: list[str] = []

    class Mine(np.ndarray):
        def __array_finalize__(self, obj: Any) -> None:
            ran.append("finalize")

        def __array_ufunc__(self, *args: Any, **kwargs: Any) -> Any:
            ran.append("ufunc")
            raise RuntimeError

        def tobytes(self, *args: Any) -> bytes:
            ran.append("tobytes")
            raise RuntimeError

        def __getitem__(self, key: Any) -> Any:
            ran.append("getitem")
            raise RuntimeError

    value = np.arange(3.0).view(Mine)
    value.unit = "m"  # type: ignore[attr-defined]
    ran.clear()
    found = capture(value)
    back = decode(found.value)
    assert found.unchanged(value)
    assert ran == []
    assert isinstance(back, Object) and back.unit == "m" and back.value.tolist() == [0, 1, 2]
    np.ndarray.__setitem__(value, 0, 9)
    assert not found.unchanged(value)


def test_a_memory_map_reads_back_as_an_array(tmp_path: Path) -> None:
    array = np.memmap(tmp_path / "m", dtype="f4", mode="w+", shape=(10,))
    array[:] = 3
    found = capture(array)
    assert found.value.type == "numpy.memmap"
    assert decode(found.value).tolist() == [3] * 10
    array[5] = 4
    assert not found.unchanged(array)


def test_an_array_over_the_limit_is_summarised_and_says_so() -> None:
    array = np.array([1.0, 2.0, np.nan, np.inf, 3.0])
    found = capture(array, Keep(array_limit=8))
    assert found.value.kept is Kept.SUMMARY and found.value.why == "over 8 bytes" and found.value.parts == []
    s = found.value.summary
    assert (s.shape, s.dtype, s.size, s.min, s.max, s.mean, s.nan, s.inf) == (
        (5,),
        "float64",
        40,
        1.0,
        np.inf,
        2.0,
        1,
        1,
    )
    assert s.std == pytest.approx(np.std([1, 2, 3]))
    back = decode(found.value)
    assert isinstance(back, NotKept) and back.summary.shape == (5,)
    array[1] = 2.5
    assert not found.unchanged(array)


def test_the_budget_is_for_the_value_as_a_whole() -> None:
    found = capture([np.zeros(10), np.ones(10), np.full(10, np.inf)], Keep(array_limit=100))
    assert found.value.kept is Kept.PART and "over 100 bytes" in found.value.why
    first, second, third = decode(found.value).part
    assert first.tolist() == [0] * 10
    assert isinstance(second, NotKept) and second.summary.mean == 1.0
    assert third.summary.max == np.inf


def test_the_reader_computes_the_statistics_of_what_was_kept() -> None:
    array = np.random.default_rng(0).normal(size=(600, 700))
    value = capture(array).value
    assert value.summary.mean is None
    summary = summary_of(value)
    assert summary.mean == pytest.approx(array.mean()) and summary.std == pytest.approx(array.std())
    assert (summary.min, summary.max, summary.nan, summary.inf) == (array.min(), array.max(), 0, 0)
    assert value.summary.mean is None


def test_statistics_at_capture_agree_with_those_of_the_reader() -> None:
    array = np.random.default_rng(0).normal(size=(500, 900)).astype("f4")[::2].T
    now = capture(array, parse_keep("summary")).value.summary
    later = summary_of(capture(array).value)
    assert now.mean == pytest.approx(later.mean) and now.std == pytest.approx(later.std)
    assert (now.min, now.max) == (later.min, later.max)


def test_norm_and_zeros_are_told_at_capture_by_the_reader_and_in_the_body() -> None:
    array = np.array([[3.0, 0.0, np.nan], [-4.0, np.inf, -0.0]])
    for keep in ("full", "summary"):
        found = capture(array, parse_keep(keep)).value
        summary = summary_of(found)
        assert (summary.norm, summary.zeros, summary.nan, summary.inf) == (5.0, 2 / 6, 1, 1)
    back = decode(found)
    assert isinstance(back, NotKept) and (back.summary.norm, back.summary.zeros) == (5.0, 2 / 6)


def test_complex_numbers_have_a_norm_but_no_order() -> None:
    summary = summary_of(capture(np.array([3 + 4j, 0, complex(np.nan, 1), complex(1, np.inf)])).value)
    assert (summary.min, summary.max, summary.mean, summary.std) == (None, None, None, None)
    assert (summary.norm, summary.zeros, summary.nan, summary.inf) == (5.0, 0.25, 1, 1)


def test_things_without_statistics_have_none() -> None:
    for array in (np.array(["a"]), np.array([1j]), STRUCTURED, np.array([], "f4")):
        assert summary_of(capture(array).value).mean is None
        assert capture(array, parse_keep("summary")).value.summary.mean is None


def test_a_large_scattered_array_is_hashed_like_its_copy() -> None:
    array = np.arange(1 << 20).reshape(1024, 1024)[:, ::2]
    assert capture(array).digest == capture(array.copy()).digest == capture(array, parse_keep("summary")).digest


def test_padding_of_long_doubles_does_not_count() -> None:
    raw = np.zeros(2, np.longdouble)
    other = raw.copy()
    if raw.dtype.itemsize == 16:
        other.view("u1")[10:16] = 255
    found = capture(raw)
    assert found.unchanged(other) and capture(other).digest == found.digest


def test_a_dtype_reads_back() -> None:
    assert decode(capture({"d": np.dtype("<f4")}).value) == {"d": np.dtype("<f4")}


arrays = hnp.arrays(
    hnp.scalar_dtypes() | hnp.array_dtypes() | hnp.unicode_string_dtypes(max_len=3),
    hnp.array_shapes(min_dims=0, min_side=0, max_side=4),
)


@settings(max_examples=settings().max_examples * 4 // 5)
@given(arrays)
def test_any_array_reads_back_byte_for_byte(array: Any) -> None:
    found = capture(array)
    back = decode(found.value)
    assert back.dtype == array.dtype and back.shape == array.shape and back.tobytes() == array.tobytes()
    assert found.unchanged(array)
    assert capture(back).digest == found.digest


@given(hnp.arrays(np.uint8, hnp.array_shapes(max_side=6)), st.data())
def test_any_changed_byte_is_noticed(array: Any, data: Any) -> None:
    found = capture(array)
    index = data.draw(st.integers(0, array.size - 1))
    array.flat[index] ^= 1
    assert not found.unchanged(array)
    assert capture(array).digest != found.digest


def test_an_array_of_a_deprecated_class_warns_nobody() -> None:
    """NumPy 2.5 warns whenever `np.char.chararray` is only named."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = np.char.chararray((2,), itemsize=3)
        value[:] = b"abc"
    found = capture([value])
    assert found.unchanged([value]) is False
    back = decode(found.value)[0]
    assert back.type.endswith("chararray") and back.value.tolist() == [b"abc", b"abc"]
    np.asarray(value)[0] = b"x"
    assert capture([value]).digest != found.digest


INNER = np.dtype([("x", "u1"), ("y", "<i4")], align=True)
HOLES: list[tuple[Any, list[int]]] = [  # a dtype, and the bytes of an element that no field has
    (ALIGNED.dtype, [*range(1, 8), *range(16, 24)]),
    (np.dtype([("a", "u1"), ("b", "<f8")], align=True), [*range(1, 8)]),
    (np.dtype([("p", INNER), ("q", "u1", (3,))]), [1, 2, 3]),
    (np.dtype([("s", INNER, (2,))]), [1, 2, 3, 9, 10, 11]),
    (np.dtype({"names": ["a", "b"], "formats": ["<i4", "<i2"], "offsets": [0, 2], "itemsize": 6}), [4, 5]),
]
if np.finfo(np.longdouble).nmant == 63 and np.dtype(np.longdouble).itemsize == 16:
    HOLES.append((np.dtype([("l", np.longdouble)]), [*range(10, 16)]))


@pytest.mark.parametrize(("dtype", "padding"), HOLES, ids=range(len(HOLES)))
@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
def test_a_write_into_padding_is_no_change(dtype: Any, padding: list[int], shape: tuple[int, ...]) -> None:
    value = np.zeros(shape, dtype)
    held = [value]
    found, around = capture(value), capture(held)
    value.reshape(-1).view("u1").reshape(-1, dtype.itemsize)[:, padding] = 255
    assert found.unchanged(value) and around.unchanged(held)
    assert capture(value).digest == found.digest
    assert capture(value, parse_keep("summary")).digest == found.digest


@pytest.mark.parametrize(("dtype", "padding"), HOLES, ids=range(len(HOLES)))
def test_a_write_into_a_field_beside_padding_is_a_change(dtype: Any, padding: list[int]) -> None:
    for place in set(range(dtype.itemsize)) - set(padding):
        value = np.zeros(2, dtype)
        found = capture(value)
        value.reshape(-1).view("u1")[dtype.itemsize + place] = 1
        assert not found.unchanged(value)
        assert capture(value).digest != found.digest


def test_every_byte_of_a_long_double_of_the_other_byte_order_counts() -> None:
    dtype = np.dtype(np.longdouble).newbyteorder()
    value = np.zeros(1, dtype)
    found = capture(value)
    value.view("u1")[-1] = 1
    assert not found.unchanged(value)


def test_a_write_into_the_padding_of_a_structured_scalar_is_no_change() -> None:
    array = np.zeros(2, ALIGNED.dtype)
    value = array[0]
    found = capture(value)
    array.view("u1")[3] = 9
    assert found.unchanged(value)
    array["x"][0] = 1
    assert not found.unchanged(value)
