"""A sequence that creates its items on access."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]
T = TypeVar("T")


class LazySequence(Sequence[T], Generic[T]):
    """Row numbers that become objects one by one. Slices are cheap; `==` also accepts lists and tuples."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def _make(self, row: int) -> T:
        raise NotImplementedError

    def _part(self, rows: Rows) -> LazySequence[T]:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> LazySequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | LazySequence[T]:
        if isinstance(index, slice):
            return self._part(self._rows[index])
        return self._make(int(self._rows[index]))

    def __iter__(self) -> Iterator[T]:
        return map(self._make, self._rows.tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (LazySequence, list, tuple)):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Sequence[Any]) -> list[Any]:
        return [*self, *other]

    def __repr__(self) -> str:
        first_items = ", ".join(map(repr, self[:3]))
        more = f", ... {len(self) - 3:,} more" if len(self) > 3 else ""
        return f"[{first_items}{more}]"
