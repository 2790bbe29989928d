"""Whether an operator only reads what it is given, as far as its source tells. In doubt it does not."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from clew.graph import tensorflow
from clew.graph.nodes import Step
from clew.graph.operations import ARRAYS, PURE
from clew.instrument import source
from clew.instrument.engine import original_code

_CHANGERS = frozenset(
    {
        "add", "append", "appendleft", "byteswap", "clear", "discard", "extend", "extendleft", "fill", "insert",
        "itemset", "partition", "pop", "popitem", "popleft", "put", "remove", "resize", "reverse", "rotate", "send",
        "setdefault", "setfield", "setflags", "sort", "update", "write", "close", "read", "seek", "throw",
    }
)  # fmt: skip
# Functions of the standard library and of NumPy that change an argument.
_CHANGING_FUNCTIONS = frozenset(
    {
        "copyto", "delattr", "dump", "fill_diagonal", "heapify", "heappop", "heappush", "heappushpop", "heapreplace",
        "place", "putmask", "shuffle", "setattr", "writelines",
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
_BUILTIN_TYPES = (
    str,
    bytes,
    list,
    dict,
    set,
    tuple,
    int,
    float,
    complex,
    Counter,
    re.Pattern,
    re.Match,
    datetime,
    Path,
)
_LIBRARY_TYPES = {
    "decimal": "Decimal",
    "numpy": "ndarray",
    "pandas": "DataFrame Series Index",
    "torch": "Tensor",
}
_UNKNOWN = object()
_known: dict[tuple[int, int], tuple[CodeType, Any, bool]] = {}
_changing: dict[int, tuple[CodeType, set[str]]] = {}


def only_reads(step: Step) -> bool:
    """Whether a step leaves the values it is given as they are, whatever they are."""
    if step.kind == "function":
        root = step.target.partition(":")[0].partition(".")[0]
        if _changes_arguments(step.target.rpartition(":")[2].rpartition(".")[2]):
            return False
        return root in sys.stdlib_module_names or root in ARRAYS
    target = getattr(step.target, "inner", step.target)  # clew.map: of the operator it calls
    target = getattr(target, "target", target)
    return _callable_only_reads(target)


def _callable_only_reads(target: Any) -> bool:
    if isinstance(target, FunctionType):
        return function_only_reads(target)
    if isinstance(target, MethodType):
        return isinstance(target.__func__, FunctionType) and function_only_reads(target.__func__, target.__self__)
    torch = sys.modules.get("torch")
    return (torch is not None and isinstance(target, torch.nn.Module)) or tensorflow.is_model(target)


def function_only_reads(function: FunctionType, owner: Any = None) -> bool:
    """Whether a function leaves its arguments and globals as they are; `owner`: a method is of this object."""
    written = original_code(function)
    key = (id(written), id(owner))
    known = _known.get(key)
    if known is None or known[0] is not written or known[1] is not owner:
        _known[key] = (written, owner, False)  # of one that calls itself
        known = _known[key] = (written, owner, _reads(function, owner))
    return known[2]


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
    return declared | {name for name in changed_names(nodes) if name not in local and name in function.__globals__}


def _reads(function: FunctionType, owner: Any) -> bool:
    found = source.find(original_code(function), function.__globals__)
    if isinstance(found, source.Unknown):
        return False
    body = found.node.body if isinstance(found.node.body, list) else [found.node.body]
    nodes = [node for statement in body for node in ast.walk(statement)]
    if any(isinstance(node, (ast.Global, ast.Nonlocal, ast.Delete, ast.Await, ast.With)) for node in nodes):
        return False
    fresh = _fresh_names(nodes)
    if not all(name in fresh for name in changed_names(nodes)):
        return False
    return all(_is_harmless(node, function, owner) for node in nodes if isinstance(node, ast.Call))


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


def changed_names(nodes: list[ast.AST]) -> Iterator[str]:
    """The names whose values are changed in place, as far as one can see: `a` of `a.b.append(1)`."""
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


def _changes_arguments(name: str) -> bool:
    """Whether a function of the standard library or of NumPy changes what it is given, by its name."""
    return name in _CHANGING_FUNCTIONS or name.startswith("insort")


def _is_harmless(call: ast.Call, function: FunctionType, owner: Any) -> bool:
    called = call.func
    found = _value_of(called, function, owner)
    if isinstance(called, ast.Attribute):
        held = _value_of(called.value, function, owner)
        library = held.__name__ if isinstance(held, ModuleType) else type(held).__module__
        if held is not _UNKNOWN and _is_known_library(library):
            return not (_changes_arguments(called.attr) or is_changer(called.attr) or _has_output(call, found))
        return called.attr in _reading_methods() if found is _UNKNOWN else _callable_only_reads(found)
    if isinstance(called, ast.Name) and called.id in _READING and getattr(builtins, called.id, None) is found:
        return True
    return _callable_only_reads(found)


def _is_known_library(module: str) -> bool:
    return module.partition(".")[0] in (*sys.stdlib_module_names, "numpy", "torch", "tensorflow")


def _has_output(call: ast.Call, function: Any) -> bool:
    """`np.add(a, b, a)`"""
    return type(function).__name__ == "ufunc" and len(call.args) > function.nin


def _reading_methods() -> set[str]:
    """The methods of types that are known, but for those that change what they belong to."""
    libraries = [
        getattr(sys.modules.get(module), name, None)
        for module, names in _LIBRARY_TYPES.items()
        for name in names.split()
    ]
    kinds = (*_BUILTIN_TYPES, *(one for one in libraries if one is not None))
    return {name for kind in kinds for name in dir(kind) if not is_changer(name)}


def _value_of(node: ast.expr, function: FunctionType, owner: Any) -> Any:
    """What an expression stands for, if it is always the same: a global, the object of a method, a part of those."""
    if isinstance(node, ast.Attribute):
        held = _value_of(node.value, function, owner)
        return _UNKNOWN if held is _UNKNOWN else _part(held, node.attr)
    if not isinstance(node, ast.Name):
        return _UNKNOWN
    code = original_code(function)
    if node.id in code.co_varnames[:1] and code.co_argcount and owner is not None:
        return owner
    if node.id in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
        return _UNKNOWN
    return function.__globals__.get(node.id, getattr(builtins, node.id, _UNKNOWN))


def _part(held: Any, name: str) -> Any:
    """An attribute as it is kept, without asking the object."""
    if isinstance(held, (ModuleType, type)):
        return getattr(held, name, _UNKNOWN)
    parts = getattr(held, "__dict__", {})
    if name in parts or name in parts.get("_modules", ()):  # of torch
        return parts[name] if name in parts else parts["_modules"][name]
    method = inspect.getattr_static(type(held), name, _UNKNOWN)
    return MethodType(method, held) if isinstance(method, FunctionType) else _UNKNOWN
