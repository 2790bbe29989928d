"""Whether an operator only reads what it is given, as far as its source tells. In doubt it does not."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from clew.probes.lines import source
from clew.probes.lines.engine import original_code

from . import tensorflow
from .nodes import Step
from .operations import ARRAYS, PURE

_CHANGERS = frozenset(
    {
        "add", "append", "appendleft", "byteswap", "clear", "discard", "extend", "extendleft", "fill", "insert",
        "itemset", "partition", "pop", "popitem", "popleft", "put", "remove", "resize", "reverse", "rotate", "send",
        "setdefault", "setfield", "setflags", "sort", "update", "write", "close", "read", "seek", "throw",
    }
)  # fmt: skip
_FRESH = (ast.Constant, ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.JoinedStr, ast.BinOp)
_READING = PURE | {"enumerate", "filter", "map", "reversed", "zip", "isinstance", "type", "print", "hasattr", "getattr"}
_TYPES = (
    "list",
    "dict",
    "set",
    "tuple",
    "ndarray",
    "Tensor",
    "EagerTensor",
    "DataFrame",
    "Series",
    "Index",
    "date",
    "datetime",
)
_known: dict[int, tuple[CodeType, bool]] = {}
_changing: dict[int, tuple[CodeType, set[str]]] = {}


def only_reads(step: Step) -> bool:
    """Whether a step leaves the values it is given as they are, whatever they are."""
    if step.kind == "function":
        root = step.target.partition(":")[0].partition(".")[0]
        return root in sys.stdlib_module_names or root in ARRAYS
    target = getattr(step.target, "inner", step.target)  # clew.map: of the operator it calls
    target = getattr(target, "target", target)
    function = target.__func__ if isinstance(target, MethodType) else target
    if not isinstance(function, FunctionType):
        torch = sys.modules.get("torch")
        return (torch is not None and isinstance(target, torch.nn.Module)) or tensorflow.is_model(target)
    written = original_code(function)
    known = _known.get(id(written))
    if known is None or known[0] is not written:
        known = _known[id(written)] = (written, _reads(function))
    return known[1]


def known_type(owner: Any) -> bool:
    """Whether the methods of an object are known: none of them changes its arguments."""
    return type(owner).__name__ in _TYPES or isinstance(owner, (str, bytes, int, float))


def method_reads(step: Step, owner: Any) -> bool:
    """Whether a method leaves what it belongs to as it is."""
    if type(owner).__name__ not in _TYPES or any(name in step.kwargs for name in ("out", "inplace")):
        return False
    return not is_changer(step.target)


def changed_globals(function: FunctionType) -> set[str]:
    """The names of its module that a function sets, or changes the values of, as far as its source tells."""
    written = original_code(function)
    known = _changing.get(id(written))
    if known is None or known[0] is not written:
        known = _changing[id(written)] = (written, _changed_globals(function, written))
    return known[1]


def _changed_globals(function: FunctionType, written: CodeType) -> set[str]:
    found = source.find(written, function.__globals__)
    if isinstance(found, source.Unknown):
        return set()
    nodes = list(ast.walk(found.node))
    declared = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
    local = {*written.co_varnames, *written.co_cellvars, *written.co_freevars}
    return declared | {name for name in _changed_names(nodes) if name not in local and name in function.__globals__}


def _reads(function: FunctionType) -> bool:
    found = source.find(original_code(function), function.__globals__)
    if isinstance(found, source.Unknown):
        return False
    body = found.node.body if isinstance(found.node.body, list) else [found.node.body]
    nodes = [node for statement in body for node in ast.walk(statement)]
    if any(isinstance(node, (ast.Global, ast.Nonlocal, ast.Delete, ast.Await, ast.With)) for node in nodes):
        return False
    fresh = _fresh_names(nodes)
    if not all(name in fresh for name in _changed_names(nodes)):
        return False
    return all(_is_harmless(node, function) for node in nodes if isinstance(node, ast.Call))


def _fresh_names(nodes: list[ast.AST]) -> set[str]:
    """Names that are only ever bound to something made on the spot."""
    bound: dict[str, bool] = {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    bound[target.id] = bound.get(target.id, True) and isinstance(node.value, _FRESH)
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id not in bound:
            bound[node.id] = False
    return {name for name, is_fresh in bound.items() if is_fresh}


def _changed_names(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield _root(node)
        elif isinstance(node, ast.AugAssign):
            yield _root(node.target)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_changer(node.func.attr):
            yield _root(node.func.value)
        elif isinstance(node, ast.Call) and any(one.arg in ("out", "inplace") for one in node.keywords):
            yield ""


def is_changer(name: str) -> bool:
    """Whether a method changes what it belongs to, by its name."""
    return name in _CHANGERS or name.endswith("_") or name.startswith(("set", "__"))


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_harmless(call: ast.Call, function: FunctionType) -> bool:
    called = call.func
    if isinstance(called, ast.Attribute):
        owner = _value_of(called.value, function)
        if isinstance(owner, ModuleType):
            return owner.__name__.partition(".")[0] in (*sys.stdlib_module_names, "numpy", "torch", "tensorflow")
        return True  # a method: those that change are known by name
    if not isinstance(called, ast.Name):
        return False
    found: Any = function.__globals__.get(called.id, getattr(builtins, called.id, None))
    return called.id in _READING and getattr(builtins, called.id, None) is found


def _value_of(node: ast.expr, function: FunctionType) -> Any:
    return function.__globals__.get(node.id) if isinstance(node, ast.Name) else None
