"""Objects that were there before a pipeline was recorded, and that its steps change: from then on they are values.

An operator that keeps something in its object, or in one that it is given, does so again each time the graph runs: what
the pipeline reads of the object afterwards is no constant.
"""

from __future__ import annotations

from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from clew.graph.nodes import Const, Step, consts_in
from clew.graph.parts import COLLECTIONS, PLAIN

from .operator_state import owner_of, state_of
from .outside_changes import is_users
from .purity import changed_globals, known_type, only_reads
from .traced_values import Traced

if TYPE_CHECKING:
    from .session import Session

_NEVER = (*PLAIN, *COLLECTIONS, str, bytes, int, float, complex, bool, type(None), ModuleType, FunctionType, MethodType)


class Objects:
    """The objects that the steps of one recording have to do with."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._changed: dict[int, tuple[Any, list[Step]]] = {}  # by identity: who may have changed it
        self._values: dict[int, Traced] = {}
        self._owners: dict[int, Any] = {}

    def note(self, step: Step) -> None:
        """A step is done: the objects that it may have changed, now or another time."""
        owner = owner_of(step)
        if owner is not None:
            self._owners[id(owner)] = owner
        for held in _may_change(step):
            self._changed.setdefault(id(held), (held, []))[1].append(step)
            value = self._values.get(id(held))
            if value is not None:
                _changes(step, value)

    def is_owner(self, thing: Any) -> bool:
        """Whether a step is a method of it: what that does to its object is its own business, and done again."""
        return id(bare(thing)) in self._owners

    def value_of(self, thing: Any) -> Traced | None:
        """What stands for an object from now on; None if it is as it was before, or not an object."""
        if not self._changed or type(thing) in _NEVER:
            return None
        thing = bare(thing)
        if id(thing) in self._values:
            return self._values[id(thing)]
        held, steps = self._changed.get(id(thing), (None, []))
        if held is None:
            return None
        value = self._values[id(thing)] = self._session.noted("python", "made", (Const(thing),), thing)
        for step in steps:
            _changes(step, value)
        return value


def bare(thing: Any) -> Any:
    """An object without `clew.op` around it."""
    from clew.graph.operators import Operator, OperatorObject  # which know recordings

    if type(thing) is OperatorObject:
        return thing._target
    is_object = type(thing) is Operator and not isinstance(thing.target, (FunctionType, MethodType))
    return thing.target if is_object else thing


def _changes(step: Step, value: Traced) -> None:
    if step.changes or not step.effect:  # an effect of another kind is kept in any case
        step.effect, step.changes = True, tuple(dict.fromkeys((*step.changes, value._self_id)))


def _may_change(step: Step) -> list[Any]:
    """Objects of the pipeline's surroundings that a step changes, as far as one can tell; in doubt it does."""
    if step.kind == "method" or (step.kind == "python" and step.target == "call"):
        found = [one.value for one in step.args[:1] if isinstance(one, Const) and not known_type(one.value)]
    elif step.kind == "operator":
        found = _changed_by_operator(step)
    else:
        return []
    return [bare(one) for one in found if type(one) not in _NEVER and (not isinstance(one, type) or is_users(one))]


def _changed_by_operator(step: Step) -> list[Any]:
    found = [] if only_reads(step) else [one.value for arg in step.args for one in consts_in(arg)]
    found = [one for one in found if not isinstance(one, type)]
    state, owner = state_of(step), owner_of(step)
    found += [owner] if state is not None and state.writes else []
    function = getattr(step.target.target, "__func__", step.target.target)
    if isinstance(function, FunctionType):
        found += [function.__globals__.get(name) for name in changed_globals(function)]
    return found
