"""Parquet: one row a change, for pandas, Polars and DuckDB.

`number` holds every value that is a plain number (an int up to 2**53 exactly), `kind` says what it was, `json` holds
whatever is no number; an array has its `dtype`, its `shape` and its bytes (C order) in `array` instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from clew.export.files import Block, blocks, chosen, total, whole_file
from clew.export.json import text
from clew.history.series import as_array
from clew.records import Kind

if TYPE_CHECKING:
    from pathlib import Path

    from clew.export import Progress
    from clew.history.run import Run

_WORDS = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        ("name", _WORDS),
        ("step", pa.float64()),
        ("time", pa.float64()),
        ("function", _WORDS),
        ("line", pa.int32()),
        ("rank", pa.int32()),
        ("call", pa.int64()),
        ("kind", _WORDS),
        ("number", pa.float64()),
        ("json", pa.string()),
        ("dtype", _WORDS),
        ("shape", pa.list_(pa.int64())),
        ("array", pa.binary()),
    ]
)
_KINDS = pa.array([kind.name.lower() for kind in Kind], pa.string())
ROWS = 200_000
ROWS_OF_ARRAYS = 1_000


def write(run: Run, target: Path, *, names: list[str] | None, progress: Progress) -> Path:
    """Row groups of at most `ROWS` changes of one name each."""
    count, done = total(run, names), 0
    schema = SCHEMA.with_metadata({"clew.run": text(run.meta)})
    with whole_file(target) as draft, pq.ParquetWriter(draft, schema) as out:
        for name in chosen(run, names):
            for block in blocks(run, name, _size(run, name)):
                out.write_table(_table(run, block, schema))
                done += len(block.rows)
                progress(done, count)
    return target


def _size(run: Run, name: str) -> int:
    """Blocks of values that are not plain numbers are short: each may be an array of megabytes."""
    plain = run.tables.table.numbers(run.tables.table.rows_of(name))[1]
    return ROWS if bool(plain.all()) else ROWS_OF_ARRAYS


def _table(run: Run, block: Block, schema: pa.Schema) -> pa.Table:
    table = run.tables.table
    kinds = table.gather("kind", block.rows)
    numbers, plain = table.numbers(block.rows)
    others = np.flatnonzero(kinds == Kind.VALUE)
    cells = _cells(table.values(block.rows[others]), others, len(block.rows))
    columns = {
        "name": _repeated(block.name, len(block.rows)),
        "step": list(map(_step, block.steps)),
        "time": block.times,
        "function": block.functions,
        "line": block.lines,
        "rank": block.ranks,
        "call": block.calls,
        "kind": pa.DictionaryArray.from_arrays(pa.array(kinds.astype(np.int32)), _KINDS),
        "number": pa.array(numbers, mask=~plain),
        **cells,
    }
    arrays = [_array(columns[field.name], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _step(step: Any) -> float | None:
    """A step as a number; null if it is none, or too large to be one here."""
    try:
        return float(step) if type(step) in (int, float) else None
    except OverflowError:
        return None


def _array(column: Any, type: pa.DataType) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    if pa.types.is_dictionary(type):
        return pa.array(column, pa.string()).dictionary_encode()
    return pa.array(column, type)


def _repeated(word: str, count: int) -> pa.Array:
    safe = word.encode("utf-8", "backslashreplace").decode("utf-8")
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([safe], pa.string()))


def _cells(values: list[Any], places: Any, count: int) -> dict[str, list[Any]]:
    """The columns of what is no plain number: JSON, or an array's own."""
    out: dict[str, list[Any]] = {key: [None] * count for key in ("json", "dtype", "shape", "array")}
    for place, value in zip(places.tolist(), values, strict=True):
        array = as_array(value)
        if array is None or array.dtype.hasobject:
            out["json"][place] = text(value)
        else:
            out["dtype"][place] = str(array.dtype)
            out["shape"][place] = list(array.shape)
            out["array"][place] = np.ascontiguousarray(array).tobytes()
    return out
