"""pandas tables, columns and indexes, kept as Arrow IPC bytes. Loaded when the user's program has loaded pandas.

A table is judged by what its blocks hold: NumPy blocks by hash, everything else by asking Arrow again.
"""

from __future__ import annotations

import json
from typing import Any, Final

from xxhash import xxh3_128, xxh3_128_digest

from clew.records import Kept, NotKept, Summary, Value
from clew.values.base import Handler, Looking, Node, optional
from clew.values.classes import inherits, module_of
from clew.values.codec import Reader
from clew.values.jsontext import dumps
from clew.values.python import opaque

pd: Any = optional("pandas")  # without it, tables come back as Arrow tables


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
    table, names, why = _as_table(obj, kind)
    node = Node(f"pandas.{type(obj).__name__}", "pandas", note={"kind": kind, "names": names})
    node.summary = Summary(tuple(obj.shape), _dtypes(obj, kind), length=len(obj))
    if table is None:
        node.kept, node.why = Kept.SUMMARY, why
        node.aside = {"why": why}
        node.content = b"%x" % id(obj)
        return node
    raw = _to_ipc(table)
    node.summary.size = len(raw)
    node.content = xxh3_128_digest(raw)
    node.why = walk.room_for(len(raw))
    if node.why:
        node.kept, node.aside = Kept.SUMMARY, {"why": node.why}
    else:
        node.aside = {"part": walk.add_part(raw)}
    walk.watch(obj, _TableWatch(obj, kind, node.content))
    return node


def _dtypes(obj: Any, kind: str) -> str:
    if kind != "frame":
        return str(obj.dtype)
    return ", ".join(str(x) for x in list(obj.dtypes)[:20])


def _as_frame(obj: Any, kind: str) -> Any:
    """Everything as a table whose columns have plain text names; the true names stand beside."""
    if kind == "index":
        frame = obj.to_frame(index=False)
    elif kind == "series":
        frame = obj.to_frame()
    else:
        frame = obj.copy(deep=False)
    frame.columns = [str(i) for i in range(frame.shape[1])]
    return frame


def _as_table(obj: Any, kind: str) -> tuple[Any, Any, str]:
    """The Arrow table, the labels, or why there is none. Only what comes back exactly counts as kept."""
    import pyarrow as pa

    if _holds_user_objects(obj, kind):
        return None, None, "it holds Python objects, which Arrow cannot keep"
    try:
        frame = _as_frame(obj, kind)
        return pa.Table.from_pandas(frame, preserve_index=None), _labels(obj, kind), ""
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError) as error:
        return None, None, f"Arrow cannot keep it ({type(error).__name__})"


def _holds_user_objects(obj: Any, kind: str) -> bool:
    """An object column may hold anything, and Arrow would ask it questions: only exact text and None pass."""
    columns = [obj.iloc[:, i] for i in range(obj.shape[1])] if kind == "frame" else [obj]
    if kind != "index":
        columns.append(obj.index)
    plain: list[Any] = []
    for column in columns:
        plain.extend(column.levels if isinstance(column, pd.MultiIndex) else [column])
    return any(column.dtype == object and not _is_plain(column) for column in plain)


def _is_plain(column: Any) -> bool:
    known = (str, type(None))
    return all(any(type(x) is cls for cls in known) for x in column.to_numpy())


def _labels(obj: Any, kind: str) -> Any:
    """What Arrow does not keep of the labels: their exact values and types, and the frequency of the dates."""
    index = obj if kind == "index" else obj.index
    found: dict[str, Any] = {"freq": getattr(index, "freqstr", None)}
    if kind == "frame":
        found["columns"] = _index_spec(obj.columns)
    elif kind == "series":
        found["name"] = obj.name
    else:
        found["names"] = list(obj.names)
        found["range"] = [obj.start, obj.stop, obj.step] if type(obj) is pd.RangeIndex else None
    return _exactly(found)


def _index_spec(index: Any) -> dict[str, Any]:
    bounds = [index.start, index.stop, index.step] if type(index) is pd.RangeIndex else None
    labels = [] if bounds else list(index)
    return {"range": bounds, "labels": labels, "dtype": str(index.dtype), "names": list(index.names)}


def _exactly(found: dict[str, Any]) -> Any:
    from clew.values.capture import capture

    value = capture(found).value
    if value.kept is not Kept.FULL or value.parts or value.body is None:
        raise TypeError("labels that cannot be kept")
    return json.loads(value.body)


def _to_ipc(table: Any) -> Any:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


class _TableWatch:
    """Asks Arrow again: exact, at the price of a conversion, which for numbers is little more than a copy."""

    __slots__ = ("_content", "_kind", "_type")

    def __init__(self, obj: Any, kind: str, content: bytes) -> None:
        self._type = type(obj)
        self._kind = kind
        names = dumps(_labels(obj, kind)).encode()
        self._content = xxh3_128(names + content).digest()

    def __call__(self, obj: Any) -> bool:
        if type(obj) is not self._type:
            return False
        table, names, why = _as_table(obj, self._kind)
        if why:
            return False
        return xxh3_128(dumps(names).encode() + xxh3_128_digest(_to_ipc(table))).digest() == self._content


# ---- reading back


def _read(tree: dict[str, Any], reader: Any) -> Any:
    if "part" not in tree:
        return NotKept("pandas", Kept.SUMMARY, tree.get("why", ""), Summary())
    import pyarrow as pa

    with pa.ipc.open_stream(pa.py_buffer(reader.parts[tree["part"]])) as stream:
        table = stream.read_all()
    if pd is None:
        return table
    frame = table.to_pandas()
    labels = Reader(Value("dict", dumps(tree["names"]))).read_all()
    if tree["kind"] == "index":
        return _as_index(frame, labels)
    if labels["freq"] is not None:
        frame.index.freq = labels["freq"]
    if tree["kind"] == "series":
        return frame["0"].rename(labels["name"])
    frame.columns = _from_spec(labels["columns"])
    return frame


def _from_spec(given: dict[str, Any]) -> Any:
    if given["range"] is not None:
        return pd.RangeIndex(*given["range"], name=given["names"][0])
    if len(given["names"]) > 1:
        return pd.MultiIndex.from_tuples(given["labels"], names=given["names"])
    return pd.Index(given["labels"], dtype=given["dtype"], name=given["names"][0])


def _as_index(frame: Any, labels: dict[str, Any]) -> Any:
    if labels["range"] is not None:
        return pd.RangeIndex(*labels["range"], name=labels["names"][0])
    if frame.shape[1] > 1:
        return pd.MultiIndex.from_frame(frame, names=labels["names"])
    index = pd.Index(frame["0"]).rename(labels["names"][0])
    if labels["freq"] is not None:
        index.freq = labels["freq"]
    return index


def _read_scalar(tree: dict[str, Any], reader: Any) -> Any:
    given = tree["value"]
    if pd is None:
        return given[0]
    if tree["kind"] == "Timedelta":
        return pd.Timedelta(given[0], unit=given[1]).as_unit(given[1])
    return pd.Timestamp(given[0], unit=given[1], tz=given[2]).as_unit(given[1])


READERS: Final[dict[str, Any]] = {
    "pandas": _read,
    "pandas.scalar": _read_scalar,
    "pandas.nat": lambda tree, reader: None if pd is None else pd.NaT,
    "pandas.na": lambda tree, reader: None if pd is None else pd.NA,
}
