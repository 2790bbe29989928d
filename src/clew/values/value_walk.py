"""The walk through a value: iterative, so that depth and cycles are no matter; every container is visited once.

On the way in, the adapter of a value takes a shallow copy of its references and leaves a guard; on the way out, its
digest is made from those of its children, and its JSON tree from theirs. What is over a limit is *dark*: it is
walked and hashed like everything else, but not written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Final

from clew import trouble
from clew.records import Kept
from clew.values import digest
from clew.values.adapters import MAPPING, SEQUENCE, Check, Node, atom_of, look_of
from clew.values.class_facts import type_name
from clew.values.flat_containers import flat
from clew.values.json_text import types_in
from clew.values.json_tree import MAX_NESTING, tree_of
from clew.values.keep import Keep
from clew.values.objects import MAX_OBJECTS
from clew.values.python import opaque

EDGE: Final = 500  # items written from each end of a container that is not written whole
_RETRIES: Final = 3

Guard = tuple[Check, Any, Any]


class Walk:
    """One walk. Adapters see it as `base.Looking`."""

    __slots__ = (
        "_bytes_left", "_cyclic", "_distant", "_items_left", "_written", "describing", "guards", "keep", "light", "lit",
        "lost",
        "nodes", "objects", "part_digests", "parts", "root_watch", "stats",
    )  # fmt: skip

    def __init__(self, keep: Keep, *, lit: bool = True) -> None:
        self.keep = keep
        self.lit = lit
        self.light, self.stats = keep.light, keep.stats
        self.describing = True
        self.objects = 0
        self.guards: list[Guard] = []
        self.parts: list[Any] = []
        self.part_digests: list[bytes] = []
        self.nodes: dict[int, Node] = {}  # by id of the value; the walk keeps the values alive
        self._distant: dict[int, Node] = {}  # objects too deep to be followed from where they were met
        self._cyclic = False
        self._items_left = keep.item_limit
        self._bytes_left = keep.array_limit
        self._written = 0
        self.lost = ""  # the first reason why something inside was not written
        self.root_watch: Callable[[Any], bool] | None = None

    # ---- what adapters ask

    def room_for(self, size: int) -> str:
        if not self.lit:
            return "left out"
        if size > self._bytes_left:
            return f"over {_in_words(self.keep.array_limit)}"
        self._bytes_left -= size
        return ""

    def add_part(self, buffer: Any, digest: bytes = b"") -> int:
        self.parts.append(buffer)
        self.part_digests.append(digest)
        return len(self.parts) - 1

    def guard(self, check: Check, obj: Any, kept: Any) -> None:
        self.guards.append((check, obj, kept))

    def lose(self, why: str) -> None:
        self.lost = self.lost or why

    def watch(self, obj: Any, test: Callable[[Any], bool]) -> None:
        if self.nodes:
            self.guards.append((_passes, obj, test))
        else:
            self.root_watch = test

    # ---- the walk

    def run(self, root: object) -> Node:
        top = self._enter(root, None, self.lit)
        if top.digest is None:
            self._descend(top)
        if self._cyclic:
            top.digest = digest.of_graph(self.nodes.values(), self._order_token)
        return top

    def _descend(self, top: Node) -> None:
        stack = [(top, self._children(top))]
        while stack:
            node, children = stack[-1]
            for child, lit in children:
                known = self.nodes.get(id(child))
                if known is not None:
                    self._cyclic |= known.digest is None
                    continue
                entered = self._enter(child, node, lit)
                if entered.digest is None:
                    stack.append((entered, self._children(entered)))
                    break
            else:
                stack.pop()
                self._close(node)

    def _children(self, node: Node) -> Iterator[tuple[Any, bool]]:
        """The children that are nodes, and whether they are to be written."""
        below = node.lit and node.depth < MAX_NESTING
        if node.edge < 0:
            for child in chain(node.keys or (), node.items):
                if atom_of(id(type(child))) is None and look_of(type(child)) is not None:
                    yield child, below
            return
        last = len(node.items) - node.edge
        for row in (node.keys or (), node.items):
            for index, child in enumerate(row):
                if atom_of(id(type(child))) is None and look_of(type(child)) is not None:
                    yield child, below and (index < node.edge or index >= last)

    def _enter_flat(self, obj: Any, parent: Node) -> Node | None:
        """A plain container of scalars, written whole: done at once."""
        found = flat(obj, self._items_left)
        if found is None:
            return None
        node = Node(found.type)
        node.digest, node.tree = digest.of_flat(found.type, found.text), found.content
        node.form = SEQUENCE if found.type == "list" else MAPPING
        node.items, node.keys = (found.content, None) if found.type == "list" else (found.kept[1], found.kept[0])
        node.types, node.key_types = types_in(node.items), types_in(node.keys or ())
        node.lit, node.parent, node.depth, node.number = True, parent, parent.depth + 1, self._written
        self.guards.append((found.check, obj, found.kept))
        self.nodes[id(obj)] = node
        node.order = len(self.nodes)
        self._written += 1
        self._items_left -= len(found.content)
        return node

    def _enter(self, obj: Any, parent: Node | None, lit: bool) -> Node:
        if lit and parent is not None and (type(obj) is list or type(obj) is dict):
            node = self._enter_flat(obj, parent)
            if node is not None:
                return node
        self.lit = lit
        self.describing = lit or parent is None
        self.objects = parent.objects if parent is not None else MAX_OBJECTS if self.light else 0
        node = self._look(obj)
        node.lit, node.parent, node.objects = lit, parent, self.objects + node.far
        too_deep = node.kept is Kept.OPAQUE and self.objects >= MAX_OBJECTS
        known = self._distant.get(id(obj)) if too_deep else None
        if known is not None and (known.lit or not lit):
            return known  # met again from as far away: it is the same one, and numbered already
        (self._distant if too_deep else self.nodes)[id(obj)] = node
        node.order = len(self.nodes)
        if lit:
            node.depth = (0 if parent is None else parent.depth) + (1 if node.tag == "" else 2)
            node.number = self._written
            self._written += 1
            self._take_items(node)
        if node.form:
            node.types = types_in(node.items)
            if node.keys:
                node.key_types = types_in(node.keys)
            if not self._all_atoms(node):
                return node
        self._close(node)
        return node

    def _look(self, obj: Any) -> Node:
        look = look_of(type(obj))
        assert look is not None
        guards = len(self.guards)
        for _ in range(_RETRIES):
            try:
                return look(obj, self)
            except RuntimeError as error:  # a dict that another thread changes under the iteration
                changing = error
                del self.guards[guards:]
            except Exception as error:
                del self.guards[guards:]
                return self._failed(obj, error)
        if "changed" not in str(changing) and "mutated" not in str(changing):
            return self._failed(obj, changing)
        return opaque(obj, "changing while looked at")

    def _failed(self, obj: Any, error: Exception) -> Node:
        name, reason = type_name(type(obj)), type_name(type(error))
        what = f"a {name} could not be looked at; only its type is recorded"
        trouble.report(f"values:{name}:{reason}", what, cause=error)
        return opaque(obj, f"could not be looked at: {reason}")

    def _take_items(self, node: Node) -> None:
        count = len(node.items)
        if count > self._items_left:
            node.edge = min(EDGE, max(self._items_left, 0) // 2)
            node.kept, node.why = Kept.PART, f"over {self.keep.item_limit:,} items"
            count = 2 * node.edge
        self._items_left -= count

    def _all_atoms(self, node: Node) -> bool:
        for cls in node.types:
            if atom_of(cls) is None:
                return False
        return all(atom_of(cls) is not None for cls in node.key_types)

    def _close(self, node: Node) -> None:
        node.digest = digest.of_node(node, self._digest_token)
        if node.lit:
            node.tree = tree_of(self, node)

    # ---- how a child stands in the text that is hashed

    def child(self, obj: Any) -> Node:
        return self.nodes.get(id(obj)) or self._distant[id(obj)]

    def _digest_token(self, x: Any) -> Any:
        atom = atom_of(id(type(x)))
        if atom is not None:
            return atom(x)
        found = self.child(x).digest
        if found is None:
            self._cyclic = True
            return []
        return [found.hex()]

    def _order_token(self, x: Any) -> Any:
        atom = atom_of(id(type(x)))
        if atom is not None:
            return atom(x)
        found = self.nodes.get(id(x))
        return self._digest_token(x) if found is None else [found.order]


def _passes(obj: Any, test: Callable[[Any], bool]) -> bool:
    return test(obj)


def _in_words(size: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} bytes"
