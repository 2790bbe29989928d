"""`matx.array` and `matx.NDArray`: arrays under the names Matx has, with NumPy beneath."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any


class NDArray:
    """An array whose `shape()`, `dtype()` and `device()` are methods, as in Matx. Its numbers are in main memory."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, arr: Any, shape: Sequence[int], dtype: str, device: str = "cpu") -> None:
        """`arr` in the shape given; without a shape, in its own; one number fills the shape, none leave zeros."""
        import numpy

        shape = [int(size) for size in shape]
        values: Any = numpy.asarray(arr, dtype=dtype)
        if shape and (not values.size or not values.ndim):
            self._data: Any = numpy.full(shape, values if values.size else 0, dtype)
        else:
            self._data = values.reshape(shape or values.shape)

    def __reduce__(self) -> tuple[Callable[..., NDArray], tuple[Any, ...]]:
        return from_numpy, (self._data,)

    # ---- what it is

    def shape(self) -> list[int]:
        return list(self._data.shape)

    def dtype(self) -> str:
        return str(self._data.dtype)

    def dim(self) -> int:
        return int(self._data.ndim)

    def device(self) -> str:
        return "cpu"

    def stride(self) -> list[int]:
        """The steps of each dimension, in items."""
        return [step // self._data.itemsize for step in self._data.strides]

    def is_contiguous(self) -> int:
        return int(self._data.flags.c_contiguous)

    def __len__(self) -> int:
        return len(self._data) if self._data.ndim else 0

    def __repr__(self) -> str:
        return f"<matx.NDArray shape={self._data.shape}, cpu>\n{self._data!r}"

    # ---- the same in other forms

    def tolist(self) -> Any:
        return self._data.tolist()

    to_list = tolist

    def asnumpy(self) -> Any:
        return self._data.copy()

    numpy = asnumpy

    def torch(self, copy: bool = True) -> Any:
        import torch

        return torch.from_numpy(self._data.copy() if copy else self._data)

    def to_dlpack(self) -> Any:
        return self._data.__dlpack__()

    def as_type(self, dtype: str) -> NDArray:
        return _of(self._data.astype(dtype))

    def same_as(self, other: object) -> bool:
        return self is other

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        import numpy

        return numpy.array(self._data, dtype=dtype) if copy else numpy.asarray(self._data, dtype=dtype)

    def from_numpy(self, source_array: Any) -> NDArray:
        """Take over the numbers of an array of the same shape."""
        if source_array.shape != self._data.shape:
            raise ValueError(f"An array of shape {source_array.shape} does not fit into {self._data.shape}.")
        self._data[...] = source_array
        return self

    def contiguous(self) -> NDArray:
        import numpy

        return from_numpy(numpy.ascontiguousarray(self._data))

    def reshape(self, newshape: Sequence[int]) -> NDArray:
        return _of(self._data.reshape(tuple(newshape)))

    def squeeze(self, axis: Sequence[int] = ()) -> NDArray:
        return _of(self._data.squeeze(tuple(axis) or None))

    def unsqueeze(self, dim: int) -> NDArray:
        import numpy

        return _of(numpy.expand_dims(self._data, dim))

    def transpose(self, axes: Sequence[int] | None = None) -> NDArray:
        return _of(self._data.transpose(axes))

    # ---- items

    def __getitem__(self, index: Any) -> Any:
        found = self._data[index]
        return _of(found) if getattr(found, "ndim", 0) else found.item()

    def __setitem__(self, index: Any, item: Any) -> None:
        self._data[index] = item


def _of(data: Any) -> NDArray:
    """A view of an array."""
    made = NDArray.__new__(NDArray)
    made._data = data
    return made


def from_numpy(arr: Any, device: str = "cpu") -> NDArray:
    return _of(arr.copy())


def from_dlpack(dltensor: Any) -> NDArray:
    import numpy

    return _of(numpy.from_dlpack(dltensor))


def rand(shape: Sequence[int]) -> NDArray:
    """Random numbers from 0 to 1, as float32."""
    import numpy

    return _of(numpy.random.rand(*shape).astype("float32"))


def concatenate(seq: Sequence[NDArray], axes: int = 0) -> NDArray:
    import numpy

    return _of(numpy.concatenate(list(map(numpy.asarray, seq)), axes))


def stack(seq: Sequence[NDArray], axes: int = 0) -> NDArray:
    import numpy

    return _of(numpy.stack(list(map(numpy.asarray, seq)), axes))


def add(lhs: Any, rhs: Any) -> NDArray:
    return _calculated(operator.add, lhs, rhs)


def sub(lhs: Any, rhs: Any) -> NDArray:
    return _calculated(operator.sub, lhs, rhs)


def mul(lhs: Any, rhs: Any) -> NDArray:
    return _calculated(operator.mul, lhs, rhs)


def div(lhs: Any, rhs: Any) -> NDArray:
    return _calculated(operator.truediv, lhs, rhs)


def _calculated(operation: Callable[[Any, Any], Any], lhs: Any, rhs: Any) -> NDArray:
    """As in Matx, only arrays of float64 give float64."""
    sides = [side._data if isinstance(side, NDArray) else side for side in (lhs, rhs)]
    result = operation(*sides)
    is_double = any(getattr(side, "dtype", None) == "float64" for side in sides)
    return _of(result if is_double or result.dtype != "float64" else result.astype("float32"))


__all__ = ["NDArray", "add", "concatenate", "div", "from_dlpack", "from_numpy", "mul", "rand", "stack", "sub"]
