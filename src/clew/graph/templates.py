"""How a value that goes into a step is made again: by reference, as a constant, or as a container of these."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from types import CellType, CoroutineType, FunctionType
from typing import TYPE_CHECKING, Any

from clew.errors import GraphError
from clew.graph.recording.traced_values import is_traced
from clew.values import capture

from .nodes import Build, Const, Ref, Template
from .parts import (
    COLLECTIONS,
    ITERATORS,
    LISTS,
    PLAIN,
    alike,
    copied,
    handed,
    hides,
    holds_traced,
    is_filled,
    size,
    things_in,
)
from .recording import lift, outside_changes

if TYPE_CHECKING:
    from clew.graph.recording.session import Session

_LARGEST_ARRAY = 1 << 26  # bytes
_SMALL = 10_000  # constants of so many things are copied when they are used; larger ones must stay as they are
_REPEATS = 10_000  # containers with recorded values that stand again in one template, which writes each of them out


class Templates:
    """The templates of one recording."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._constants: dict[int, tuple[Any, Const]] = {}
        self._watched: dict[int, tuple[Any, bytes]] = {}
        self.born: dict[int, Any] = {}  # operators' objects that the pipeline made, and that keep nothing by themselves
        self.replaced: dict[int, Ref] = {}  # containers that stand for a value of their own, for one step
        self._built: set[int] = set()  # containers of the value at hand that stand in its template
        self._repeats = 0

    def of(self, value: Any) -> Template:
        self._built.clear()
        self._repeats = 0
        return self._of(value)

    def _of(self, value: Any) -> Template:
        if is_traced(value):
            if value._self_session is not self._session:
                what = "a value of another recording is used here."
                raise GraphError("graph-other-recording", what, "Pass it as an input, or record both together.")
            return Ref(value._self_id)
        if self.replaced and id(value) in self.replaced:
            return self.replaced[id(value)]
        if type(value) in ITERATORS:
            return self._iterator(value)
        if holds_traced(value) or (self.replaced and found_by_id(self.replaced, value)):
            return self._container(value)
        if hides(value):
            raise hidden(value)
        changed = self._session.objects.value_of(value)
        return self._constant(value) if changed is None else Ref(changed._self_id)

    def holds(self, value: Any) -> bool:
        """Whether a container is remembered here, with the constant made of it."""
        known = self._constants.get(id(value))
        return known is not None and known[0] is value

    def _container(self, value: Any) -> Template:
        kind = type(value)
        self._repeats += id(value) in self._built
        self._built.add(id(value))
        if self._repeats > _REPEATS:
            what = f"a {kind.__name__} with recorded values in it holds the same containers too many times over."
            raise GraphError("graph-shared", what, "Give the step each of them once.")
        if kind in COLLECTIONS:
            return self._collection(value, kind)
        if isinstance(value, dict):
            keys = tuple(self._of(key) for key in value)
            return Build("dict", tuple(self._of(item) for item in value.values()), keys)
        items = (value.start, value.stop, value.step) if isinstance(value, slice) else value
        return Build(kind.__name__, tuple(self._of(item) for item in items))

    def _collection(self, value: Any, kind: type) -> Template:
        """A deque, a Counter: its constructor is a step."""
        if isinstance(value, dict):
            inside: Template = Build("dict", tuple(map(self._of, value.values())), tuple(map(self._of, value)))
            args: tuple[Template, ...] = (inside,)
            if isinstance(value, defaultdict):
                args = (Const(value.default_factory), inside)
        else:
            args = (Build("list", tuple(map(self._of, value))), Const(value.maxlen))
        made = self._session.noted("function", f"collections:{kind.__name__}", args, handed(value))
        return Ref(made._self_id)

    def _iterator(self, value: Any) -> Template:
        """What comes out of the pipeline as an iterator is one again."""
        items = list(value)
        made = self._session.noted("function", "builtins:iter", (self._of(items),), iter(handed(items)))
        return Ref(made._self_id)

    def _constant(self, value: Any) -> Template:
        if isinstance(value, CoroutineType):
            value.close()
            raise GraphError("graph-async", "the pipeline is a coroutine.", "Record the functions it awaits.")
        if isinstance(value, (FunctionType, partial)):
            return Const(self._frozen(value, {}))
        if type(value) not in PLAIN and type(value) not in COLLECTIONS:
            self._watch(value)
            return Const(value)
        known = self._constants.get(id(value))
        if known is not None and known[0] is value and alike(known[1].value, value):
            return known[1]
        if size(value, _SMALL) > _SMALL:
            self._watched.setdefault(id(value), (value, capture(value).digest))
            return Const(value)
        const = Const(self._frozen(value, {}))
        self._constants[id(value)] = (value, const)
        return const

    def _frozen(self, value: Any, known: dict[int, Any]) -> Any:
        """A constant as it is now: a function of the pipeline's own sees later what its names are then."""
        if id(value) not in known:
            known[id(value)] = self._frozen_anew(value, known)
        return known[id(value)]

    def _frozen_anew(self, value: Any, known: dict[int, Any]) -> Any:
        kind = type(value)
        if kind is FunctionType and lift.is_rewritten(value):
            return self._frozen_function(value, known)
        if kind is partial:
            named = {name: self._frozen(one, known) for name, one in value.keywords.items()}
            return partial(self._frozen(value.func, known), *(self._frozen(one, known) for one in value.args), **named)
        if kind in LISTS and size(value, _SMALL) <= _SMALL:
            return kind(self._frozen(item, known) for item in value)
        if kind is dict and size(value, _SMALL) <= _SMALL:
            return {key: self._frozen(item, known) for key, item in value.items()}
        if kind not in COLLECTIONS:
            self._watch(value)
        return copied(value)

    def _frozen_function(self, function: FunctionType, known: dict[int, Any]) -> FunctionType:
        whole, cells = lift.original(function), function.__closure__ or ()
        closure = tuple(CellType() for _ in cells)
        made = FunctionType(whole.__code__, whole.__globals__, whole.__name__, whole.__defaults__, closure)
        made.__kwdefaults__ = whole.__kwdefaults__
        known[id(function)] = made
        for mine, cell in zip(closure, cells, strict=True):
            if is_filled(cell):
                mine.cell_contents = self._frozen(cell.cell_contents, known)
        return made

    def _watch(self, value: Any) -> None:
        """An object of the pipeline's own that cannot be copied must stay as it is once a step has had it."""
        is_array = type(value).__name__ in ("ndarray", "Tensor") and getattr(value, "nbytes", 0) <= _LARGEST_ARRAY
        if id(value) not in self._watched and (is_array or outside_changes.is_object(value) or id(value) in self.born):
            self._watched[id(value)] = (value, capture(value).digest)

    def check(self) -> None:
        """At the end: what was not copied must be as it was."""
        for value, digest in self._watched.values():
            if capture(value).digest != digest:
                what = f"a {type(value).__name__} of the pipeline was changed after a step had used it."
                raise GraphError("graph-shared", what, "Change it before the first use, or make its class a clew.op.")


def hidden(value: Any) -> GraphError:
    """The error for an object or a function with recorded values in it, which no step could be given again."""
    from clew.graph.recording.session import place

    kind = "function" if isinstance(value, FunctionType) else type(value).__name__
    what = f"{place()}: a {kind} that holds recorded values is given to a step, or comes out of the pipeline."
    remedy = "Give the values themselves, in a list, a tuple or a dictionary, or make its class a clew.op."
    if kind == "function":
        remedy = "Give it the values as arguments, or call it in the pipeline itself."
    return GraphError("graph-hidden", what, remedy)


def found_by_id(ids: dict[int, Ref], value: Any) -> bool:
    return any(id(thing) in ids for thing in things_in(value))


def settled(given: Any) -> Any:
    """Arguments with iterators as lists: what goes through them may hold recorded values."""
    if isinstance(given, dict):
        return {name: _settled(value) for name, value in given.items()}
    return tuple(_settled(value) for value in given)


def _settled(value: Any) -> Any:
    return list(value) if type(value) in ITERATORS else value
