"""Columns of a shard as numpy arrays: one piece for each batch, joined only when a whole column is needed."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from clew.records import Kind
from clew.store.arrow_arrays import numbers, valid_mask, view
from clew.store.format import NO_ID, NO_STEP

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Array = npt.NDArray[Any]
FEW: Final = 8  # up to so many comparisons are faster than one look-up in a set


class Piece(Protocol):
    """The rows of one batch, or some of them."""

    def __len__(self) -> int: ...
    def column(self, name: str) -> Array: ...
    def is_valid(self, name: str) -> Array:
        """By row: whether it has a value in this column."""
        ...

    def pick(self, name: str, rows: Array) -> Array: ...
    def outline(self, name: str) -> Array:
        """A few numbers with the same first, last, smallest and largest number; they ascend if the column does."""
        ...


class StructPiece:
    """All rows of one batch: numbers straight from the file's memory."""

    __slots__ = ("_columns", "_struct")

    def __init__(self, struct: pa.StructArray) -> None:
        self._struct = struct
        self._columns: dict[str, Array] = {}

    def __len__(self) -> int:
        return len(self._struct)

    def column(self, name: str) -> Array:
        if name not in self._columns:
            self._columns[name] = self._read_column(name)
        return self._columns[name]

    def _read_column(self, name: str) -> Array:
        if self._struct.type.get_field_index(name) >= 0:
            return to_numpy(self._struct.field(name))
        missing = None if _EMPTY_DTYPES.get(name) is object else NO_STEP  # an older file lacks the field
        return np.full(len(self), missing, _EMPTY_DTYPES.get(name, np.int64))

    def replace(self, name: str, column: Array) -> None:
        """Use this column from now on."""
        self._columns[name] = column

    def is_valid(self, name: str) -> Array:
        if self._struct.type.get_field_index(name) < 0:
            return np.zeros(len(self), bool)
        return np.asarray(valid_mask(self._struct.field(name)))

    def pick(self, name: str, rows: Array) -> Array:
        """Some cells of a column; of a column of texts, only these are decoded."""
        if name in self._columns or self._struct.type.get_field_index(name) < 0:
            return self.column(name).take(rows)
        field = self._struct.field(name)
        is_text = pa.types.is_string(field.type)
        return to_numpy(field.take(numbers(rows, pa.int64()))) if is_text else self.column(name).take(rows)

    def outline(self, name: str) -> Array:
        return self.column(name)


class SpannedPiece:
    """The changes of one batch. The columns that its spans define are expanded to rows when they are needed."""

    __slots__ = ("_columns", "_rows", "_spans")

    def __init__(self, changes: StructPiece, spans: StructPiece) -> None:
        self._rows = changes
        self._spans = spans
        self._columns: dict[str, Array] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def column(self, name: str) -> Array:
        expand = _FROM_SPANS.get(name)
        if expand is None:
            return self._rows.column(name)
        if name not in self._columns:
            self._columns[name] = expand(self._rows, self._spans)
        return self._columns[name]

    def is_valid(self, name: str) -> Array:
        return np.ones(len(self), bool) if name in _FROM_SPANS else self._rows.is_valid(name)

    def pick(self, name: str, rows: Array) -> Array:
        expand = _FROM_SPANS.get(name)
        if expand is None:
            return self._rows.pick(name, rows)
        if name in self._columns or bool((rows[1:] < rows[:-1]).any()):
            return self.column(name).take(rows)
        return expand(self._rows, self._spans, rows)

    def outline(self, name: str) -> Array:
        outline = _OUTLINES_FROM_SPANS.get(name)
        return self.column(name) if outline is None else outline(self._spans)

    def counts(self) -> Array:
        """The number of rows of each call of the outline."""
        counts = self._spans.column("changes")
        return counts[counts > 0]


def _span_counts(spans: StructPiece, rows: Array | None) -> Array:
    """How many of `rows`, which ascend, each span has; of all rows if None."""
    counts = spans.column("changes")
    return counts if rows is None else np.diff(np.searchsorted(rows, np.cumsum(counts)), prepend=0)


def _call_column(changes: StructPiece, spans: StructPiece, rows: Array | None = None) -> Array:
    return np.repeat(spans.column("call"), _span_counts(spans, rows))


def _call_outline(spans: StructPiece) -> Array:
    return spans.column("call")[spans.column("changes") > 0]


def _time_column(changes: StructPiece, spans: StructPiece, rows: Array | None = None) -> Array:
    counts = spans.column("changes")
    steps = _time_steps(spans)
    firsts = np.cumsum(counts) - counts
    span_counts = _span_counts(spans, rows)
    times: Array = np.arange(1, len(changes) + 1) if rows is None else rows + 1
    times *= np.repeat(steps, span_counts)
    times += np.repeat(spans.column("start") - steps * firsts, span_counts)
    return times


def _time_error_column(changes: StructPiece, spans: StructPiece, rows: Array | None = None) -> Array:
    """The largest possible error of each time in nanoseconds: the change happened somewhere in its span."""
    times, span_counts = _time_column(changes, spans, rows), _span_counts(spans, rows)
    start, stop = np.repeat(spans.column("start"), span_counts), np.repeat(spans.column("stop"), span_counts)
    errors: Array = np.maximum(times - start, stop - times)
    return errors


def _time_steps(spans: StructPiece) -> Array:
    """Nanoseconds from one change of a span to the next."""
    time_steps: Array = (spans.column("stop") - spans.column("start")) // np.maximum(spans.column("changes"), 1)
    return time_steps


def _time_outline(spans: StructPiece) -> Array:
    counts, time_steps = spans.column("changes"), _time_steps(spans)
    ends = np.stack([spans.column("start") + time_steps, spans.column("start") + time_steps * counts], axis=1)
    return ends[counts > 0].ravel()


def _value_column(changes: StructPiece, spans: StructPiece, rows: Array | None = None) -> Array:
    kinds, ids_as_numbers = changes.column("kind"), changes.column("number")
    if rows is not None:
        kinds, ids_as_numbers = kinds.take(rows), ids_as_numbers.take(rows)
    ids = np.full(len(kinds), NO_ID)
    stored = np.flatnonzero(kinds == Kind.VALUE)
    with np.errstate(invalid="ignore"):  # a damaged file may have NaN here
        ids[stored] = ids_as_numbers[stored]
    return ids


_FROM_SPANS: Final = {
    "call": _call_column,
    "time": _time_column,
    "time_error": _time_error_column,
    "value": _value_column,
}
_OUTLINES_FROM_SPANS: Final = {"call": _call_outline, "time": _time_outline}


class PickedPiece:
    """Some rows of a piece, whose columns are gathered when they are needed."""

    __slots__ = ("_piece", "_rows")

    def __init__(self, piece: Piece, rows: Array) -> None:
        self._piece = piece
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def column(self, name: str) -> Array:
        return self._piece.pick(name, self._rows)

    def pick(self, name: str, rows: Array) -> Array:
        return self._piece.pick(name, self._rows.take(rows))

    def is_valid(self, name: str) -> Array:
        return self._piece.is_valid(name).take(self._rows)

    def outline(self, name: str) -> Array:
        return self.column(name)


def to_numpy(array: pa.Array) -> Array:
    """Numbers without a copy (a null integer as NO_STEP); texts as an array of `str` and None."""
    if pa.types.is_string(array.type):
        texts = np.empty(len(array), object)
        texts[:] = array.to_pylist()
        return texts
    cells: Array = view(array)
    return np.where(valid_mask(array), cells, NO_STEP) if array.null_count else cells


class _Column:
    """An attribute that is the column of its own name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, table: None, owner: type) -> Self: ...
    @overload
    def __get__(self, table: Columns, owner: type) -> Array: ...
    def __get__(self, table: Columns | None, owner: type) -> Self | Array:
        return self if table is None else table.column(self._name)


class Columns:
    """Rows of one kind, in the order they were written. It never changes: a refresh makes a new one."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = list(pieces)
        self._joined: dict[str, Array] = {}
        self._ends = np.cumsum([0, *map(len, self.pieces)])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def column(self, name: str) -> Array:
        """The whole column `name`, joined on first use. Do not write to it."""
        if name not in self._joined:
            self._joined[name] = self._join(name)
        return self._joined[name]

    def gather(self, name: str, rows: Array) -> Array:
        """The cells of a column at these rows. If they ascend, the column is not joined."""
        if len(rows) == 0:
            return np.empty(0, self._empty_dtype(name))
        if name in self._joined or bool((rows[1:] < rows[:-1]).any()):
            return self.column(name)[rows]
        cuts = np.searchsorted(rows, self._ends)
        parts = zip(self.pieces, self._ends[:-1], cuts[:-1], cuts[1:], strict=True)
        return np.concatenate([piece.pick(name, rows[a:b] - start) for piece, start, a, b in parts if a < b])

    def is_sorted(self, name: str) -> bool:
        """Whether a column of numbers never decreases; the column is not joined."""
        columns = [piece.outline(name) for piece in self.pieces if len(piece)]
        pieces_are_sorted = all(bool((column[1:] >= column[:-1]).all()) for column in columns)
        return pieces_are_sorted and all(a[-1] <= b[0] for a, b in pairwise(columns))

    def is_constant(self, name: str) -> bool:
        """Whether all cells of a column of numbers are the same."""
        columns = [piece.outline(name) for piece in self.pieces if len(piece)]
        return all(bool((column == columns[0][0]).all()) for column in columns)

    def is_valid(self, name: str) -> Array:
        """By row: whether it has a value in this column; texts are not decoded."""
        return np.concatenate([np.empty(0, bool), *(piece.is_valid(name) for piece in self.pieces)])

    def take(self, rows: Array) -> Self:
        """These rows, in this order; each column is gathered when it is needed."""
        rows = np.asarray(rows, np.int64)
        if bool((rows[1:] < rows[:-1]).any()):
            ascending, inverse = np.unique(rows, return_inverse=True)
            return type(self)([PickedPiece(self.take(ascending), inverse)])
        cuts = np.searchsorted(rows, self._ends)
        parts = zip(self.pieces, self._ends[:-1], cuts[:-1], cuts[1:], strict=True)
        return type(self)([PickedPiece(piece, rows[a:b] - start) for piece, start, a, b in parts if a < b])

    # Columns are a piece themselves: `take` makes one of them.

    def pick(self, name: str, rows: Array) -> Array:
        return self.column(name)[rows]

    def outline(self, name: str) -> Array:
        return self.column(name)

    def _join(self, name: str) -> Array:
        if len(self.pieces) == 1:
            return self.pieces[0].column(name)
        if not self.pieces:
            return np.empty(0, self._empty_dtype(name))
        return np.concatenate([piece.column(name) for piece in self.pieces])

    def _empty_dtype(self, name: str) -> Any:
        return _EMPTY_DTYPES.get(name, np.int64)


class Changes(Columns):
    """`kind` is a records.Kind; `number` is valid for numbers; `value` is a value id or -1."""

    call = _Column()
    site = _Column()
    time = _Column()
    kind = _Column()
    number = _Column()
    value = _Column()

    def rows_of(self, sites: Iterable[int]) -> Array:
        """The indices of the rows at any of these sites, ascending."""
        site_ids = np.fromiter(sites, np.int64)
        rows_by_piece = [np.flatnonzero(_is_among(piece.column("site"), site_ids)) for piece in self.pieces]
        shifted = [rows + start for rows, start in zip(rows_by_piece, self._ends, strict=False) if len(rows)]
        return np.concatenate(shifted) if shifted else np.empty(0, np.int64)

    def call_runs(self) -> tuple[Array, Array]:
        """Calls in the order of the rows, and how many consecutive rows each has."""
        runs = [_runs_of(piece) for piece in self.pieces]
        calls = np.concatenate([np.empty(0, np.int64), *(calls for calls, _ in runs)])
        return calls, np.concatenate([np.empty(0, np.int64), *(counts for _, counts in runs)])

    def at(self, sites: Iterable[int]) -> Self:
        """The changes at any of these sites."""
        return self.take(self.rows_of(sites))


def _runs_of(piece: Piece) -> tuple[Array, Array]:
    calls: Array = piece.outline("call")
    return calls, piece.counts() if isinstance(piece, SpannedPiece) else np.ones(len(calls), np.int64)


def _is_among(column: Array, numbers: Array) -> Array:
    if len(numbers) > FEW:
        return np.isin(column, numbers)
    mask = np.zeros(len(column), bool)
    for number in numbers.tolist():
        mask |= column == number
    return mask


class Starts(Columns):
    """`parent` and `args` are ids or -1; `step` is NO_STEP if there is none; texts are `str` or None."""

    call = _Column()
    parent = _Column()
    function = _Column()
    time = _Column()
    thread = _Column()
    thread_name = _Column()
    args = _Column()
    step = _Column()
    rank = _Column()
    stage = _Column()
    line = _Column()
    callers = _Column()


class Ends(Columns):
    """`error` is None for a call that returned; `result` is a value id or -1."""

    call = _Column()
    time = _Column()
    error = _Column()
    result = _Column()


_EMPTY_DTYPES: Final[dict[str, Any]] = {
    "site": np.int32,
    "function": np.int32,
    "rank": np.int32,
    "kind": np.uint8,
    "number": np.float64,
    "thread_name": object,
    "stage": object,
    "callers": object,
    "error": object,
}
