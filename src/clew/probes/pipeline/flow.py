"""Which items a call is about. Items are followed by the objects that carry them, and by the scope a call is made in.

In this order: a call made while one item is being made is about that item; a call that is given what another stage
gave for an item is about that item; a call made while a batch is worked on is about that batch. A call of which
nothing of this is true brings a new item.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from clew.values.class_facts import inherits, is_exactly, is_really, module_of

_NAMELESS = (int, bool, type(None), complex)  # equal ones are one object: they carry nobody's name
_SHORT_TEXT = 8  # likewise
_DEEP = 3
_MANY = 4096  # objects looked at in one value


@dataclass(frozen=True, slots=True)
class Who:
    """The items a call is about."""

    ids: tuple[Any, ...]
    source: str
    batch: int | None = None
    batched: bool = False  # several items in one value; else one, alone
    lost: str = ""

    @property
    def single(self) -> bool:
        return not self.batched


_NOBODY = Who((), "")


@dataclass(slots=True)
class Pull:
    """What a generator has taken from other stages since it last gave something."""

    taken: list[Who]
    last: Who | None = None


class Flow:
    """The items of one trace in one process."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Who | None]] = {}  # the object is held, so that its id stays its own
        self._scope: ContextVar[Who | None] = ContextVar("clew_scope", default=None)
        self._ambient: ContextVar[Who | None] = ContextVar("clew_ambient", default=None)
        self._pull: ContextVar[Pull | None] = ContextVar("clew_pull", default=None)
        self._batches = 0

    # ---- where we are

    @property
    def scope(self) -> Who | None:
        return self._scope.get()

    @property
    def ambient(self) -> Who | None:
        pull = self._pull.get()
        if pull is not None and pull.last is not None:
            return pull.last
        return self._ambient.get()

    @contextmanager
    def within(self, who: Who) -> Iterator[None]:
        """Calls made in here are about these items."""
        token = self._scope.set(who)
        try:
            yield
        finally:
            self._scope.reset(token)

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Calls made in here are about no items yet."""
        token = self._scope.set(None)
        try:
            yield
        finally:
            self._scope.reset(token)

    def arrived(self, who: Who) -> None:
        """The code here has just been given these items; what it calls next is about them."""
        pull = self._pull.get()
        if pull is not None:
            pull.taken.append(who)
            pull.last = who
        else:
            self._ambient.set(who)

    @contextmanager
    def pulling(self, pull: Pull) -> Iterator[None]:
        """A generator runs until it gives something."""
        token = self._pull.set(pull)
        try:
            yield
        finally:
            self._pull.reset(token)

    def next_batch(self) -> int:
        self._batches += 1
        return self._batches - 1

    # ---- who is in a value

    def known(self, values: Iterable[Any]) -> Who | None:
        """Whose values these are, as far as they are the very objects that stages gave."""
        found: list[Who] = []
        for value in values:
            if type(value) is list and len(value) == 1 and self._is_single(value[0]) and self._carried(value) is None:
                return replace(self._carried(value[0]) or _NOBODY, batched=True, batch=None)  # a batch of one
            found += self._found(value, 0)
        return self._together(list(dict.fromkeys(found)))

    def _found(self, value: Any, depth: int) -> Iterator[Who]:
        """Whose a value is; if it is nobody's as a whole, whose its parts are."""
        who = self._carried(value)
        if who is not None:
            yield who
        elif depth < _DEEP:
            for item in _inside(value):
                yield from self._found(item, depth + 1)

    def _carried(self, value: Any) -> Who | None:
        entry = self._known.get(id(value))
        return entry[1] if entry is not None and entry[0] is value else None

    def _together(self, found: list[Who]) -> Who | None:
        if not found:
            return None
        batches = [who for who in found if who.batched]
        if batches:
            return batches[0] if len({who.ids for who in batches}) == 1 else _joined(batches)
        if len(found) == 1:
            return found[0]
        return replace(_joined(found), batched=True, batch=None)

    def carry(self, value: Any, who: Who) -> None:
        """Wherever this value, or a part of it, comes in again, it is these items'."""
        rows = value if who.batched and type(value) is list and len(value) == len(who.ids) else None
        if rows is not None and not any(_is_column(row, len(rows)) for row in rows):
            for row, id in zip(rows, who.ids, strict=True):
                if self._carried(row) is None:
                    self._put(row, replace(who, ids=(id,), batched=False))
            self._put(value, who)
            return
        for leaf in _parts(value):
            if leaf is value or who.single or not self._is_single(leaf):
                self._put(leaf, who, whole=leaf is value)

    def _is_single(self, value: Any) -> bool:
        who = self._carried(value)
        return who is not None and who.single

    def _put(self, value: Any, who: Who, whole: bool = True) -> None:
        if is_really(value, *_NAMELESS) or (is_really(value, str, bytes) and len(value) <= _SHORT_TEXT):
            return
        before = self._known.get(id(value))
        shared = before is not None and before[0] is value and before[1] != who
        if shared and (not whole or is_really(value, float, str, bytes)):
            self._known[id(value)] = (value, None)  # what several items have in common says nothing
            return
        self._known[id(value)] = (value, who)

    def keep(self, wanted: Callable[[Who], bool]) -> None:
        """Let go of what carries others: for traces that never end."""
        gone = [key for key, (_, who) in self._known.items() if who is None or not wanted(who)]
        for key in gone:
            del self._known[key]

    def forget(self) -> None:
        """Let go of everything."""
        self._known.clear()


def _joined(found: list[Who]) -> Who:
    ids = tuple(id for who in found for id in who.ids)
    return replace(found[0], ids=ids, lost=next((who.lost for who in found if who.lost), ""))


def _parts(value: Any, depth: int = 0) -> Iterator[Any]:
    """The value and what lies in it, a few containers deep."""
    yield value
    if depth >= _DEEP:
        return
    for item in _inside(value):
        yield from _parts(item, depth + 1)


def _inside(value: Any) -> Iterable[Any]:
    kind = type(value)
    if any(kind is each for each in (list, tuple, set, frozenset)):
        return list(value)[:_MANY]
    if kind is dict:
        return list(value.values())[:_MANY]
    if is_really(value, tuple):  # a named one; its items are its own, whatever its class says
        return list(tuple.__iter__(value))[:_MANY]
    if is_really(value, dict):
        return list(dict.values(value))[:_MANY]
    inside = _attributes(value)
    return [] if inside is None else list(inside.values())[:_MANY]


def _attributes(value: Any) -> dict[str, Any] | None:
    """What a plain object of the user's holds: a sample may be one, and so is a batch of transformers."""
    kind = type(value)
    if is_really(value, type) or callable(value) or module_of(kind) in _LIBRARIES:
        return None
    if module_of(kind).partition(".")[0] in _LIBRARIES:
        return None
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return found if type(found) is dict else None


_LIBRARIES = frozenset({"builtins", "torch", "numpy", "pandas", "PIL", "logging", "threading", "collections", "io"})


def rows_in(value: Any, depth: int = 0) -> int | None:
    """How many rows the first array in a value has."""
    shape = shape_of(value)
    if shape is not None:
        return shape[0] if shape else None
    if depth < _DEEP and is_exactly(value, list, tuple, dict):
        for item in value.values() if type(value) is dict else value:
            rows = rows_in(item, depth + 1)
            if rows is not None:
                return rows
    attributes = _attributes(value) if depth < _DEEP else None
    return rows_in(attributes, depth + 1) if attributes else None


def has_rows(value: Any, count: int, depth: int = 0) -> bool:
    """Whether some array, table or list in a value has so many rows."""
    if _is_column(value, count) or (type(value) is list and len(value) == count):
        return True
    if depth < _DEEP and is_exactly(value, list, tuple, dict):
        items = value.values() if type(value) is dict else value
        return any(has_rows(item, count, depth + 1) for item in list(items)[:_MANY])
    attributes = _attributes(value) if depth < _DEEP else None
    return has_rows(attributes, count, depth + 1) if attributes else False


def _is_column(value: Any, count: int) -> bool:
    shape = shape_of(value)
    return bool(shape) and shape is not None and shape[0] == count


def shape_of(value: Any) -> tuple[int, ...] | None:
    """The shape of an array, tensor or table."""
    for library, names in (("torch", ("Tensor",)), ("numpy", ("ndarray",)), ("pandas", ("DataFrame", "Series"))):
        module = sys.modules.get(library)
        for name in names:
            cls = getattr(module, name, None)
            if isinstance(cls, type) and inherits(type(value), cls):
                return tuple(value.shape)
    return None


def id_of(index: Any) -> Any:
    """An index as the name of an item: of a tensor or a number of numpy's the number, of a list its text."""
    if is_exactly(index, int, str, bool, float, bytes, type(None)):
        return index
    if shape_of(index) == () or module_of(type(index)) == "numpy":
        return index.item() if getattr(index, "ndim", 1) == 0 else str(index)
    if type(index) is tuple:
        return tuple(map(id_of, index))
    if is_exactly(index, list, dict, set) or shape_of(index) is not None:
        return str(index)
    return index
