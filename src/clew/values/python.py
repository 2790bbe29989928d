"""Python's own values: containers, text of any size, dates, numbers, paths. No user code, by exact types only."""

from __future__ import annotations

import array
import datetime as dt
import decimal
import fractions
import pathlib
import types
import uuid
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from operator import is_
from typing import Any, Final

from xxhash import xxh3_128_digest

from clew.records import DELETED, Kept, Object, Summary
from clew.values.adapters import BAG, MAPPING, SEQUENCE, Looking, Node, register
from clew.values.class_facts import type_name
from clew.values.json_text import SCALAR_IDS, plain, read_atom, types_in

# ---- checks: is a container still what it was? By identity of what it holds, at C speed.


def same_list(current: list[Any], kept: list[Any]) -> bool:
    return list.__len__(current) == len(kept) and all(map(is_, list.__iter__(current), kept))


def same_dict(current: dict[Any, Any], kept: tuple[tuple[Any, ...], tuple[Any, ...]]) -> bool:
    keys, values = kept
    return (
        dict.__len__(current) == len(keys)
        and all(map(is_, dict.values(current), values))
        and all(map(is_, dict.__iter__(current), keys))
    )


def same_ordered(
    current: OrderedDict[Any, Any], kept: tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]
) -> bool:
    """An OrderedDict keeps its order beside the dict: `move_to_end` does not show in `dict.__iter__`."""
    stored, values, ordered = kept
    return same_dict(current, (stored, values)) and all(map(is_, OrderedDict.__iter__(current), ordered))


def same_set(current: set[Any], kept: list[Any]) -> bool:
    return set.__len__(current) == len(kept) and all(map(is_, set.__iter__(current), kept))


def same_deque(current: deque[Any], kept: list[Any]) -> bool:
    return deque.__len__(current) == len(kept) and all(map(is_, deque.__iter__(current), kept))


def same_bytes(current: Any, kept: bytes) -> bool:
    """`kept` is a hash: no second copy of a large buffer stays in memory."""
    return xxh3_128_digest(memoryview(current).cast("B")) == kept


def snapshot(obj: dict[Any, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Keys and values at one moment. Not `dict.copy`, which may compare keys and so run their `__eq__`."""
    pairs = list(dict.items(obj))
    return tuple(zip(*pairs, strict=True)) if pairs else ((), ())  # type: ignore[return-value]


# ---- containers


def look_list(obj: list[Any], walk: Looking) -> Node:
    items = list.copy(obj)
    walk.guard(same_list, obj, items)
    return Node("list", "", SEQUENCE, items)


def look_tuple(obj: tuple[Any, ...], walk: Looking) -> Node:
    return Node("tuple", "tuple", SEQUENCE, list(obj))


def look_dict(obj: dict[Any, Any], walk: Looking) -> Node:
    kept = snapshot(obj)
    walk.guard(same_dict, obj, kept)
    return Node("dict", "", MAPPING, list(kept[1]), list(kept[0]))


def look_ordered(obj: OrderedDict[Any, Any], walk: Looking) -> Node:
    """Its iterator hashes the keys, so the true order is asked for only where no key is of a user's class."""
    kept = snapshot(obj)
    keys, values = kept
    if types_in(keys) <= SCALAR_IDS:
        keys = tuple(OrderedDict.__iter__(obj))
        values = tuple(dict.__getitem__(obj, key) for key in keys)
        walk.guard(same_ordered, obj, (*kept, keys))
    else:
        walk.guard(same_dict, obj, kept)
    return Node("collections.OrderedDict", "OrderedDict", MAPPING, list(values), list(keys))


def look_counter(obj: Counter[Any], walk: Looking) -> Node:
    node = look_dict(obj, walk)
    node.type, node.tag = "collections.Counter", "Counter"
    return node


def look_defaultdict(obj: defaultdict[Any, Any], walk: Looking) -> Node:
    kept = snapshot(obj)
    factory = _FACTORY(obj)
    walk.guard(same_dict, obj, kept)
    walk.guard(_same_factory, obj, factory)
    made = next((name for name, cls in _FACTORIES.items() if cls is factory), "")
    node = Node("collections.defaultdict", "defaultdict", MAPPING, list(kept[1]), list(kept[0]), {"factory": made})
    if not made:
        node.kept, node.why = Kept.PART, "its default_factory is not kept"
        node.content = b"%x" % id(factory)
    return node


_FACTORY: Final[Any] = defaultdict.__dict__["default_factory"].__get__
_FACTORIES: Final[dict[str, Any]] = {
    c.__name__: c for c in (list, dict, set, int, float, str, tuple, bool, bytes, complex, frozenset)
} | {"None": None}


def _same_factory(current: defaultdict[Any, Any], kept: Any) -> bool:
    return _FACTORY(current) is kept


def look_set(obj: set[Any], walk: Looking) -> Node:
    items = list(set.__iter__(obj))
    walk.guard(same_set, obj, items)
    return Node("set", "set", BAG, items)


def look_frozenset(obj: frozenset[Any], walk: Looking) -> Node:
    return Node("frozenset", "frozenset", BAG, list(frozenset.__iter__(obj)))


def look_deque(obj: deque[Any], walk: Looking) -> Node:
    items = list(deque.__iter__(obj))
    walk.guard(same_deque, obj, items)
    return Node("collections.deque", "deque", SEQUENCE, items, note={"maxlen": obj.maxlen})


def look_slice(obj: slice, walk: Looking) -> Node:
    return Node("slice", "slice", SEQUENCE, [obj.start, obj.stop, obj.step])


def look_mappingproxy(obj: types.MappingProxyType[Any, Any], walk: Looking) -> Node:
    """A proxy may stand before a user's mapping, whose methods are user code: that one is left alone."""
    referents = _gc_referents(obj)
    inner = referents[0] if referents else None
    if type(inner) is not dict:
        return opaque(obj, "a proxy of something that is not a plain dict")
    return Node("mappingproxy", "mappingproxy", SEQUENCE, [inner])


def _gc_referents(obj: object) -> list[Any]:
    import gc

    return gc.get_referents(obj)


def look_namespace(obj: types.SimpleNamespace, walk: Looking) -> Node:
    inside: dict[str, Any] = object.__getattribute__(obj, "__dict__")
    kept = snapshot(inside)
    walk.guard(same_dict, inside, kept)
    return Node("types.SimpleNamespace", "namespace", MAPPING, list(kept[1]), list(kept[0]))


# ---- buffers


def _buffer_node(type: str, tag: str, raw: bytes, walk: Looking, note: dict[str, Any] | None = None) -> Node:
    node = Node(type, tag, note=note)
    node.content = xxh3_128_digest(raw)
    node.summary = Summary(length=len(raw), size=len(raw))
    node.why = walk.room_for(len(raw))
    if node.why:
        node.kept = Kept.SUMMARY
    else:
        node.aside = {"part": walk.add_part(raw)}
    return node


def look_bytearray(obj: bytearray, walk: Looking) -> Node:
    raw = bytes(obj)
    node = _buffer_node("bytearray", "bytearray", raw, walk)
    walk.guard(same_bytes, obj, node.content)
    return node


def look_array(obj: array.array[Any], walk: Looking) -> Node:
    raw = obj.tobytes()
    node = _buffer_node("array.array", "array", raw, walk, {"code": obj.typecode})
    walk.guard(_same_array, obj, node.content)
    return node


def _same_array(current: array.array[Any], kept: bytes) -> bool:
    return xxh3_128_digest(current.tobytes()) == kept


def look_memoryview(obj: memoryview, walk: Looking) -> Node:
    """Reads back as a view of bytes with the same format and shape."""
    raw = obj.tobytes()
    node = _buffer_node("memoryview", "memoryview", raw, walk, {"format": obj.format, "shape": list(obj.shape or ())})
    walk.guard(_same_view, obj, node.content)
    return node


def _same_view(current: memoryview, kept: bytes) -> bool:
    try:
        return xxh3_128_digest(current.tobytes()) == kept
    except ValueError:  # released since
        return False


def opaque(obj: object, why: str, name: str = "") -> Node:
    """Something clew does not look into: its type and name; the same only if it is the very same object."""
    node = Node(type_name(type(obj)), "opaque", note={"type": type_name(type(obj)), "name": name})
    node.content = b"%x" % id(obj)
    node.kept, node.why = Kept.OPAQUE, why
    node.aside = {"why": why}
    return node


# ---- atoms: immutable, one piece of JSON


def _atom(tag: str, write: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: {"$": tag, "is": write(x)}


def _write_datetime(x: dt.datetime) -> list[Any]:
    return [x.year, x.month, x.day, x.hour, x.minute, x.second, x.microsecond, x.fold, _write_zone(x.tzinfo)]


def _write_time(x: dt.time) -> list[Any]:
    return [x.hour, x.minute, x.second, x.microsecond, x.fold, _write_zone(x.tzinfo)]


def _write_zone(zone: dt.tzinfo | None) -> Any:
    """A zone of a user's class is only named: asking it for its offset would run its code."""
    if zone is None:
        return None
    if type(zone) is dt.timezone:
        offset, *name = zone.__getinitargs__()  # type: ignore[attr-defined]
        return [_write_timedelta(offset), *map(plain, name)]
    if type(zone) is zoneinfo.ZoneInfo and zone.key is not None:
        return {"key": plain(zone.key)}
    return {"type": type_name(type(zone))}


def _write_timedelta(x: dt.timedelta) -> list[int]:
    return [x.days, x.seconds, x.microseconds]


def _write_fraction(x: fractions.Fraction) -> list[Any]:
    return [plain(x._numerator), plain(x._denominator)]  # type: ignore[attr-defined]  # the properties may be watched


def _write_path(x: pathlib.PurePath) -> Any:
    return plain(str(x))


def _write_range(x: range) -> list[Any]:
    return [plain(x.start), plain(x.stop), plain(x.step)]


def _write_slice(x: slice) -> list[Any]:
    """Bounds that are no plain values are only named by their type."""
    bounds = (x.start, x.stop, x.step)
    return [plain(b) if type(b) in (int, str, type(None)) else {"type": type_name(type(b))} for b in bounds]


def _read_slice(given: list[Any]) -> Any:
    named = dict(zip(("start", "stop", "step"), given, strict=True))
    if any(type(bound) is dict and "type" in bound for bound in given):
        return Object("slice", named)
    return slice(*map(_unplain, given))


def _unplain(x: Any) -> Any:
    return read_atom(x["$"], x["is"]) if type(x) is dict else x


def _read_zone(given: Any) -> Any:
    if given is None:
        return None
    if type(given) is list:
        return dt.timezone(dt.timedelta(*given[0]), *map(_unplain, given[1:]))
    if "key" in given:
        return zoneinfo.ZoneInfo(_unplain(given["key"]))
    if type(given["type"]) is not str:
        raise TypeError("the type of a zone is written as text")
    return Object(given["type"], {})


def _read_datetime(given: list[Any]) -> Any:
    zone = _read_zone(given[8])
    when = dt.datetime(*given[:7], fold=given[7])
    return _in_zone("datetime.datetime", when, zone)


def _read_time(given: list[Any]) -> Any:
    zone = _read_zone(given[5])
    when = dt.time(*given[:4], fold=given[4])
    return _in_zone("datetime.time", when, zone)


def _read_fraction(given: list[Any]) -> fractions.Fraction:
    """From two integers only: a text such as "1e999999999" would be written out in full."""
    numerator, denominator = map(_integer, given)
    return fractions.Fraction(numerator, denominator)


def _read_range(given: list[Any]) -> range:
    return range(*map(_integer, given))


def _read_decimal(given: Any) -> decimal.Decimal:
    if type(given) is not str:
        raise TypeError("a decimal is written as text")
    return decimal.Decimal(given)


def _integer(x: Any) -> int:
    found = _unplain(x)
    if type(found) is not int:
        raise TypeError("an integer was expected")
    return found


def _in_zone(name: str, when: Any, zone: Any) -> Any:
    """A zone of a user's class cannot be put back; then the parts stand beside each other."""
    return Object(name, {"value": when, "tzinfo": zone}) if type(zone) is Object else when.replace(tzinfo=zone)


_Atom = tuple[type, str, Callable[[Any], Any], Callable[[Any], Any]]
_ATOMS: Final[list[_Atom]] = [
    (dt.datetime, "datetime", _write_datetime, _read_datetime),
    (dt.date, "date", lambda x: [x.year, x.month, x.day], lambda given: dt.date(*given)),
    (dt.time, "time", _write_time, _read_time),
    (dt.timedelta, "timedelta", _write_timedelta, lambda given: dt.timedelta(*given)),
    (dt.timezone, "timezone", _write_zone, _read_zone),
    (zoneinfo.ZoneInfo, "zone", _write_zone, _read_zone),
    (decimal.Decimal, "decimal", str, _read_decimal),
    (fractions.Fraction, "fraction", _write_fraction, _read_fraction),
    (uuid.UUID, "uuid", lambda x: f"{x.int:032x}", lambda given: uuid.UUID(hex=given)),
    (range, "range", _write_range, _read_range),
    (slice, "slice", _write_slice, _read_slice),
    (type(DELETED), "deleted", lambda x: "", lambda given: DELETED),
    (type(Ellipsis), "ellipsis", lambda x: "...", lambda given: ...),
    (type(NotImplemented), "notimplemented", lambda x: "", lambda given: NotImplemented),
    (pathlib.PurePosixPath, "purepath", _write_path, lambda given: pathlib.PurePosixPath(_unplain(given))),
    (pathlib.PureWindowsPath, "winpath", _write_path, lambda given: pathlib.PureWindowsPath(_unplain(given))),
    (type(pathlib.Path()), "path", _write_path, lambda given: pathlib.Path(_unplain(given))),
]

ATOM_READERS: Final[dict[str, Callable[[Any], Any]]] = {tag: read for _, tag, _, read in _ATOMS}

_LOOKS: Final[dict[type, Any]] = {
    list: look_list,
    tuple: look_tuple,
    dict: look_dict,
    set: look_set,
    frozenset: look_frozenset,
    deque: look_deque,
    OrderedDict: look_ordered,
    defaultdict: look_defaultdict,
    Counter: look_counter,
    slice: look_slice,
    types.MappingProxyType: look_mappingproxy,
    types.SimpleNamespace: look_namespace,
    bytearray: look_bytearray,
    memoryview: look_memoryview,
    array.array: look_array,
}


def _register_all() -> None:
    for cls, tag, write, _ in _ATOMS:
        register(cls, atom=_atom(tag, write))
    for cls, look in _LOOKS.items():
        register(cls, look=look)


_register_all()
