"""A value at the moment it was looked at: what to store of it, its digest, and a quick test whether it is still so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clew import trouble
from clew.records import Kept, Summary, Value
from clew.values import digest
from clew.values.adapters import LEAF, Node, alone_of, atom_of, look_of
from clew.values.class_facts import type_name
from clew.values.json_text import INLINE_BYTES, SCALAR_IDS, dumps, plain
from clew.values.json_tree import tree_of_bytes, tree_of_text
from clew.values.keep import AUTO, Keep, settled
from clew.values.nested_containers import nested
from clew.values.value_walk import Guard, Walk

_SCALAR_TEXT = 4096  # texts up to here are kept whatever the policy


class Capture:
    """What is known of a value at the moment it was looked at."""

    __slots__ = ("_guards", "_root", "_watch", "digest", "value")

    def __init__(
        self, value: Value, root: object, guards: list[Guard], watch: Callable[[Any], bool] | None = None
    ) -> None:
        self.value = value
        self.digest = value.digest
        self._root = root
        self._guards = guards
        self._watch = watch  # an array or a scalar: judged by its content, and not kept alive

    def unchanged(self, obj: object) -> bool:
        """True if `obj` is still exactly what was captured. False means maybe not: capture again, compare digests."""
        try:
            if self._watch is not None:
                return self._watch(obj)
            if obj is not self._root:
                return False
            for check, guarded, kept in self._guards:
                if not check(guarded, kept):
                    return False
        except Exception:  # changed by another thread in the middle of the look, or released, or gone
            return False
        return True


def same_scalar(a: object, b: object) -> bool:
    """Exactly the same, by type and value: NaN is NaN; 0.0 is not -0.0; 1, 1.0 and True differ."""
    if a is b:
        return True
    cls = type(a)
    if cls is not type(b) or id(cls) not in SCALAR_IDS:
        return False
    if cls is float or cls is complex:
        return cls.__repr__(a) == cls.__repr__(b)
    return bool(a == b)


class _Same:
    """The test of an immutable scalar."""

    __slots__ = ("_kept",)

    def __init__(self, kept: object) -> None:
        self._kept = kept

    def __call__(self, obj: object) -> bool:
        return same_scalar(obj, self._kept)


def capture(obj: object, keep: Keep = AUTO) -> Capture:
    """Look at a value without running a line of user code. Never raises (under CLEW_STRICT=1, clew's own bugs do)."""
    try:
        if id(type(obj)) in SCALAR_IDS and _is_short(obj):
            return _scalar(obj)
        keep = settled(keep, obj)
        alone = alone_of(id(type(obj)))
        if alone is not None:
            found: Capture | None = alone(obj, keep)
            if found is not None:
                return found
        return _nested(obj, keep) or _captured(obj, keep)
    except (RecursionError, MemoryError) as error:  # the program itself is at its limits
        return _failed(obj, error)
    except Exception as error:
        ours = not isinstance(error, RecursionError)  # near the end of the program's stack there is no room to look
        trouble.report("values:capture", f"a {type_name(type(obj))} could not be captured", cause=error, internal=ours)
        return _failed(obj, error)


def _is_short(obj: Any) -> bool:
    if type(obj) is str:
        return len(obj) <= _SCALAR_TEXT
    return type(obj) is not bytes or len(obj) <= INLINE_BYTES


def _scalar(obj: Any) -> Capture:
    body = dumps(plain(obj))
    name = "None" if obj is None else type(obj).__name__
    summary = Summary(length=len(obj)) if type(obj) in (str, bytes) else Summary()
    value = Value(name, body, [], Kept.FULL, "", summary, digest.of_scalar(name, body))
    return Capture(value, None, [], _Same(obj))


def _nested(obj: Any, keep: Keep) -> Capture | None:
    found = None if keep.mode == "summary" else nested(obj, keep.item_limit)
    if found is None:
        return None
    summary, kept = Summary(length=found.length), Kept.PART if found.lost else Kept.FULL
    value = Value(type(obj).__name__, found.body, [], kept, found.lost, summary, found.digest)
    return Capture(value, obj, found.guards)


def _captured(obj: Any, keep: Keep) -> Capture:
    walk = Walk(keep, lit=keep.mode != "summary")
    if atom_of(id(type(obj))) is None and look_of(type(obj)) is not None:
        return _of_node(obj, walk)
    return _of_atom(obj, walk)


def _of_atom(obj: Any, walk: Walk) -> Capture:
    """Dates, paths, NumPy scalars: immutable, so the test is their identity. Long text and bytes: their content."""
    atom = atom_of(id(type(obj)))
    assert atom is not None
    name = type_name(type(obj))
    try:
        text = dumps(atom(obj))
    except AttributeError as error:  # it is just being made: `__new__` has not set its attributes yet
        return _failed(obj, error)
    value = Value(name, None, walk.parts, digest=digest.of_scalar(name, text))
    if type(obj) is not str and type(obj) is not bytes:
        value.body = text
        return Capture(value, obj, [])
    value.summary.length = len(obj)
    if walk.lit:
        value.body = dumps(tree_of_text(walk, obj) if isinstance(obj, str) else tree_of_bytes(walk, obj))
    else:
        value.kept, value.why = Kept.SUMMARY, "keep='summary'"
    if walk.lost:
        value.kept, value.why = Kept.PART, walk.lost
    return Capture(value, None, [], _Same(obj))


def by_walk(obj: Any, keep: Keep) -> Capture:
    """The capture of a value that is no scalar, without any short cut."""
    return _of_node(obj, Walk(keep, lit=keep.mode != "summary"))


def _of_node(obj: Any, walk: Walk) -> Capture:
    wanted = walk.lit
    node = walk.run(obj)
    assert node.digest is not None
    value = Value(node.type, None, walk.parts, node.kept, node.why, node.summary or Summary(), node.digest)
    value.part_digests = walk.part_digests
    if node.form != LEAF and value.summary.length is None:
        value.summary.length = len(node.items)
    if wanted:
        value.body = _body(node)
        if walk.lost and value.kept is Kept.FULL:
            value.kept, value.why = Kept.PART, walk.lost
    elif node.kept is not Kept.OPAQUE:
        value.kept, value.why = Kept.SUMMARY, "keep='summary'"
    if walk.light and value.kept is not Kept.FULL:
        value.digest = b""  # nothing was looked at that could tell it from another
    return Capture(value, None if walk.root_watch else obj, walk.guards, walk.root_watch)


def _body(node: Node) -> str:
    if node.text is not None and (node.form == LEAF or node.tree is node.items):
        return node.text
    return dumps(node.tree)


def _failed(obj: object, error: Exception) -> Capture:
    name = type_name(type(obj))
    why = f"could not be looked at: {type_name(type(error))}"
    body = dumps({"$": "opaque", "type": name, "name": "", "why": why})
    value = Value(name, body, [], Kept.OPAQUE, why, Summary(), digest.of_scalar(name, f"{id(obj)}"))
    return Capture(value, obj, [])
