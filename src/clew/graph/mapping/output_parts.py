"""Where `graph.map` writes: parts that appear whole or not at all, joined into one file at the end.

    out.parquet.parts/     while the job goes on, or after it was stopped
        job.json           which graph, which items: a job that is another one does not go on here
        part-000001.arrow  some rows: index, the columns of the result, error
    out.parquet            at the end: all rows by their index; the parts are gone

An item has one row. A failed one has its error and no result, and is tried again by the next job with this output.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from clew import trouble
from clew.errors import GraphError

from .columns import Columns, cast, read_rows, storable

ROWS = 50_000  # of a row group, and of a part
BYTES = 64 << 20  # of the same: rows may be large, and are held in memory
SECONDS = 5.0  # between parts: so much work is lost when the machine goes down
_KEY = b"clew.map"


class Output:
    """The rows that are done, and a place for more."""

    def __init__(self, path: Path, job: dict[str, Any]) -> None:
        self.path = path
        self._arrow = _is_arrow(path)
        self._folder = path.with_name(f"{path.name}.parts")
        fresh = not self._folder.exists()
        self._lock = _locked(self._folder, path)
        try:
            self._job = self._agreed(job)
            self._parts = [part for part in sorted(self._folder.glob("part-*.arrow")) if _is_whole(part)]
            self._columns = Columns(self._job.get("columns"))
            self.done, self.kept = self._find_done()
        except BaseException:
            self._release()
            if fresh:
                shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self.stored = self.kept  # items whose rows are on the disk
        self._last = monotonic()

    # ---- what is there

    def _agreed(self, job: dict[str, Any]) -> dict[str, Any]:
        """What this job is, if what is there already is of the same."""
        file = self._folder / "job.json"
        before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
        if before is None and self.path.exists():
            before = _job_in(self.path)
            if before is None:
                what = f"{self.path} is there already, and is no output of graph.map."
                raise GraphError("graph-output", what, "Give another path, or remove it.")
        for key, name in (("graph", "graph"), ("first", "first item")):
            was = (before or {}).get(key)
            if None not in (was, job[key]) and was != job[key]:
                what = f"{self.path} holds results of another job: the {name} is not the same."
                raise GraphError("graph-output", what, f"Give another path, or remove {self._where()}.")
        was_kept = (before or job).get("keep", [])
        if was_kept != job.get("keep", []):
            what = f"{self.path} holds results of another job: it keeps the columns {was_kept}."
            raise GraphError("graph-output", what, f"Give another path, or remove {self._where()}.")
        if before is None or not file.exists():
            self._write_job({**job, "columns": (before or {}).get("columns")})
        return {**job, "first": job["first"] or (before or {}).get("first"), "columns": (before or {}).get("columns")}

    def _where(self) -> str:
        return str(self.path if self.path.exists() else self._folder)

    def _write_job(self, job: dict[str, Any]) -> None:
        with _writing(self.path), _whole(self._folder / "job.json") as draft:
            draft.write_text(json.dumps(job), encoding="utf-8")

    def _find_done(self) -> tuple[bytearray, int]:
        """A mark for each index that needs nothing more; and how many they are."""
        done = bytearray()
        for file in self._files():
            table = _own(file)
            fine = table.filter(table["error"].is_null())["index"].to_numpy()
            if len(fine):
                done.extend(bytes(max(0, int(fine.max()) + 1 - len(done))))
                np.frombuffer(done, np.uint8)[fine] = 1
        return done, sum(done)

    def _files(self) -> list[Path]:
        return [*([self.path] if self.path.exists() else []), *self._parts]

    # ---- writing

    def add(
        self,
        indices: Sequence[int],
        results: list[Any],
        errors: dict[int, str],
        carried: dict[str, list[Any]] | None = None,
    ) -> list[tuple[int, str]]:
        """Rows for these items; `errors` by place; columns that are carried through. Gives the places whose results
        have no room in the columns."""
        unwritable = self._columns.add(indices, results, errors, carried)
        if self._columns.rows >= ROWS or self._columns.nbytes > BYTES or monotonic() - self._last > SECONDS:
            self.flush()
        return unwritable

    def flush(self) -> None:
        """What is held, as a part."""
        if self._columns.rows:
            table = self._columns.table()
            number = int(self._parts[-1].stem[5:]) + 1 if self._parts else 1
            part = self._folder / f"part-{number:06d}.arrow"
            self._job["columns"] = self._columns.description
            self._write_job(self._job)
            with _writing(self.path), _whole(part) as draft, _writer(draft, table.schema, arrow=True) as write:
                write(table)
            self._parts.append(part)
            self._columns.clear()
            self.stored += len(table)
        self._last = monotonic()

    def finish(self) -> None:
        """All parts as one file, by index; then they are not needed any more."""
        self.flush()
        if self._parts or not self.path.exists():
            self._join()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._release()

    def stop(self) -> None:
        """Keep what is done for another time."""
        try:
            self.flush()
        except GraphError:
            pass  # the disk is full, which ended the job: what is held is lost, and run again
        finally:
            if not self._parts:
                shutil.rmtree(self._folder, ignore_errors=True)
            self._release()

    def _release(self) -> None:
        _opened.cache_clear()
        self._lock.close()

    def _join(self) -> None:
        files = self._files()
        schema = self._columns.schema
        if not self._arrow:
            schema = pa.schema([field.with_type(storable(field.type)) for field in schema])
        schema = schema.with_metadata({_KEY: json.dumps(self._job).encode()})
        with _writing(self.path), _whole(self.path, self._folder) as draft:
            with _writer(draft, schema, self._arrow) as write:
                for table in _by_index(files, schema):
                    write(table)
            _opened.cache_clear()


def _by_index(files: list[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    """All rows of the files in the order of their index. Of two with one index, the later file's counts."""
    numbers = [_own(file)["index"].to_numpy() for file in files]
    if not numbers:
        return
    index = np.concatenate(numbers)
    of_file = np.repeat(np.arange(len(files)), [len(one) for one in numbers])
    row = np.concatenate([np.arange(len(one)) for one in numbers])
    order = np.argsort(index, kind="stable")
    last = np.append(index[order][1:] != index[order][:-1], True)  # of equal ones, the last is of the latest file
    order = order[last]
    at_once = min(map(_at_once, files))
    for begin in range(0, len(order), at_once):
        some = order[begin : begin + at_once]
        pieces = [_rows(files[one], row[some[of_file[some] == one]], schema) for one in np.unique(of_file[some])]
        joined = pa.concat_tables(pieces)
        yield joined.sort_by("index") if len(pieces) > 1 else joined


def _rows(file: Path, rows: Any, schema: pa.Schema) -> pa.Table:
    """Some rows of a file, in the columns and types that the whole has."""
    table, rows = _around(file, rows)
    contiguous = bool(np.all(np.diff(rows) == 1))  # not by the ends alone: rows in between may stand in another order
    table = table.slice(rows[0], len(rows)) if contiguous else table.take(pa.array(rows))
    arrays = [
        cast(table[field.name].combine_chunks(), field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _around(file: Path, rows: Any) -> tuple[pa.Table, Any]:
    """A table that has these rows, and where. Of a Parquet file only the row groups that are needed are read."""
    if file.suffix != ".parquet":
        return _opened(str(file)), rows
    source = pq.ParquetFile(file)
    ends = np.cumsum([source.metadata.row_group(one).num_rows for one in range(source.num_row_groups)])
    first, last = np.searchsorted(ends, [rows.min(), rows.max()], side="right")
    return source.read_row_groups(range(first, last + 1)), rows - (ends[first - 1] if first else 0)


def _at_once(file: Path) -> int:
    """How many rows are not too much for the memory."""
    if file.suffix != ".parquet":
        return _rows_in_memory(len(_opened(str(file))), file.stat().st_size)
    with pq.ParquetFile(file) as source:  # its size on the disk says nothing
        groups = [int(source.metadata.row_group(one).num_rows) for one in range(source.num_row_groups)]
        if len(groups) > 1:  # it was written so many at a time
            return max(groups)
        return _rows_in_memory(groups[0], source.read_row_group(0).nbytes) if groups else ROWS


def _rows_in_memory(rows: int, size: int) -> int:
    return max(1, min(ROWS, BYTES * rows // max(1, size)))


def _own(file: Path) -> pa.Table:
    """The columns that every output has."""
    if file.suffix == ".parquet":
        return pq.read_table(file, columns=["index", "error"])
    return _opened(str(file)).select(["index", "error"])


def _is_whole(part: Path) -> bool:
    """True if a part can be read; one that cannot is removed, and its items are run again."""
    try:
        _opened(str(part))
    except (pa.ArrowException, OSError) as error:
        trouble.report(f"part:{part}", f"{part} is damaged, and its items are run again", cause=error)
        part.unlink()
        return False
    return True


@lru_cache(maxsize=4)  # rows of neighbours are in the same parts
def _opened(path: str) -> pa.Table:
    """A part, mapped."""
    with pa.memory_map(path) as file:
        return pa.ipc.open_file(file).read_all()


@contextmanager
def _writer(draft: Path, schema: pa.Schema, arrow: bool) -> Iterator[Any]:
    if arrow:
        with pa.OSFile(str(draft), "wb") as file, pa.ipc.new_file(file, schema) as out:
            yield out.write_table
    else:
        with pq.ParquetWriter(draft, schema) as out:
            yield out.write_table


def _is_arrow(path: Path) -> bool:
    if path.suffix not in (".parquet", ".arrow", ".feather"):
        what = f"output={str(path)!r} is neither a .parquet nor an .arrow file."
        raise GraphError("graph-output", what, "Its name says in which format it is written.")
    if not path.parent.is_dir():
        raise GraphError("graph-output", f"there is no folder {path.parent}.", "Make it first.")
    return path.suffix != ".parquet"


def _job_in(path: Path) -> dict[str, Any] | None:
    """What a finished file says of the job that wrote it."""
    try:
        if path.suffix == ".parquet":
            metadata = pq.read_schema(path).metadata or {}
        else:
            with pa.memory_map(str(path)) as file:
                metadata = pa.ipc.open_file(file).schema.metadata or {}
        found = json.loads(metadata[_KEY])
    except (pa.ArrowException, OSError, KeyError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _locked(folder: Path, path: Path) -> IO[str]:
    """Two jobs that write the same output would undo each other's work."""
    while True:
        with _writing(path):
            folder.mkdir(exist_ok=True)
            lock = open(folder / "lock", "w", encoding="utf-8")  # noqa: SIM115 - held until the job is over
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise GraphError(
                "graph-output", f"another job is writing {path}.", "Wait for it, or give another path."
            ) from None
        if _is_there(lock, folder):
            return lock
        lock.close()


def _is_there(lock: IO[str], folder: Path) -> bool:
    """False if the job that had it has ended just now and taken its folder away."""
    try:
        return os.path.samestat(os.fstat(lock.fileno()), os.stat(folder / "lock"))
    except FileNotFoundError:
        return False


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """A disk that is full or cannot be written is the user's to mend, and is said in words."""
    try:
        yield
    except OSError as error:
        what = f"{path} cannot be written ({type(error).__name__}: {error})."
        raise GraphError(
            "graph-output", what, "What is in parts is kept: mend that, and the same call goes on."
        ) from error


@contextmanager
def _whole(target: Path, folder: Path | None = None) -> Iterator[Path]:
    """A draft (in the folder of the parts) that takes the place of `target` when it is written and on the disk."""
    draft = (folder or target.parent) / f".{target.name}.draft"
    try:
        yield draft
        with open(draft, "rb") as file:
            os.fsync(file.fileno())
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def rows_in(path: Path) -> Iterator[tuple[int, Any, str | None]]:
    """(index, result, error) of every row of a finished file."""
    columns = (_job_in(path) or {}).get("columns")
    if path.suffix == ".parquet":
        batches = pq.ParquetFile(path).iter_batches(min(4096, _at_once(path)))
    else:
        with pa.memory_map(str(path)) as file:
            reader = pa.ipc.open_file(file)
            batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
            yield from read_rows(batches, columns)
            return
    yield from read_rows(batches, columns)
