"""One name's values over a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from clew.errors import MissingLibraryError
from clew.history.change import Changes
from clew.records import Kind, Summary

if TYPE_CHECKING:
    import pandas as pd

    from clew.history.call import Call
    from clew.history.lazy import Rows
    from clew.history.table import Table
    from clew.history.view import View


_NUMPY_SCALARS = frozenset(f"numpy.{kind.__name__}" for kind in np.sctypeDict.values())
_DTYPES: dict[tuple[Kind, ...], Any] = {(Kind.FLOAT,): np.float64, (Kind.INT,): np.int64, (Kind.BOOL,): np.bool_}


class Series(Sequence[Any]):
    """The values of one name, in order of time. Indexing and iteration give values; a slice is a Series."""

    def __init__(self, view: View, name: str, rows: Rows) -> None:
        self._view = view
        self._rows = rows
        self.name = name

    @property
    def values(self) -> list[Any]:
        """Every value, read back; `clew.DELETED` after `del`."""
        return self._view.table.values(self._rows)

    @property
    def lines(self) -> list[int]:
        return self._view.table.lines(self._rows)

    @property
    def steps(self) -> list[Any]:
        """The step of each change; without steps 0, 1, 2, ... over the run."""
        return self._view.steps.at(self._rows)

    @property
    def times(self) -> npt.NDArray[np.float64]:
        """Seconds since the run began."""
        return self._view.table.times(self._rows)

    @property
    def calls(self) -> list[Call | None]:
        """The call each change happened in."""
        return [self._view.call_of_row(row) for row in self._rows.tolist()]

    @property
    def changes(self) -> Changes:
        return Changes(self._view, self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Series: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return Series(self._view, self.name, self._rows[index])
        return self._view.table.value(int(self._rows[index]))

    def __iter__(self) -> Iterator[Any]:
        for begin in range(0, len(self._rows), 4096):
            yield from self._view.table.values(self._rows[begin : begin + 4096])

    def numbers(self) -> npt.NDArray[np.float64]:
        """Every value as a float, NaN for what is no plain number: at the speed of the column, for pictures."""
        return self._view.table.numbers(self._rows)[0]

    def points(self, limit: int = 2000) -> tuple[npt.NDArray[np.float64], bool]:
        """Numbers to draw, in order, and whether they are all there are.

        Plain numbers are all there; of arrays that hold a single number, which must be read back, at most `limit`.
        """
        table = self._view.table
        numbers, plain = table.numbers(self._rows)
        others = np.flatnonzero(~plain)
        if len(others) == 0:
            return numbers, True
        chosen = others if len(others) <= limit else others[np.linspace(0, len(others) - 1, limit).astype(np.int64)]
        for place in chosen.tolist():
            found = single_number(table, int(self._rows[place]))
            if found is not None:
                numbers[place], plain[place] = found, True
        return numbers[plain], len(chosen) == len(others) or not plain[chosen].any()

    @property
    def places(self) -> list[tuple[str, str, int]]:
        """(function, file, line) of every place where it changed, the busiest first."""
        return self._view.table.places(self._rows)

    def kinds(self) -> list[Kind]:
        """How the values are kept: which of records.Kind there are."""
        return [Kind(kind) for kind in np.unique(self._view.table.gather("kind", self._rows)).tolist()]

    def without_deletions(self) -> Series:
        """The changes that gave it a value."""
        kinds = self._view.table.gather("kind", self._rows)
        return Series(self._view, self.name, self._rows[kinds != Kind.DELETED])

    def to_numpy(self) -> npt.NDArray[Any]:
        """One array: numbers as they are, arrays of one shape and dtype stacked, anything else as objects.

        Deletions are left out, so it can be shorter than the series.
        """
        kept = self.without_deletions()
        rows = kept._rows
        dtype = _DTYPES.get(tuple(kept.kinds()))
        if dtype is not None:
            return self._view.table.gather("number", rows).astype(dtype)
        numbers, plain = self._view.table.numbers(rows)
        return numbers if bool(plain.all()) else stack(self._view.table.values(rows))

    def to_pandas(self) -> pd.Series[Any]:
        """A pandas Series indexed by step. Deletions are left out, as in `to_numpy`."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingLibraryError("missing-library", "to_pandas() needs pandas.", "pip install pandas") from error
        kept = self.without_deletions()
        values = kept.to_numpy()
        index = pd.Index(kept.steps, name="step")
        return pd.Series(values if values.ndim == 1 else list(values), index=index, name=self.name)

    def plot(self, ax: Any = None) -> Any:
        """Draw it with matplotlib, value over step; gives the axes."""
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            remedy = "pip install matplotlib"
            raise MissingLibraryError("missing-library", "plot() needs matplotlib.", remedy) from error
        axes = plt.subplots()[1] if ax is None else ax
        axes.plot(self.steps, as_numbers(self), label=self.name)
        axes.set_xlabel("step")
        axes.set_ylabel(self.name)
        return axes

    def summaries(self) -> list[Summary]:
        """Shape, dtype, extremes, mean and so on of each value, whether or not its bytes were kept."""
        from clew.history.summary import summary_of_row

        return [summary_of_row(self._view.table, row) for row in self._rows.tolist()]

    def __repr__(self) -> str:
        from clew.show.text import series_line

        return series_line(self)

    def _repr_html_(self) -> str:
        from clew.show.notebook import series_html

        return series_html(self)


def stack(values: list[Any]) -> npt.NDArray[Any]:
    """Values as one array: stacked if they are arrays of one shape and dtype, else one object each."""
    arrays = [as_array(value) for value in values]
    first = arrays[0] if arrays else None
    if first is not None and all(a is not None and (a.shape, a.dtype) == (first.shape, first.dtype) for a in arrays):
        return np.stack([a for a in arrays if a is not None])
    out = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):  # one by one: NumPy would take lists of equal length for rows
        out[place] = value
    return out


def as_array(value: Any) -> npt.NDArray[Any] | None:
    """A NumPy array or scalar, or a dense torch tensor NumPy has a dtype for, as an array; None for the rest."""
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
        try:
            tensor = value.detach().cpu()
            wide = tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor
            return np.asarray(wide.resolve_conj().resolve_neg().numpy())
        except (TypeError, RuntimeError):
            return None
    return None


def as_numbers(series: Series) -> npt.NDArray[np.float64]:
    """Each value as a float where it is a number or holds a single one, else NaN."""
    numbers, plain = series._view.table.numbers(series._rows)
    for place in np.flatnonzero(~plain).tolist():
        found = single_number(series._view.table, int(series._rows[place]))
        numbers[place] = np.nan if found is None else found
    return numbers


def single_number(table: Table, row: int) -> float | None:
    """The number in an array of one element, such as a loss that is still a tensor; None for anything else."""
    shard, local = table.place(row)
    if table.column(shard, "kind")[local] != Kind.VALUE:
        return None
    stored = table.stored(np.array([row], dtype=np.int64))[0]
    shape = () if stored.type in _NUMPY_SCALARS else stored.summary.shape
    if shape is None or math.prod(shape) != 1:
        return None
    array = as_array(table.value(row))
    return float(array.reshape(())[()]) if array is not None and array.dtype.kind in "fiub" else None
