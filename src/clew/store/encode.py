"""A flush as an Arrow record batch. Columns of numbers go through without a copy."""

from __future__ import annotations

from functools import cache
from json.encoder import encode_basestring_ascii
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from clew.records import Function, Kept, Note, Origin, Site, Summary, Value
from clew.store.arrays import lists, make, numbers, same
from clew.store.blobs import Part
from clew.store.flush import CallEnd, CallStart, ChangeColumns, EndColumns, Flush, Span, StartColumns
from clew.store.format import NO_ID, schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


# What stands in the checksum's place until the message is sealed; the writer checks that it sits where it must.
UNSEALED = 0x_C1E3_5EA1_C1E3_5EA1

Fields = dict[str, "Sequence[Any] | pa.Array"]  # one entry per field of a struct; none at all for no rows

_SUMMARY_NUMBERS = ("min", "max", "mean", "std", "norm", "zeros")
_SUMMARY_FIELDS = ("shape", "dtype", "device", "length", "size", "nan", "inf", *_SUMMARY_NUMBERS)
_VALUE_FIELDS = ("type", "body", "kept", "why", "digest", "summary")
_of_summary = attrgetter(*_SUMMARY_FIELDS)
_of_value = attrgetter(*_VALUE_FIELDS)


def encode(flush: Flush, parts: Sequence[Sequence[Part]], blob_length: int) -> pa.RecordBatch:
    """The batch of `flush`; `parts` says, for each of its values, where the bytes were put."""
    columns = {
        "time": make([flush.time], pa.int64()),
        "functions": _rows("functions", _attributes(flush.functions, Function.__slots__)),
        "sites": _rows("sites", _attributes(flush.sites, Site.__slots__)),
        "starts": _all("starts", _turned(flush.starts, CallStart._fields), *map(_start_fields, flush.more_starts)),
        "ends": _all("ends", _turned(flush.ends, CallEnd._fields), *map(_end_fields, flush.more_ends)),
        "spans": _all("spans", *_span_fields(flush.changes)),
        "changes": _rows("changes", _numbers(flush.changes)),
        "values": _values(flush, parts),
        "notes": _rows("notes", _attributes(flush.notes, Note.__slots__)),
        "origins": _rows("origins", _attributes(flush.origins, Origin.__slots__)),
        "blobs": make([blob_length], pa.int64()),
        "checksum": make([UNSEALED], pa.uint64()),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in schema().names], schema=schema())


def _rows(column: str, fields: Fields) -> pa.ListArray:
    """The one row of `column`: a list of structs, from the columns of their fields."""
    return _one_row(column, _struct(column, fields)) if fields else _no_rows(column)


def _all(column: str, *parts: Fields) -> pa.ListArray:
    """The same from several sets of columns, one after the other."""
    structs = [_struct(column, fields) for fields in parts if fields]
    if not structs:
        return _no_rows(column)
    return _one_row(column, structs[0] if len(structs) == 1 else pa.concat_arrays(structs))


def _start_fields(given: StartColumns) -> Fields:
    count = len(given.call)
    return {
        "call": numbers(given.call, pa.int64()),
        "parent": numbers(given.parent, pa.int64()),
        "function": numbers(given.function, pa.int32()),
        "time": numbers(given.time, pa.int64()),
        "thread": numbers(given.thread, pa.int64()),
        "thread_name": pa.concat_arrays([same(name, times, pa.string()) for name, times in given.thread_names]),
        "args": numbers(np.full(count, NO_ID), pa.int64()),
        "step": pa.nulls(count, pa.int64()),
        "rank": numbers(np.full(count, given.rank), pa.int32()),
        "stage": pa.nulls(count, pa.string()) if given.stage is None else given.stage,
        "line": _lines(given.line, count),
        "callers": pa.nulls(count, pa.string()) if given.callers is None else given.callers,
    }


def _lines(lines: Any, count: int) -> Any:
    if lines is None:
        return pa.nulls(count, pa.int64())
    return numbers(lines, pa.int64()) if isinstance(lines, np.ndarray) else lines


def _end_fields(given: EndColumns) -> Fields:
    count = len(given.call)
    return {
        "call": numbers(given.call, pa.int64()),
        "time": numbers(given.time, pa.int64()),
        "error": pa.nulls(count, pa.string()) if given.error is None else given.error,
        "result": numbers(np.full(count, NO_ID), pa.int64()),
    }


def _span_fields(changes: ChangeColumns | None) -> tuple[Fields, Fields]:
    if changes is None:
        return {}, {}
    more: Fields = {}
    if changes.more_spans is not None:
        more = {name: numbers(c, pa.int64()) for name, c in zip(Span._fields, changes.more_spans, strict=True)}
    return _turned(changes.spans, Span._fields), more


def _one_row(column: str, struct: pa.StructArray) -> pa.ListArray:
    return lists([len(struct)], struct, schema().field(column).type)


@cache
def _no_rows(column: str) -> pa.ListArray:
    """Made once: most columns of most flushes are empty."""
    return _one_row(column, _struct(column, {field.name: () for field in _fields_of(column)}))


@cache
def _fields_of(column: str) -> tuple[pa.Field, ...]:
    return tuple(schema().field(column).type.value_type)


def _struct(column: str, fields: Fields) -> pa.StructArray:
    wanted = _fields_of(column)
    arrays = [make(fields[field.name], field.type) for field in wanted]
    return pa.StructArray.from_arrays(arrays, fields=list(wanted))


def _attributes(rows: Sequence[Any], names: Iterable[str]) -> Fields:
    return {name: [getattr(row, name) for row in rows] for name in names} if rows else {}


def _turned(rows: Sequence[tuple[Any, ...]], names: Iterable[str]) -> Fields:
    return dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else {}


def _numbers(columns: ChangeColumns | None) -> Fields:
    if columns is None or not len(columns):
        return {}
    return {field.name: numbers(getattr(columns, field.name), field.type) for field in _fields_of("changes")}


def _values(flush: Flush, parts: Sequence[Sequence[Part]]) -> pa.ListArray:
    lanes = []
    if flush.values:
        lanes.append(_struct("values", _value_fields(flush.values, parts)))
    if flush.texts:
        lanes.append(_struct("values", _text_fields(flush)))
    if not lanes:
        return _no_rows("values")
    return _one_row("values", lanes[0] if len(lanes) == 1 else pa.concat_arrays(lanes))


def _value_fields(rows: list[tuple[int, Value]], parts: Sequence[Sequence[Part]]) -> Fields:
    ids, values = zip(*rows, strict=True)
    given = dict(zip(_VALUE_FIELDS, zip(*map(_of_value, values), strict=True), strict=True))
    summaries = given.pop("summary")
    return {"id": ids, **given, **_summary_fields(summaries), "parts": _part_lists(parts)}


def _part_lists(parts: Sequence[Sequence[Part]]) -> pa.ListArray:
    type = next(field.type for field in _fields_of("values") if field.name == "parts")
    flat = [part for row in parts for part in row]
    columns = zip(*flat, strict=True) if flat else [()] * len(Part._fields)
    arrays = [make(column, field.type) for column, field in zip(columns, type.value_type, strict=True)]
    return lists(list(map(len, parts)), pa.StructArray.from_arrays(arrays, fields=list(type.value_type)), type)


def _summary_fields(summaries: Sequence[Summary]) -> Fields:
    fields: Fields = dict(zip(_SUMMARY_FIELDS, zip(*map(_of_summary, summaries), strict=True), strict=True))
    for name in _SUMMARY_NUMBERS:
        if fields[name].count(None) < len(summaries):
            fields[name] = list(map(_float, fields[name]))
    return fields


def _float(number: Any) -> float | None:
    """Arrow refuses integers that a float cannot hold exactly; a summary may be rounded."""
    if number is None or type(number) is float:
        return number
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def _text_fields(flush: Flush) -> Fields:
    """Many texts at once. They carry no digest: the body says everything."""
    if flush.text_ids is None or len(flush.text_ids) != len(flush.texts):
        raise ValueError("a flush needs as many text_ids as texts")
    count = len(flush.texts)
    given: Fields = {
        "id": numbers(flush.text_ids, pa.int64()),
        "type": same("str", count, pa.string()),
        "body": list(map(encode_basestring_ascii, flush.texts)),
        "kept": numbers(np.full(count, int(Kept.FULL)), pa.uint8()),
        "why": same("", count, pa.string()),
        "digest": same(b"", count, pa.binary()),
        "length": list(map(len, flush.texts)),
        "parts": _part_lists([()] * count),
    }
    return {field.name: given.get(field.name, pa.nulls(count, field.type)) for field in _fields_of("values")}
