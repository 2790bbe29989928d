"""pandas tables taken apart, and put together again: what Arrow keeps exactly, and the Python objects it does not.

Columns, also the index, go to Arrow where their type comes back as it was. Objects of an object column are items like
those of a list: the walker looks at them, and none of their code runs. Text in object columns goes to Arrow as well,
which is quicker, with a note that the column was one of objects.
"""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np

from clew.records import Kept
from clew.values.adapters import optional
from clew.values.arrow_tables import require_dtype
from clew.values.class_facts import module_of
from clew.values.json_text import types_in

pd: Any = optional("pandas")

INDEX: Final = -1  # the place of the index among the columns
_OWN: Final = ("pandas", "numpy")
_TEXT: Final = frozenset((id(str), id(type(None))))


class Apart:
    """A table in pieces: an Arrow table, the labels it does not keep, and the objects of columns it cannot take."""

    def __init__(self, obj: Any, kind: str) -> None:
        self.items: list[Any] = []
        self.why = ""  # why not everything will come back as it was
        self._objects: list[tuple[int, str]] = []  # columns whose elements are items, and their types
        self._text: list[int] = []  # object columns that Arrow keeps, since they hold text only
        self.labels = _labels(obj, kind)
        if kind == "index" and type(obj) is pd.MultiIndex and _levels_of_objects(obj):
            frame = pd.DataFrame(index=obj)
        else:
            frame = _as_frame(obj, kind)
        frame = self._without_index(frame) if kind != "index" or not frame.shape[1] else frame
        self.table = self._to_arrow(self._without_objects(frame))

    @property
    def note(self) -> dict[str, Any]:
        """What the reader must know, beside the labels."""
        found = {"objects": [list(pair) for pair in self._objects], "text": self._text}
        return {name: places for name, places in found.items() if places}

    def _without_index(self, frame: Any) -> Any:
        index = frame.index
        if type(index) is pd.MultiIndex:
            if not _levels_of_objects(index):
                return frame
            self._take(INDEX, list(index), "multi")
            self.why = "its index has several levels, and objects in some: they come back as they look, not by type"
        elif not _is_of_objects(index):
            return frame
        elif _is_text(index):
            frame.insert(frame.shape[1], str(INDEX), pd.Series(index.to_numpy(), index, dtype=object))
            self._text.append(INDEX)
        else:
            self._take(INDEX, index.to_numpy().tolist(), "object")
        frame.index = pd.RangeIndex(len(index))
        return frame

    def _without_objects(self, frame: Any) -> Any:
        taken = []
        for i in range(frame.shape[1]):
            column = frame.iloc[:, i]
            if not _is_of_objects(column) or frame.columns[i] == str(INDEX):
                continue
            if _is_text(column):
                self._text.append(i)
            else:
                self._take(i, column.to_numpy().tolist(), "object")
                taken.append(i)
        return frame.iloc[:, [i for i in range(frame.shape[1]) if i not in taken]] if taken else frame

    def _take(self, place: int, elements: list[Any], dtype: str) -> None:
        self._objects.append((place, dtype))
        self.items.extend(elements)

    def _to_arrow(self, frame: Any) -> Any:
        import pyarrow as pa

        try:
            return pa.Table.from_pandas(frame, preserve_index=None)
        except (pa.ArrowException, TypeError, ValueError, NotImplementedError):
            return pa.Table.from_pandas(self._without_refused(frame), preserve_index=None)

    def _without_refused(self, frame: Any) -> Any:
        """Columns of a type that Arrow does not have, as their elements. (Text that is not UTF-8 is one of them.)"""
        good = []
        for i, name in enumerate(frame.columns):
            column = frame.iloc[:, i]
            if _arrow_takes(column):
                good.append(i)
                continue
            place = int(name)
            if place in self._text:
                self._text.remove(place)
            elif not isinstance(column.dtype, np.dtype):
                self.why = self.why or f"Arrow has no type for a column of {column.dtype}; its elements are kept"
            self._take(place, list(column.array), str(column.dtype))
        return frame.iloc[:, good]


def _arrow_takes(column: Any) -> bool:
    import pyarrow as pa

    try:
        pa.Table.from_pandas(column.to_frame(), preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError):
        return False
    return True


def is_foreign(obj: Any, kind: str) -> bool:
    """True if some column is held by an array that is not pandas' own: asking it for anything would run its code."""
    arrays = [] if kind == "index" else list(obj._mgr.arrays)
    indexes = [obj] if kind == "index" else [obj.index, *([obj.columns] if kind == "frame" else [])]
    for index in indexes:
        arrays.extend(level._data for level in index.levels) if type(index) is pd.MultiIndex else arrays.append(index)
    return any(module_of(type(getattr(x, "_data", x))).partition(".")[0] not in (*_OWN, "builtins") for x in arrays)


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


def _is_of_objects(column: Any) -> bool:
    return bool(column.dtype == object)


def _is_text(column: Any) -> bool:
    return types_in(column.to_numpy().tolist() or [None]) <= _TEXT


def _levels_of_objects(index: Any) -> bool:
    return any(_is_of_objects(level) and not _is_text(level) for level in index.levels)


# ---- labels


def _labels(obj: Any, kind: str) -> Any:
    """What Arrow does not keep of the labels: their exact values and types, and the frequency of the dates."""
    index = obj if kind == "index" else obj.index
    found: dict[str, Any] = {"freq": getattr(index, "freqstr", None)}
    if kind == "frame":
        found["columns"] = _index_spec(obj.columns)
    elif kind == "series":
        found["name"] = obj.name
    if kind == "index" or _is_of_objects(index) or type(index) is pd.MultiIndex:
        found["names"] = list(index.names)
    if kind == "index":
        found["range"] = [obj.start, obj.stop, obj.step] if type(obj) is pd.RangeIndex else None
    if type(index) is pd.MultiIndex:
        found["levels"] = [i for i, level in enumerate(index.levels) if _is_of_objects(level)]
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


# ---- together again


def together(table: Any, tree: dict[str, Any], labels: dict[str, Any], items: list[Any]) -> Any:
    """The table, column or index that was taken apart; `items` are the objects, read back."""
    frame = table.to_pandas()
    columns = {place: (_objects(table.column(str(place)).to_pylist()), "object") for place in tree.get("text", ())}
    for place, dtype in tree.get("objects", ()):
        columns[place] = (_objects(items[: len(frame)]), dtype)
        items = items[len(frame) :]
    index = columns.pop(INDEX, None)
    if index is not None:
        frame = frame.drop(columns=str(INDEX), errors="ignore")
        frame.index = _index_of(*index, labels["names"])
    for place, (cells, dtype) in sorted(columns.items()):
        _put(frame, place, pd.Series(cells, frame.index, _dtype_for(dtype)))
    return _labelled(frame, tree["kind"], labels)


def _put(frame: Any, place: int, column: Any) -> None:
    if str(place) in frame.columns:
        frame[str(place)] = column
    else:
        frame.insert(place, str(place), column)


def _dtype_for(dtype: str) -> Any:
    """NumPy's own types come back; of those that Arrow has not, pandas' own do not."""
    try:
        return np.dtype(dtype)
    except TypeError:
        return object


def _objects(items: list[Any]) -> Any:
    cells = np.empty(len(items), object)
    for i, item in enumerate(items):  # one by one: of a list of lists, NumPy would make a table
        cells[i] = item
    return cells


def _index_of(cells: Any, dtype: str, names: list[Any]) -> Any:
    if dtype == "multi":
        try:
            return pd.MultiIndex.from_tuples(cells.tolist(), names=names)
        except TypeError:  # what was a user's object cannot be hashed now
            return pd.Index(cells, dtype=object, tupleize_cols=False)
    return pd.Index(cells, dtype=object, name=names[0], tupleize_cols=False)


def _labelled(frame: Any, kind: str, labels: dict[str, Any]) -> Any:
    if kind == "index":
        return _as_index(frame, labels)
    if labels["freq"] is not None:
        frame.index.freq = labels["freq"]
    frame.index = _with_levels(frame.index, labels)
    if kind == "series":
        return frame["0"].rename(labels["name"])
    frame.columns = _from_spec(labels["columns"])
    return frame


def _with_levels(index: Any, labels: dict[str, Any]) -> Any:
    """Levels of objects come back from Arrow as levels of text."""
    if type(index) is not pd.MultiIndex:
        return index
    for level in labels.get("levels", ()):
        index = index.set_levels(index.levels[level].astype(object), level=level)
    return index


def _from_spec(given: dict[str, Any]) -> Any:
    if given["range"] is not None:
        return pd.RangeIndex(*given["range"], name=given["names"][0])
    if len(given["names"]) > 1:
        return pd.MultiIndex.from_tuples(given["labels"], names=given["names"])
    return pd.Index(given["labels"], dtype=require_dtype(given["dtype"]), name=given["names"][0])


def _as_index(frame: Any, labels: dict[str, Any]) -> Any:
    if labels["range"] is not None:
        numbers = range(*labels["range"])
        if numbers[: len(frame) + 1] != numbers or len(numbers) != len(frame):  # a few bytes could ask for any length
            raise ValueError(f"a range of other than {len(frame):,} labels")
        return pd.RangeIndex(numbers, name=labels["names"][0])
    if not frame.shape[1]:
        return frame.index
    if frame.shape[1] > 1:
        return _with_levels(pd.MultiIndex.from_frame(frame, names=labels["names"]), labels)
    cells, dtype = frame["0"].array, frame["0"].dtype
    index = pd.Index(cells, dtype=dtype, name=labels["names"][0], tupleize_cols=False)
    if labels["freq"] is not None:
        index.freq = labels["freq"]
    return index
