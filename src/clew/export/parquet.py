"""Exports to Parquet: one row for each change, for pandas, Polars and DuckDB.

`number` holds every value that is a plain number (an int up to 2**53 exactly), `kind` is its kind, and
`json` holds any other value; an array has its `dtype`, its `shape` and its bytes (C order) in `array` instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from clew.export.json import to_json
from clew.export.whole_files import Block, count_changes, escape_surrogates, names_to_export, read_blocks, whole_file
from clew.reading.series import as_array
from clew.records import Kind

if TYPE_CHECKING:
    from pathlib import Path

    from clew.export import Progress
    from clew.reading.run import Run

_TEXTS = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        ("name", _TEXTS),
        ("step", pa.float64()),
        ("time", pa.float64()),
        ("function", _TEXTS),
        ("line", pa.int32()),
        ("rank", pa.int32()),
        ("call", pa.int64()),
        ("kind", _TEXTS),
        ("number", pa.float64()),
        ("json", pa.string()),
        ("dtype", _TEXTS),
        ("shape", pa.list_(pa.int64())),
        ("array", pa.binary()),
    ]
)
_KINDS = pa.array([kind.name.lower() for kind in Kind], pa.string())
ROWS = 200_000
ROWS_OF_ARRAYS = 1_000


def write(run: Run, target: Path, *, names: list[str] | None, progress: Progress) -> Path:
    """Write row groups, each with at most `ROWS` changes of one name."""
    total, count = count_changes(run, names), 0
    schema = SCHEMA.with_metadata({"clew.run": to_json(run.meta)})
    with whole_file(target) as draft, pq.ParquetWriter(draft, schema) as out:
        for name in names_to_export(run, names):
            for block in read_blocks(run, name, _block_size(run, name)):
                out.write_table(_make_table(run, block, schema))
                count += len(block.rows)
                progress(count, total)
    return target


def _block_size(run: Run, name: str) -> int:
    """Blocks of values that are not plain numbers are short, as each may be an array of megabytes."""
    plain = run.tables.table.numbers(run.tables.table.rows_of(name))[1]
    return ROWS if bool(plain.all()) else ROWS_OF_ARRAYS


def _make_table(run: Run, block: Block, schema: pa.Schema) -> pa.Table:
    table = run.tables.table
    kinds = table.gather("kind", block.rows)
    numbers, plain = table.numbers(block.rows)
    stored = np.flatnonzero(kinds == Kind.VALUE)
    cells = _stored_value_columns(table.values(block.rows[stored]), stored, len(block.rows))
    columns = {
        "name": _repeat_text(block.name, len(block.rows)),
        "step": list(map(_step_number, block.steps)),
        "time": block.times,
        "function": block.functions,
        "line": block.lines,
        "rank": block.ranks,
        "call": block.calls,
        "kind": pa.DictionaryArray.from_arrays(pa.array(kinds.astype(np.int32)), _KINDS),
        "number": pa.array(numbers, mask=~plain),
        **cells,
    }
    arrays = [_to_arrow(columns[field.name], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _step_number(step: Any) -> float | None:
    """A step as a number; null if it is not one, or too large for a float."""
    try:
        return float(step) if type(step) in (int, float) else None
    except OverflowError:
        return None


def _to_arrow(column: Any, type: pa.DataType) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    if pa.types.is_dictionary(type):
        return pa.array(column, pa.string()).dictionary_encode()
    return pa.array(column, type)


def _repeat_text(text: str, count: int) -> pa.Array:
    texts = pa.array([escape_surrogates(text)], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), texts)


def _stored_value_columns(values: list[Any], places: Any, count: int) -> dict[str, list[Any]]:
    """The columns of values that are not plain numbers: JSON, or those of an array."""
    columns: dict[str, list[Any]] = {key: [None] * count for key in ("json", "dtype", "shape", "array")}
    for place, value in zip(places.tolist(), values, strict=True):
        array = as_array(value)
        if array is None or array.dtype.hasobject:
            columns["json"][place] = to_json(value)
        else:
            columns["dtype"][place] = str(array.dtype)
            columns["shape"][place] = list(array.shape)
            columns["array"][place] = np.ascontiguousarray(array).tobytes()
    return columns
