"""Encodes a flush as an Arrow record batch. Columns of numbers are not copied."""

from __future__ import annotations

from functools import cache
from json.encoder import encode_basestring_ascii
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from clew.records import Function, Kept, Note, Origin, Site, Summary, Value
from clew.store.arrow_arrays import make_array, make_lists, numbers, repeat_text
from clew.store.blobs import Part
from clew.store.flush import CallEnd, CallStart, ChangeColumns, EndColumns, Flush, Span, StartColumns
from clew.store.format import NO_ID, schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


# Takes the checksum's place until the message is sealed; `seal_batch` checks that it is where it must be.
UNSEALED = 0x_C1E3_5EA1_C1E3_5EA1

Fields = dict[str, "Sequence[Any] | pa.Array"]  # one entry for each field of a struct; empty if there are no rows

_SUMMARY_NUMBERS = ("min", "max", "mean", "std", "norm", "zeros")
_SUMMARY_FIELDS = ("shape", "dtype", "device", "length", "size", "nan", "inf", *_SUMMARY_NUMBERS)
_VALUE_FIELDS = ("type", "body", "kept", "why", "digest", "summary")
_of_summary = attrgetter(*_SUMMARY_FIELDS)
_of_value = attrgetter(*_VALUE_FIELDS)


def encode(flush: Flush, parts: Sequence[Sequence[Part]], blob_length: int) -> pa.RecordBatch:
    """The batch of a flush; `parts` tells for each of its values where the bytes were put."""
    columns = {
        "time": make_array([flush.time], pa.int64()),
        "functions": _table_row("functions", _attribute_columns(flush.functions, Function.__slots__)),
        "sites": _table_row("sites", _attribute_columns(flush.sites, Site.__slots__)),
        "starts": _joined_table_row(
            "starts", _transpose(flush.starts, CallStart._fields), *map(_start_fields, flush.more_starts)
        ),
        "ends": _joined_table_row("ends", _transpose(flush.ends, CallEnd._fields), *map(_end_fields, flush.more_ends)),
        "spans": _joined_table_row("spans", *_span_fields(flush.changes)),
        "changes": _table_row("changes", _change_fields(flush.changes)),
        "values": _value_table(flush, parts),
        "notes": _table_row("notes", _attribute_columns(flush.notes, Note.__slots__)),
        "origins": _table_row("origins", _attribute_columns(flush.origins, Origin.__slots__)),
        "blobs": make_array([blob_length], pa.int64()),
        "checksum": make_array([UNSEALED], pa.uint64()),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in schema().names], schema=schema())


def _table_row(column: str, fields: Fields) -> pa.ListArray:
    """The single row of a table: a list of structs, made from the columns of their fields."""
    return _single_list(column, _make_struct(column, fields)) if fields else _empty_table(column)


def _joined_table_row(column: str, *parts: Fields) -> pa.ListArray:
    """The same, made from several sets of columns in order."""
    structs = [_make_struct(column, fields) for fields in parts if fields]
    if not structs:
        return _empty_table(column)
    return _single_list(column, structs[0] if len(structs) == 1 else pa.concat_arrays(structs))


def _start_fields(starts: StartColumns) -> Fields:
    count = len(starts.call)
    return {
        "call": numbers(starts.call, pa.int64()),
        "parent": numbers(starts.parent, pa.int64()),
        "function": numbers(starts.function, pa.int32()),
        "time": numbers(starts.time, pa.int64()),
        "thread": numbers(starts.thread, pa.int64()),
        "thread_name": pa.concat_arrays([repeat_text(name, times, pa.string()) for name, times in starts.thread_names]),
        "args": numbers(np.full(count, NO_ID), pa.int64()),
        "step": pa.nulls(count, pa.int64()),
        "rank": numbers(np.full(count, starts.rank), pa.int32()),
        "stage": pa.nulls(count, pa.string()) if starts.stage is None else starts.stage,
        "line": _line_column(starts.line, count),
        "callers": pa.nulls(count, pa.string()) if starts.callers is None else starts.callers,
    }


def _line_column(lines: Any, count: int) -> Any:
    if lines is None:
        return pa.nulls(count, pa.int64())
    return numbers(lines, pa.int64()) if isinstance(lines, np.ndarray) else lines


def _end_fields(ends: EndColumns) -> Fields:
    count = len(ends.call)
    return {
        "call": numbers(ends.call, pa.int64()),
        "time": numbers(ends.time, pa.int64()),
        "error": pa.nulls(count, pa.string()) if ends.error is None else ends.error,
        "result": numbers(np.full(count, NO_ID), pa.int64()),
    }


def _span_fields(changes: ChangeColumns | None) -> tuple[Fields, Fields]:
    if changes is None:
        return {}, {}
    more: Fields = {}
    if changes.more_spans is not None:
        more = {name: numbers(c, pa.int64()) for name, c in zip(Span._fields, changes.more_spans, strict=True)}
    return _transpose(changes.spans, Span._fields), more


def _single_list(column: str, struct: pa.StructArray) -> pa.ListArray:
    return make_lists([len(struct)], struct, schema().field(column).type)


@cache
def _empty_table(column: str) -> pa.ListArray:
    """Cached, because most tables of most flushes are empty."""
    return _single_list(column, _make_struct(column, {field.name: () for field in _fields_of(column)}))


@cache
def _fields_of(column: str) -> tuple[pa.Field, ...]:
    return tuple(schema().field(column).type.value_type)


def _make_struct(column: str, fields: Fields) -> pa.StructArray:
    fields_of_column = _fields_of(column)
    arrays = [make_array(fields[field.name], field.type) for field in fields_of_column]
    return pa.StructArray.from_arrays(arrays, fields=list(fields_of_column))


def _attribute_columns(rows: Sequence[Any], names: Iterable[str]) -> Fields:
    return {name: [getattr(row, name) for row in rows] for name in names} if rows else {}


def _transpose(rows: Sequence[tuple[Any, ...]], names: Iterable[str]) -> Fields:
    return dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else {}


def _change_fields(columns: ChangeColumns | None) -> Fields:
    if columns is None or not len(columns):
        return {}
    return {field.name: numbers(getattr(columns, field.name), field.type) for field in _fields_of("changes")}


def _value_table(flush: Flush, parts: Sequence[Sequence[Part]]) -> pa.ListArray:
    structs = []
    if flush.values:
        structs.append(_make_struct("values", _value_fields(flush.values, parts)))
    if flush.texts:
        structs.append(_make_struct("values", _text_fields(flush)))
    if not structs:
        return _empty_table("values")
    return _single_list("values", structs[0] if len(structs) == 1 else pa.concat_arrays(structs))


def _value_fields(rows: list[tuple[int, Value]], parts: Sequence[Sequence[Part]]) -> Fields:
    ids, values = zip(*rows, strict=True)
    fields = dict(zip(_VALUE_FIELDS, zip(*map(_of_value, values), strict=True), strict=True))
    summaries = fields.pop("summary")
    return {"id": ids, **fields, **_summary_fields(summaries), "parts": _part_lists(parts)}


def _part_lists(parts: Sequence[Sequence[Part]]) -> pa.ListArray:
    type = next(field.type for field in _fields_of("values") if field.name == "parts")
    flat = [part for row in parts for part in row]
    columns = zip(*flat, strict=True) if flat else [()] * len(Part._fields)
    arrays = [make_array(column, field.type) for column, field in zip(columns, type.value_type, strict=True)]
    return make_lists(list(map(len, parts)), pa.StructArray.from_arrays(arrays, fields=list(type.value_type)), type)


def _summary_fields(summaries: Sequence[Summary]) -> Fields:
    fields: Fields = dict(zip(_SUMMARY_FIELDS, zip(*map(_of_summary, summaries), strict=True), strict=True))
    for name in _SUMMARY_NUMBERS:
        if fields[name].count(None) < len(summaries):
            fields[name] = list(map(_as_float, fields[name]))
    return fields


def _as_float(number: Any) -> float | None:
    """Arrow refuses integers that a float cannot hold exactly; a summary may be rounded."""
    if number is None or type(number) is float:
        return number
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def _text_fields(flush: Flush) -> Fields:
    """Many texts at once. They have no digest, because the body is the whole value."""
    if flush.text_ids is None or len(flush.text_ids) != len(flush.texts):
        raise ValueError("a flush needs as many text_ids as texts")
    count = len(flush.texts)
    fields: Fields = {
        "id": numbers(flush.text_ids, pa.int64()),
        "type": repeat_text("str", count, pa.string()),
        "body": list(map(encode_basestring_ascii, flush.texts)),
        "kept": numbers(np.full(count, int(Kept.FULL)), pa.uint8()),
        "why": repeat_text("", count, pa.string()),
        "digest": repeat_text(b"", count, pa.binary()),
        "length": list(map(len, flush.texts)),
        "parts": _part_lists([()] * count),
    }
    return {field.name: fields.get(field.name, pa.nulls(count, field.type)) for field in _fields_of("values")}
