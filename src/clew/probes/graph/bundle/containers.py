"""Lists, dictionaries and sets that are reached in two ways: in a bundle they are one, too.

A container stands in the page where it was met first, as plain JSON. Met again, it becomes one of the page's objects,
and both places refer to it. One that the text of a module makes again as it is has a name: that is referred to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

KINDS = (list, dict, set)


class _ListNode(list[Any]):
    """A list of the user's, as JSON, and the object it is made from."""

    source: Any = None
    number: int | None = None  # among the page's objects, once it is met again


class _RecordNode(dict[str, Any]):
    """The same for a dictionary or a set."""

    source: Any = None
    number: int | None = None


Node = _ListNode | _RecordNode


class Containers:
    """The containers that one page holds."""

    def __init__(self, objects: list[dict[str, Any] | None]) -> None:
        self._objects = objects
        self._nodes: dict[int, tuple[int, Node]] = {}  # by identity: when it was met, and its place
        self._named: dict[int, tuple[Any, Callable[[], dict[str, Any]]]] = {}

    def met(self, value: Any) -> dict[str, Any] | None:
        """What refers to a container that was met before; None if this is the first time."""
        known = self._nodes.get(id(value))
        if known is None:
            return None
        node = known[1]
        if node.number is None:
            node.number = len(self._objects)
            self._objects.append({"$": "list", "items": list(node)} if isinstance(node, _ListNode) else dict(node))
        return {"$": "object", "number": node.number}

    def holds(self, value: Any) -> bool:
        """Whether a container was met, or has a name."""
        return id(value) in self._nodes or id(value) in self._named

    def add(self, value: Any, made: Any) -> Any:
        """Remember a container, and the JSON that was made of it."""
        node: Node = _ListNode(made) if isinstance(made, list) else _RecordNode(made)
        node.source = value
        self._nodes[id(value)] = (len(self._objects), node)
        return node

    def name(self, value: Any, refer: Callable[[], dict[str, Any]]) -> None:
        """A module of the bundle has a container under a name, and its text makes it as it is."""
        self._named[id(value)] = (value, refer)

    def forget(self, count: int) -> None:
        """The page's objects from this number on are left out, with what was met since."""
        self._nodes = {key: known for key, known in self._nodes.items() if known[0] < count}
        for _, node in self._nodes.values():
            if node.number is not None and node.number >= count:
                node.number = None

    def settle(self, page: Any) -> None:
        """Put references where containers stand that have turned out to be shared."""
        if not self._named and all(node.number is None for _, node in self._nodes.values()):
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
