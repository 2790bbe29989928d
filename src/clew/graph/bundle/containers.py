"""Lists, dictionaries and sets that are reached in two ways: in a bundle they are one, too.

A container stands in the page where it was met first, as plain JSON. Met again, it becomes one of the page's objects,
and both places refer to it. One that the text of a module makes again as it is has a name: that is referred to.
Tuples and frozen sets count if there are containers in them: others are the same wherever they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

KINDS = (list, dict, set)
_HOLDING = (*KINDS, tuple, frozenset)


def is_shareable(value: Any) -> bool:
    kind = type(value)
    return kind in KINDS or (kind in _HOLDING and any(type(item) in _HOLDING for item in value))


class _ListNode(list[Any]):
    """A list of the user's, as JSON, and the object it is made from."""

    source: Any = None
    number: int | None = None  # among the page's objects, once it is met again


class _RecordNode(dict[str, Any]):
    """The same for a dictionary, a set, a tuple."""

    source: Any = None
    number: int | None = None


Node = _ListNode | _RecordNode
Nodes = dict[int, tuple[int, Node, Any]]  # by identity: how many objects there were when it was met, its place, itself


class Containers:
    """The containers that one page holds."""

    def __init__(self, objects: list[dict[str, Any] | None]) -> None:
        self._objects = objects
        self._nodes: Nodes = {}
        self._own: Nodes | None = None  # of the copy that is at hand
        self._are_shared = False
        self._named: dict[int, tuple[Any, Callable[[], dict[str, Any]]]] = {}

    def met(self, value: Any) -> dict[str, Any] | None:
        """What refers to a container that was met before; None if this is the first time."""
        known = self._here.get(id(value))
        if known is None:
            return None
        node = known[1]
        if node.number is None:
            node.number = len(self._objects)
            self._are_shared = True
            self._objects.append({"$": "list", "items": list(node)} if isinstance(node, _ListNode) else dict(node))
        return {"$": "object", "number": node.number}

    def holds(self, value: Any) -> bool:
        """Whether a container was met, or has a name."""
        return id(value) in self._nodes or id(value) in self._named

    def add(self, value: Any, made: Any) -> Any:
        """Remember a container, and the JSON that was made of it."""
        node: Node = _ListNode(made) if isinstance(made, list) else _RecordNode(made)
        node.source = value if self._own is None else None
        self._here[id(value)] = (len(self._objects), node, value)
        return node

    @property
    def _here(self) -> Nodes:
        return self._nodes if self._own is None else self._own

    @contextmanager
    def copy(self, *, is_copy: bool = True) -> Iterator[None]:
        """What is met meanwhile is a copy: it is shared with nothing outside, and has no name."""
        outside, self._own = self._own, {} if is_copy else None
        try:
            yield
        finally:
            self._own = outside

    def name(self, value: Any, refer: Callable[[], dict[str, Any]]) -> None:
        """A module of the bundle has a container under a name, and its text makes it as it is."""
        self._named[id(value)] = (value, refer)

    def forget(self, count: int) -> None:
        """The page's objects from this number on are left out, with what was met since."""
        for nodes in filter(None, (self._nodes, self._own)):
            for key, (since, node, _) in list(nodes.items()):
                if since >= count:
                    del nodes[key]
                elif node.number is not None and node.number >= count:
                    node.number = None

    def settle(self, page: Any) -> None:
        """Put references where containers stand that have turned out to be shared."""
        if not self._named and not self._are_shared:
            return
        stack = [page]
        while stack:
            part = stack.pop()
            entries = list(part.items()) if isinstance(part, dict) else list(enumerate(part))
            for key, inner in entries:
                reference = self._reference(inner)
                if reference is not None:
                    part[key] = reference
                elif isinstance(inner, dict | list):
                    stack.append(inner)

    def _reference(self, part: Any) -> dict[str, Any] | None:
        if not isinstance(part, _ListNode | _RecordNode):
            return None
        named = self._named.get(id(part.source))
        if named is not None and part.source is not None:
            return named[1]()
        return None if part.number is None else {"$": "object", "number": part.number}
