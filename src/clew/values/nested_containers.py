"""The short way for the most common values: lists, tuples and dicts with text keys, nested, of Python's own scalars.

One visit per container gives its digest, its JSON and its guard; the digests are those the walk would give. Whatever
needs more (references met twice, long texts, odd keys, limits) is left to the walk.
"""

from __future__ import annotations

from itertools import repeat
from operator import is_
from typing import Any, Final

from xxhash import xxh3_128_digest

from clew.values.adapters import Check
from clew.values.digest import PIECE, plain_head
from clew.values.json_text import INLINE_BYTES, SCALAR_IDS, all_json, dumps, has_long_int, has_text, plain, types_in
from clew.values.json_tree import SHORT_TEXT, is_short_text
from clew.values.python import same_dict, same_list, snapshot
from clew.values.type_markers import Unlooked, lost, written

_DEEPEST: Final = 20  # containers in containers; the walk does not call itself, and has no such limit
_LIST: Final = plain_head("list", "")
_DICT: Final = plain_head("dict", "")
_TUPLE: Final = plain_head("tuple", "tuple")


class _LeaveError(Exception):
    """This one is for the walk."""


def nested(obj: Any, limit: int) -> Nested | None:
    """None for everything that the walk must see."""
    cls = type(obj)
    if cls is not dict and cls is not list and cls is not tuple:
        return None
    visit = Nested(limit)
    try:
        tree, visit.digest = visit.container(obj, 0)
        if not visit.body:
            visit.body = dumps(tree)
    except (_LeaveError, RuntimeError, ValueError):
        # RuntimeError: changed by another thread, or the stack is at its end. ValueError: keys that are not UTF-8.
        return None
    return visit


class Nested:
    """One visit, and all there is to say of the value. The last container it comes out of is the outermost one."""

    __slots__ = ("_left", "_seen", "body", "digest", "guards", "length", "lost")

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._seen: set[int] = set()
        self.guards: list[tuple[Check, Any, Any]] = []
        self.length = 0
        self.lost = ""  # the first reason why something inside was not written
        self.body = ""  # the JSON of the last container, where it was made for the digest anyway
        self.digest = b""

    def container(self, obj: Any, depth: int) -> tuple[Any, bytes]:
        """JSON and digest."""
        head, keys, items = self._taken(obj)
        types = types_in(items)
        if not all_json(types):
            inside, tokens = self._inside(items, depth + 1)
        else:
            inside = tokens = list(map(plain, items)) if has_long_int(items, types) else items
        content = tokens if keys is None else dict(zip(keys, tokens, strict=True))
        try:
            text = dumps(content)
        except ValueError:  # NaN or infinity among scalars; elsewhere each item has been made fit for JSON
            inside = tokens = list(map(plain, items))
            content = tokens if keys is None else dict(zip(keys, tokens, strict=True))
            text = dumps(content)
        if inside is tokens and has_text(types) and not is_short_text(text, items):
            raise _LeaveError
        if keys is not None and '"$' in text and any(map(str.startswith, keys, repeat("$"))):
            raise _LeaveError
        digest = xxh3_128_digest(head + text.encode())
        self.length = len(items)
        if head is _TUPLE:
            self.body = ""
            return {"$": "tuple", "items": inside}, digest
        if inside is tokens:
            self.body = text
            return content, digest
        self.body = ""
        return inside if keys is None else dict(zip(keys, inside, strict=True)), digest

    def _taken(self, obj: Any) -> tuple[bytes, Any, Any]:
        """A shallow copy of a container, with a guard: how its digest begins, its keys, its items."""
        keys: Any = None
        items: Any = obj
        if type(obj) is dict:
            kept = snapshot(obj)
            keys, items = kept
            if not all(map(is_, map(type, keys), repeat(str))):
                raise _LeaveError
            head = _DICT
            self.guards.append((same_dict, obj, kept))
        elif type(obj) is list:
            items = obj.copy()
            head = _LIST
            self.guards.append((same_list, obj, items))
        else:
            head = _TUPLE
        self._left -= len(items)
        if self._left < 0 or len(items) > PIECE or id(obj) in self._seen:
            raise _LeaveError
        self._seen.add(id(obj))
        return head, keys, items

    def _inside(self, items: Any, depth: int) -> tuple[list[Any], list[Any]]:
        """The items' JSON, and what stands for them in what is hashed."""
        trees, tokens = [], []
        for x in items:
            cls = type(x)
            if cls is dict or cls is list or cls is tuple:
                if depth > _DEEPEST:
                    raise _LeaveError
                tree, digest = self.container(x, depth)
                trees.append(tree)
                tokens.append([digest.hex()])
            elif cls is Unlooked:
                tree, digest = written(x.type)
                trees.append(tree)
                tokens.append([digest.hex()])
                self.lost = self.lost or lost(x)
            else:
                if id(cls) not in SCALAR_IDS or _is_long(x, cls):
                    raise _LeaveError
                trees.append(plain(x))
                tokens.append(trees[-1])
        return trees, tokens


def _is_long(x: Any, cls: type) -> bool:
    """A text or bytes that may be over a limit, or stand beside the body."""
    return (cls is str and len(x) > SHORT_TEXT) or (cls is bytes and len(x) > INLINE_BYTES)
