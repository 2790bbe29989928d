"""One recording of a pipeline: what is done with recorded values, in its order."""

from __future__ import annotations

import linecache
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from clew.errors import GraphError
from clew.values import SCALARS, capture
from clew.values.classes import type_name

from . import operations
from .nodes import Build, Const, Event, Guard, Input, Ref, Step, Template, Where
from .traced import Traced, holds_traced, is_traced, raw

if TYPE_CHECKING:
    from .operators import Operator

_HERE = os.path.dirname(os.path.realpath(__file__)) + os.sep
_UNCHANGING = (*SCALARS, tuple, frozenset, type)
_session: ContextVar[Session | None] = ContextVar("clew_recording", default=None)


class ConstantWarning(UserWarning):
    """What a library gave for a recorded value was taken as a constant."""


def current() -> Session | None:
    """The recording that goes on here: in this thread, in this task, and not inside an operator."""
    return _session.get()


class Session:
    """A pipeline that is being run and recorded."""

    def __init__(self, library: str = "constant") -> None:
        self.library = library
        self.closed = False
        self.events: list[Event] = []
        self.inputs: list[Input] = []
        self._ids = 0

    @contextmanager
    def open(self) -> Iterator[None]:
        token = _session.set(self)
        try:
            yield
        finally:
            self.closed = True
            _session.reset(token)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What runs in here is somebody's own business: the inside of an operator, of a library."""
        token = _session.set(None)
        try:
            yield
        finally:
            _session.reset(token)

    def input(self, name: str, value: Any, default: Any = None, has_default: bool = False) -> Traced:
        self.inputs.append(Input(self._ids, name, default, has_default))
        return self._value(value)

    def _value(self, value: Any) -> Traced:
        self._ids += 1
        return Traced(value, self, self._ids - 1)

    # ---- steps

    def step(
        self, kind: str, target: Any, args: Sequence[Any], kwargs: dict[str, Any] | None = None, changes: Any = None
    ) -> Any:
        """Do something with recorded values, and write it down."""
        kwargs = kwargs or {}
        plain, named = [raw(arg) for arg in args], {name: raw(value) for name, value in kwargs.items()}
        if self.closed:
            return _doing(kind, target)(*plain, **named)
        step = self._begun(kind, target, args, kwargs)
        with self.aside():
            result = _doing(kind, target)(*plain, **named)
        if changes is not None and not isinstance(raw(changes), _UNCHANGING):
            step.effect, step.changes = True, (changes._self_id,)
        elif kind == "method" and not isinstance(plain[0], _UNCHANGING):
            step.effect = True  # it may have changed what it belongs to
            step.changes = (args[0]._self_id,) if is_traced(args[0]) else ()
        return self._ended(step, result)

    def _begun(self, kind: str, target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Step:
        templates = tuple(self.template(arg) for arg in args)
        named = {name: self.template(value) for name, value in kwargs.items()}
        return Step(-1, kind, target, templates, named, place())

    def _ended(self, step: Step, result: Any) -> Traced:
        given = self._value(result)
        step.id, step.type = given._self_id, type_name(type(result))
        self.events.append(step)
        return given

    def operator(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An operator is called."""
        if self.closed:
            return op.call(*raw(args), **raw(kwargs))
        step = self._begun("operator", op, args, kwargs)
        before = _digests(args, kwargs)
        with self.aside():
            result = op.call(*raw(args), **raw(kwargs))
        changed = _changed(before)
        step.effect = op.side_effects or bool(changed)
        step.changes = tuple(changed)
        return self._ended(step, result)

    def library_call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function of a library that is known to be found again by its name."""
        name = operations.name_of(function)
        if name is None:
            return self.foreign(function, args, kwargs)
        return self.step("function", name, args, kwargs)

    def ufunc(self, ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = f"numpy:{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
        out = kwargs.get("out")
        changes = out[0] if isinstance(out, tuple) and out and is_traced(out[0]) else None
        return self.step("function", name, inputs, kwargs, changes=changes)

    def torch_call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = operations.name_of(function)
        if name is not None:
            return self.step("function", name, args, kwargs)
        method = getattr(function, "__name__", "")
        if method == "__get__":  # of a property: the tensor's shape
            return self.step("attribute", function.__self__.__name__, args[:1])
        return self.step("method", method, args, kwargs)

    def foreign(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call into a library that is no operator: a constant from now on, or an operator if that was asked for."""
        if self.library == "operator":
            name = operations.name_of(function)
            if name is not None:
                return self.step("function", name, args, kwargs)
            bound = getattr(function, "__self__", None)
            if bound is not None and not isinstance(bound, type):
                return self.step("method", function.__name__, (bound, *args), kwargs)
            raise operations.cannot_be_found(function)
        with self.aside():
            result = function(*raw(args), **raw(kwargs))
        if holds_traced(args) or holds_traced(kwargs):
            where = place()
            name = getattr(function, "__qualname__", type(function).__name__)
            said = f"{where}: what {name}() gave is a constant of the graph from now on, though it depends on an input"
            remedy = 'Make it a clew.op, or record with library="operator".'
            warnings.warn_explicit(f"{said}. {remedy}", ConstantWarning, where.file, where.line)
        return result

    # ---- decisions

    def decide(self, kind: str, value: Traced) -> Any:
        """The plain answer to a question, guarded."""
        from .nodes import SEEN

        answer = SEEN[kind](raw(value))
        if not self.closed:
            where = place()
            line = linecache.getline(where.file, where.line).strip()
            self.events.append(Guard(kind, value._self_id, answer, where, line))
        return answer

    def plain(self, value: Traced) -> Any:
        """The value itself, where nothing else will do: the graph holds for this value only, and says so."""
        return self.decide("value", value)

    def unpacked(self, value: Traced) -> list[Any]:
        """The items of a value, of which there are so many."""
        held = raw(value)
        is_sequence = hasattr(type(held), "__len__") and hasattr(type(held), "__getitem__")
        if not is_sequence or isinstance(held, Mapping):
            return self.unpacked(self.step("python", "list", (value,)))
        count = self.decide("length", value)
        return [self.step("item", "", (value, number)) for number in range(count)]

    # ---- templates

    def template(self, value: Any) -> Template:
        """How an argument is made again."""
        if is_traced(value):
            if value._self_session is not self:
                what = "a value of another recording is used here."
                raise GraphError("graph-other-recording", what, "Pass it as an input, or record both together.")
            return Ref(value._self_id)
        if not holds_traced(value):
            return Const(value)
        kind = type(value).__name__
        if isinstance(value, dict):
            keys = tuple(self.template(key) for key in value)
            return Build(kind, tuple(self.template(item) for item in value.values()), keys)
        items = (value.start, value.stop, value.step) if isinstance(value, slice) else value
        return Build(kind, tuple(self.template(item) for item in items))


def _doing(kind: str, target: Any) -> Any:
    """The function a step is, for values in hand."""
    if kind == "item":
        return _item
    if kind == "attribute":
        return lambda value: getattr(value, target)
    if kind == "method":
        return lambda value, *args, **kwargs: getattr(value, target)(*args, **kwargs)
    if kind == "python":
        return operations.PYTHON[target]
    return operations.function_named(target)


def _item(value: Any, key: Any) -> Any:
    return value[key]


def _digests(args: Any, kwargs: dict[str, Any]) -> list[tuple[int, Any, bytes]]:
    """What the recorded values among the arguments are before a call; those that cannot change aside."""
    found = []
    for value in _traced_in((args, kwargs)):
        held = raw(value)
        if not isinstance(held, _UNCHANGING) or isinstance(held, tuple):
            found.append((value._self_id, held, capture(held).digest))
    return found


def _changed(before: list[tuple[int, Any, bytes]]) -> list[int]:
    return [id for id, held, digest in before if capture(held).digest != digest]


def _traced_in(value: Any) -> Iterator[Traced]:
    if is_traced(value):
        yield value
    elif type(value) in (list, tuple, set, frozenset):
        for item in value:
            yield from _traced_in(item)
    elif type(value) is dict:
        for key, item in value.items():
            yield from _traced_in(key)
            yield from _traced_in(item)


def of_values(values: Any) -> Session:
    """The recording that values belong to."""
    found: Session = next(_traced_in(_plain_containers(values)))._self_session
    return found


def _plain_containers(values: Any) -> Any:
    args, kwargs = values
    return [list(args), dict(kwargs or {})]


def place() -> Where:
    """The line of the user's program that is being run."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not os.path.realpath(file).startswith(_HERE) and f"{os.sep}wrapt{os.sep}" not in file:
            return Where(file, frame.f_lineno)
        frame = frame.f_back
    return Where("?", 0)
