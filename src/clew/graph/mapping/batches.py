"""Batches of rows: cut from frames, tables, arrays and tensors, given to inputs as what they were recorded with, and
what a graph gives for them, row by row or joined again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from clew.errors import GraphError, nearest
from clew.graph.nodes import Input
from clew.graph.recorded import CONTAINERS, UNKNOWN, RecordedInput, kind_of

TABLES = ("frame", "table")


class Block:
    """Consecutive rows of a frame, a series, a table, an array or a tensor."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.kind = kind_of(data)

    @classmethod
    def of(cls, blocks: list[Block]) -> Block:
        """Several as one."""
        return cls(joined([block.data for block in blocks], [len(block) for block in blocks], keep_index=True))

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, rows: slice) -> Block:
        begin, end, _ = rows.indices(len(self))
        if self.kind in ("frame", "series"):
            return Block(self.data.iloc[begin:end])
        if self.kind == "table":
            return Block(self.data.slice(begin, end - begin))
        return Block(self.data[begin:end])

    def __iter__(self) -> Iterator[Block]:
        """Blocks of one row: where a block cannot travel, the rows are tried one by one."""
        return (self[place : place + 1] for place in range(len(self)))

    def __reduce__(self) -> Any:
        """A slice of a tensor or of a table would take all of its memory along."""
        if self.kind == "table":
            sink = _library("pyarrow").BufferOutputStream()
            with _library("pyarrow").ipc.new_stream(sink, self.data.schema) as stream:
                stream.write_table(self.data)
            return _block_from_stream, (sink.getvalue().to_pybytes(),)
        return Block, (self.data.clone() if self.kind == "tensor" else self.data,)

    def rows_at(self, places: Sequence[int]) -> Block:
        if self.kind in ("frame", "series"):
            return Block(self.data.iloc[list(places)])
        if self.kind == "table":
            return Block(self.data.take(list(places)))
        return Block(self.data[list(places)])

    def row(self, place: int) -> Any:
        """One row, to look at: a dictionary of its columns, or an element."""
        if self.kind in TABLES:
            return rows_of(self[place : place + 1].data)[0]
        return self.data.iloc[place] if self.kind == "series" else self.data[place]

    def column(self, name: str) -> list[Any]:
        if self.kind == "table":
            return list(self.data[name].to_pylist())
        return list(self.data.iloc[:, [str(one) for one in self.data.columns].index(name)].tolist())


def _block_from_stream(content: bytes) -> Block:
    return Block(_library("pyarrow").ipc.open_stream(content).read_all())


def rows_of(table: Any) -> list[dict[str, Any]]:
    """The rows of a frame or table as dictionaries."""
    if kind_of(table) == "table":
        return list(table.to_pylist())
    columns = [(name, table.iloc[:, place].tolist()) for place, name in enumerate(table.columns)]
    return [{name: values[row] for name, values in columns} for row in range(len(table))]


# ---- what inputs are given -------------------------------------------------------------------------------------------


def takes_blocks(kind: str, inputs: Sequence[RecordedInput]) -> bool:
    """True if rows of a collection of this kind are given to an input in one piece, as it was recorded."""
    if kind in TABLES:
        return any(one.kind in CONTAINERS for one in inputs)
    arrays = ("series", "array", "tensor")
    return kind in arrays and bool(inputs) and inputs[0].kind in (arrays if kind == "series" else arrays[1:])


def block_values(block: Block, inputs: list[Input], recorded: Sequence[RecordedInput]) -> list[Any]:
    """What the inputs are given of a block: copies, because a graph may change what it is given."""
    if block.kind not in TABLES:
        missing = [one.name for one in inputs[1:] if not one.has_default]
        if missing:
            what = f"an array gives the input `{inputs[0].name}`, and nothing gives `{missing[0]}`."
            raise GraphError("graph-inputs", what, "Give a frame or table that has a column for each input.")
        data = block.data.copy() if recorded[0].kind == "series" else _array_as(block.data, recorded[0])
        return [data, *(one.default for one in inputs[1:])]
    return [_of_table(block, one, how) for one, how in zip(inputs, recorded, strict=True)]


def _of_table(block: Block, given: Input, recorded: RecordedInput) -> Any:
    table = block.data
    if recorded.kind == "frame":
        return table.copy() if block.kind == "frame" else _with_numbers(table.to_pandas(), recorded)
    if recorded.kind == "table":
        return _library("pyarrow").Table.from_pandas(table) if block.kind == "frame" else table
    names = [str(name) for name in (table.columns if block.kind == "frame" else table.column_names)]
    if given.name not in names:
        if given.has_default:
            return given.default
        what = f"the table has no column for the input `{given.name}`;"
        raise GraphError("graph-items", what, f"{nearest(given.name, names)} Rename a column.")
    column = table.iloc[:, names.index(given.name)] if block.kind == "frame" else table[given.name]
    if recorded.kind == "series":
        return column.copy() if block.kind == "frame" else column.to_pandas()
    if recorded.kind in ("array", "tensor"):
        return _array_of_column(column.to_numpy(), recorded)
    return list(column.to_pylist() if block.kind == "table" else column.tolist())


def _with_numbers(frame: Any, recorded: RecordedInput) -> Any:
    """A frame that was read, with numbers in the columns that had numbers when it was recorded: a file may have texts
    there, or nothing at all in these rows."""
    for name in recorded.number_columns & set(frame.columns):
        if frame[name].dtype.kind == "O":
            cells = frame[name].map(number_in)
            try:
                frame[name] = cells.astype(float)
            except (TypeError, ValueError):
                frame[name] = cells.astype(object)
    return frame


def number_in(cell: Any) -> Any:
    """The number that a text is, nothing for an empty one; anything else as it is."""
    if not isinstance(cell, str):
        return cell
    for kind in (int, float):
        try:
            return kind(cell) if cell else None
        except ValueError:
            continue
    return cell


def as_recorded(value: Any, recorded: RecordedInput) -> Any:
    """A value of a file, which knows lists only, as what the input was recorded with."""
    if not isinstance(value, list) or recorded.kind not in ("array", "tensor", "list"):
        return value
    if recorded.kind == "list":
        return tuple(value) if recorded.class_name == "tuple" else value
    made = _as_array(value)
    if recorded.kind == "tensor":
        made = _library("torch").tensor(made)
    _check_dimensions(made.ndim, recorded)
    return _in_dtype(made, recorded)


def _array_of_column(column: Any, recorded: RecordedInput) -> Any:
    """The cells of a column, in the dtype that was recorded where that is a matter of precision: files rarely have it.
    Cells that are lists are rows of an array."""
    if column.dtype == object:
        return stacked([cell.tolist() if kind_of(cell) == "array" else cell for cell in column], recorded)
    made = _array_as(column, recorded)
    return _in_dtype(made, recorded)


def _in_dtype(made: Any, recorded: RecordedInput) -> Any:
    if recorded.dtype is None or made.dtype == recorded.dtype:
        return made
    if recorded.kind == "tensor":
        return made.to(recorded.dtype) if _library("torch").can_cast(made.dtype, recorded.dtype) else made
    np = _library("numpy")
    return made.astype(recorded.dtype) if np.can_cast(made.dtype, recorded.dtype, "same_kind") else made


def _array_as(data: Any, recorded: RecordedInput) -> Any:
    """A copy of an array or tensor, as the one of them that was recorded."""
    data = data.to_numpy() if kind_of(data) == "series" else data
    is_tensor = kind_of(data) == "tensor"
    if recorded.kind == "tensor":
        made = data.clone() if is_tensor else _library("torch").tensor(data)
    else:
        made = data.detach().cpu().numpy().copy() if is_tensor else data.copy()
    _check_dimensions(made.ndim, recorded)
    return made


def _check_dimensions(dimensions: int, recorded: RecordedInput) -> None:
    if recorded.dimensions not in (None, dimensions):
        what = (
            f"what is given to the input `{recorded.name}` has {dimensions} dimensions, and it was recorded with "
            f"{recorded.article} of {recorded.dimensions}."
        )
        raise GraphError("graph-batch", what, "Give as many dimensions as when it was recorded.")


def stacked(values: list[Any], recorded: RecordedInput) -> Any:
    """The values of a batch for one input, as what it was recorded with."""
    _check_rows(values, recorded)
    if recorded.kind == "array":
        return _stacked_arrays(values, recorded)
    if recorded.kind == "tensor":
        return _stacked_tensors(values, recorded)
    if recorded.kind == "series":
        return _library("pandas").Series(values)
    if recorded.kind == "frame":
        return _with_numbers(_library("pandas").DataFrame(values), recorded)
    if recorded.kind == "table":
        return _library("pyarrow").Table.from_pylist(values)
    return tuple(values) if recorded.class_name == "tuple" else values


def _check_rows(values: list[Any], recorded: RecordedInput) -> None:
    """Refuse to make rows into a batch that cannot be what the input was recorded with."""
    if recorded.kind in CONTAINERS and any(value is None for value in values):
        what = f"a row has nothing for the input `{recorded.name}`, which was recorded with {recorded.article}."
        raise GraphError("graph-item", what, "Give it a value.")
    remedy = "Record the graph with a batch (a list, an array, a frame of rows), or leave out batch=."
    if recorded.kind not in (*CONTAINERS, "list", UNKNOWN):
        what = (
            f"batch= gives several rows at once to the input `{recorded.name}`, and it was recorded with "
            f"{recorded.article}."
        )
        raise GraphError("graph-batch", what, remedy)
    kinds = {kind_of(value) for value in values}
    if recorded.kind in TABLES and not kinds <= {"mapping", "series"}:
        what = (
            f"the input `{recorded.name}` was recorded with {recorded.article}, and a {kinds.pop()} is no row of one."
        )
        raise GraphError("graph-batch", what, "Give a frame, a table, or dictionaries as rows.")
    if recorded.elements and not kinds & recorded.elements and "nothing" not in kinds | recorded.elements:
        was, now = (", ".join(sorted(one)) for one in (recorded.elements, kinds))
        what = f"the input `{recorded.name}` was recorded with a list of: {was}; a batch would be a list of: {now}."
        raise GraphError("graph-batch", what, remedy)


def _stacked_arrays(values: list[Any], recorded: RecordedInput) -> Any:
    np = _library("numpy")
    try:
        made = np.stack([_as_array(value) for value in values])
    except ValueError as error:
        raise _ragged(values, recorded) from error
    _check_dimensions(made.ndim, recorded)
    return _in_dtype(made, recorded) if all(kind_of(value) not in ("array", "tensor") for value in values) else made


def _as_array(value: Any) -> Any:
    np = _library("numpy")
    return value.detach().cpu().numpy() if kind_of(value) == "tensor" else np.asarray(value)


def _stacked_tensors(values: list[Any], recorded: RecordedInput) -> Any:
    torch = _library("torch")
    try:
        made = torch.stack([torch.as_tensor(value) for value in values])
    except RuntimeError as error:
        raise _ragged(values, recorded) from error
    _check_dimensions(made.ndim, recorded)
    return _in_dtype(made, recorded) if all(kind_of(value) not in ("array", "tensor") for value in values) else made


def _ragged(values: list[Any], recorded: RecordedInput) -> GraphError:
    shapes = sorted({str(tuple(_as_array(value).shape)) for value in values})
    what = f"the rows of a batch for `{recorded.name}` have different shapes: {', '.join(shapes[:3])}."
    return GraphError("graph-item", what, "Make them equal (by padding, say), or leave out batch=.")


# ---- what a graph gives for them -------------------------------------------------------------------------------------


def parted(output: Any, count: int) -> list[Any]:
    """What a batch gave, row by row: a sequence of as many; or a tuple or dictionary of such sequences."""
    if type(output) is dict:
        columns = [_sequence(value, count) for value in output.values()]
        return [dict(zip(output, row, strict=True)) for row in zip(*columns, strict=True)]
    if type(output) is tuple:
        return list(zip(*(_sequence(value, count) for value in output), strict=True))
    return _sequence(output, count)


def check_parts(output: Any, count: int) -> None:
    """Refuse what `parted` would refuse; arrays and frames are not gone through."""
    members = output.values() if type(output) is dict else output if type(output) is tuple else [output]
    if type(output) in (dict, tuple) and not output:
        raise _no_batch(output, count)
    for member in members:
        length = _length(member)
        if length != count:
            raise _no_batch(member, count, length)


def _no_batch(value: Any, count: int, length: int | None = None) -> GraphError:
    of = "" if length is None else f" of {length}"
    what = f"for a batch of {count} rows the graph gave a {type(value).__name__}{of}."
    return GraphError("graph-batch", what, "It must give a sequence of as many, or a tuple or dictionary of those.")


def _length(value: Any) -> int | None:
    if isinstance(value, str | bytes | dict):
        return None
    try:
        return len(value)
    except TypeError:  # a tensor of no dimensions has none either
        return None


def _sequence(value: Any, count: int) -> list[Any]:
    kind = kind_of(value)
    if kind in TABLES:
        return rows_of(value)
    if kind == "series":
        return list(value.tolist())
    if _length(value) != count:
        raise _no_batch(value, count, _length(value))
    return list(value)


def joined(outputs: list[Any], counts: list[int], *, keep_index: bool = False) -> Any:
    """The outputs of batches as one: frames, arrays and lists one after the other."""
    types, first = {type(output) for output in outputs}, outputs[0] if outputs else []
    if types == {dict} and len({tuple(output) for output in outputs}) == 1:
        return {key: joined([output[key] for output in outputs], counts) for key in first}
    if types == {tuple} and len({len(output) for output in outputs}) == 1:
        return tuple(joined([output[place] for output in outputs], counts) for place in range(len(first)))
    kinds = {kind_of(output) for output in outputs}
    if len(kinds) == 1 and first is not None:
        if kinds & {"frame", "series"}:
            return _library("pandas").concat(outputs, ignore_index=not keep_index and _has_fresh_index(outputs))
        if kinds == {"array"}:
            return _library("numpy").concatenate(outputs)
        if kinds == {"tensor"}:
            return _library("torch").cat(outputs)
        if kinds == {"table"}:
            return _library("pyarrow").concat_tables(outputs, promote_options="permissive")
    return [row for output, count in zip(outputs, counts, strict=True) for row in parted(output, count)]


def _has_fresh_index(outputs: list[Any]) -> bool:
    """True if each frame is numbered from 0: the graph made a new index, as it would have for all rows at once."""
    fresh = _library("pandas").RangeIndex
    return len(outputs) > 1 and all(
        isinstance(output.index, fresh) and output.index.equals(fresh(len(output))) for output in outputs
    )


def _library(name: str) -> Any:
    """In a worker it need not be loaded yet."""
    return import_module(name)
