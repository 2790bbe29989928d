"""Functions of the pipeline's own that see recorded values, given to a step: `series.apply(lambda v: v + k)`."""

from __future__ import annotations

import dis
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from . import lift, operations
from .changes import can_change
from .nodes import Const
from .parts import handed, hides, is_filled
from .traced import is_traced, raw

if TYPE_CHECKING:
    from .session import Session

_CHANGING = ("STORE_DEREF", "DELETE_DEREF", "MAKE_FUNCTION")  # the last may hide the others in it


def closed(session: Session, function: Any) -> Any:
    """The function as a value, made of what it sees in each run; itself if it may change what it sees."""
    if type(function) is not FunctionType or not lift.is_rewritten(function) or not hides(function):
        return function
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    values = {name: cell.cell_contents for name, cell in cells.items() if is_filled(cell)}
    whole = lift.original(function)
    if (
        len(values) < len(cells)
        or whole is function
        or not _only_looks(whole)
        or not all(map(_is_fixed, values.values()))
    ):
        return function
    bare = operations.closed(whole, dict.fromkeys(values))
    made = operations.closed(bare, handed(values))
    return session.noted("python", "closed", (Const(bare), session.template(values)), made)


def _only_looks(function: FunctionType) -> bool:
    if any(hides(one, 1) for one in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())):
        return False
    return not any(one.opname in _CHANGING for one in dis.get_instructions(function.__code__))


def _is_fixed(value: Any) -> bool:
    """Whether nobody can change it: then it does not matter who has it."""
    if is_traced(value):
        return not can_change(raw(value))
    return isinstance(value, (ModuleType, BuiltinFunctionType, type)) or (not can_change(value) and not hides(value))
