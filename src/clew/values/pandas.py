"""pandas tables, columns and indexes, kept as Arrow IPC bytes. Loaded when the user's program has loaded pandas.

A table is judged by its Arrow bytes and, for columns of objects, by the objects one by one (see pandas_parts.py).
"""

from __future__ import annotations

from operator import is_
from typing import Any, Final

from xxhash import xxh3_128_digest

from clew.records import Kept, NotKept, Summary, Value
from clew.values import pandas_parts
from clew.values.adapters import SEQUENCE, Handler, Looking, Node, optional
from clew.values.arrow_tables import read_table, require_dtype
from clew.values.class_facts import inherits, module_of
from clew.values.codec import Reader
from clew.values.json_text import dumps
from clew.values.python import opaque

pd: Any = optional("pandas")  # without it, tables come back as Arrow tables
_LIGHT = 8192  # cells of a table that is kept where large values are not
_REFUSED: Final = (TypeError, ValueError, NotImplementedError)  # most of Arrow's own errors are among them


def claim(cls: type) -> Handler | None:
    if pd is None:
        return None
    if module_of(cls).partition(".")[0] != "pandas":
        return Handler(None, _look_subclass) if inherits(cls, pd.core.base.PandasObject) else None
    if cls is pd.DataFrame:
        return Handler(None, lambda obj, walk: _look(obj, walk, "frame"))
    if cls is pd.Series:
        return Handler(None, lambda obj, walk: _look(obj, walk, "series"))
    if inherits(cls, pd.Index):
        return Handler(None, lambda obj, walk: _look(obj, walk, "index"))
    if cls is pd.Timestamp:
        return Handler(None, lambda obj, walk: _look_scalar(obj, [obj._value, obj.unit, _zone(obj)]))
    if cls is pd.Timedelta:
        return Handler(None, lambda obj, walk: _look_scalar(obj, [obj._value, obj.unit]))
    if cls is type(pd.NaT):
        return Handler(lambda x: {"$": "pandas.nat", "is": ""}, None)
    if cls is type(pd.NA):
        return Handler(lambda x: {"$": "pandas.na", "is": ""}, None)
    return None


def _look_subclass(obj: Any, walk: Looking) -> Node:
    return opaque(obj, "a table of a class that is not pandas' own, whose code would run")


def _zone(stamp: Any) -> str | None:
    return None if stamp.tzinfo is None else str(stamp.tzinfo)


def _look_scalar(obj: Any, given: list[Any]) -> Node:
    return Node(f"pandas.{type(obj).__name__}", "pandas.scalar", note={"kind": type(obj).__name__, "value": given})


def _look(obj: Any, walk: Looking, kind: str) -> Node:
    if pandas_parts.is_foreign(obj, kind):
        return opaque(obj, "it holds a column of a type that is not pandas' own, whose code would run")
    if walk.light and obj.size > _LIGHT:
        return _not_taken(obj, kind, f"over {_LIGHT:,} cells")
    try:
        apart = pandas_parts.Apart(obj, kind)
    except _REFUSED as error:
        return _not_taken(obj, kind, f"Arrow cannot keep it ({type(error).__name__})")
    node = Node(f"pandas.{type(obj).__name__}", "pandas", note={"kind": kind, "names": apart.labels, **apart.note})
    raw = _to_ipc(apart.table)
    node.summary = Summary(tuple(obj.shape), _dtypes(obj, kind), length=len(obj), size=len(raw))
    node.content = xxh3_128_digest(raw)
    node.why = walk.room_for(len(raw))
    if node.why:
        node.kept, node.aside = Kept.SUMMARY, {"why": node.why}
    else:
        node.aside = {"part": walk.add_part(raw)}
        if apart.why:
            node.kept, node.why = Kept.PART, apart.why
    if apart.items:
        node.form, node.items = SEQUENCE, apart.items
        walk.guard(_same_table, obj, (type(obj), kind, _state(apart, node.content), list(apart.items)))
    else:
        walk.watch(obj, _TableWatch(obj, kind, _state(apart, node.content)))
    return node


def _not_taken(obj: Any, kind: str, why: str) -> Node:
    """Judged by identity: what it holds cannot be asked for without asking its owner."""
    node = Node(f"pandas.{type(obj).__name__}", "pandas", note={"kind": kind})
    node.summary = Summary(tuple(obj.shape), _dtypes(obj, kind), length=len(obj))
    node.kept, node.why = Kept.SUMMARY, why
    node.aside = {"why": why}
    node.content = b"%x" % id(obj)
    return node


def _dtypes(obj: Any, kind: str) -> str:
    if kind != "frame":
        return str(obj.dtype)
    return ", ".join(str(x) for x in list(obj.dtypes)[:20])


def _to_ipc(table: Any) -> Any:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _state(apart: pandas_parts.Apart, content: bytes) -> bytes:
    return xxh3_128_digest(dumps([apart.labels, apart.note]).encode() + content)


class _TableWatch:
    """Asks Arrow again: exact, at the price of a conversion, which for numbers is little more than a copy."""

    __slots__ = ("_kept",)

    def __init__(self, obj: Any, kind: str, state: bytes) -> None:
        self._kept: tuple[type, str, bytes, list[Any]] = (type(obj), kind, state, [])

    def __call__(self, obj: Any) -> bool:
        return _same_table(obj, self._kept)


def _same_table(obj: Any, kept: tuple[type, str, bytes, list[Any]]) -> bool:
    """The same in what Arrow holds, and the very same objects beside; what those hold has guards of its own."""
    cls, kind, state, items = kept
    if type(obj) is not cls or pandas_parts.is_foreign(obj, kind):
        return False
    try:
        apart = pandas_parts.Apart(obj, kind)
    except _REFUSED:
        return False
    if len(apart.items) != len(items) or not all(map(is_, apart.items, items)):
        return False
    return _state(apart, xxh3_128_digest(_to_ipc(apart.table))) == state


# ---- reading back


def _read(tree: dict[str, Any], reader: Any) -> Any:
    items = [reader.read(x) for x in tree.get("items", ())]
    if "part" not in tree:
        return NotKept("pandas", Kept.SUMMARY, tree.get("why", ""), Summary())
    table = read_table(reader.part(tree))
    if pd is None:
        return table
    return pandas_parts.together(table, tree, Reader(Value("dict", dumps(tree["names"]))).read_all(), items)


def _read_scalar(tree: dict[str, Any], reader: Any) -> Any:
    given = tree["value"]
    if type(given[0]) is not int:
        raise TypeError("a moment is written as a count")
    if pd is None:
        return given[0]
    if tree["kind"] == "Timedelta":
        return pd.Timedelta(given[0], unit=given[1]).as_unit(given[1])
    zone = None if given[2] is None else require_dtype(given[2])
    return pd.Timestamp(given[0], unit=given[1], tz=zone).as_unit(given[1])


READERS: Final[dict[str, Any]] = {
    "pandas": _read,
    "pandas.scalar": _read_scalar,
    "pandas.nat": lambda tree, reader: None if pd is None else pd.NaT,
    "pandas.na": lambda tree, reader: None if pd is None else pd.NA,
}
