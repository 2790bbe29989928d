"""A loop of a pipeline that is being recorded: whether it is one step, and what it is given and gives."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import CellType, FunctionType, MethodType
from typing import Any

from clew.graph import operations
from clew.graph.nodes import Const
from clew.graph.operators import Operator
from clew.graph.parts import CHANGING, CONTAINERS, StandIns, handed, hides, is_filled
from clew.graph.recording import lift, outside_changes
from clew.graph.recording.purity import changed_names, function_only_reads
from clew.graph.recording.session import Session, current, place
from clew.graph.recording.traced_values import is_traced
from clew.instrument.library_code import is_library

from . import names
from .given import VIEWS, all_within, can_be_changed, is_alone, is_flat, is_given, is_given_leaf
from .reach import Reached, reached_by
from .rewriting import CONSUMING, LAZY
from .sites import AS_WRITTEN, LEAF, ExpressionSite, LoopCode, Shape, Site, StatementSite

NOT_A_STEP = object()
_LONGEST_LABEL = 60
_LAZY = {getattr(builtins, name) for name in LAZY}
_CONSUMING = {getattr(builtins, name) for name in CONSUMING}
_CONSUMING_LIBRARIES = {
    "collections": ("Counter", "OrderedDict", "deque"),
    "math": ("fsum", "prod"),
    "_functools": ("reduce",),
}


@dataclass(slots=True)
class Lazy:
    """Something to go through, part of the step that goes through it: `zip(xs, ys)`, a generator."""

    shape: Shape
    leaves: list[Any]
    variables: list[FunctionType]  # of all expressions in it
    unrolled: Callable[[], Any]  # the same as Python has it
    is_recorded: bool = True  # whether how much there is depends on an input


_unrolling: ContextVar[bool] = ContextVar("clew_loops_unrolled", default=False)


@contextmanager
def unrolled_loops() -> Iterator[None]:
    """What is recorded in here has all its loops unrolled, and is guarded by their lengths."""
    token = _unrolling.set(True)
    try:
        yield
    finally:
        _unrolling.reset(token)


def recording() -> Session | None:
    """The recording that goes on here, if its loops may be steps."""
    return None if _unrolling.get() else current()


def unrolled(value: Any) -> Any:
    return value.unrolled() if type(value) is Lazy else value


# ---- statements ------------------------------------------------------------------------------------------------------


def loop(session: Session, site: StatementSite, variables: FunctionType, items: Any = NOT_A_STEP) -> Any:
    """What the step of a loop gives, its variables set to that; NOT_A_STEP: it is to be unrolled."""
    cells = _cells([variables])
    lazy = items if type(items) is Lazy else None
    if lazy is not None:
        cells |= _cells(lazy.variables)
    is_recorded = is_traced(items) if lazy is None else lazy.is_recorded
    if not is_recorded and not _is_decided_by_recorded(site, cells):
        return NOT_A_STEP
    shape: Shape | None = None
    leaves: list[Any] = []
    if lazy is not None:
        shape, leaves = lazy.shape, lazy.leaves
    elif items is not NOT_A_STEP:
        shape, leaves = LEAF, [_snapshot(items)]
    bound = {name for name, cell in cells.items() if is_filled(cell)}
    call = _Call(session, site, site.code(shape, bound), cells, variables.__globals__, leaves)
    has_results = site.tail is None and bool(site.live or call.changed)
    if not call.is_possible() or (session.catching and (has_results or call.changed)):
        return NOT_A_STEP
    result = call.run(effect=True)
    if site.tail is None:
        _set_variables(session, site, call, result)
    return result


def _is_decided_by_recorded(site: StatementSite, cells: dict[str, CellType]) -> bool:
    recorded = _recorded(cells)
    return bool(recorded) and names.is_decided_by(site.statement, recorded)


def _recorded(cells: dict[str, CellType]) -> set[str]:
    """The variables that hold recorded values."""
    return {name for name, cell in cells.items() if is_filled(cell) and hides(cell.cell_contents)}


def _set_variables(session: Session, site: StatementSite, call: _Call, result: Any) -> None:
    for name in sorted(site.live):
        is_sure = name in call.code.parameters
        if is_sure or session.decide("truth", session.step("python", "contains", (result, name))):
            call.cells[name].cell_contents = session.step("item", "", (result, name))


# ---- expressions -----------------------------------------------------------------------------------------------------


def comprehension(
    session: Session, site: ExpressionSite, variables: FunctionType, fallback: Callable[[Any], Any], items: Any
) -> Any:
    """A comprehension: a step if what it goes through is recorded. A generator waits for whoever uses it up."""
    lazy = items if type(items) is Lazy else None
    is_recorded = is_traced(items) if lazy is None else lazy.is_recorded
    if not is_recorded and not _is_decided_inside(site, variables):
        return fallback(unrolled(items))
    inner = LEAF if lazy is None else lazy.shape
    leaves = [_snapshot(items)] if lazy is None else lazy.leaves
    whole = Lazy(
        Shape(site, (inner,)),
        leaves,
        [variables, *(lazy.variables if lazy is not None else ())],
        lambda: fallback(unrolled(items)),
    )
    if site.is_lazy:
        return whole
    result = _expression(session, site, whole)
    return whole.unrolled() if result is NOT_A_STEP else result


def _is_decided_inside(site: ExpressionSite, variables: FunctionType) -> bool:
    """`[... for a in (1, 2) for b in recorded if recorded]`: how many there are depends on what comes later."""
    first, *inner = site.node.generators  # type: ignore[attr-defined]
    deciding = [*first.ifs, *(part for one in inner for part in (one.iter, *one.ifs))]
    recorded = _recorded(_cells([variables]))
    return any(names.loaded(node) & recorded for node in deciding)


def lazy_call(
    session: Session, site: ExpressionSite, variables: FunctionType, function: Any, args: Any, kwargs: Any, call: Any
) -> Any:
    """A call in a place where something is gone through: `zip(a, b)`, or a generator function of the user's."""
    if is_traced(function) or not (_is_in(function, _LAZY) or _is_generator_function(function)):
        return call()
    owner = [AS_WRITTEN] if site.is_method else []
    lazy = _composed(site, variables, owner, [], args, kwargs, call)
    lazy.is_recorded = lazy.is_recorded or (hides(function) and not _is_in(function, _LAZY))
    return lazy


def consumed(
    session: Session,
    site: ExpressionSite,
    variables: FunctionType,
    function: Any,
    owner: list[Any],
    args: Any,
    kwargs: Any,
    call: Callable[[], Any],
) -> Any:
    """A call that may use up a generator among its arguments: one step together with it."""
    given = (*args, *kwargs.values())
    goes_through = any(type(one) is Lazy and one.is_recorded for one in given)
    if not goes_through and any(is_traced(one) for one in given):  # sorted(recorded, key=lambda x: recorded[x])
        goes_through = any(callable(one) and not is_traced(one) and hides(one) for one in given)
    if not goes_through or is_traced(function) or not _consumes(function):
        return call()
    shapes = [LEAF if is_traced(one) or type(one) in (str, bytes) else AS_WRITTEN for one in owner]
    leaves = [one for one, shape in zip(owner, shapes, strict=True) if shape is LEAF]
    result = _expression(session, site, _composed(site, variables, shapes, leaves, args, kwargs, call))
    return call() if result is NOT_A_STEP else result


def _composed(
    site: ExpressionSite,
    variables: FunctionType,
    shapes: list[Shape],
    leaves: list[Any],
    args: Any,
    kwargs: Any,
    call: Callable[[], Any],
) -> Lazy:
    shapes, leaves, every, is_recorded = list(shapes), list(leaves), [variables], False
    for one in (*args, *kwargs.values()):
        is_recorded |= one.is_recorded if type(one) is Lazy else is_traced(one)
        if type(one) is Lazy:
            shapes.append(one.shape)
            leaves += one.leaves
            every += one.variables
        elif callable(one) and not is_traced(one):
            shapes.append(AS_WRITTEN)
        else:
            shapes.append(LEAF)
            leaves.append(_snapshot(one))
    return Lazy(Shape(site, tuple(shapes)), leaves, every, call, is_recorded)


def _snapshot(items: Any) -> Any:
    """What is gone through, in a form that a step can be given."""
    return list(items) if type(items) in VIEWS else items


def _expression(session: Session, site: ExpressionSite, lazy: Lazy) -> Any:
    cells = _cells(lazy.variables)
    bound = {name for name, cell in cells.items() if is_filled(cell)}
    code = site.code(lazy.shape, bound)
    call = _Call(session, site, code, cells, lazy.variables[0].__globals__, lazy.leaves)
    if not call.is_possible() or (session.catching and call.changed):
        return NOT_A_STEP
    return call.run(effect=site.is_statement)


def _is_in(function: Any, table: set[Any]) -> bool:
    try:
        return function in table
    except TypeError:
        return False


def _is_generator_function(function: Any) -> bool:
    inner = function.__func__ if isinstance(function, MethodType) else function
    return isinstance(inner, FunctionType) and inspect.isgeneratorfunction(inner) and not _is_library(inner)


def _is_library(function: FunctionType) -> bool:
    return is_library(function.__code__.co_filename)


def _consumes(function: Any) -> bool:
    if _is_in(function, _CONSUMING):
        return True
    known = _CONSUMING_LIBRARIES.get(str(getattr(function, "__module__", "")), ())
    return getattr(function, "__name__", "") in (*known, "join")


def _cells(variables: list[FunctionType]) -> dict[str, CellType]:
    return {
        name: cell
        for function in variables
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    }


# ---- the call --------------------------------------------------------------------------------------------------------


class _Call:
    """One call of a loop's function, from the variables of the pipeline."""

    def __init__(
        self,
        session: Session,
        site: Site,
        code: LoopCode,
        cells: dict[str, CellType],
        scope: dict[str, Any],
        leaves: list[Any],
    ) -> None:
        self.session = session
        self.site = site
        self.code = code
        self.cells = cells
        self.scope = scope
        self.leaves = leaves
        #: variables whose containers the loop may change
        self.changed = [name for name in code.parameters if self._may_change(name)]
        self._reached: Reached | None = None

    def _may_change(self, name: str) -> bool:
        value = self.cells[name].cell_contents
        if type(value) not in CONTAINERS:
            return False
        if type(value) is defaultdict:  # looking something up may put it there
            return True
        return not (names.only_read(name, self.code.body) and is_flat(value)) and can_be_changed(value)

    def is_possible(self) -> bool:
        """Whether the step does exactly what the loop does."""
        cells = [self.cells[name] for name in self.code.parameters]
        outer = [self.cells[name] for name in self.code.code.co_freevars]
        if not all(map(is_given_leaf, self.leaves)) or not all(is_given(cell.cell_contents) for cell in cells):
            return False
        if not all(map(self._leaves_object, self.code.parameters)) or self._changes_object():
            return False
        if not all(is_filled(cell) and not hides(cell.cell_contents) for cell in outer):
            return False
        if not all(is_alone(self.session, self.cells[name]) for name in self.changed):
            return False
        values = [cell.cell_contents for cell in (*cells, *outer)]
        reached = reached_by(self.code.code, self.scope, (value for value in values if not is_traced(value)))
        self._reached = reached
        if reached.keeps_state or reached.sets_variables or not reached.is_known:
            return False
        return not reached.sees(self.cells[name] for name in names.stored(self.code.body) if name in self.cells)

    def _leaves_object(self, name: str) -> bool:
        """Whether an object that the pipeline has made stays as it is: the graph has one for all its runs."""
        value = self.cells[name].cell_contents
        owned = self.session.own_objects
        if is_traced(value):
            return True
        if type(value) in CONTAINERS:
            return not any(id(part) in owned for part in all_within(value))
        if id(value) not in owned:
            return True
        called = names.methods_called(name, self.code.body)
        methods = [inspect.unwrap(getattr(type(value), one, None)) for one in called or ()]  # type: ignore[arg-type]
        return called is not None and all(isinstance(one, FunctionType) and function_only_reads(one) for one in methods)

    def _changes_object(self) -> bool:
        """Whether the source of the loop itself sets something in an object of the user's."""
        changed = set(changed_names([node for root in self.code.body for node in ast.walk(root)]))
        for name in changed:
            cell = self.cells.get(name)
            filled = cell is not None and is_filled(cell)
            value = cell.cell_contents if cell is not None and filled else self.scope.get(name)
            if not is_traced(value) and outside_changes.is_users(type(value)) and not isinstance(value, type):
                return True
        return False

    def run(self, effect: bool) -> Any:
        session, reached = self.session, self._reached
        assert reached is not None
        for function in reached.functions:
            outside_changes.note_operator(function)
        closure = tuple(self.cells[name] for name in self.code.code.co_freevars)
        function = FunctionType(self.code.code, self.scope, self.code.code.co_name, None, closure)
        label = self.site.label[:_LONGEST_LABEL]
        operator = Operator(function, name=label, side_effects=reached.side_effects)
        values = {name: self._value(name) for name in self.code.parameters}
        leaves = [self._made(leaf) if type(leaf) in CHANGING else leaf for leaf in self.leaves]
        where = place()
        try:
            result = session.operator(operator, (*leaves, *values.values()), {}, effect=effect)
        except Exception:
            if self.changed or (isinstance(self.site, StatementSite) and self.site.live):
                session.unfinished_loop = where
            raise
        for name in self.changed:
            self.cells[name].cell_contents = values[name]
        return result

    def _value(self, name: str) -> Any:
        value = self.cells[name].cell_contents
        if type(value) in CONTAINERS and can_be_changed(value):
            return self._made(value)
        return _closed(self.session, value)

    def _made(self, value: Any) -> Any:
        """A container of the pipeline's own as a value."""
        template = self.session.template(value)
        return self.session.noted("python", "made", (template,), StandIns().of(value))


def _closed(session: Session, function: Any) -> Any:
    """A function inside the pipeline that sees recorded values, as a value: made anew with those of each run."""
    if type(function) is not FunctionType or not lift.is_rewritten(function) or not hides(function):
        return function
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    values = {name: _closed(session, cell.cell_contents) for name, cell in cells}
    bare = operations.closed(lift.original(function), dict.fromkeys(values))
    made = operations.closed(bare, handed(values))
    return session.noted("python", "closed", (Const(bare), session.template(values)), made)
