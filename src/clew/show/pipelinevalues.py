"""What a stage got or gave, as lines: an array with its range and the hash of its content, a table with its first rows,
containers opened. What is left out is said in its place.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any

from clew.records import Kept, NotKept, Object
from clew.show.marks import ERROR, MARKS, PLAIN, SAID, VARIABLE, Line, line
from clew.show.pictures import is_pillow, is_read
from clew.show.scan import _as_array, size_of
from clew.show.text import _name_of, brief, number, printable, shorten
from clew.show.values import (
    _NUMBER_IDS,
    _TEXT_IDS,
    _TROUBLE,
    ArrayFacts,
    Look,
    _is_container,
    _key,
    short_head,
    value_line,
)

ITEMS = 12  # shown of one container
LINES = 60  # of one value: containers beyond are a line each
DEEPEST = 5
NUMBERS = 8  # an array of so few is shown with its numbers
HASHED = 1 << 30  # bytes: the content of something larger is not hashed
ROWS, COLUMNS, CELL = 5, 12, 19  # shown of a table, and the width of a cell
WIDTH = 90
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Row:
    """A line, how deep it stands, and the value a page may draw beside it."""

    line: Line
    depth: int = 0
    opens: str = ""  # "stage", "call": the deeper lines that follow belong to it
    value: Any = _NOTHING
    name: str = ""  # of that value

    @property
    def has_value(self) -> bool:
        return self.value is not _NOTHING


def value_rows(name: str, value: Any, depth: int, devices: dict[str, str], before: str = "") -> list[Row]:
    """The lines of one value; `before` stands before its name ("in ", "out")."""
    return _Opening(devices).rows(name, name, value, depth, before)


def leaves(name: str, value: Any) -> list[tuple[str, Any]]:
    """What lies in a value, each with its path; the value itself where it is nothing to be opened."""
    return _Opening({}).leaves(name, value)


def row_count(value: Any) -> int | None:
    """How many rows an array, a tensor or a table has; None of anything else."""
    if _is_table(value):
        return len(value)
    facts = Look(value, room=0).facts
    return facts.shape[0] if facts is not None and facts.shape else None


class _Opening:
    """One value that is being opened: how many lines it may still have, and on which devices its tensors were."""

    def __init__(self, devices: dict[str, str]) -> None:
        self._devices = devices
        self._left = LINES
        self._level = 0

    def rows(self, name: str, path: str, value: Any, depth: int, before: str = "") -> list[Row]:
        self._left -= 1
        pieces = [(f"{before}  ", MARKS)] if before else []
        pieces.append((f"{printable(name)}: ", VARIABLE))
        items = self._items(path, value)
        if items is None:
            said = self._said(path, value)
            drawn = _NOTHING if _are_few(value) else value  # numbers that are there to be read need no picture
            return [Row(Line((*pieces, *said)), depth, value=drawn, name=name), *_under(value, depth + 1)]
        pieces += [(_container_head(value), PLAIN)]
        out = [Row(Line(tuple(pieces)), depth)]
        self._level += 1
        for key, inner, item in islice(items, ITEMS):
            out += self.rows(key, inner, item, depth + 1)
        self._level -= 1
        left = len(items) - ITEMS
        return [*out, Row(line((f"… {left:,} more", SAID)), depth + 1)] if left > 0 else out

    def leaves(self, path: str, value: Any) -> list[tuple[str, Any]]:
        self._left -= 1
        items = self._items("", value)
        if items is None:
            return [(path, value)]
        self._level += 1
        out: list[tuple[str, Any]] = []
        for key, _, item in islice(items, ITEMS):
            below = f"{path}{key}" if key.startswith("[") else f"{path}.{key}".lstrip(".")
            out += self.leaves(below, item)
        self._level -= 1
        return out

    def _items(self, path: str, value: Any) -> list[tuple[str, str, Any]] | None:
        """Keys, paths and items of a container that is worth opening; None of anything else."""
        if self._level >= DEEPEST or self._left <= 0:
            return None
        value = _kept(value)
        if type(value) is Object:
            pairs = [(str(key), f"{path}.{key}", item) for key, item in list(value.attributes.items())]
            return pairs or None
        if not _is_container(value) or all(_is_short(item) for item in _members(value)):
            return None
        if isinstance(value, dict):
            return [(_key(key), f"{path}[{brief(key)}]", item) for key, item in list(value.items())]
        return [(f"[{index}]", f"{path}[{index}]", item) for index, item in enumerate(list(value))]

    def _said(self, path: str, value: Any) -> Iterator[tuple[str, str]]:
        """What one line says of a value."""
        if type(value) is NotKept:
            yield _not_kept(value), SAID
            if value.kept is Kept.SUMMARY and value.part is not None:  # what is known beside: the file of an image
                yield f"  {brief(value.part, WIDTH)}", PLAIN
            device = self._devices.get(path) or value.summary.device
            if device:
                yield f"  {printable(device)}", MARKS
            return
        facts = Look(value, stats=True, device=self._devices.get(path)).facts
        if facts is not None:
            yield from _array_pieces(value, facts)
        elif is_pillow(value):
            yield from _pillow_pieces(value)
        elif _is_table(value):
            yield _table_head(value), PLAIN
        else:
            yield value_line(value, width=WIDTH), PLAIN


def _kept(value: Any) -> Any:
    """Of something of which a part was kept, that part."""
    return value.part if type(value) is NotKept and value.kept is Kept.PART and value.part is not None else value


def _members(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else list(value)


def _is_short(item: Any) -> bool:
    return id(type(item)) in _NUMBER_IDS or (id(type(item)) in _TEXT_IDS and not short_head(item))


def _container_head(value: Any) -> str:
    return _not_kept(value) if type(value) is NotKept else short_head(value)


def _not_kept(value: NotKept) -> str:
    low, high = value.summary.min, value.summary.max
    between = f" {number(low)}…{number(high)}" if low is not None and high is not None else ""
    return shorten(printable(repr(NotKept(value.type, value.kept, value.why, value.summary))), 200) + between


def _under(value: Any, depth: int) -> list[Row]:
    """The rows of a table, which stand below its line."""
    return [Row(line((text, PLAIN)), depth) for text in _table_lines(value)] if _is_table(value) else []


# ---- arrays, tensors, images


def _rough(value: float) -> str:
    """A bound of a range: four digits are enough."""
    exact = number(value)
    return exact if len(exact) <= 6 else f"{value:.4g}"


def _array_pieces(value: Any, facts: ArrayFacts) -> Iterator[tuple[str, str]]:
    yield f"{type(value).__name__} {facts.dtype} {facts.shape}", PLAIN
    few = facts.item or _few(value, facts)
    if few:
        yield f"  {few}", PLAIN
    elif facts.low is not None and facts.high is not None:
        yield f"  {_rough(facts.low)}…{_rough(facts.high)}", PLAIN
    if facts.counts:
        yield f" {facts.counts}", ERROR
    found = content_hash(value, facts)
    if found:
        yield f"  hash {found}", MARKS
    if facts.library == "torch" and facts.device:
        yield f"  {facts.device}", MARKS


def _are_few(value: Any) -> bool:
    facts = Look(value, room=0).facts
    return facts is not None and len(facts.shape) == 1 and 0 < facts.shape[0] <= NUMBERS


def _few(value: Any, facts: ArrayFacts) -> str:
    """The numbers themselves, if they are few."""
    if not _are_few(value):
        return ""
    try:
        array = _memory(value, facts)
        if facts.dtype == "bfloat16":
            import numpy as np

            array = (array.astype(np.uint32) << 16).view(np.float32)
        return brief(array.tolist(), WIDTH) if array.dtype.kind in "biuf" else ""
    except _TROUBLE:
        return ""


def _memory(value: Any, facts: ArrayFacts) -> Any:
    """The numbers where they lie. What NumPy has no name for comes as bits."""
    import numpy as np

    if facts.library == "numpy":
        return value
    torch: Any = sys.modules["torch"]
    with torch._C.DisableTorchFunction():
        if not value.is_cpu or value.layout is not torch.strided or value.is_neg() or value.is_conj():
            raise RuntimeError("its numbers are not in memory as they are")
        known = hasattr(np, facts.dtype) and facts.dtype != "bfloat16"
        width = value.element_size()
        dtype = np.dtype(facts.dtype if known else {1: "u1", 2: "u2", 4: "u4", 8: "u8"}.get(width, f"V{width}"))
        return _as_array(value, dtype) if value.numel() else np.zeros(facts.shape, dtype)


def content_hash(value: Any, facts: ArrayFacts) -> str:
    """Eight hex digits, equal for equal dtype, shape and content, by NumPy and torch alike; "" where there is none."""
    import numpy as np
    from xxhash import xxh3_64

    try:
        if size_of(value, facts.library) > HASHED:
            return ""
        array = _memory(value, facts)
        if array.dtype.hasobject:
            return ""
        hasher = xxh3_64(f"{facts.dtype} {facts.shape} ".encode())
        if array.size:
            raw: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            hasher.update(raw)
        return hasher.hexdigest()[:8]
    except _TROUBLE:
        return ""


def _pillow_pieces(image: Any) -> Iterator[tuple[str, str]]:
    """Mode, width and height, and the hash of its pixels if they were read."""
    from xxhash import xxh3_64

    yield f"{type(image).__name__} {printable(image.mode)} {image.width} × {image.height}", PLAIN
    try:
        if is_read(image):
            raw = f"{image.mode} {image.size} ".encode() + image.tobytes()
            yield f"  hash {xxh3_64(raw).hexdigest()[:8]}", MARKS
    except _TROUBLE:
        return


# ---- tables


def _is_table(value: Any) -> bool:
    module, name = _name_of(type(value))
    return module.partition(".")[0] == "pandas" and name in ("DataFrame", "Series") and _of_pandas(value, name)


def _of_pandas(value: Any, name: str) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and vars(pandas).get(name) is type(value)


def _table_head(table: Any) -> str:
    if type(table).__name__ == "Series":
        label = f" {brief(table.name, CELL)}" if table.name is not None else ""
        return f"Series{label} {table.shape}  {table.dtype}"
    kinds = [f"{_cell(column)} {kind}" for column, kind in islice(table.dtypes.items(), COLUMNS)]
    kinds = kinds[: _fitting(map(len, kinds), WIDTH // 2)]
    left = table.shape[1] - len(kinds)
    return f"DataFrame {table.shape}  {', '.join([*kinds, f'… {left:,} more'] if left > 0 else kinds)}"


def _table_lines(table: Any) -> list[str]:
    """The first rows, in columns as wide as what stands in them."""
    try:
        rows = _table_cells(table)
    except _TROUBLE:
        return []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    shown = _fitting(widths)
    hidden = table.ndim == 2 and table.shape[1] > shown - 1
    lines = [
        "  ".join(
            [*(cell.rjust(width) for cell, width in zip(row[:shown], widths[:shown], strict=True)), *["…"] * hidden]
        )
        for row in rows
    ]
    left = len(table) - ROWS
    return [*lines, f"… {left:,} more rows"] if left > 0 else lines


def _fitting(widths: Iterable[int], room: int = WIDTH) -> int:
    """How many columns fit beside each other."""
    return sum(end <= room for end in accumulate(width + 2 for width in widths))


def _table_cells(table: Any) -> list[list[str]]:
    """The label of each row and its cells; of a table with columns, their names first."""
    if type(table).__name__ == "Series":
        some = table.iloc[:ROWS]
        return [[_cell(label), _cell(item)] for label, item in zip(some.index, some, strict=True)]
    some = table.iloc[:ROWS, :COLUMNS]
    if not len(some.columns):
        return []
    return [["", *map(_cell, some.columns)], *([_cell(cell) for cell in row] for row in some.itertuples(name=None))]


def _cell(item: Any) -> str:
    spoken = type(item) is str or type(item) in _pandas_scalars()
    return shorten(printable(item), CELL) if spoken else brief(item, CELL)


def _pandas_scalars() -> list[type]:
    """Types of pandas' own whose text is theirs to give."""
    pandas: Any = sys.modules["pandas"]
    return [pandas.Timestamp, pandas.Timedelta, pandas.Period, type(pandas.NaT), type(pandas.NA)]
