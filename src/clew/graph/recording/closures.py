"""Functions of the pipeline's own that see recorded values, given to a step: `series.apply(lambda v: v + k)`."""

from __future__ import annotations

import dis
from collections.abc import Sequence
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from clew.graph import operations
from clew.graph.nodes import Const, Step
from clew.graph.parts import PLAIN, handed, hides, is_filled, things_in

from . import lift
from .in_place_changes import can_change
from .purity import function_only_reads
from .traced_values import is_traced, raw

if TYPE_CHECKING:
    from .session import Session

_CHANGING = ("STORE_DEREF", "DELETE_DEREF", "MAKE_FUNCTION")  # the last may hide the others in it
# Whose functions and methods call what they are given at once, and do not keep it.
_MODULES = ("bisect", "builtins", "heapq", "numpy", "pandas", "re", "statistics")
_KEEPING = ("frompyfunc", "merge", "vectorize")
_OWNERS = (
    "list", "ndarray", "DataFrame", "DataFrameGroupBy", "Expanding", "Index", "Pattern", "Rolling", "Series",
    "SeriesGroupBy",
)  # fmt: skip


def is_called_at_once(step: Step, args: Sequence[Any]) -> bool:
    """Whether a step is over with the functions it is given when it ends."""
    if step.kind == "method":
        return type(raw(args[0])).__name__ in _OWNERS
    return step.kind == "function" and calls_at_once(step.target)


def calls_at_once(name: str | None) -> bool:
    module, _, function = (name or "").partition(":")
    return module.partition(".")[0] in _MODULES and function not in _KEEPING


def closed(session: Session, function: Any, at_once: bool = False) -> Any:
    """The function as a value, made of what it sees in each run; itself if that could be something else.

    at_once   it is not kept: what it sees may be changed later
    """
    if not can_be_closed(function, at_once):
        return function
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    values = {name: closed(session, cell.cell_contents, at_once) for name, cell in cells}
    bare = operations.closed(lift.original(function), dict.fromkeys(values))
    made = operations.closed(bare, handed(values))
    return session.noted("python", "closed", (Const(bare), session.template(values)), made)


def can_be_closed(function: Any, at_once: bool = False, depth: int = 4) -> bool:
    """Whether it is a function inside the pipeline that sees recorded values, and only looks at them."""
    if type(function) is not FunctionType or not lift.is_rewritten(function) or not hides(function) or depth == 0:
        return False
    whole, cells = lift.original(function), function.__closure__ or ()
    if whole is function or not all(map(is_filled, cells)) or _has_hidden_defaults(whole):
        return False
    values = [cell.cell_contents for cell in cells]
    if all(map(_is_fixed, values)):
        return not any(one.opname in _CHANGING for one in dis.get_instructions(whole))
    return (
        at_once
        and function_only_reads(whole)
        and all(_is_seen(value) or can_be_closed(value, at_once, depth - 1) for value in values)
    )


def _has_hidden_defaults(function: FunctionType) -> bool:
    return any(hides(one, 1) for one in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()))


def _is_fixed(value: Any) -> bool:
    """Whether nobody can change it: then it does not matter who has it."""
    if is_traced(value):
        return not can_change(raw(value))
    return isinstance(value, (ModuleType, BuiltinFunctionType, type)) or (not can_change(value) and not hides(value))


def _is_seen(value: Any) -> bool:
    """Whether a template of it holds what it is now."""
    return all(is_traced(thing) or type(thing) in PLAIN or not hides(thing) for thing in things_in(value))
