"""What the methods of an operator's object keep in it, and what they go by: as far as their source tells."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any

from clew.graph.nodes import Step
from clew.instrument import source
from clew.instrument.engine import original_code
from clew.instrument.library_code import is_library

from .outside_changes import is_users
from .purity import is_changer

_ALL = "*"
LEARNING = ("fit", "partial_fit", "set_", "update", "learn", "reset")  # methods that change a library's object
_DEEP = 6  # methods that call methods
_known: dict[tuple[int, type], tuple[CodeType, frozenset[str], frozenset[str]]] = {}


@dataclass(frozen=True, slots=True)
class State:
    """The attributes of an object that a step goes by, and those it changes."""

    owner: int
    reads: frozenset[str]
    writes: frozenset[str]

    def matters_to(self, other: State) -> bool:
        """Whether the other goes by what this one changes."""
        return self.owner == other.owner and _meet(self.writes, other.reads)

    def in_the_way_of(self, other: State) -> bool:
        """Whether the two must keep their order."""
        if self.owner != other.owner:
            return False
        return self.matters_to(other) or other.matters_to(self) or _meet(self.writes, other.writes)


def _meet(some: frozenset[str], others: frozenset[str]) -> bool:
    return bool(some & others) or bool(some and others and (_ALL in some or _ALL in others))


def state_of(step: Step) -> State | None:
    """None for a step that is no method of an object."""
    target = _method_of(step)
    function = None if target is None else inspect.unwrap(target.__func__)
    if target is None or not isinstance(function, FunctionType):
        return None
    owner = target.__self__
    return State(id(owner), *_used(function, owner if isinstance(owner, type) else type(owner)))


def owner_of(step: Step) -> Any:
    """The object that a step is a method of; None if it is none."""
    target = _method_of(step)
    return None if target is None else target.__self__


def _method_of(step: Step) -> MethodType | None:
    if step.kind != "operator":
        return None
    target = getattr(step.target, "inner", step.target)  # clew.map: of the operator it calls
    target = getattr(target, "target", target)
    if isinstance(target, MethodType):
        return target
    torch = sys.modules.get("torch")
    is_module = torch is not None and isinstance(target, torch.nn.Module)
    call = getattr(type(target), "forward" if is_module else "__call__", None)
    return MethodType(call, target) if isinstance(call, FunctionType) else None


def keeps_something(cls: type) -> bool:
    """Whether the objects of a class change when their methods are called, constructors aside."""
    bases = [base for base in type.mro(cls) if is_users(base)]
    parts = ((name, inspect.unwrap(part)) for base in bases for name, part in vars(base).items() if callable(part))
    methods = [part for name, part in parts if isinstance(part, FunctionType) and name not in ("__init__", "__new__")]
    return any(_used(method, cls)[1] for method in methods)


def writes_of(method: FunctionType, cls: type) -> frozenset[str]:
    """The attributes of its object that a method sets, or changes the values of."""
    return _used(method, cls)[1]


def _used(function: FunctionType, cls: type) -> tuple[frozenset[str], frozenset[str]]:
    if is_library(original_code(function).co_filename):
        changes = function.__name__.startswith(LEARNING)
        return frozenset({_ALL}), frozenset({_ALL} if changes else ())
    written = original_code(function)
    known = _known.get((id(written), cls))
    if known is None or known[0] is not written:
        reads, writes = _looked_up(function, cls, _DEEP)
        known = _known[(id(written), cls)] = (written, frozenset(reads), frozenset(writes))
    return known[1:]


def _looked_up(function: FunctionType, cls: type, depth: int) -> tuple[set[str], set[str]]:
    written = original_code(function)
    found = source.find(written, function.__globals__)
    if isinstance(found, source.Unknown) or not written.co_argcount:
        return set(), set()
    me = written.co_varnames[0]
    body = found.node.body if isinstance(found.node.body, list) else [found.node.body]
    nodes = [node for statement in body for node in ast.walk(statement)]
    changed = list(_changed(nodes, me))
    writes = {one.attr for one in changed}
    passing = {id(one) for one in changed}
    reads = {one.attr for one in _own(nodes, me) if id(one) not in passing}
    writes |= {one.attr for one in _used_up(nodes, me)}
    for name in list(reads):
        method = inspect.unwrap(getattr(cls, name, None))  # type: ignore[arg-type]
        if isinstance(method, FunctionType) and depth:
            inner = _looked_up(method, cls, depth - 1)
            reads, writes = reads | inner[0], writes | inner[1]
    return reads, writes


def _own(nodes: list[ast.AST], me: str) -> Iterator[ast.Attribute]:
    """`self.name`"""
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == me:
            yield node


def _changed(nodes: list[ast.AST], me: str) -> Iterator[ast.Attribute]:
    """The attributes that are set, or changed by a statement that asks for nothing in return."""
    for node in nodes:
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield from _root(node, me)
        elif isinstance(node, ast.Expr):
            yield from _changed_by_call(node.value, me)


def _used_up(nodes: list[ast.AST], me: str) -> Iterator[ast.Attribute]:
    """`x = self.names.pop()`: looked at and changed."""
    for node in nodes:
        yield from _changed_by_call(node, me)


def _changed_by_call(node: ast.AST, me: str) -> Iterator[ast.Attribute]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_changer(node.func.attr):
        yield from _root(node.func.value, me)


def _root(node: ast.AST, me: str) -> Iterator[ast.Attribute]:
    while isinstance(node, ast.Subscript | ast.Attribute):
        own = list(_own([node], me))
        if own:
            yield from own
            return
        node = node.value
