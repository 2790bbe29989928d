"""Reading a body back (see json_tree.py for how it is written). No user code runs, no user class is imported.

A body may come from anywhere. What is read of it takes memory and time in proportion to its bytes: each field has the
type it is written with or the value counts as damaged, shapes are compared with the bytes there are before anything is
made, what is referred to twice is read once, and each part of its bytes belongs to one node. Nesting is bounded by
`DEEPEST`, keys by `LARGEST_KEY`.
"""

from __future__ import annotations

import array
import json
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable, Iterator
from operator import is_
from typing import Any, Final

from clew.records import Kept, NotKept, Object, Summary, Value
from clew.values.adapters import reader_of
from clew.values.json_text import all_json, read_atom, types_in
from clew.values.json_tree import MAX_NESTING
from clew.values.python import _FACTORIES, ATOM_READERS

DEEPEST: Final = 2 * MAX_NESTING  # nodes inside one another; no body that clew wrote comes near
LARGEST_KEY: Final = 100_000  # items of a key, counted as often as they are hashed


class _Later:
    """Stands for a node that is still being read (something immutable that contains itself)."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class KeyObject(Object):
    """An `Object` that was the key of a dict or the member of a set, and so can be one again."""

    __slots__ = ("_hash",)

    def __init__(self, type: str, attributes: dict[str, Any]) -> None:
        super().__init__(type, attributes)
        plain = [(k, v) for k, v in attributes.items() if isinstance(v, str | int | float | bool | None)]
        self._hash = hash((type, frozenset(plain)))

    def __hash__(self) -> int:  # type: ignore[override]
        return self._hash


class KeyNotKept(NotKept):
    """A `NotKept` in the place of a key."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash((self.type, self.kept))


class Reader:
    """Reads one body. Adapters get it to read what their values hold."""

    def __init__(self, value: Value) -> None:
        self.value = value
        self.parts = value.parts
        self._parts_read: set[int] = set()
        self._nodes: list[Any] = []
        self._late = False
        self._depth = 0

    def read_all(self) -> Any:
        assert self.value.body is not None
        found = self.read(json.loads(self.value.body))
        return self._settle(found) if self._late else found

    def read(self, tree: Any, key: bool = False) -> Any:
        cls = type(tree)
        if cls is not dict and cls is not list:
            return tree
        self._depth += 1
        if self._depth > DEEPEST:
            raise ValueError(f"nested more than {DEEPEST} deep")
        found = self._read_list(tree) if cls is list else self._read_tagged(tree, key)
        self._depth -= 1
        return found

    def _read_tagged(self, tree: dict[str, Any], key: bool) -> Any:
        tag = tree.get("$")
        if tag is None:
            return self._read_dict(tree)
        if "is" in tree:
            return self._read_atom(tag, tree)
        if tag == "ref":
            return self._read_ref(tree["to"])
        if tag == "out":
            return _absent(text_in(tree, "type"), Kept.PART, text_in(tree, "why"), key=key)
        return self._read_node(tag, tree, key)

    def _read_list(self, tree: list[Any]) -> list[Any]:
        out: list[Any] = []
        self._nodes.append(out)
        if all_json(types_in(tree)):
            out.extend(tree)
        else:
            out.extend(map(self.read, tree))
        return out

    def _read_dict(self, tree: dict[str, Any]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        self._nodes.append(out)
        for name, inside in tree.items():
            out[name] = self.read(inside)
        return out

    def _read_atom(self, tag: str, tree: dict[str, Any]) -> Any:
        given = tree["is"]
        if tag == "long-bytes":
            return bytes(self._part(given))
        if tag == "cut-text":
            first, last = (exactly(str, self.read(x)) for x in given)
            return NotKept("str", Kept.PART, text_in(tree, "why"), _length_of(tree), f"{first}…{last}")
        if tag == "cut-bytes":
            part = exactly(bytes, self.read(given))
            return NotKept("bytes", Kept.PART, text_in(tree, "why"), _length_of(tree), part)
        found = ATOM_READERS.get(tag)
        if found is not None:
            return found(given)
        library = reader_of(tag)
        return read_atom(tag, given) if library is None else library(tree, self)

    def _read_ref(self, number: int) -> Any:
        found = self._nodes[index_in(number, len(self._nodes))]
        self._late |= type(found) is _Later
        return found

    def part(self, tree: dict[str, Any]) -> Any:
        """The bytes a node points to."""
        return self._part(tree["part"])

    def _part(self, number: Any) -> Any:
        index = index_in(number, len(self.parts))
        if index in self._parts_read:  # each would be a copy: a few characters for any number of bytes
            raise ValueError(f"two values in it have the same bytes, part {index}")
        self._parts_read.add(index)
        return self.parts[index]

    def _read_node(self, tag: str, tree: dict[str, Any], key: bool) -> Any:
        number = len(self._nodes)
        self._nodes.append(_Later(number))
        reader = _READERS.get(tag) or reader_of(tag)
        if reader is None:
            found: Any = _absent(tag, Kept.PART, f"no adapter for {tag!r} here", key=key)
        elif tag in _READERS:
            found = reader(tree, self, key)
        else:
            found = reader(tree, self)
        self._nodes[number] = found
        return found

    def begin(self, container: Any) -> Any:
        """Makes a container known before its content is read, so that the content may refer to it."""
        self._nodes[-1] = container
        return container

    # ---- immutable containers in a cycle

    def _settle(self, found: Any) -> Any:
        self._settled_tuples: dict[int, Any] = {}  # by id: a tuple met twice is settled once
        for node in self._nodes:
            if type(node) in (list, deque):
                for index, inside in enumerate(node):
                    node[index] = self._settled(inside)
            elif isinstance(node, dict | Object):
                content = node.attributes if isinstance(node, Object) else node
                for name, inside in content.items():
                    content[name] = self._settled(inside)
        return self._settled(found)

    def _settled(self, inside: Any) -> Any:
        if type(inside) is _Later:
            return self._nodes[inside.number]
        if type(inside) is not tuple:
            return inside
        known = self._settled_tuples.get(id(inside))
        if known is None:
            settled = tuple(map(self._settled, inside))
            known = inside if all(map(is_, settled, inside)) else settled
            self._settled_tuples[id(inside)] = known
        return known


def _absent(
    type: str, kept: Kept, why: str, part: Any = None, *, key: bool = False, length: int | None = None
) -> NotKept:
    return (KeyNotKept if key else NotKept)(type, kept, why, Summary(length=length), part)


# ---- a field of a body has the type it was written with, or the value is damaged


def exactly(kind: type, found: Any) -> Any:
    if type(found) is not kind:
        raise TypeError(f"a {kind.__name__} was expected, not a {type(found).__name__}")
    return found


def text_in(tree: dict[str, Any], name: str, default: str | None = None) -> str:
    found: str = exactly(str, tree[name] if default is None else tree.get(name, default))
    return found


def index_in(number: Any, count: int) -> int:
    """`number`, if it is a place among `count`: a negative one would count from the end."""
    if type(number) is not int or not 0 <= number < count:
        raise ValueError(f"there is no number {number!r:.20}")
    return number


def _length_of(tree: dict[str, Any]) -> Summary:
    return Summary(length=exactly(int, tree["length"]))


# ---- one function for each tag of Python's own


def _items(tree: dict[str, Any], reader: Reader, key: bool = False) -> Iterator[Any]:
    return (reader.read(x, key) for x in tree["items"])


def _pairs(tree: dict[str, Any], reader: Reader) -> list[tuple[Any, Any]]:
    keys = [_hashable(reader.read(k, key=True)) for k in tree["keys"]]
    return list(zip(keys, (reader.read(x) for x in tree["values"]), strict=True))


def _hashable(key: Any) -> Hashable:
    """What was a key may have been read back as something that cannot be one (a tensor without torch).

    Hashing a tuple hashes all it holds, again and again where something is in it twice, and has no bound of its own.
    """
    if type(key) is tuple and _hashed_items(key) > LARGEST_KEY:
        raise ValueError(f"a key of more than {LARGEST_KEY:,} items")
    try:
        hash(key)
    except TypeError:
        return KeyNotKept(type(key).__name__, Kept.FULL, "cannot be a key here", Summary(), key)
    return key  # type: ignore[no-any-return]


def _hashed_items(key: tuple[Any, ...]) -> int:
    """How many items hashing this tuple visits; more than LARGEST_KEY where it nests deeper than DEEPEST."""
    sizes: dict[int, int] = {}

    def size(item: Any, depth: int) -> int:
        if type(item) is not tuple:
            return 1
        if depth > DEEPEST:
            return LARGEST_KEY + 1
        if id(item) not in sizes:
            sizes[id(item)] = 1 + sum(size(x, depth + 1) for x in item)
        return sizes[id(item)]

    return size(key, 0)


def _read_tuple(tree: dict[str, Any], reader: Reader, key: bool) -> Any:
    return tuple(_items(tree, reader, key))


def _read_set(tree: dict[str, Any], reader: Reader, key: bool) -> Any:
    out = reader.begin(set())
    out.update(_hashable(x) for x in _items(tree, reader, key=True))
    return out


def _read_frozenset(tree: dict[str, Any], reader: Reader, key: bool) -> Any:
    return frozenset(_hashable(x) for x in _items(tree, reader, key=True))


def _read_deque(tree: dict[str, Any], reader: Reader, key: bool) -> Any:
    out = reader.begin(deque(maxlen=tree["maxlen"]))
    out.extend(_items(tree, reader))
    return out


def _read_slice(tree: dict[str, Any], reader: Reader, key: bool) -> Any:
    return slice(*_items(tree, reader, key))


def _read_proxy(tree: dict[str, Any], reader: Reader, key: bool) -> Any:
    inner = next(_items(tree, reader))
    return types.MappingProxyType(inner) if type(inner) is dict else inner


def _read_mapping(make: Callable[[], Any]) -> Callable[[dict[str, Any], Reader, bool], Any]:
    def read(tree: dict[str, Any], reader: Reader, key: bool) -> Any:
        out = reader.begin(make())
        for name, inside in _pairs(tree, reader):
            dict.__setitem__(out, name, inside) if type(out) is not OrderedDict else out.__setitem__(name, inside)
        return out

    return read


def _read_defaultdict(tree: dict[str, Any], reader: Reader, key: bool) -> Any:
    out: Any = reader.begin(defaultdict(_FACTORIES.get(tree["factory"])))
    for name, inside in _pairs(tree, reader):
        out[name] = inside
    return out


def _read_namespace(tree: dict[str, Any], reader: Reader, key: bool) -> Any:
    out = reader.begin(types.SimpleNamespace())
    out.__dict__.update(_pairs(tree, reader))
    return out


def _read_object(tree: dict[str, Any], reader: Reader, key: bool) -> Any:
    if key:
        return KeyObject(text_in(tree, "type"), _attributes(tree, reader, key))
    out = reader.begin(Object(text_in(tree, "type"), {}))
    out.attributes.update(_attributes(tree, reader, key))
    return out


def _attributes(tree: dict[str, Any], reader: Reader, key: bool) -> dict[str, Any]:
    if "attributes" in tree:
        return {name: reader.read(inside, key) for name, inside in tree["attributes"].items()}
    return dict(_pairs(tree, reader))


def _read_opaque(tree: dict[str, Any], reader: Reader, key: bool) -> Any:
    return _absent(text_in(tree, "type"), Kept.OPAQUE, text_in(tree, "why"), text_in(tree, "name") or None, key=key)


def _read_cut(tree: dict[str, Any], reader: Reader, key: bool) -> Any:
    """The two ends of a container: as a list, or as a dict with the first and the last keys."""
    if "keys" in tree:
        part: Any = dict(_pairs(tree, reader))
    else:
        part = list(_items(tree, reader))
    length = exactly(int, tree["length"])
    return _absent(text_in(tree, "type"), Kept.PART, text_in(tree, "why"), part, key=key, length=length)


def _read_buffer(make: Callable[[Any, dict[str, Any]], Any]) -> Callable[[dict[str, Any], Reader, bool], Any]:
    def read(tree: dict[str, Any], reader: Reader, key: bool) -> Any:
        raw = reader.part(tree) if "part" in tree else None
        return _absent(tree["$"], Kept.SUMMARY, "its bytes were not kept", key=key) if raw is None else make(raw, tree)

    return read


def _make_array(raw: Any, tree: dict[str, Any]) -> Any:
    found = array.array(text_in(tree, "code"), bytes(raw))
    if found.typecode in "uw":
        found.tounicode()  # ValueError for what is no character, which would else come up when it is shown
    return found


def _make_view(raw: Any, tree: dict[str, Any]) -> memoryview:
    flat = memoryview(bytes(raw))
    try:
        return flat.cast(tree["format"], tree["shape"])
    except (TypeError, ValueError):  # a format that `cast` cannot make: the bytes are still right
        return flat


_READERS: Final[dict[str, Callable[..., Any]]] = {
    "tuple": _read_tuple,
    "set": _read_set,
    "frozenset": _read_frozenset,
    "deque": _read_deque,
    "slice": _read_slice,
    "mappingproxy": _read_proxy,
    "dict": _read_mapping(dict),
    "OrderedDict": _read_mapping(OrderedDict),
    "Counter": _read_mapping(Counter),
    "defaultdict": _read_defaultdict,
    "namespace": _read_namespace,
    "object": _read_object,
    "opaque": _read_opaque,
    "cut": _read_cut,
    "bytearray": _read_buffer(lambda raw, tree: bytearray(raw)),
    "array": _read_buffer(_make_array),
    "memoryview": _read_buffer(_make_view),
}


def decode(value: Value) -> Any:
    """What the value was; or `NotKept`, with what there is of it, where it was not kept in full or is damaged."""
    try:
        found = None if value.body is None else Reader(value).read_all()
    except Exception as error:
        why = f"its record is damaged and cannot be read back ({type(error).__name__}: {error!s:.200})"
        return NotKept(value.type, value.kept, why, value.summary)
    if value.kept == Kept.FULL:
        return found
    part = found.part if isinstance(found, NotKept) else found
    return NotKept(value.type, value.kept, value.why, value.summary, part)
