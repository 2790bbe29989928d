"""The values of one name over a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from clew.errors import MissingLibraryError
from clew.reading.change import Changes
from clew.records import Kind, Summary

if TYPE_CHECKING:
    import pandas as pd

    from clew.reading.call import Call
    from clew.reading.lazy import Rows
    from clew.reading.view import View


_DTYPES: dict[tuple[Kind, ...], Any] = {(Kind.FLOAT,): np.float64, (Kind.INT,): np.int64, (Kind.BOOL,): np.bool_}


@dataclass(frozen=True, slots=True)
class ArrayStatistics:
    """Statistics of the arrays in a series."""

    norms: npt.NDArray[np.float64]  # L2, in order
    low: float | None  # the smallest and largest finite number
    high: float | None
    complete: bool  # whether all arrays were examined


class Series(Sequence[Any]):
    """The values of one name, in order of time. Indexing and iteration give values; a slice is a Series."""

    def __init__(self, view: View, name: str, rows: Rows) -> None:
        self._view = view
        self._rows = rows
        self.name = name

    @property
    def values(self) -> list[Any]:
        """All values, read back; `clew.DELETED` after `del`."""
        return self._view.table.values(self._rows)

    @property
    def lines(self) -> list[int]:
        return self._view.table.lines(self._rows)

    @property
    def steps(self) -> list[Any]:
        """The step of each change, None before the first; in functions without steps 0, 1, 2, ... over the run."""
        return self._view.steps.at(self._rows)

    @property
    def times(self) -> npt.NDArray[np.float64]:
        """Seconds since the run began."""
        return self._view.table.times(self._rows)

    @property
    def times_error(self) -> npt.NDArray[np.float64]:
        """The maximum error of each of `times` in seconds; 0 where the clock was read at the change itself."""
        return self._view.table.times_error(self._rows)

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
        """Every value as a float, NaN for other values; reads only the column, so it is fast."""
        return self._view.table.numbers(self._rows)[0]

    def points(self) -> npt.NDArray[np.float64]:
        """The numbers to draw, in order: plain numbers and arrays of one element."""
        table = self._view.table
        numbers, plain = table.numbers(self._rows)
        not_plain = np.flatnonzero(~plain)
        if len(not_plain) == 0:
            return numbers
        numbers[not_plain], plain[not_plain] = table.single_numbers(self._rows[not_plain])
        return numbers[plain]

    def array_statistics(self, limit: int = 2000) -> ArrayStatistics | None:
        """Norms and extremes of at most `limit` of its arrays; None if it has none.

        Read from the stored summaries, or else from the bytes, without loading the library of the arrays.
        """
        from clew.values import summary_of

        rows = self._rows[self._view.table.gather("kind", self._rows) == Kind.VALUE]
        sampled_rows = rows if len(rows) <= limit else rows[np.linspace(0, len(rows) - 1, limit).astype(np.int64)]
        summaries = [summary_of(value) for value in self._view.table.stored(sampled_rows)]
        arrays = [summary for summary in summaries if summary.norm is not None]
        if not arrays:
            return None
        return ArrayStatistics(
            norms=np.array([summary.norm for summary in arrays], np.float64),
            low=min((summary.min for summary in arrays if summary.min is not None), default=None),
            high=max((summary.max for summary in arrays if summary.max is not None), default=None),
            complete=len(sampled_rows) == len(rows),
        )

    @property
    def places(self) -> list[tuple[str, str, int]]:
        """(function, file, line) of every place where the name changed, the busiest first."""
        return self._view.table.places(self._rows)

    def kinds(self) -> list[Kind]:
        """The kinds of records (`records.Kind`) among the values."""
        return [Kind(kind) for kind in np.unique(self._view.table.gather("kind", self._rows)).tolist()]

    def without_deletions(self) -> Series:
        """The series without its deletions."""
        kinds = self._view.table.gather("kind", self._rows)
        return Series(self._view, self.name, self._rows[kinds != Kind.DELETED])

    def to_numpy(self) -> npt.NDArray[Any]:
        """One array: plain numbers, stacked arrays of one shape and dtype, or objects.

        Deletions are left out, so it can be shorter than the series.
        """
        series = self.without_deletions()
        rows = series._rows
        dtype = _DTYPES.get(tuple(series.kinds()))
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
        series = self.without_deletions()
        values = series.to_numpy()
        index = pd.Index(series.steps, name="step")
        return pd.Series(values if values.ndim == 1 else list(values), index=index, name=self.name)

    def plot(self, ax: Any = None) -> Any:
        """Draw value over step with matplotlib; returns the axes."""
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
        """Shape, dtype, extremes, mean etc. of each value, whether or not its bytes were kept."""
        from clew.reading.summary import summary_of_row

        return [summary_of_row(self._view.table, row) for row in self._rows.tolist()]

    def __repr__(self) -> str:
        from clew.text.brief import series_line

        return series_line(self)

    def _repr_html_(self) -> str:
        from clew.show.notebook import series_html

        return series_html(self)


def stack(values: list[Any]) -> npt.NDArray[Any]:
    """The values as one array: stacked if they are arrays of one shape and dtype, else as objects."""
    arrays = [as_array(value) for value in values]
    first = arrays[0] if arrays else None
    if first is not None and all(a is not None and (a.shape, a.dtype) == (first.shape, first.dtype) for a in arrays):
        return np.stack([a for a in arrays if a is not None])
    out = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):  # one by one, because NumPy would read lists of equal length as rows
        out[place] = value
    return out


def as_array(value: Any) -> npt.NDArray[Any] | None:
    """NumPy arrays and scalars, and dense torch tensors with a NumPy dtype, as an array; None for other values."""
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
    """Each value as a float if it is a number or holds a single one, else NaN."""
    table, rows = series._view.table, series._rows
    numbers, plain = table.numbers(rows)
    not_plain = np.flatnonzero(~plain)
    numbers[not_plain] = table.single_numbers(rows[not_plain])[0]
    return numbers
