"""Finds the leaves of a value: its arrays, tables, numbers and texts, each with its path, type and statistics.

Only exact known types are opened, so no user code runs. Statistics are computed on demand, in one pass.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from clew.reading.rows import contents_of, library_of, unwrapped
from clew.records import NotKept, Summary
from clew.text.brief import brief, printable, shorten
from clew.text.values import type_name

_DEEPEST: Final = 8
_MOST: Final = 256  # leaves per value
_OPENED: Final = 10_000  # containers opened per value: one container may occur in many places
_COLUMNS: Final = 64  # of a table
_NUMBERS: Final = (int, float, bool)
_TROUBLE: Final = (AttributeError, RuntimeError, TypeError, ValueError, NotImplementedError, MemoryError)
_ASIDE: Final = (
    *("mask", "pad", "weight", "length", "size", "pos", "index", "idx", "ids", "type", "label", "target"),
    *("segment", "time", "batch", "edge", "anchor", "hidden", "state", "cache"),
)


class Leaf:
    """One array, table, number or text in a value, with its path: `["image"]`, `[0]`, `.x`."""

    __slots__ = ("_summary", "dtype", "is_column", "library", "path", "shape", "value")

    def __init__(self, path: str, value: Any, *, is_column: bool = False) -> None:
        self.path = path
        self.value = value
        self.is_column = is_column  # a column of a table; the table itself is another leaf
        self.library = library_of(value)
        self.shape, self.dtype = _outline(value, self.library)
        self._summary: Summary | None = None

    @property
    def summary(self) -> Summary:
        """The statistics; those that cannot be computed are None."""
        if self._summary is None:
            try:
                self._summary = _summary_of(self)
            except _TROUBLE:
                self._summary = Summary()
        return self._summary

    @property
    def is_array(self) -> bool:
        return self.shape is not None and self.library in ("torch", "numpy")

    @property
    def is_float(self) -> bool:
        return self.dtype.startswith(("float", "bfloat"))

    @property
    def is_integer(self) -> bool:
        return self.dtype.startswith(("int", "uint"))

    @property
    def size(self) -> int:
        count = 1
        for length in self.shape or ():
            count *= length
        return count

    @property
    def broken(self) -> int:
        """How many of the numbers are NaN or Inf."""
        return (self.summary.nan or 0) + (self.summary.inf or 0)

    @property
    def is_aside(self) -> bool:
        """Whether the name says that it accompanies the data: a mask, lengths, positions."""
        return any(name_part in self.path.lower() for name_part in _ASIDE)

    @property
    def is_image(self) -> bool:
        """Whether it has the shape of a batch of images or videos."""
        return channels_axis(self.shape) is not None

    def array(self) -> Any:
        """The leaf as a NumPy array; None if its numbers are not available."""
        if type(self.value) is NotKept:
            return None
        try:
            return _as_array(self.value, self.library)
        except _TROUBLE:
            return None

    def type_text(self) -> str:
        """`float32 (3, 32, 32)`."""
        return self.dtype if not self.shape else f"{self.dtype} {self.shape}"

    def range_text(self) -> str:
        return range_text(self.summary.min, self.summary.max)


def range_text(low: float | None, high: float | None) -> str:
    """`0…255`; an empty text if the range is not known."""
    if low is None or high is None:
        return ""
    return figure(low) if low == high else f"{figure(low)}…{figure(high)}"


def figure(value: float) -> str:
    """A number for a sentence: three significant digits, whole numbers in full."""
    if abs(value) < 1e9 and (value == int(value) or abs(value) >= 1000):
        return str(round(value))
    return f"{value:.3g}"


def channels_axis(shape: tuple[int, ...] | None) -> int | None:
    """The channel axis of a batch of images (4 axes) or videos (5 axes), guessed from the shape: 1, 2 or the last."""
    if shape is None or len(shape) not in (4, 5):
        return None
    last = len(shape) - 1
    if min(shape[-2:]) >= 8:
        return next((axis for axis in range(1, last - 1) if shape[axis] in (1, 3, 4)), None)
    return last if shape[last] in (1, 3, 4) and min(shape[last - 2 : last]) >= 8 else None


def leaves_of(value: Any, path: str = "") -> list[Leaf]:
    """The leaves of a value in order, at most `_MOST`."""
    return list(islice(_walk(value, path, 0, iter(range(_OPENED))), _MOST))


def _walk(value: Any, path: str, depth: int, openings: Iterator[int]) -> Iterator[Leaf]:
    value = unwrapped(value)
    contents = None if depth >= _DEEPEST or _is_numbers(value) else contents_of(value)
    if contents is not None and next(openings, None) is None:
        return
    if contents is None:
        yield Leaf(path, value)
        if library_of(value) == "pandas" and type(value) is not NotKept and value.ndim == 2:
            yield from _columns(value, path)
        return
    for step, item in contents:
        yield from _walk(item, path + step_text(step), depth + 1, openings)


def _columns(table: Any, path: str) -> Iterator[Leaf]:
    for place, name in enumerate(table.columns[:_COLUMNS]):
        yield Leaf(path + step_text(("[", name)), table.iloc[:, place], is_column=True)


def step_text(step: tuple[str, Any]) -> str:
    """`["image"]`, `[0]`, `.x`."""
    how, key = step
    if how == ".":
        return f".{shorten(printable(key), 40)}"
    return f'["{shorten(printable(key), 40)}"]' if type(key) is str else f"[{brief(key, 40)}]"


def _is_numbers(value: Any) -> bool:
    """Whether it is a list of many plain numbers, which counts as one array."""
    return type(value) is list and len(value) > 4 and set(map(type, value)) <= set(_NUMBERS)


def _outline(value: Any, library: str) -> tuple[tuple[int, ...] | None, str]:
    if type(value) is NotKept and value.summary.shape is not None:
        return tuple(value.summary.shape), printable(value.summary.dtype or "?").removeprefix("torch.")
    if library == "torch":
        torch: Any = sys.modules["torch"]
        with torch._C.DisableTorchFunction():
            return tuple(value.shape), str(value.dtype).removeprefix("torch.")
    if library == "numpy":
        return tuple(map(int, value.shape)), str(value.dtype)
    if library == "pandas":
        return tuple(map(int, value.shape)), "DataFrame" if value.ndim == 2 else printable(value.dtype)
    if type(value) is list:
        return (len(value),), "list of numbers"
    return (() if type(value) in _NUMBERS else None), printable(type_name(value))


def _summary_of(leaf: Leaf) -> Summary:
    value = leaf.value
    if type(value) is NotKept:
        return value.summary
    if leaf.library == "torch":
        from clew.values.tensor_stats import summarise

        return summarise(value)
    array = leaf.array()
    summary = Summary() if array is None else _summary_of_array(array)
    if leaf.library == "pandas" and value.ndim == 1:
        summary.nan = int(value.isna().sum())  # counts missing texts and nullable integers, too
    return summary


def _summary_of_array(array: Any) -> Summary:
    import numpy as np

    from clew.values.array_stats import can_describe, describe, pieces_of

    summary = Summary()
    if can_describe(array.dtype):
        with np.errstate(all="ignore"):
            describe(pieces_of(array.reshape(-1)), summary)
    return summary


def _as_array(value: Any, library: str) -> Any:
    import numpy as np

    if library == "torch":
        return _array_of_tensor(value)
    if library == "numpy":
        return np.asarray(value)
    if library == "pandas":
        return _array_of_column(value)
    if type(value) in _NUMBERS or _is_numbers(value):
        array = np.array(value)
        return array if array.dtype.kind in "biuf" else None  # an integer beyond 64 bits becomes an object
    return None


def _array_of_tensor(tensor: Any) -> Any:
    torch: Any = sys.modules["torch"]
    with torch._C.DisableTorchFunction(), torch.no_grad():
        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_meta:
            return None
        plain = tensor.detach().cpu().resolve_conj().resolve_neg()
        if plain.is_floating_point() and plain.dtype not in (torch.float16, torch.float32, torch.float64):
            plain = plain.float()
        return plain.numpy()


def _array_of_column(column: Any) -> Any:
    """A column of numbers as an array; None for other columns, and for tables, whose columns are leaves themselves."""
    if column.ndim != 1 or column.dtype.kind not in "biuf":
        return None
    return column.dropna().to_numpy()
