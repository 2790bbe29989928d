"""The digest of a node: xxh3-128 over its type, its note and its children.

A child that is a node stands in its parent's text as `[digest]`, so equal values have equal digests whether or not
parts of them are shared. Values that contain themselves are hashed as a graph instead (see `of_graph`).
Text is hashed piece by piece: one piece or many, the same bytes, the same digest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from xxhash import xxh3_128, xxh3_128_digest

from clew.values.adapters import BAG, LEAF, MAPPING, Node
from clew.values.json_text import all_encodable, all_json, dumps, only_text, try_text

PIECE: Final = 1 << 17  # items turned into text at a time, so that ten million of them never stand in memory as text

Token = Callable[[Any], Any]

_heads: Final[dict[tuple[str, str], bytes]] = {}


def of_flat(type_name: str, text: str) -> bytes:
    """The same as `of_node` for a plain list or dict whose whole content is `text`."""
    return xxh3_128_digest(plain_head(type_name, "") + text.encode())


def of_scalar(type_name: str, body: str) -> bytes:
    return xxh3_128_digest(f"{type_name}|{body}".encode())


def of_node(node: Node, token: Token) -> bytes:
    """Also leaves the JSON text of a small node of plain JSON items in `node.text`, where the body can take it."""
    head = _head_of(node)
    if node.form == LEAF:
        return xxh3_128_digest(head)
    if len(node.items) <= PIECE and all_json(node.types) and _says_itself(node):
        text = _whole_text(node)
        if text is not None:
            node.text = text
            return xxh3_128_digest(head + text.encode())
    hasher = xxh3_128(head)
    for piece in _pieces(node, token):
        hasher.update(piece.encode())
    return hasher.digest()


def of_graph(nodes: Iterable[Node], order_of: Callable[[Any], Any]) -> bytes:
    """The digest of a value that contains itself: every node in order of first visit, children by number.

    Two such values are equal if they have the same shape as graphs.
    """
    hasher = xxh3_128(b"graph|")
    for node in nodes:
        hasher.update(of_node(node, order_of))
    return hasher.digest()


def head_of(type_name: str, tag: str, note: dict[str, Any] | None) -> bytes:
    """How the digest of a node with a note begins."""
    return dumps([type_name, tag, note]).encode("utf-8", "surrogatepass")


def _head_of(node: Node) -> bytes:
    if node.head:
        return node.head + node.content
    if node.note is None and not node.content:
        return plain_head(node.type, node.tag)
    return head_of(node.type, node.tag, node.note) + node.content


def plain_head(type_name: str, tag: str) -> bytes:
    """How the digest of a container without a note begins."""
    head = _heads.get((type_name, tag))
    if head is None:
        head = dumps([type_name, tag]).encode("utf-8", "surrogatepass")
        if len(_heads) < 10_000:  # classes made without end must not fill the table
            _heads[type_name, tag] = head
    return head


def _says_itself(node: Node) -> bool:
    return node.form != BAG and (node.keys is None or only_text(node.key_types))


def _whole_text(node: Node) -> str | None:
    if node.form != MAPPING:
        return try_text(node.items, node.types)
    assert node.keys is not None
    return try_text(dict(zip(node.keys, node.items, strict=True)), node.types)


def _pieces(node: Node, token: Token) -> Iterator[str]:
    if node.form == BAG:
        yield from _sorted_pieces(node.items, token)
    elif node.keys is None:
        yield from _listed(node.items, node.types, token)
    elif only_text(node.key_types):
        yield from _mapped(node, token)
    else:
        yield from _listed(node.keys, node.key_types, token)
        yield from _listed(node.items, node.types, token)


def _sorted_pieces(items: list[Any], token: Token) -> Iterator[str]:
    yield "["
    yield ",".join(sorted(dumps(token(x)) for x in items))
    yield "]"


def _listed(items: list[Any], types: frozenset[int] | set[int], token: Token) -> Iterator[str]:
    plain = all_json(types)
    yield "["
    for start in range(0, len(items), PIECE):
        some = items[start : start + PIECE]
        text = try_text(some, types) if plain else None
        if text is None:
            text = dumps(list(map(token, some)))
        yield text[1:-1] if start == 0 else "," + text[1:-1]
    yield "]"


def _mapped(node: Node, token: Token) -> Iterator[str]:
    assert node.keys is not None
    if len(node.items) <= PIECE:
        yield _mapped_text(node, node.keys, node.items, token)
        return
    yield "{"
    for start in range(0, len(node.items), PIECE):
        keys, items = node.keys[start : start + PIECE], node.items[start : start + PIECE]
        text = _mapped_text(node, keys, items, token)
        yield text[1:-1] if start == 0 else "," + text[1:-1]
    yield "}"


def _mapped_text(node: Node, keys: list[Any], items: list[Any], token: Token) -> str:
    text = try_text(dict(zip(keys, items, strict=True)), node.types) if all_json(node.types) else None
    if text is not None:
        return text
    if all_encodable(keys):
        return dumps(dict(zip(keys, map(token, items), strict=True)))
    pairs = (f"{dumps(token(k))}:{dumps(token(x))}" for k, x in zip(keys, items, strict=True))
    return "{" + ",".join(pairs) + "}"
