"""The JSON tree of a value, made on the walk's way out.

    [..]                                        a list
    {..}                                        a dict with only text keys, none of which begins with "$"
    {"$": "tuple", "items": [..]}               sequences and sets
    {"$": "dict", "keys": [..], "values": [..]} mappings
    {"$": "object", "type": .., "attributes": {..}}
    {"$": "numpy", "dtype": .., "shape": .., "part": 0}   bytes are parts, by number
    {"$": "date", "is": ..}                     atoms: whatever has "is"
    {"$": "ref", "to": 3}                       the fourth node of the body in reading order, met again
    {"$": "cut", ..}                            the ends of something over a limit
    {"$": "out", ..}                            something left out

Reading order numbers every list, dict and tagged object except atoms, "ref" and "out".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from clew.records import Kept
from clew.values.adapters import LEAF, MAPPING, Node, atom_of
from clew.values.json_text import INLINE_BYTES, all_encodable, has_text, only_text, plain

if TYPE_CHECKING:
    from clew.values.value_walk import Walk

MAX_NESTING: Final = 200
SHORT_TEXT: Final = 256  # texts up to here are not worth a look at the budget
EDGE_TEXT: Final = 512  # characters kept of each end of a text over the limit
TOO_DEEP: Final = f"deeper than {MAX_NESTING}"


def tree_of(walk: Walk, node: Node) -> Any:
    if node.form == LEAF:
        return _tagged(node, {})
    if node.kept is Kept.PART and node.edge >= 0:
        return _cut(walk, node)
    if node.form == MAPPING:
        return _mapping(walk, node)
    items = _items(walk, node, node.items)
    return items if node.tag == "" else _tagged(node, {"items": items})


def _tagged(node: Node, inside: dict[str, Any]) -> dict[str, Any]:
    return {"$": node.tag, **(node.note or {}), **(node.aside or {}), **inside}


def _mapping(walk: Walk, node: Node) -> Any:
    keys = node.keys or []
    if node.tag == "object" and _are_names(node):
        return _tagged(node, {"attributes": _named(walk, node, keys)})
    if node.tag == "" and _are_names(node) and not _has_dollar(node):
        return _named(walk, node, keys)
    rows = {"keys": _items(walk, node, keys), "values": _items(walk, node, node.items)}
    return _tagged(node, rows) if node.tag else {"$": "dict", **rows}


def _named(walk: Walk, node: Node, keys: list[Any]) -> dict[str, Any]:
    return dict(zip(keys, _items(walk, node, node.items), strict=True))


def _cut(walk: Walk, node: Node) -> dict[str, Any]:
    edge, count = node.edge, len(node.items)
    ends = [*range(edge), *range(count - edge, count)]
    rows = {"items": _items(walk, node, [node.items[i] for i in ends])}
    if node.keys is not None:
        keys = [node.keys[i] for i in ends]
        rows = {"keys": _items(walk, node, keys), "values": rows["items"]}
    return {"$": "cut", "of": node.tag or node.type, "type": node.type, "length": count, "why": node.why, **rows}


def _items(walk: Walk, node: Node, items: list[Any]) -> list[Any]:
    if node.text is not None and (not has_text(node.types) or is_short_text(node.text, node.items)):
        return items  # plain JSON already
    return [_child(walk, node, x) for x in items]


def _child(walk: Walk, node: Node, x: Any) -> Any:
    atom = atom_of(id(type(x)))
    if atom is None:
        return _placed(walk, node, walk.child(x))
    if type(x) is str and len(x) > SHORT_TEXT:
        return tree_of_text(walk, x)
    if type(x) is bytes and len(x) > INLINE_BYTES:
        return tree_of_bytes(walk, x)
    return atom(x)


def _placed(walk: Walk, parent: Node, child: Node) -> Any:
    """The child's tree where it was met first, a reference everywhere else."""
    if not child.lit:
        why = TOO_DEEP if parent.depth >= MAX_NESTING else "left out"
        walk.lose(why)
        return {"$": "out", "type": child.type, "why": why}
    if child.placed or child.parent is not parent:
        return {"$": "ref", "to": child.number}
    child.placed = True
    if child.kept is not Kept.FULL:
        walk.lose(f"it holds a {child.type}: {child.why}")
    return child.tree


def tree_of_text(walk: Walk, x: str) -> Any:
    """A long text, or its two ends if it is over the limit."""
    limit = walk.keep.text_limit
    why = f"text over {limit:,} characters" if len(x) > limit else walk.room_for(len(x))
    if not why:
        return plain(x)
    walk.lose(why)
    ends = [plain(x[:EDGE_TEXT]), plain(x[-EDGE_TEXT:])]
    return {"$": "cut-text", "is": ends, "length": len(x), "why": why}


def tree_of_bytes(walk: Walk, x: bytes) -> Any:
    why = walk.room_for(len(x))
    if not why:
        return {"$": "long-bytes", "is": walk.add_part(x)}
    walk.lose(f"bytes {why}")
    return {"$": "cut-bytes", "is": plain(x[:EDGE_TEXT]), "length": len(x), "why": why}


def is_short_text(text: str, items: list[Any]) -> bool:
    """True if no item is a long text."""
    return len(text) <= SHORT_TEXT or all(len(x) <= SHORT_TEXT for x in items if type(x) is str)


def _are_names(node: Node) -> bool:
    if not only_text(node.key_types):
        return False
    return node.text is not None or all_encodable(node.keys or ())


def _has_dollar(node: Node) -> bool:
    if node.text is not None and '"$' not in node.text:
        return False
    return any(k.startswith("$") for k in node.keys or ())
