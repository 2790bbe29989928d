"""Renders the inputs and outputs of a stage as lines: arrays with range and content hash, tables with their first rows,
containers with their items. Where something is left out, a line says so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any

from clew.records import Kept, NotKept, Object
from clew.show.pictures import is_pillow, is_read
from clew.show.tree_lines import ERROR, MARKS, PLAIN, REMARK, VARIABLE, Line, line
from clew.text.array_facts import array_over_memory, size_of
from clew.text.brief import brief, module_and_name, number, printable, shorten
from clew.text.values import (
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

ITEMS = 12  # items shown per container
LINES = 60  # lines per value: beyond that, each container is one line
DEEPEST = 5
NUMBERS = 8  # arrays of at most so many numbers are shown in full
HASHED = 1 << 30  # bytes: larger content is not hashed
ROWS, COLUMNS, CELL = 5, 12, 19  # rows and columns shown of a table, and the width of a cell
WIDTH = 90
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Row:
    """A line with its depth, and the value that a page may draw beside it."""

    line: Line
    depth: int = 0
    opens: str = ""  # "stage" or "call": the deeper lines that follow belong to it
    value: Any = _NOTHING
    name: str = ""  # the name of that value

    @property
    def has_value(self) -> bool:
        return self.value is not _NOTHING


def value_rows(name: str, value: Any, depth: int, devices: dict[str, str], before: str = "") -> list[Row]:
    """The lines of one value; `before` precedes its name ("in ", "out")."""
    return _Opener(devices).rows(name, name, value, depth, before)


def leaves(name: str, value: Any) -> list[tuple[str, Any]]:
    """The items inside a value, each with its path; the value itself if it is not a container to open."""
    return _Opener({}).leaves(name, value)


def row_count(value: Any) -> int | None:
    """The number of rows of an array, tensor or table; None for other values."""
    if _is_table(value):
        return len(value)
    facts = Look(value, room=0).facts
    return facts.shape[0] if facts is not None and facts.shape else None


class _Opener:
    """Opens one value, with the number of lines left for it and the original devices of its tensors."""

    def __init__(self, devices: dict[str, str]) -> None:
        self._devices = devices
        self._lines_left = LINES
        self._level = 0

    def rows(self, name: str, path: str, value: Any, depth: int, before: str = "") -> list[Row]:
        self._lines_left -= 1
        pieces = [(f"{before}  ", MARKS)] if before else []
        pieces.append((f"{printable(name)}: ", VARIABLE))
        items = self._items(path, value)
        if items is None:
            value_pieces = self._pieces_of(path, value)
            picture_value = _NOTHING if _has_few_numbers(value) else value  # numbers shown in full need no picture
            return [
                Row(Line((*pieces, *value_pieces)), depth, value=picture_value, name=name),
                *_rows_below(value, depth + 1),
            ]
        pieces += [(_container_head(value), PLAIN)]
        result = [Row(Line(tuple(pieces)), depth)]
        self._level += 1
        for key, inner, item in islice(items, ITEMS):
            result += self.rows(key, inner, item, depth + 1)
        self._level -= 1
        hidden_count = len(items) - ITEMS
        return [*result, Row(line((f"… {hidden_count:,} more", REMARK)), depth + 1)] if hidden_count > 0 else result

    def leaves(self, path: str, value: Any) -> list[tuple[str, Any]]:
        self._lines_left -= 1
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
        """Keys, paths and items of a container worth opening; None for other values."""
        if self._level >= DEEPEST or self._lines_left <= 0:
            return None
        value = _kept_part(value)
        if type(value) is Object:
            pairs = [(str(key), f"{path}.{key}", item) for key, item in list(value.attributes.items())]
            return pairs or None
        if not _is_container(value) or all(_is_short(item) for item in _members(value)):
            return None
        if isinstance(value, dict):
            return [(_key(key), f"{path}[{brief(key)}]", item) for key, item in list(value.items())]
        return [(f"[{index}]", f"{path}[{index}]", item) for index, item in enumerate(list(value))]

    def _pieces_of(self, path: str, value: Any) -> Iterator[tuple[str, str]]:
        """The pieces of the line about a value that is not opened."""
        if type(value) is NotKept:
            yield _not_kept(value), REMARK
            if value.kept is Kept.SUMMARY and value.part is not None:  # further knowledge, such as the file of an image
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


def _kept_part(value: Any) -> Any:
    """The kept part of a value of which only a part was kept; other values unchanged."""
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


def _rows_below(value: Any, depth: int) -> list[Row]:
    """The rows of a table, shown below its line."""
    return [Row(line((text, PLAIN)), depth) for text in _table_lines(value)] if _is_table(value) else []


# ---- arrays, tensors, images


def _rounded(value: float) -> str:
    """A bound of a range with four digits."""
    exact = number(value)
    return exact if len(exact) <= 6 else f"{value:.4g}"


def _array_pieces(value: Any, facts: ArrayFacts) -> Iterator[tuple[str, str]]:
    yield f"{type(value).__name__} {facts.dtype} {facts.shape}", PLAIN
    numbers = facts.item or _few_numbers(value, facts)
    if numbers:
        yield f"  {numbers}", PLAIN
    elif facts.low is not None and facts.high is not None:
        yield f"  {_rounded(facts.low)}…{_rounded(facts.high)}", PLAIN
    if facts.counts:
        yield f" {facts.counts}", ERROR
    digest = content_hash(value, facts)
    if digest:
        yield f"  hash {digest}", MARKS
    if facts.library == "torch" and facts.device:
        yield f"  {facts.device}", MARKS


def _has_few_numbers(value: Any) -> bool:
    facts = Look(value, room=0).facts
    return facts is not None and len(facts.shape) == 1 and 0 < facts.shape[0] <= NUMBERS


def _few_numbers(value: Any, facts: ArrayFacts) -> str:
    """The numbers as text if there are few, else an empty text."""
    if not _has_few_numbers(value):
        return ""
    try:
        array = _array_over_memory(value, facts)
        if facts.dtype == "bfloat16":
            import numpy as np

            array = (array.astype(np.uint32) << 16).view(np.float32)
        return brief(array.tolist(), WIDTH) if array.dtype.kind in "biuf" else ""
    except _TROUBLE:
        return ""


def _array_over_memory(value: Any, facts: ArrayFacts) -> Any:
    """The numbers as an array without a copy; for dtypes that NumPy lacks, their bits."""
    import numpy as np

    if facts.library == "numpy":
        return value
    torch: Any = sys.modules["torch"]
    with torch._C.DisableTorchFunction():
        if not value.is_cpu or value.layout is not torch.strided or value.is_neg() or value.is_conj():
            raise RuntimeError("its numbers are not in memory as they are")
        has_numpy_dtype = hasattr(np, facts.dtype) and facts.dtype != "bfloat16"
        width = value.element_size()
        dtype = np.dtype(
            facts.dtype if has_numpy_dtype else {1: "u1", 2: "u2", 4: "u4", 8: "u8"}.get(width, f"V{width}")
        )
        return array_over_memory(value, dtype) if value.numel() else np.zeros(facts.shape, dtype)


def content_hash(value: Any, facts: ArrayFacts) -> str:
    """Eight hex digits, equal for equal dtype, shape and content in NumPy and torch; "" for unreadable content."""
    import numpy as np
    from xxhash import xxh3_64

    try:
        if size_of(value, facts.library) > HASHED:
            return ""
        array = _array_over_memory(value, facts)
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
    """Mode, width, height, and the hash of the pixels if they are in memory."""
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
    module, name = module_and_name(type(value))
    return module.partition(".")[0] == "pandas" and name in ("DataFrame", "Series") and _is_pandas_class(value, name)


def _is_pandas_class(value: Any, name: str) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and vars(pandas).get(name) is type(value)


def _table_head(table: Any) -> str:
    if type(table).__name__ == "Series":
        label = f" {brief(table.name, CELL)}" if table.name is not None else ""
        return f"Series{label} {table.shape}  {table.dtype}"
    columns = [f"{_cell_text(column)} {dtype}" for column, dtype in islice(table.dtypes.items(), COLUMNS)]
    columns = columns[: _count_fitting(map(len, columns), WIDTH // 2)]
    hidden_count = table.shape[1] - len(columns)
    return (
        f"DataFrame {table.shape}  {', '.join([*columns, f'… {hidden_count:,} more'] if hidden_count > 0 else columns)}"
    )


def _table_lines(table: Any) -> list[str]:
    """The first rows, in columns as wide as their content."""
    try:
        rows = _table_cells(table)
    except _TROUBLE:
        return []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    shown_count = _count_fitting(widths)
    has_hidden = table.ndim == 2 and table.shape[1] > shown_count - 1
    lines = [
        "  ".join(
            [
                *(cell.rjust(width) for cell, width in zip(row[:shown_count], widths[:shown_count], strict=True)),
                *["…"] * has_hidden,
            ]
        )
        for row in rows
    ]
    hidden_count = len(table) - ROWS
    return [*lines, f"… {hidden_count:,} more rows"] if hidden_count > 0 else lines


def _count_fitting(widths: Iterable[int], room: int = WIDTH) -> int:
    """The number of columns that fit side by side."""
    return sum(end <= room for end in accumulate(width + 2 for width in widths))


def _table_cells(table: Any) -> list[list[str]]:
    """The label and cells of each row; for a DataFrame preceded by the column names."""
    if type(table).__name__ == "Series":
        head = table.iloc[:ROWS]
        return [[_cell_text(label), _cell_text(item)] for label, item in zip(head.index, head, strict=True)]
    head = table.iloc[:ROWS, :COLUMNS]
    if not len(head.columns):
        return []
    return [
        ["", *map(_cell_text, head.columns)],
        *([_cell_text(cell) for cell in row] for row in head.itertuples(name=None)),
    ]


def _cell_text(item: Any) -> str:
    has_safe_text = type(item) is str or type(item) in _pandas_scalars()
    return shorten(printable(item), CELL) if has_safe_text else brief(item, CELL)


def _pandas_scalars() -> list[type]:
    """Types of pandas whose own text is safe to use."""
    pandas: Any = sys.modules["pandas"]
    return [pandas.Timestamp, pandas.Timedelta, pandas.Period, type(pandas.NaT), type(pandas.NA)]
