"""What the source of a loop can get at by name, and whether one step can do the loop exactly."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from clew.graph.operators import Operator, OperatorObject
from clew.graph.parts import CONTAINERS, within
from clew.graph.recording import lift, operator_state, outside_changes
from clew.graph.recording.traced_values import is_traced
from clew.instrument.engine import original_code
from clew.instrument.library_code import is_library

_MOST = 20_000  # things that are looked at; a loop that reaches more is not known well enough


@dataclass
class Reached:
    """What a loop has to do with besides its variables."""

    functions: list[FunctionType] = field(default_factory=list)
    keeps_state: bool = False  # an object that its methods change is called
    side_effects: bool = False
    sets_variables: bool = False  # a function inside the pipeline is called that may set names of it
    is_known: bool = True

    def sees(self, cells: Iterable[CellType]) -> bool:
        """Whether one of the functions sees one of these variables."""
        seen = {id(cell) for function in self.functions for cell in function.__closure__ or ()}
        return any(id(cell) in seen for cell in cells)


def reached_by(code: CodeType, scope: dict[str, Any], values: Iterable[Any]) -> Reached:
    """Everything that code can call, as far as names lead to it."""
    reached = Reached()
    waiting: list[tuple[Any, frozenset[str]]] = []
    visited: dict[int, Any] = {}
    names = frozenset(_names_in(code))
    waiting += [(value, names) for value in (*_globals_named(names, scope), *values)]
    while waiting:
        value, used = waiting.pop()
        reached.is_known = len(visited) < _MOST
        if not reached.is_known:
            break
        if id(value) in visited or is_traced(value):
            continue
        visited[id(value)] = value
        waiting += _look_at(value, used, reached)
    return reached


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _names_in(const)


def _globals_named(names: Iterable[str], scope: dict[str, Any]) -> Iterator[Any]:
    yield from (scope[name] for name in names if name in scope)


def _look_at(value: Any, used: frozenset[str], reached: Reached) -> list[tuple[Any, frozenset[str]]]:
    """Note what matters of one thing; what it leads to."""
    if isinstance(value, Operator):
        reached.side_effects |= value.side_effects
        return [(value.target, used)]
    if isinstance(value, OperatorObject):
        reached.side_effects |= value._side_effects
        return [(value._target, used)]
    if isinstance(value, FunctionType):
        return _function(value, reached)
    if isinstance(value, MethodType):
        _note_state(value.__self__, [value.__func__], reached)
        return [(value.__func__, used), (value.__self__, used)]
    if type(value) in CONTAINERS:
        return [(part, used) for part in within(value) if _is_callable_object(part)]
    if isinstance(value, functools.partial):
        return [(part, used) for part in (value.func, *value.args, *value.keywords.values())]
    if isinstance(value, ModuleType):
        held = vars(value)
        is_own = not is_library(str(getattr(value, "__file__", None) or ""))
        return [(held[name], used) for name in used if name in held and is_own and held.get("__file__")]
    wrapped = getattr(value, "__wrapped__", None) if type(value) is type(functools.lru_cache(len)) else None
    if wrapped is not None:
        return [(wrapped, used)]
    return _object(value, used, reached)


def _function(function: FunctionType, reached: Reached) -> list[tuple[Any, frozenset[str]]]:
    wrapped = function.__dict__.get("__wrapped__")
    leads = [(wrapped, frozenset[str]())] if isinstance(wrapped, FunctionType) else []
    code = original_code(function)
    if is_library(code.co_filename):
        return leads
    reached.functions.append(function)
    if lift.is_rewritten(function) and ({"STORE_DEREF"} & set(_closure_operations(code))):
        reached.sets_variables = True
    names = frozenset(_names_in(code))
    cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    return [*leads, *((value, names) for value in (*_globals_named(names, function.__globals__), *cells))]


def _closure_operations(code: CodeType) -> Iterator[str]:
    import dis

    frees = set(code.co_freevars)
    yield from (one.opname for one in dis.get_instructions(code) if one.argval in frees)


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _object(value: Any, used: frozenset[str], reached: Reached) -> list[tuple[Any, frozenset[str]]]:
    kind = value if isinstance(value, type) else type(value)
    if kind.__module__ == "builtins" or not outside_changes.is_users(kind):
        return []
    methods = [_method_named(kind, name) for name in (*used, "__call__", "__init__", "forward")]
    functions = [method for method in methods if isinstance(method, FunctionType)]
    if not isinstance(value, type):
        _note_state(value, [one for one in functions if one.__name__ != "__init__"], reached)
    held = [] if isinstance(value, type) else list(getattr(value, "__dict__", {}).values())
    return [*((one, used) for one in functions), *((one, used) for one in held if _is_callable_object(one))]


def _is_callable_object(value: Any) -> bool:
    kind = type(value)
    return kind in CONTAINERS or callable(value) or (kind.__module__ != "builtins" and outside_changes.is_users(kind))


def _method_named(kind: type, name: str) -> Any:
    for base in type.mro(kind):
        if name in vars(base):
            part = vars(base)[name]
            part = getattr(part, "fget", None) or getattr(part, "__func__", part)
            return inspect.unwrap(part) if callable(part) else None
    return None


def _note_state(owner: Any, methods: Iterable[Any], reached: Reached) -> None:
    """An object that is changed by what the loop calls of it; a torch module counts by its `forward`."""
    if isinstance(owner, (type, ModuleType)) or not outside_changes.is_users(type(owner)):
        return
    torch = sys.modules.get("torch")
    is_module = torch is not None and isinstance(owner, torch.nn.Module)
    for method in methods:
        name = method.__name__
        if is_module and name not in ("forward", "__call__") and is_library(original_code(method).co_filename):
            continue
        if operator_state.writes_of(method, type(owner)):
            reached.keeps_state = True
