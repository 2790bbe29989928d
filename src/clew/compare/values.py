"""Two recorded values: are they the same, as far as can be told?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from clew.compare.arrays import InMemory, Measure, Source, Stored, measure, scan
from clew.compare.settings import Settings, Tolerance
from clew.history.rows import contents_of, library_of, shape_of
from clew.history.series import as_array
from clew.records import DELETED, Kept, NotKept, Object, Summary
from clew.show.text import brief
from clew.store.blobs import DamagedBlobError

if TYPE_CHECKING:
    from clew.compare.stored import Head

_NUMBERS: Final = (int, float, bool, complex)
_STATISTICS: Final = ("min", "max", "mean", "std", "norm", "nan", "inf")
_DEEPEST: Final = 200
_PLAIN: Final = frozenset([int, float, bool])
_EXACT: Final = 2.0**53  # beyond, whole numbers are not all floats
_MOST_PARTNERS: Final = 100_000  # containers that are compared with more than one other
_SIMPLE_KEYS: Final = (str, bytes, float, bool, type(None))


@dataclass(slots=True)
class Outcome:
    """What a comparison came to."""

    differ: bool = False
    identical: bool = False  # the same, bit for bit
    magnitude: float = 0.0  # the largest absolute difference; Inf where that is no number
    how: str = "value"  # "value", "hash", "summary", "nothing"
    why: str = ""  # what differs, or why nothing could be compared
    dtypes: tuple[str, str] | None = None  # of arrays, where they are not the same

    @property
    def compared(self) -> bool:
        return self.how != "nothing"


SAME: Final = Outcome(identical=True)


def compare_heads(a: Head, b: Head, tolerance: Settings, allowed: float | None) -> Outcome:
    """Two values of the value table. `allowed` is the noise of their place, if that is known."""
    if _by_digest(a, b):
        return Outcome(identical=True, how="value" if a.kept == b.kept == Kept.FULL else "hash")
    try:
        arrays = sources(a, b)
        if arrays is not None:
            found = compare_arrays(*arrays, tolerance, allowed)
            found.dtypes = (arrays[0].dtype, arrays[1].dtype) if arrays[0].dtype != arrays[1].dtype else None
            return found
        return _otherwise(a, b, tolerance, allowed)
    except DamagedBlobError as damage:
        return Outcome(how="nothing", why=f"damaged on disk: {damage}")


def _by_digest(a: Head, b: Head) -> bool:
    open_ = Kept.OPAQUE in (a.kept, b.kept) or a.hollow or b.hollow
    return bool(a.digest) and a.digest == b.digest and not open_


def sources(a: Head, b: Head) -> tuple[Source, Source] | None:
    """Both as arrays, if they are."""
    first, second = a.outline, b.outline
    if first is None or second is None:
        return None
    return (
        Stored(a.blobs, first.part, first.code, first.shape, first.dtype),
        Stored(b.blobs, second.part, second.code, second.shape, second.dtype),
    )


def compare_arrays(a: Source, b: Source, settings: Settings, allowed: float | None) -> Outcome:
    if a.shape != b.shape:
        return Outcome(differ=True, magnitude=math.inf, why=f"shape {list(a.shape)} against {list(b.shape)}")
    if isinstance(a, Stored) and isinstance(b, Stored) and _same_bytes(a, b):
        return Outcome(identical=a.dtype == b.dtype)
    found = scan(a, b, tolerance_of(settings, allowed, a.dtype, b.dtype), allowed or 0.0)
    return Outcome(found.differ, found.identical, found.magnitude)


def tolerance_of(settings: Settings, allowed: float | None, *dtypes: str) -> Tolerance:
    return (
        settings.tolerance(*dtypes) if allowed is not None or not settings.reference else settings.unmeasured(*dtypes)
    )


def _same_bytes(a: Stored, b: Stored) -> bool:
    if a.code != b.code or a.part.length != b.part.length:
        return False
    if a.part.inline is not None and b.part.inline is not None:
        return bytes(a.part.inline) == bytes(b.part.inline)
    return a.part.digest is not None and a.part.digest == b.part.digest


def _otherwise(a: Head, b: Head, settings: Settings, allowed: float | None) -> Outcome:
    if a.kept == Kept.OPAQUE or b.kept == Kept.OPAQUE:
        if a.type != b.type and not a.why.startswith("lost") and not b.why.startswith("lost"):
            return Outcome(differ=True, magnitude=math.inf, how="value", why=f"{a.type} against {b.type}")
        return Outcome(how="nothing", why=a.why or b.why or f"clew does not look into a {a.type}")
    if Kept.SUMMARY in (a.kept, b.kept):
        return compare_summaries(a, b, settings, allowed)
    from clew.values import decode

    found = Walk(settings, allowed).compare(decode(a.read()), decode(b.read()))
    if found.compared and not found.differ and Kept.PART in (a.kept, b.kept):
        return Outcome(how="nothing", why="only a part was kept; the parts are equal, the hashes of the whole are not")
    return found


# ---- what was not kept in full


def compare_summaries(a: Head, b: Head, settings: Settings, allowed: float | None) -> Outcome:
    """One of them has no bytes, and their hashes differ: shape, type and statistics are what is left."""
    one, other = _summary(a), _summary(b)
    if one.shape != other.shape:
        return Outcome(True, magnitude=math.inf, how="summary", why=f"shape {one.shape} against {other.shape}")
    dtypes = one.dtype or a.type, other.dtype or b.type
    tolerance = tolerance_of(settings, allowed, *dtypes)
    if tolerance.exact and not allowed and dtypes[0] == dtypes[1] and a.digest and b.digest:
        return Outcome(True, magnitude=_furthest(one, other)[1], how="hash", why="their hashes differ")
    if one.min is None and one.mean is None and one.nan is None:
        return Outcome(how="nothing", why=f"not kept ({a.why or b.why}); the hashes differ")
    name, distance = _furthest(one, other)
    size = abs(getattr(one, name) or 0.0) if name else 0.0
    differ = not distance <= max(tolerance.atol + tolerance.rtol * size, allowed or 0.0)
    return Outcome(differ, magnitude=distance, how="summary", why=f"its {name} differs" if differ else "")


def _summary(head: Head) -> Summary:
    from clew.values.stats import filled

    return filled(head.read()) if head.kept == Kept.FULL else head.summary


def _apart(one: Summary, other: Summary) -> Iterator[tuple[str, float]]:
    """The statistics that are not the same, and how far apart they are."""
    for name in _STATISTICS:
        x, y = getattr(one, name), getattr(other, name)
        if x is None or y is None or x == y or (x != x and y != y):
            continue
        yield name, abs(x - y) if math.isfinite(x) and math.isfinite(y) and name not in ("nan", "inf") else math.inf


def _furthest(one: Summary, other: Summary) -> tuple[str, float]:
    """The statistic that is furthest apart, and how far."""
    return max(_apart(one, other), key=lambda found: found[1], default=("", 0.0))


def measured_summaries(a: Head, b: Head) -> Measure:
    """What can be said of two arrays whose bytes were not both kept."""
    one, other = _summary(a), _summary(b)
    told = [f"{name} {getattr(one, name):g} against {getattr(other, name):g}" for name, _ in _apart(one, other)]
    note = f"summaries only: {', '.join(told)}" if told else "not kept in full; their hashes differ"
    shapes = None if one.shape is None or other.shape is None or one.shape == other.shape else (one.shape, other.shape)
    dtypes = None if not one.dtype or not other.dtype or one.dtype == other.dtype else (one.dtype, other.dtype)
    return Measure(shapes=shapes, dtypes=dtypes, note=note)


# ---- anything that can be read back


class Walk:
    """Two values, read back, side by side; ends at the first place where they differ, and goes on for the largest."""

    def __init__(self, settings: Settings, allowed: float | None) -> None:
        self.settings = settings
        self.allowed = allowed
        self.path = ""  # of the first difference
        self.pair: tuple[Any, Any] | None = None  # what is there
        self.total = self.count = 0
        self._outcome = Outcome(identical=True)
        self._seen: set[tuple[int, int]] = set()
        self._met: set[int] = set()
        self._partners = 0
        self._unknown = 0

    def compare(self, a: Any, b: Any) -> Outcome:
        self._compare(a, b, "", 0)
        out = self._outcome
        if not out.differ and self._unknown and self._unknown == self.total:
            return Outcome(how="nothing", why="nothing that could be compared was kept of it")
        if not out.differ and self._unknown:
            return Outcome(
                how="nothing", why=f"{self._unknown:,} of {self.total:,} parts were not kept; the rest is equal"
            )
        return out

    def _differ(self, a: Any, b: Any, path: str, magnitude: float, why: str = "") -> None:
        if not self._outcome.differ:
            self.path, self.pair = path, (a, b)
            self._outcome.why = f"at {path}{': ' if why else ''}{why}" if path else why
        self.count += 1
        self._outcome.differ, self._outcome.identical = True, False
        self._outcome.magnitude = max(self._outcome.magnitude, magnitude)

    def _compare(self, a: Any, b: Any, path: str, depth: int) -> None:
        one, other = contents(a), contents(b)
        if depth > _DEEPEST or (one is not None and (id(a), id(b)) in self._seen):
            return
        if one is not None and other is not None and self._family(a) == self._family(b):
            self._seen.add((id(a), id(b)))
            if not self._has_room(a, b):
                self._unknown += 1
                self.total += 1
                return
            self._contents(a, b, dict(one), dict(other), path, depth)
            return
        self.total += 1
        if type(a) is NotKept or type(b) is NotKept:
            self._not_kept(a, b, path, depth)
            return
        self._leaf(a, b, path)

    def _has_room(self, a: Any, b: Any) -> bool:
        """Two values that hold the same things in different places would be compared each with each."""
        again = id(a) in self._met or id(b) in self._met
        self._met.update((id(a), id(b)))
        self._partners += again
        return self._partners <= _MOST_PARTNERS

    def _not_kept(self, a: Any, b: Any, path: str, depth: int) -> None:
        """One of them was not kept in full: what was kept of both may differ already."""
        self._unknown += 1
        if type(a) is not type(b):
            return
        lengths = a.summary.length, b.summary.length
        if a.type == b.type and None not in lengths and lengths[0] != lengths[1]:
            self._differ(a, b, path, math.inf, f"length {lengths[0]:,} against {lengths[1]:,}")
        elif a.part is not None and b.part is not None:
            self._compare(a.part, b.part, f"{path}(the kept part)", depth + 1)

    def _family(self, value: Any) -> Any:
        return value.type if type(value) is Object else "mapping" if isinstance(value, dict) else type(value)

    def _contents(self, a: Any, b: Any, one: dict[str, Any], other: dict[str, Any], path: str, depth: int) -> None:
        for step, inside in one.items():
            if step in other:
                self._compare(inside, other[step], path + step, depth + 1)
            else:
                self._differ(inside, DELETED, path + step, math.inf, "only in the first")
        for step, inside in other.items():
            if step not in one:
                self._differ(DELETED, inside, path + step, math.inf, "only in the second")

    def _leaf(self, a: Any, b: Any, path: str) -> None:
        if type(a) in _PLAIN and type(b) in _PLAIN and self._plain(a, b, path):
            return
        arrays = as_source(a), as_source(b)
        if arrays[0] is not None and arrays[1] is not None:
            if arrays[0].shape != arrays[1].shape and 1 in (arrays[0].count, arrays[1].count):
                arrays = _flat(arrays[0]), _flat(arrays[1])
            assert arrays[0] is not None
            assert arrays[1] is not None
            found = compare_arrays(arrays[0], arrays[1], self.settings, self.allowed)
            if found.differ:
                self._differ(a, b, path, found.magnitude, found.why)
            alike = type(a) is type(b) and arrays[0].dtype == arrays[1].dtype
            self._outcome.identical &= found.identical and alike
            self._outcome.magnitude = max(self._outcome.magnitude, found.magnitude)
        elif not plainly_equal(a, b):
            self._differ(a, b, path, math.inf, "" if type(a) is type(b) else f"{_kind(a)} against {_kind(b)}")

    def _plain(self, a: Any, b: Any, path: str) -> bool:
        """Two of Python's own numbers; False if that takes more than a look: there may be a million of them."""
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
            self._differ(a, b, path, distance if math.isfinite(distance) else math.inf)
        return True


def _flat(source: Source | None) -> Source | None:
    """A number and an array that holds one number are compared as numbers."""
    if source is not None and source.count == 1:
        source.shape = ()
    return source


def _kind(value: Any) -> str:
    return "deleted" if value is DELETED else str(type.__getattribute__(type(value), "__name__"))


def contents(value: Any) -> Iterator[tuple[str, Any]] | None:
    """What a container holds, with the text that leads to each; None of anything else."""
    kind = type(value)
    if kind.__name__ == "deque" and kind.__module__ == "collections":
        value = list(value)
    if kind.__name__ == "DataFrame" and library_of(value) == "pandas":
        columns = ((f"[{_key(column)}]", value.iloc[:, i].to_numpy()) for i, column in enumerate(value.columns))
        return chain(columns, [(".index", value.index.to_numpy()), (".columns", list(value.columns))])
    if kind.__name__ == "Series" and library_of(value) == "pandas":
        return iter([(".values", value.to_numpy()), (".index", value.index.to_numpy())])
    if kind is np.ma.MaskedArray:
        return _masked(value)
    if kind is np.ndarray and value.dtype.kind == "O":
        return ((f"[{place}]", item) for place, item in enumerate(value.reshape(-1).tolist()))
    found = contents_of(value) if not isinstance(value, dict) else ((("[", k), v) for k, v in dict.items(value))
    if found is None:
        return None
    return _told_apart((f"[{_key(key)}]" if sign == "[" else f".{key}", item) for (sign, key), item in found)


def _key(key: Any) -> str:
    """A key as it is written; of one that may be long in a few words."""
    if type(key) in _SIMPLE_KEYS or (type(key) is int and key.bit_length() <= 256):
        return repr(key)
    return brief(key, 200)


def _told_apart(items: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The same, where no two have the same text."""
    seen: dict[str, int] = {}
    for text, item in items:
        seen[text] = seen.get(text, 0) + 1
        yield text if seen[text] == 1 else f"{text} ({seen[text]})", item


def _masked(value: Any) -> Iterator[tuple[str, Any]]:
    """The mask, and what it does not hide."""
    mask = np.ma.getmaskarray(value)
    data = np.ma.getdata(value).copy()
    data[mask] = np.zeros((), data.dtype)
    return iter([(".mask", mask), (".data", data)])


def as_source(value: Any) -> Source | None:
    """Numbers and arrays of them as an array; None of anything else."""
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
    """Of what was read back, which is of known types: no user code runs."""
    if type(a) is not type(b):
        return False
    try:
        same = a == b
        return bool(same.all()) if hasattr(same, "all") else bool(same)
    except (TypeError, ValueError, RuntimeError):
        return False


def measured(a: Any, b: Any, settings: Settings, allowed: float | None) -> Measure:
    """How two values that were read back differ."""
    arrays = as_source(a), as_source(b)
    if arrays[0] is not None and arrays[1] is not None:
        one, other = arrays[0], arrays[1]
        if one.shape != other.shape and one.count == other.count == 1:
            one.shape = other.shape = ()
        return measured_arrays(one, other, settings, allowed)
    walk = Walk(settings, allowed)
    found = walk.compare(a, b)
    if walk.pair is not None and walk.path:
        missing = walk.pair[0] is DELETED or walk.pair[1] is DELETED
        inside = Measure() if missing else measured(*walk.pair, settings, allowed)
        inside.path = walk.path
        inside.note = inside.note or found.why.removeprefix(f"at {walk.path}").removeprefix(": ")
        if walk.count > 1:
            inside.note += f"{'; ' if inside.note else ''}{walk.count:,} parts differ"
        return inside
    shapes = shape_of(a), shape_of(b)
    told = (
        (shapes[0], shapes[1]) if shapes[0] is not None and shapes[1] is not None and shapes[0] != shapes[1] else None
    )
    return Measure(shapes=told, note=found.why or text_note(a, b))


def measured_arrays(a: Source, b: Source, settings: Settings, allowed: float | None) -> Measure:
    if a.shape != b.shape:
        dtypes = (a.dtype, b.dtype) if a.dtype != b.dtype else None
        return Measure(shapes=(a.shape, b.shape), dtypes=dtypes, note="shapes differ: no element was compared")
    return measure(a, b, tolerance_of(settings, allowed, a.dtype, b.dtype), allowed or 0.0)


def text_note(a: Any, b: Any) -> str:
    if type(a) is not type(b):
        return f"{_kind(a)} against {_kind(b)}"
    if type(a) in (str, bytes):
        place = next((i for i, (p, q) in enumerate(zip(a, b, strict=False)) if p != q), min(len(a), len(b)))
        return f"the texts differ from character {place} on"
    if type(a) in (set, frozenset):
        sides = (("first", a - b), ("second", b - a))
        return "; ".join(f"only in the {name}: {_some(left)}" for name, left in sides if left)
    return ""


def _some(items: Any) -> str:
    return ", ".join(sorted(brief(item, 40) for item in items)[:3]) + (", ..." if len(items) > 3 else "")
