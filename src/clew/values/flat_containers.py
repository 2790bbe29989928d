"""The short way for the most common containers: a list, or a dict with text keys, of plain JSON scalars.

Their JSON text is made once, by the C encoder, and serves as body and as what is hashed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from clew.values.adapters import Check
from clew.values.digest import PIECE
from clew.values.json_text import all_json, has_text, only_text, try_text, types_in
from clew.values.json_tree import is_short_text
from clew.values.python import same_dict, same_list, snapshot


class Flat(NamedTuple):
    """A shallow copy of such a container, its text, and how to test that it is still so."""

    type: str
    content: Any
    text: str
    check: Check
    kept: Any


def flat(obj: Any, limit: int) -> Flat | None:
    """None for everything else, and for what must be cut or written with atoms."""
    cls = type(obj)
    if cls is list:
        if len(obj) > limit:
            return None
        items = content = obj.copy()
        text = _text(content, items)
        return None if text is None else Flat("list", content, text, same_list, items)
    if cls is not dict or len(obj) > limit:
        return None
    try:
        kept = snapshot(obj)
    except RuntimeError:  # another thread changes it: the long way tries again
        return None
    if not only_text(types_in(kept[0])):
        return None
    table = dict(zip(kept[0], kept[1], strict=True))
    text = _text(table, kept[1])
    if text is None or '"$' in text:  # a key that begins like a tag (or a text, which costs only the short way)
        return None
    return Flat("dict", table, text, same_dict, kept)


def _text(content: Any, items: Any) -> str | None:
    types = types_in(items)
    if not all_json(types) or len(items) > PIECE:
        return None
    text = try_text(content, types)
    if text is None or (has_text(types) and not is_short_text(text, items)):
        return None
    return text
