"""Markers that stand for values of which only the type was noted: arguments and results that nobody asked for."""

from __future__ import annotations

import weakref
from functools import lru_cache
from typing import Any, Final

from xxhash import xxh3_128_digest

from clew.records import Kept
from clew.values.adapters import Looking, Node, register
from clew.values.class_facts import type_name
from clew.values.digest import head_of

_WHY: Final = "only its type was noted"

_names: Final[dict[int, str]] = {}  # by id of the type, since hashing one may run a user's metaclass
_alive: Final[dict[int, Any]] = {}  # weak references to the types behind the ids


class Unlooked:
    """Stands for a value of the type it names. Without an `__init__`, which would be half the price of making one."""

    __slots__ = ("type",)
    type: str


def unlooked(obj: object) -> Unlooked:
    """A marker for `obj`, which is neither looked at nor kept alive. Hot: made for arguments of watched calls."""
    marker = Unlooked()
    marker.type = _names.get(id(type(obj))) or _named(type(obj))
    return marker


def _named(cls: type) -> str:
    key = id(cls)
    _alive[key] = weakref.ref(cls, lambda _: _drop(key))
    name = _names[key] = type_name(cls)
    return name


def _drop(key: int) -> None:
    _names.pop(key, None)
    _alive.pop(key, None)


def lost(marker: Unlooked) -> str:
    """What whoever holds such a marker says of itself."""
    return f"it holds a {marker.type}: {_WHY}"


@lru_cache(1024)
def written(type: str) -> tuple[dict[str, Any], bytes]:
    """The JSON and the digest of such a marker."""
    note = _note(type)
    return {"$": "opaque", **note, "why": _WHY}, xxh3_128_digest(head_of(type, "opaque", note))


def _note(type: str) -> dict[str, Any]:
    return {"type": type, "name": ""}


def _look(obj: Unlooked, walk: Looking) -> Node:
    node = Node(obj.type, "opaque", note=_note(obj.type))
    node.kept, node.why = Kept.OPAQUE, _WHY
    node.aside = {"why": _WHY}
    return node


register(Unlooked, look=_look)
