"""Columns of a shard as numpy arrays, in one piece per batch, joined only when a whole column is asked for."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from clew.records import Kind
from clew.store.arrays import numbers, present, view
from clew.store.format import NO_ID, NO_STEP

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Array = npt.NDArray[Any]
FEW: Final = 8  # so many comparisons are faster than one look-up in a set


class Piece(Protocol):
    """The rows of one batch, or some of them."""

    def __len__(self) -> int: ...
    def column(self, name: str) -> Array: ...
    def given(self, name: str) -> Array: ...
    def pick(self, name: str, rows: Array) -> Array: ...
    def outline(self, name: str) -> Array:
        """As few numbers as tell whether the column rises, and between what: it does if they do."""
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
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = self._read(name)
        return found

    def _read(self, name: str) -> Array:
        if self._struct.type.get_field_index(name) >= 0:
            return to_numpy(self._struct.field(name))
        missing = None if _EMPTY_DTYPES.get(name) is object else NO_STEP  # a file from before there was such a field
        return np.full(len(self), missing, _EMPTY_DTYPES.get(name, np.int64))

    def replace(self, name: str, column: Array) -> None:
        """Answer with this column from now on."""
        self._columns[name] = column

    def given(self, name: str) -> Array:
        if self._struct.type.get_field_index(name) < 0:
            return np.zeros(len(self), bool)
        return np.asarray(present(self._struct.field(name)))

    def pick(self, name: str, rows: Array) -> Array:
        """Some cells: of a column of texts, without making the others."""
        if name in self._columns or self._struct.type.get_field_index(name) < 0:
            return self.column(name).take(rows)
        field = self._struct.field(name)
        is_text = pa.types.is_string(field.type)
        return to_numpy(field.take(numbers(rows, pa.int64()))) if is_text else self.column(name).take(rows)

    def outline(self, name: str) -> Array:
        return self.column(name)


class SpannedPiece:
    """The changes of one batch: what their spans say of them is spread over the rows when somebody asks."""

    __slots__ = ("_columns", "_rows", "_spans")

    def __init__(self, changes: StructPiece, spans: StructPiece) -> None:
        self._rows = changes
        self._spans = spans
        self._columns: dict[str, Array] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def column(self, name: str) -> Array:
        spread = _SPREAD.get(name)
        if spread is None:
            return self._rows.column(name)
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = spread(self._rows, self._spans)
        return found

    def given(self, name: str) -> Array:
        return np.ones(len(self), bool) if name in _SPREAD else self._rows.given(name)

    def pick(self, name: str, rows: Array) -> Array:
        pick = _SPREAD.get(name)
        if pick is None:
            return self._rows.pick(name, rows)
        if name in self._columns or bool((rows[1:] < rows[:-1]).any()):
            return self.column(name).take(rows)
        return pick(self._rows, self._spans, rows)

    def outline(self, name: str) -> Array:
        outline = _OUTLINE.get(name)
        return self.column(name) if outline is None else outline(self._spans)

    def counts(self) -> Array:
        """How many rows each of the outline's calls has."""
        counts = self._spans.column("changes")
        return counts[counts > 0]


def _counts(spans: StructPiece, rows: Array | None) -> Array:
    """How many changes each span has; of these, if some are asked for (they ascend)."""
    counts = spans.column("changes")
    return counts if rows is None else np.diff(np.searchsorted(rows, np.cumsum(counts)), prepend=0)


def _calls(changes: StructPiece, spans: StructPiece, rows: Array | None = None) -> Array:
    return np.repeat(spans.column("call"), _counts(spans, rows))


def _calls_outline(spans: StructPiece) -> Array:
    return spans.column("call")[spans.column("changes") > 0]


def _times(changes: StructPiece, spans: StructPiece, rows: Array | None = None) -> Array:
    counts = spans.column("changes")
    steps = _pace(spans)
    firsts = np.cumsum(counts) - counts
    chosen = _counts(spans, rows)
    times: Array = np.arange(1, len(changes) + 1) if rows is None else rows + 1
    times *= np.repeat(steps, chosen)
    times += np.repeat(spans.column("start") - steps * firsts, chosen)
    return times


def _time_errors(changes: StructPiece, spans: StructPiece, rows: Array | None = None) -> Array:
    """By how many nanoseconds each time may be wrong: the change happened somewhere in its span."""
    times, chosen = _times(changes, spans, rows), _counts(spans, rows)
    start, stop = np.repeat(spans.column("start"), chosen), np.repeat(spans.column("stop"), chosen)
    errors: Array = np.maximum(times - start, stop - times)
    return errors


def _pace(spans: StructPiece) -> Array:
    """Nanoseconds from one change of a span to the next."""
    pace: Array = (spans.column("stop") - spans.column("start")) // np.maximum(spans.column("changes"), 1)
    return pace


def _times_outline(spans: StructPiece) -> Array:
    counts, pace = spans.column("changes"), _pace(spans)
    ends = np.stack([spans.column("start") + pace, spans.column("start") + pace * counts], axis=1)
    return ends[counts > 0].ravel()


def _value_ids(changes: StructPiece, spans: StructPiece, rows: Array | None = None) -> Array:
    kinds, found = changes.column("kind"), changes.column("number")
    if rows is not None:
        kinds, found = kinds.take(rows), found.take(rows)
    ids = np.full(len(kinds), NO_ID)
    pointing = np.flatnonzero(kinds == Kind.VALUE)
    with np.errstate(invalid="ignore"):  # what is no number is no id either
        ids[pointing] = found[pointing]
    return ids


_SPREAD: Final = {"call": _calls, "time": _times, "time_error": _time_errors, "value": _value_ids}
_OUTLINE: Final = {"call": _calls_outline, "time": _times_outline}


class PickedPiece:
    """Some rows of a piece, gathered column by column as they are asked for."""

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

    def given(self, name: str) -> Array:
        return self._piece.given(name).take(self._rows)

    def outline(self, name: str) -> Array:
        return self.column(name)


def to_numpy(array: pa.Array) -> Array:
    """Numbers without a copy (a null integer as NO_STEP); texts as an array of `str` and None."""
    if pa.types.is_string(array.type):
        texts = np.empty(len(array), object)
        texts[:] = array.to_pylist()
        return texts
    found: Array = view(array)
    return np.where(present(array), found, NO_STEP) if array.null_count else found


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
    """Rows of one kind, in the order they were written. Does not change: a refresh makes a new one."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = list(pieces)
        self._joined: dict[str, Array] = {}
        self._ends = np.cumsum([0, *map(len, self.pieces)])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def column(self, name: str) -> Array:
        """The whole column `name`, joined at the first time of asking. Not to be written to."""
        found = self._joined.get(name)
        if found is None:
            found = self._joined[name] = self._join(name)
        return found

    def gather(self, name: str, rows: Array) -> Array:
        """The cells of a column at these rows. Ascending ones are taken from the pieces, without joining the column."""
        if len(rows) == 0:
            return np.empty(0, self._empty_dtype(name))
        if name in self._joined or bool((rows[1:] < rows[:-1]).any()):
            return self.column(name)[rows]
        cuts = np.searchsorted(rows, self._ends)
        parts = zip(self.pieces, self._ends[:-1], cuts[:-1], cuts[1:], strict=True)
        return np.concatenate([piece.pick(name, rows[a:b] - start) for piece, start, a, b in parts if a < b])

    def is_sorted(self, name: str) -> bool:
        """Whether a column of numbers never falls; piece by piece, without joining it."""
        columns = [piece.outline(name) for piece in self.pieces if len(piece)]
        inside = all(bool((column[1:] >= column[:-1]).all()) for column in columns)
        return inside and all(a[-1] <= b[0] for a, b in pairwise(columns))

    def is_constant(self, name: str) -> bool:
        """Whether all cells of a column of numbers are the same."""
        columns = [piece.outline(name) for piece in self.pieces if len(piece)]
        return all(bool((column == columns[0][0]).all()) for column in columns)

    def given(self, name: str) -> Array:
        """Which rows say anything under `name`: of a column of texts, without making the texts."""
        return np.concatenate([np.empty(0, bool), *(piece.given(name) for piece in self.pieces)])

    def take(self, rows: Array) -> Self:
        """The rows of these numbers, in that order; each column is gathered when asked for."""
        rows = np.asarray(rows, np.int64)
        if bool((rows[1:] < rows[:-1]).any()):
            ascending, back = np.unique(rows, return_inverse=True)
            return type(self)([PickedPiece(self.take(ascending), back)])
        cuts = np.searchsorted(rows, self._ends)
        spans = zip(self.pieces, self._ends[:-1], cuts[:-1], cuts[1:], strict=True)
        return type(self)([PickedPiece(piece, rows[a:b] - start) for piece, start, a, b in spans if a < b])

    # Rows that were taken are a piece like any other.

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
    """`kind` is a records.Kind; `number` holds for numbers; `value` is a value id or -1."""

    call = _Column()
    site = _Column()
    time = _Column()
    kind = _Column()
    number = _Column()
    value = _Column()

    def rows_of(self, sites: Iterable[int]) -> Array:
        """The numbers of the rows at any of these sites, ascending."""
        wanted = np.fromiter(sites, np.int64)
        found = [np.flatnonzero(_among(piece.column("site"), wanted)) for piece in self.pieces]
        shifted = [rows + start for rows, start in zip(found, self._ends, strict=False) if len(rows)]
        return np.concatenate(shifted) if shifted else np.empty(0, np.int64)

    def call_runs(self) -> tuple[Array, Array]:
        """Calls in the order of the rows, and how many rows of each follow one another."""
        runs = [_runs_of(piece) for piece in self.pieces]
        calls = np.concatenate([np.empty(0, np.int64), *(calls for calls, _ in runs)])
        return calls, np.concatenate([np.empty(0, np.int64), *(counts for _, counts in runs)])

    def at(self, sites: Iterable[int]) -> Self:
        """The changes at any of these sites."""
        return self.take(self.rows_of(sites))


def _runs_of(piece: Piece) -> tuple[Array, Array]:
    calls: Array = piece.outline("call")
    return calls, piece.counts() if isinstance(piece, SpannedPiece) else np.ones(len(calls), np.int64)


def _among(column: Array, wanted: Array) -> Array:
    if len(wanted) > FEW:
        return np.isin(column, wanted)
    mask = np.zeros(len(column), bool)
    for one in wanted.tolist():
        mask |= column == one
    return mask


class Starts(Columns):
    """`parent` and `args` are ids or -1; `step` is NO_STEP where there was none; texts are `str` or None."""

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
