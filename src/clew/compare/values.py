"""Compares two recorded values, as far as what was kept of them allows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from clew.compare.arrays import InMemory, Measure, Source, Stored, measure, scan
from clew.compare.settings import Settings, Tolerance
from clew.reading.rows import contents_of, library_of, shape_of
from clew.reading.series import as_array
from clew.records import DELETED, Kept, NotKept, Object, Summary
from clew.store.blobs import DamagedBlobError
from clew.text.brief import brief

if TYPE_CHECKING:
    from clew.compare.value_heads import Head

_NUMBERS: Final = (int, float, bool, complex)
_STATISTICS: Final = ("min", "max", "mean", "std", "norm", "nan", "inf")
_DEEPEST: Final = 200
_PLAIN: Final = frozenset([int, float, bool])
_EXACT: Final = 2.0**53  # floats beyond it skip integers
_MOST_PARTNERS: Final = 100_000  # most containers that are compared with more than one other
_SIMPLE_KEYS: Final = (str, bytes, float, bool, type(None))


@dataclass(slots=True)
class Outcome:
    """The result of comparing two values."""

    differ: bool = False
    identical: bool = False  # the same, bit for bit
    magnitude: float = 0.0  # the largest absolute difference; Inf where that is not a number
    how: str = "value"  # "value", "hash", "summary", "nothing"
    why: str = ""  # what differs, or why nothing could be compared
    dtypes: tuple[str, str] | None = None  # of arrays, if they are not the same

    @property
    def compared(self) -> bool:
        return self.how != "nothing"


SAME: Final = Outcome(identical=True)


def compare_heads(a: Head, b: Head, tolerance: Settings, allowed: float | None) -> Outcome:
    """Compare two values of the value table. `allowed` is the noise of their place, if that is known."""
    if _same_digest(a, b):
        return Outcome(identical=True, how="value" if a.kept == b.kept == Kept.FULL else "hash")
    try:
        arrays = sources(a, b)
        if arrays is not None:
            outcome = compare_arrays(*arrays, tolerance, allowed)
            outcome.dtypes = (arrays[0].dtype, arrays[1].dtype) if arrays[0].dtype != arrays[1].dtype else None
            return outcome
        return _compare_others(a, b, tolerance, allowed)
    except DamagedBlobError as damage:
        return Outcome(how="nothing", why=f"damaged on disk: {damage}")


def _same_digest(a: Head, b: Head) -> bool:
    inconclusive = Kept.OPAQUE in (a.kept, b.kept) or a.hollow or b.hollow
    return bool(a.digest) and a.digest == b.digest and not inconclusive


def sources(a: Head, b: Head) -> tuple[Source, Source] | None:
    """Both as arrays; None if one of them is not an array kept in full."""
    outline_a, outline_b = a.outline, b.outline
    if outline_a is None or outline_b is None:
        return None
    return (
        Stored(a.blobs, outline_a.part, outline_a.code, outline_a.shape, outline_a.dtype),
        Stored(b.blobs, outline_b.part, outline_b.code, outline_b.shape, outline_b.dtype),
    )


def compare_arrays(a: Source, b: Source, settings: Settings, allowed: float | None) -> Outcome:
    if a.shape != b.shape:
        return Outcome(differ=True, magnitude=math.inf, why=f"shape {list(a.shape)} against {list(b.shape)}")
    if isinstance(a, Stored) and isinstance(b, Stored) and _same_bytes(a, b):
        return Outcome(identical=a.dtype == b.dtype)
    result = scan(a, b, tolerance_of(settings, allowed, a.dtype, b.dtype), allowed or 0.0)
    return Outcome(result.differ, result.identical, result.magnitude)


def tolerance_of(settings: Settings, allowed: float | None, *dtypes: str) -> Tolerance:
    if allowed is not None or not settings.reference:
        return settings.tolerance(*dtypes)
    return settings.tolerance_without_noise(*dtypes)


def _same_bytes(a: Stored, b: Stored) -> bool:
    if a.code != b.code or a.part.length != b.part.length:
        return False
    if a.part.inline is not None and b.part.inline is not None:
        return bytes(a.part.inline) == bytes(b.part.inline)
    return a.part.digest is not None and a.part.digest == b.part.digest


def _compare_others(a: Head, b: Head, settings: Settings, allowed: float | None) -> Outcome:
    if a.kept == Kept.OPAQUE or b.kept == Kept.OPAQUE:
        if a.type != b.type and not a.why.startswith("lost") and not b.why.startswith("lost"):
            return Outcome(differ=True, magnitude=math.inf, how="value", why=f"{a.type} against {b.type}")
        return Outcome(how="nothing", why=a.why or b.why or f"clew does not look into a {a.type}")
    if Kept.SUMMARY in (a.kept, b.kept):
        return compare_summaries(a, b, settings, allowed)
    from clew.values import decode

    outcome = Walk(settings, allowed).compare(decode(a.read()), decode(b.read()))
    if outcome.compared and not outcome.differ and Kept.PART in (a.kept, b.kept):
        return Outcome(how="nothing", why="only a part was kept; the parts are equal, the hashes of the whole are not")
    return outcome


# ---- what was not kept in full


def compare_summaries(a: Head, b: Head, settings: Settings, allowed: float | None) -> Outcome:
    """Compare shape, type and statistics: one of the values has no bytes, and their hashes differ."""
    summary_a, summary_b = _summary(a), _summary(b)
    if summary_a.shape != summary_b.shape:
        return Outcome(
            True, magnitude=math.inf, how="summary", why=f"shape {summary_a.shape} against {summary_b.shape}"
        )
    dtypes = summary_a.dtype or a.type, summary_b.dtype or b.type
    tolerance = tolerance_of(settings, allowed, *dtypes)
    if tolerance.exact and not allowed and dtypes[0] == dtypes[1] and a.digest and b.digest:
        return Outcome(True, magnitude=_furthest(summary_a, summary_b)[1], how="hash", why="their hashes differ")
    if summary_a.min is None and summary_a.mean is None and summary_a.nan is None:
        return Outcome(how="nothing", why=f"not kept ({a.why or b.why}); the hashes differ")
    name, distance = _furthest(summary_a, summary_b)
    size = abs(getattr(summary_a, name) or 0.0) if name else 0.0
    differ = not distance <= max(tolerance.atol + tolerance.rtol * size, allowed or 0.0)
    return Outcome(differ, magnitude=distance, how="summary", why=f"its {name} differs" if differ else "")


def _summary(head: Head) -> Summary:
    from clew.values.array_stats import filled

    return filled(head.read()) if head.kept == Kept.FULL else head.summary


def _differing_statistics(a: Summary, b: Summary) -> Iterator[tuple[str, float]]:
    """The statistics that differ, and by how much."""
    for name in _STATISTICS:
        x, y = getattr(a, name), getattr(b, name)
        if x is None or y is None or x == y or (x != x and y != y):
            continue
        yield name, abs(x - y) if math.isfinite(x) and math.isfinite(y) and name not in ("nan", "inf") else math.inf


def _furthest(a: Summary, b: Summary) -> tuple[str, float]:
    """The statistic that differs most, and by how much."""
    return max(_differing_statistics(a, b), key=lambda difference: difference[1], default=("", 0.0))


def measured_summaries(a: Head, b: Head) -> Measure:
    """How two arrays differ whose bytes were not both kept."""
    summary_a, summary_b = _summary(a), _summary(b)
    statistics = [
        f"{name} {getattr(summary_a, name):g} against {getattr(summary_b, name):g}"
        for name, _ in _differing_statistics(summary_a, summary_b)
    ]
    note = f"summaries only: {', '.join(statistics)}" if statistics else "not kept in full; their hashes differ"
    shapes = (
        None
        if summary_a.shape is None or summary_b.shape is None or summary_a.shape == summary_b.shape
        else (summary_a.shape, summary_b.shape)
    )
    dtypes = (
        None
        if not summary_a.dtype or not summary_b.dtype or summary_a.dtype == summary_b.dtype
        else (summary_a.dtype, summary_b.dtype)
    )
    return Measure(shapes=shapes, dtypes=dtypes, note=note)


# ---- anything that can be read back


class Walk:
    """Compares two values that were read back, part by part; remembers the first difference and the largest."""

    def __init__(self, settings: Settings, allowed: float | None) -> None:
        self.settings = settings
        self.allowed = allowed
        self.path = ""  # of the first difference
        self.pair: tuple[Any, Any] | None = None  # the values at that path
        self.total = self.count = 0
        self._outcome = Outcome(identical=True)
        self._compared_pairs: set[tuple[int, int]] = set()
        self._compared_ids: set[int] = set()
        self._repeated_partners = 0
        self._unknown = 0

    def compare(self, a: Any, b: Any) -> Outcome:
        self._compare(a, b, "", 0)
        if self._outcome.differ or not self._unknown:
            return self._outcome
        if self._unknown == self.total:
            return Outcome(how="nothing", why="nothing that could be compared was kept of it")
        return Outcome(how="nothing", why=f"{self._unknown:,} of {self.total:,} parts were not kept; the rest is equal")

    def _note_difference(self, a: Any, b: Any, path: str, magnitude: float, why: str = "") -> None:
        if not self._outcome.differ:
            self.path, self.pair = path, (a, b)
            self._outcome.why = f"at {path}{': ' if why else ''}{why}" if path else why
        self.count += 1
        self._outcome.differ, self._outcome.identical = True, False
        self._outcome.magnitude = max(self._outcome.magnitude, magnitude)

    def _compare(self, a: Any, b: Any, path: str, depth: int) -> None:
        contents_a, contents_b = contents(a), contents(b)
        if depth > _DEEPEST or (contents_a is not None and (id(a), id(b)) in self._compared_pairs):
            return
        if contents_a is not None and contents_b is not None and self._family(a) == self._family(b):
            self._compared_pairs.add((id(a), id(b)))
            if not self._has_room(a, b):
                self._unknown += 1
                self.total += 1
                return
            self._compare_contents(dict(contents_a), dict(contents_b), path, depth)
            return
        self.total += 1
        if type(a) is NotKept or type(b) is NotKept:
            self._compare_not_kept(a, b, path, depth)
            return
        self._compare_leaves(a, b, path)

    def _has_room(self, a: Any, b: Any) -> bool:
        """Limits values that hold the same objects in different places: all their pairs would be compared."""
        repeated = id(a) in self._compared_ids or id(b) in self._compared_ids
        self._compared_ids.update((id(a), id(b)))
        self._repeated_partners += repeated
        return self._repeated_partners <= _MOST_PARTNERS

    def _compare_not_kept(self, a: Any, b: Any, path: str, depth: int) -> None:
        """Compare what was kept of two values of which at least one was not kept in full."""
        self._unknown += 1
        if type(a) is not type(b):
            return
        lengths = a.summary.length, b.summary.length
        if a.type == b.type and None not in lengths and lengths[0] != lengths[1]:
            self._note_difference(a, b, path, math.inf, f"length {lengths[0]:,} against {lengths[1]:,}")
        elif a.part is not None and b.part is not None:
            self._compare(a.part, b.part, f"{path}(the kept part)", depth + 1)

    def _family(self, value: Any) -> Any:
        return value.type if type(value) is Object else "mapping" if isinstance(value, dict) else type(value)

    def _compare_contents(self, items_a: dict[str, Any], items_b: dict[str, Any], path: str, depth: int) -> None:
        for step, item in items_a.items():
            if step in items_b:
                self._compare(item, items_b[step], path + step, depth + 1)
            else:
                self._note_difference(item, DELETED, path + step, math.inf, "only in the first")
        for step, item in items_b.items():
            if step not in items_a:
                self._note_difference(DELETED, item, path + step, math.inf, "only in the second")

    def _compare_leaves(self, a: Any, b: Any, path: str) -> None:
        if type(a) in _PLAIN and type(b) in _PLAIN and self._compare_plain(a, b, path):
            return
        source_a, source_b = as_source(a), as_source(b)
        if source_a is not None and source_b is not None:
            if source_a.shape != source_b.shape:
                _drop_shape_of_single(source_a)
                _drop_shape_of_single(source_b)
            outcome = compare_arrays(source_a, source_b, self.settings, self.allowed)
            if outcome.differ:
                self._note_difference(a, b, path, outcome.magnitude, outcome.why)
            same_type = type(a) is type(b) and source_a.dtype == source_b.dtype
            self._outcome.identical &= outcome.identical and same_type
            self._outcome.magnitude = max(self._outcome.magnitude, outcome.magnitude)
        elif not plainly_equal(a, b):
            why = "" if type(a) is type(b) else f"{_type_name(a)} against {_type_name(b)}"
            self._note_difference(a, b, path, math.inf, why)

    def _compare_plain(self, a: Any, b: Any, path: str) -> bool:
        """Compare two Python numbers fast, as there may be a million of them; False if that needs more than this."""
        if a == b or (a != a and b != b):
            self._outcome.identical &= type(a) is type(b) and (a != 0 or math.copysign(1, a) == math.copysign(1, b))
            return True
        dtype = "float64" if float in (type(a), type(b)) else "int64"
        tolerance = tolerance_of(self.settings, self.allowed, dtype)
        if tolerance.ulp or abs(a) > _EXACT or abs(b) > _EXACT:
            return False
        distance = float(abs(a - b))
        self._outcome.identical = False
        if distance <= max(tolerance.atol + tolerance.rtol * abs(a), self.allowed or 0.0):
            self._outcome.magnitude = max(self._outcome.magnitude, distance)
        else:
            self._note_difference(a, b, path, distance if math.isfinite(distance) else math.inf)
        return True


def _drop_shape_of_single(source: Source) -> None:
    """A number and an array that holds one number are compared as numbers."""
    if source.count == 1:
        source.shape = ()


def _type_name(value: Any) -> str:
    return "deleted" if value is DELETED else str(type.__getattribute__(type(value), "__name__"))


def contents(value: Any) -> Iterator[tuple[str, Any]] | None:
    """The items of a container, each with the text that leads to it; None for any other value."""
    kind = type(value)
    if kind.__name__ == "deque" and kind.__module__ == "collections":
        value = list(value)
    if kind.__name__ == "DataFrame" and library_of(value) == "pandas":
        columns = ((f"[{_key_text(column)}]", value.iloc[:, i].to_numpy()) for i, column in enumerate(value.columns))
        return chain(columns, [(".index", value.index.to_numpy()), (".columns", list(value.columns))])
    if kind.__name__ == "Series" and library_of(value) == "pandas":
        return iter([(".values", value.to_numpy()), (".index", value.index.to_numpy())])
    if kind is np.ma.MaskedArray:
        return _masked_array_parts(value)
    if kind is np.ndarray and value.dtype.kind == "O":
        return ((f"[{place}]", item) for place, item in enumerate(value.reshape(-1).tolist()))
    items = contents_of(value) if not isinstance(value, dict) else ((("[", k), v) for k, v in dict.items(value))
    if items is None:
        return None
    return _number_duplicates(
        (f"[{_key_text(key)}]" if sign == "[" else f".{key}", item) for (sign, key), item in items
    )


def _key_text(key: Any) -> str:
    """The repr of a key, shortened if it may be long."""
    if type(key) in _SIMPLE_KEYS or (type(key) is int and key.bit_length() <= 256):
        return repr(key)
    return brief(key, 200)


def _number_duplicates(items: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Make the texts unique by numbering repeated ones."""
    counts: dict[str, int] = {}
    for text, item in items:
        counts[text] = counts.get(text, 0) + 1
        yield text if counts[text] == 1 else f"{text} ({counts[text]})", item


def _masked_array_parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The mask, and the data it does not hide."""
    mask = np.ma.getmaskarray(value)
    data = np.ma.getdata(value).copy()
    data[mask] = np.zeros((), data.dtype)
    return iter([(".mask", mask), (".data", data)])


def as_source(value: Any) -> Source | None:
    """A number or an array of numbers as a source; None for any other value."""
    if type(value) in _NUMBERS:
        try:
            array = np.array(value)
        except OverflowError:
            return None
        return None if array.dtype.kind == "O" else InMemory(array, str(array.dtype))
    if library_of(value) not in ("numpy", "torch") or shape_of(value) is None:
        return None
    array_ = as_array(value)
    if array_ is None or array_.dtype.kind not in "biufcmM":
        return None
    return InMemory(array_, str(getattr(value, "dtype", array_.dtype)).removeprefix("torch."))


def plainly_equal(a: Any, b: Any) -> bool:
    """Whether two values that were read back are equal; their types are known, so no user code runs."""
    if type(a) is not type(b):
        return False
    try:
        same = a == b
        return bool(same.all()) if hasattr(same, "all") else bool(same)
    except (TypeError, ValueError, RuntimeError):
        return False


def measured(a: Any, b: Any, settings: Settings, allowed: float | None) -> Measure:
    """How two values that were read back differ."""
    source_a, source_b = as_source(a), as_source(b)
    if source_a is not None and source_b is not None:
        if source_a.shape != source_b.shape and source_a.count == source_b.count == 1:
            source_a.shape = source_b.shape = ()
        return measured_arrays(source_a, source_b, settings, allowed)
    walk = Walk(settings, allowed)
    outcome = walk.compare(a, b)
    if walk.pair is not None and walk.path:
        missing = walk.pair[0] is DELETED or walk.pair[1] is DELETED
        measure_of_part = Measure() if missing else measured(*walk.pair, settings, allowed)
        measure_of_part.path = walk.path
        measure_of_part.note = measure_of_part.note or outcome.why.removeprefix(f"at {walk.path}").removeprefix(": ")
        if walk.count > 1:
            measure_of_part.note += f"{'; ' if measure_of_part.note else ''}{walk.count:,} parts differ"
        return measure_of_part
    shape_a, shape_b = shape_of(a), shape_of(b)
    shapes = None if shape_a is None or shape_b is None or shape_a == shape_b else (shape_a, shape_b)
    return Measure(shapes=shapes, note=outcome.why or text_note(a, b))


def measured_arrays(a: Source, b: Source, settings: Settings, allowed: float | None) -> Measure:
    if a.shape != b.shape:
        dtypes = (a.dtype, b.dtype) if a.dtype != b.dtype else None
        return Measure(shapes=(a.shape, b.shape), dtypes=dtypes, note="shapes differ: no element was compared")
    return measure(a, b, tolerance_of(settings, allowed, a.dtype, b.dtype), allowed or 0.0)


def text_note(a: Any, b: Any) -> str:
    if type(a) is not type(b):
        return f"{_type_name(a)} against {_type_name(b)}"
    if type(a) in (str, bytes):
        place = next((i for i, (p, q) in enumerate(zip(a, b, strict=False)) if p != q), min(len(a), len(b)))
        return f"the texts differ from character {place} on"
    if type(a) in (set, frozenset):
        sides = (("first", a - b), ("second", b - a))
        return "; ".join(f"only in the {name}: {_first_items(items)}" for name, items in sides if items)
    return ""


def _first_items(items: Any) -> str:
    return ", ".join(sorted(brief(item, 40) for item in items)[:3]) + (", ..." if len(items) > 3 else "")
