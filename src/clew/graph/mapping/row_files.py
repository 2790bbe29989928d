"""Rows in files, for `clew run-graph`: CSV, JSON Lines, Parquet and Arrow files, folders and patterns of those.

Whatever the format, a row is a dictionary of its columns, and `Shape.bound` says what it gives to the inputs.
"""

from __future__ import annotations

import glob
import gzip
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from clew.engines.engine import Unsent
from clew.errors import GraphError, nearest
from clew.graph.recorded import RecordedInput

from .batches import Block, number_in
from .item_sources import BlockSource, CarriedItem, Shape, Source

LINES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
TEXTS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc")
FORMATS = (*LINES, *TEXTS, *PARQUET, *ARROW)
_BLOCK = 4096  # rows that are read at a time


class RowFiles:
    """The rows of all files that some paths, folders and patterns name."""

    def __init__(self, places: Sequence[str]) -> None:
        self.files = [file for place in places for file in files_at(place)]

    def clew_source(self, shape: Shape) -> Source:
        """What `graph.map` takes."""
        self._check_kept(shape.keep)
        table_input = next((one.name for one in shape.recorded if one.kind in ("frame", "table")), None)
        if table_input is not None and shape.batch is None:
            what = f"the input `{table_input}` was recorded with a table of rows."
            raise GraphError("graph-items", what, "Say how many rows it is to have at a time: --batch 500.")
        if shape.takes_blocks("table") and not any(_is_one_of(file, LINES) for file in self.files):
            return FileBlockSource(self._blocks(shape.recorded), self.count, shape.keep)
        return RowSource(self.rows(shape.recorded), shape, self.count)

    @property
    def count(self) -> int | None:
        """How many rows there are, if the files say so."""
        counts = [_count(file) for file in self.files]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def rows(self, recorded: Sequence[RecordedInput]) -> Iterator[Any]:
        for file in self.files:
            if _is_one_of(file, LINES):
                yield from _lines(file)
            else:
                for part in _parts(file, recorded):
                    yield from part.rows()

    def _blocks(self, recorded: Sequence[RecordedInput]) -> Iterator[Block]:
        return (Block(part.table) for file in self.files for part in _parts(file, recorded))

    def _check_kept(self, keep: Sequence[str]) -> None:
        """Every file has the columns that are carried through; of JSON Lines the first row counts."""
        for file in self.files if keep else ():
            there = _names(file)
            for name in keep:
                if there is not None and name not in there:
                    raise GraphError("graph-items", f"{file} has no column `{name}` to keep;", nearest(name, there))


class FileBlockSource(BlockSource):
    """Rows of tables in files. Those that do not fit fail."""

    is_checked = False


class RowSource(Source):
    """Rows, bound to the inputs by the names of their columns. A row that does not fit fails, and no other does."""

    is_checked = False

    def __init__(self, rows: Iterable[Any], shape: Shape, count: int | None) -> None:
        items = self._bound(rows, shape)
        carrying = (CarriedItem(item, shape.carried(row)) for item, row in items)
        super().__init__(carrying if shape.keep else (item for item, _ in items), count=count, keep=shape.keep)

    def _bound(self, rows: Iterable[Any], shape: Shape) -> Iterator[tuple[Any, Any]]:
        """Rows and what they give. In a frame, a row that lacks a column would have an empty cell that nobody wrote."""
        known = {name for one in shape.recorded for name in (*one.text_columns, *one.number_columns)}
        needed: set[str] | None = None if shape.batch is not None and shape.row_input is not None else set()
        for row in rows:
            if needed is None and isinstance(row, dict):
                needed = known & row.keys()
            missing = sorted(needed - row.keys()) if needed and isinstance(row, dict) else []
            if missing:
                yield Unsent(f"the row has no column `{missing[0]}`.", "The first row has one.", row), row
            else:
                yield shape.bound(row), row


def files_at(place: str) -> list[Path]:
    """The files that a path, a folder or a pattern names, by name."""
    if os.path.isfile(place):
        files = [place]
    elif os.path.isdir(place):
        files = glob.glob(os.path.join(glob.escape(place), "**", "*"), recursive=True)
        files = [file for file in files if _is_one_of(file, FORMATS) and not os.path.basename(file).startswith("_")]
    else:
        files = glob.glob(place, recursive=True)
    found = sorted(Path(file) for file in files if os.path.isfile(file))
    known = f"Give files of these kinds: {', '.join(FORMATS)}; a folder of them; or a pattern such as 'data/*.csv'."
    if not found:
        raise GraphError("graph-items", f"there are no files of rows at {place}.", known)
    for file in found:
        if not _is_one_of(file, FORMATS):
            raise GraphError("graph-items", f"{file} is of a format that is not read.", known)
    return found


def _is_one_of(file: str | Path, endings: Sequence[str]) -> bool:
    return str(file).lower().endswith(tuple(endings))


# ---- JSON Lines ------------------------------------------------------------------------------------------------------


def _lines(file: Path) -> Iterator[Any]:
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt", encoding="utf-8-sig") as lines:  # what other systems write may begin with a mark
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield json.loads(line)
            except ValueError as error:
                raise GraphError("graph-items", f"{file}, line {number}: {error}.", "Mend the line.") from error


# ---- tables ----------------------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """Some rows of a table."""

    table: Any  # of Arrow's
    texts_of_numbers: Sequence[str] = ()  # columns of texts that should be numbers, and of which most are

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.table.to_pylist()
        for name in self.texts_of_numbers:
            for row in rows:
                row[name] = number_in(row[name])
        return rows


def _names(file: Path) -> list[str] | None:
    """The columns of a file; None if it has no rows to tell."""
    if _is_one_of(file, LINES):
        row = next(_lines(file), None)
        return list(row) if isinstance(row, dict) else None
    return next((list(part.table.column_names) for part in _parts(file, ())), None)


def _count(file: Path) -> int | None:
    if not _is_one_of(file, PARQUET):
        return None
    with _readable(file):
        import pyarrow.parquet as pq

        return int(pq.read_metadata(file).num_rows)


def _parts(file: Path, recorded: Sequence[RecordedInput]) -> Iterator[Part]:
    """What is in a file, a few rows at a time."""
    import pyarrow as pa

    with _readable(file):
        if _is_one_of(file, TEXTS):
            table, texts = _read_csv(file, recorded)
            yield from (Part(table.slice(begin, _BLOCK), texts) for begin in range(0, len(table), _BLOCK))
        elif _is_one_of(file, PARQUET):
            import pyarrow.parquet as pq

            with pq.ParquetFile(file) as parquet:
                yield from (Part(pa.Table.from_batches([batch])) for batch in parquet.iter_batches(_BLOCK))
        else:
            with pa.memory_map(str(file)) as source:
                yield from (Part(pa.Table.from_batches([batch])) for batch in _arrow_batches(source))


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    """A file that is not what its name says is told of by name."""
    import pyarrow as pa

    try:
        yield
    except pa.ArrowException as error:
        what = f"{file} is no {file.suffix} file that can be read ({error})."
        raise GraphError("graph-items", what, "Write it anew.") from error


def _arrow_batches(source: Any) -> Iterator[Any]:
    """Of a file of Arrow's, or of a stream that was written to one."""
    import pyarrow as pa

    try:
        reader = pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        yield from pa.ipc.open_stream(source)
        return
    for number in range(reader.num_record_batches):
        batch = reader.get_batch(number)
        yield from (batch.slice(begin, _BLOCK) for begin in range(0, len(batch), _BLOCK))


def _read_csv(file: Path, recorded: Sequence[RecordedInput]) -> tuple[Any, list[str]]:
    """A table, and which of its columns are texts though they should be numbers. A CSV file says nothing of types:
    texts are texts where the graph was recorded with texts ("007"), and numbers are numbers where it was recorded with
    numbers, though a cell among them may be none. For that, all of the file is read at once."""
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    texts = {name for one in recorded for name in one.text_columns}
    numbers = {name for one in recorded for name in one.number_columns} - texts
    tabs = _is_one_of(file, (".tsv", ".tsv.gz"))
    table = arrow_csv.read_csv(
        file,
        parse_options=arrow_csv.ParseOptions(delimiter="\t" if tabs else ",", newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(column_types={name: pa.string() for name in texts}),
    )
    return table, [field.name for field in table.schema if field.name in numbers and field.type == pa.string()]
