"""One recording of a pipeline: what is done with recorded values, in its order."""

from __future__ import annotations

import linecache
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from clew import env, trouble
from clew.errors import GraphError
from clew.graph import operations, tensorflow
from clew.graph.nodes import SEEN, Choice, Const, Event, Guard, Input, Note, Ref, Step, Template, Where
from clew.graph.parts import PLAIN, StandIns, copied, handed, holds_traced, traced_in
from clew.graph.templates import Templates, settled
from clew.values.class_facts import type_name

from . import outside_changes, protocols
from .changed_objects import Objects
from .closures import closed, is_called_at_once
from .computed_constants import note
from .in_place_changes import Before, Changes, can_change, kept, leaves_arguments, may_change
from .mismatch_causes import CHOOSING, scope_of
from .traced_values import Traced, is_traced, raw

if TYPE_CHECKING:
    from clew.graph.operators import Operator

_HERE = os.path.realpath(env.PACKAGE) + os.sep
_session: ContextVar[Session | None] = ContextVar("clew_recording", default=None)
_open: list[Session] = []  # everywhere: a thread of the pipeline's own finds its recording by the values it is given


class ConstantWarning(UserWarning):
    """What a library gave for a recorded value was taken as a constant."""


def current() -> Session | None:
    """The recording that goes on here: in this thread, in this task, and not inside an operator."""
    return _session.get()


@trouble.entry_point()
def recording_of(args: Any, kwargs: Any) -> Session | None:
    """The recording that goes on here, or the one that the arguments come from."""
    session = _session.get()
    if session is not None or not _open:
        return session
    for value in traced_in((args, kwargs)):
        owner: Session = value._self_session
        return None if owner.closed else owner
    return None


class Session:
    """A pipeline that is being run and recorded."""

    def __init__(self, library: str = "input", keeps_scope: bool = False) -> None:
        self.library = library
        self.keeps_scope = keeps_scope  # that the reason may be told why two examples differ
        self.choices: list[Choice] = []
        self.notes: list[Note] = []
        self.closed = False
        self.events: list[Event] = []
        self.inputs: list[Input] = []
        self.trying = 0  # how many `try` and `with` blocks are open: what fails in them decides where it goes on
        self.catching = 0  # how many of them are `try`
        self.ids = 0
        self._lock = threading.RLock()
        self._asked: set[tuple[str, int]] = set()  # questions answered since anything was changed
        self._raised: list[tuple[BaseException, int]] = []
        self.own_objects: dict[int, Any] = {}  # made by calls of the pipeline: it makes others each time it runs
        self.unfinished_loop: Where | None = None  # a loop that is a step raised: what it has changed is not known
        self._templates = Templates(self)
        self.changes = Changes(self)
        self.objects = Objects(self)

    @contextmanager
    def open(self) -> Iterator[None]:
        tensorflow.listen()
        token = _session.set(self)
        _open.append(self)
        outside_changes.begin()
        try:
            yield
            self.changes.check()
            self._templates.check()
            if self.unfinished_loop is not None:
                what = f"{self.unfinished_loop}: a loop raised, and the pipeline went on with what it had changed."
                raise GraphError("graph-loop", what, "Catch what is raised inside the loop, or make a clew.op of it.")
        finally:
            self.closed = True
            _open.remove(self)
            protocols.put_back(lambda: not _open)
            _session.reset(token)
            changed = outside_changes.settle(self.objects.is_owner)
        for words in changed:
            where = place()
            told = f"{where}: {words}. Do both in operators: clew.op, with side_effects=True."
            warnings.warn_explicit(told, ConstantWarning, where.file, where.line)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What runs in here is somebody's own business: the inside of an operator, of a library."""
        token = _session.set(None)
        try:
            yield
        finally:
            _session.reset(token)

    def input(
        self, name: str, value: Any, default: Any = None, has_default: bool = False, is_rest: bool = False
    ) -> Traced:
        self.inputs.append(Input(self.ids, name, default, has_default, is_rest))
        return self.value(value)

    def value(self, value: Any) -> Traced:
        with self._lock:
            self.ids += 1
            return Traced(value, self, self.ids - 1)

    def template(self, value: Any) -> Template:
        """How an argument, or what comes out, is made again."""
        return self._templates.of(value)

    def holds_constant(self, value: Any) -> bool:
        return self._templates.holds(value)

    def born(self, made: Any) -> Any:
        """An operator's object that the pipeline has made is a constant, and must stay as it is."""
        self._templates.born[id(made)] = made
        return made

    # ---- steps

    def step(
        self,
        kind: str,
        target: Any,
        args: Sequence[Any],
        kwargs: dict[str, Any] | None = None,
        changes: Any = None,
        effect: bool = False,
    ) -> Any:
        """Do something with recorded values, and write it down."""
        do, kwargs = _doing(kind, target), kwargs or {}
        if self.closed:
            return do(*handed(list(args)), **handed(kwargs))
        effect = effect or (kind == "function" and operations.by_chance(target))
        if kind == "method" and not is_traced(args[0]):  # of an object that was there before, and may be another now
            effect = effect or (can_change(args[0]) and type(args[0]) not in PLAIN)
        step = Step(-1, kind, target, (), {}, place(), effect)
        return self._done(step, do, tuple(args), kwargs, changes)

    def operator(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], effect: bool = False) -> Any:
        """An operator is called. `effect`: it is kept even if nobody uses its result."""
        if self.closed:
            return op.call(*handed(args), **handed(kwargs))
        outside_changes.note_operator(op.target)
        step = Step(-1, "operator", op, (), {}, place(), effect=effect or op.side_effects)
        return self._done(step, op.call, args, kwargs, None)

    def _done(self, step: Step, do: Callable[..., Any], args: Any, kwargs: dict[str, Any], changes: Any) -> Any:
        self.changes.check()
        args, kwargs = settled(args), settled(kwargs)
        if step.kind in ("method", "function"):  # an operator may keep it, and call it when its names are others
            at_once = is_called_at_once(step, args)
            args = tuple(closed(self, arg, at_once) for arg in args)
            kwargs = {name: closed(self, value, at_once) for name, value in kwargs.items()}
        step.args, step.kwargs = self._given(args, kwargs)
        given = StandIns()
        plain, named = [given.of(arg) for arg in args], {name: given.of(kwargs[name]) for name in kwargs}
        before = Before(step, args, kwargs, given.pairs)
        try:
            with self.aside():
                result = do(*plain, **named)
        except Exception as error:
            self._failed(step, error)
            raise
        if before.closures_changed():
            what = f"{step.where}: a function that is given away changes what it sees of the pipeline."
            raise GraphError("graph-changed", what, "Let it give a result instead, or call it in the pipeline itself.")
        altered = may_change(step, args, result, before, changes)
        is_safe = leaves_arguments(step, args, result)
        touched = [(own, copy, self._apart(own, copy)) for own, copy in before.touched(is_safe)]
        if touched:
            step.args, step.kwargs = self._given(args, kwargs)
            self._templates.replaced.clear()
        altered += [made._self_id for *_, made in touched]
        if self.trying:
            step.effect, step.tried = True, self.catching > 0
            if step.tried:
                _as_call(step)
        elif altered and not step.effect:
            step.effect, step.changes = True, tuple(dict.fromkeys(altered))
        self.objects.note(step)
        made = self.ended(step, result)
        self._settle(touched, kept(step, plain, result, given.pairs), step.where)
        return made

    def _given(self, args: Any, kwargs: dict[str, Any]) -> tuple[tuple[Template, ...], dict[str, Template]]:
        return tuple(map(self.template, args)), {name: self.template(value) for name, value in kwargs.items()}

    def _apart(self, own: Any, given: Any) -> Traced:
        """A container of the pipeline's own that a step has changed becomes a value, made before the step."""
        made = self.noted("python", "made", (self.template(own),), given)
        self._templates.replaced[id(own)] = Ref(made._self_id)
        return made

    def _settle(self, touched: list[Any], shared: list[tuple[Any, Any]], where: Where) -> None:
        for own, _, made in touched:
            self.changes.refill(own, made)
        for own, given in shared:
            self.changes.share(own, given, where)

    def ended(self, step: Step, result: Any) -> Traced:
        with self._lock:
            given = self.value(result)
            step.id, step.type = given._self_id, type_name(type(result))
            self._append(step)
            if step.effect:
                self._asked.clear()
        return given

    def noted(
        self, kind: str, target: Any, args: tuple[Template, ...], result: Any, kwargs: dict[str, Template] | None = None
    ) -> Traced:
        """A step that was done already, or that only puts something together."""
        return self.ended(Step(-1, kind, target, args, kwargs or {}, place()), result)

    def _failed(self, step: Step, error: Exception) -> None:
        """It raised, and the pipeline may go on by that: a graph in which it would not raise is another."""
        _as_call(step)
        step.fails, step.effect = True, True
        ref = self.ended(step, error)._self_id
        self._raised.append((error, ref))
        self.decide("value", self.noted("python", "raised", (Ref(ref),), operations.PYTHON["raised"](error)))

    def caught(self, error: BaseException) -> None:
        """The pipeline looks at what was raised: then it is guarded word by word."""
        for known, ref in self._raised:
            if known is error:
                self.decide(
                    "value", self.noted("python", "raised as", (Ref(ref),), operations.PYTHON["raised as"](error))
                )

    # ---- libraries

    def library_call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function of a library that is known to be found again by its name."""
        name = operations.name_of(function)
        if name is None:
            return self.foreign(function, args, kwargs)
        return self.step("function", name, args, kwargs)

    def ufunc(self, ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = f"numpy:{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
        changed = inputs[0] if method == "at" else (kwargs.get("out") or (None,))[0]
        return self.step("function", name, inputs, kwargs, changes=changed if is_traced(changed) else None)

    def torch_call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = operations.name_of(function)
        if name is not None:
            return self.step("function", name, args, kwargs)
        method = getattr(function, "__name__", "")
        if method == "__get__":  # of a property: the tensor's shape
            return self.step("attribute", function.__self__.__name__, args[:1])
        return self.step("method", method, args, kwargs)

    def foreign(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call into a library that is no operator: a step; or, if that was asked for, a constant from now on."""
        if self.library == "constant":
            return self._constant_call(function, args, kwargs)
        name = operations.name_of(function)
        if name is not None:  # what it does besides giving a result is not known
            return self.step("function", name, args, kwargs, effect=True)
        bound = getattr(function, "__self__", None)
        if bound is not None and not isinstance(bound, (type, ModuleType)):
            return self.step("method", function.__name__, (bound, *args), kwargs, effect=True)
        if isinstance(function, (type, FunctionType, BuiltinFunctionType)):  # made inside another
            from clew.graph.operators import Operator

            return self.operator(Operator(function, side_effects=False), args, kwargs)
        return self.step("python", "call", (function, *args), kwargs, effect=True)  # a tokenizer

    def _constant_call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = str(getattr(function, "__qualname__", type(function).__name__))
        step = Step(-1, "function", name, (), {}, place())
        given = StandIns()
        plain = [given.of(arg) if holds_traced(arg) else arg for arg in args]
        named = {name: given.of(arg) if holds_traced(arg) else arg for name, arg in kwargs.items()}
        before = Before(step, args, kwargs, given.pairs)
        with self.aside():
            result = function(*plain, **named)
        if before.changed() or before.touched(is_safe=True):
            what = f"{step.where}: {name}() changes a recorded value, and the graph would not."
            raise GraphError("graph-changed", what, 'Make it a clew.op, or record without library="constant".')
        if holds_traced(args) or holds_traced(kwargs):
            self.notes.append(note("constant by input", step, result))
            self.warn(f"what {name}() gave is a constant of the graph from now on, though it depends on an input")
        return result

    def warn(self, said: str) -> None:
        where = place()
        remedy = 'Make it a clew.op, or record with library="operator": then it is called again each time.'
        warnings.warn_explicit(f"{where}: {said}. {remedy}", ConstantWarning, where.file, where.line)

    # ---- decisions

    def decide(self, kind: str, value: Traced) -> Any:
        """The plain answer to a question, guarded."""
        held = raw(value)
        answer = SEEN[kind](held)
        if not self.closed:
            self._guard(kind, value, answer)
        return answer

    def _guard(self, kind: str, value: Traced, answer: Any) -> None:
        with self._lock:
            if (kind, value._self_id) in self._asked:
                return
            self._asked.add((kind, value._self_id))
            where = place()
            line = linecache.getline(where.file, where.line).strip() or "(a line without source)"
            expected = _fixed(answer) if kind == "value" else answer
            self._append(Guard(kind, value._self_id, expected, where, line))

    def _append(self, event: Event) -> None:
        if self.keeps_scope:
            event.scope = scope_of(user_frame())
        self.events.append(event)

    def chosen(self, value: Any) -> None:
        """The pipeline decides by a plain value, of which nobody's own code is asked."""
        if type(value) in CHOOSING:
            is_sized = hasattr(value, "__len__") and not isinstance(value, str)
            frame = user_frame()
            self.choices.append(Choice(place(), len(value) if is_sized else bool(value), scope_of(frame)))

    def plain(self, value: Traced) -> Any:
        """The value itself, where nothing else will do: the graph holds for this value only, and says so."""
        return self.decide("value", value)

    def class_of(self, value: Traced) -> type:
        """What isinstance() goes by. Libraries and clew itself ask as well: only the pipeline decides by it."""
        if current() is not self or tensorflow.is_asking(raw(value), 3):
            return type(raw(value))
        answer: type = self.decide("type", value)
        return answer

    def unpacked(self, value: Traced) -> Iterator[Any]:
        """The items of a value, of which there are so many: one after the other, as they are then."""
        held = raw(value)
        if hasattr(type(held), "__next__"):
            yield from self._drawn(value)
            return
        is_sequence = hasattr(type(held), "__len__") and hasattr(type(held), "__getitem__")
        if not is_sequence or isinstance(held, Mapping):
            value = self.step("python", "list", (value,))
        number, count = 0, self.decide("length", value)
        while number < count:
            yield self.step("item", "", (value, number))
            number += 1
            if len(raw(value)) != count:  # changed on the way
                count = self.decide("length", value)

    def _drawn(self, value: Traced) -> Iterator[Any]:
        while True:
            drawn = self.step("python", "drawn", (value,), changes=value)
            if not self.decide("truth", self.step("item", "", (drawn, 0))):
                return
            yield self.step("item", "", (drawn, 1))

    def within(self, manager: Any) -> Traced:
        """A context of a library, entered again when the graph is run."""
        if not is_traced(manager):
            manager = self.noted("python", "made", (Const(manager),), manager)
        return manager  # type: ignore[no-any-return]

    def effect(self, target: str, value: Traced) -> Any:
        """Something that is done for what it does."""
        step = Step(-1, "python", target, (Ref(value._self_id),), {}, place(), effect=True)
        return self.ended(step, operations.PYTHON[target](raw(value)))

    def mapping(self, value: Traced) -> dict[Any, Any]:
        """What `**value` spreads."""
        keys = self.plain(self.step("python", "list", (value,)))
        return {key: self.step("item", "", (value, key)) for key in keys}


def _doing(kind: str, target: Any) -> Any:
    """The function a step is, for values in hand."""
    if kind == "item":
        return operations.PYTHON["getitem"]
    if kind == "attribute":
        return lambda value: getattr(value, target)
    if kind == "method":
        return lambda value, *args, **kwargs: getattr(value, target)(*args, **kwargs)
    if kind == "python":
        return operations.PYTHON[target]
    return operations.function_named(target)


def _as_call(step: Step) -> None:
    """`x[0]` and `x.a` as functions that are called."""
    if step.kind == "item":
        step.kind, step.target = "python", "getitem"
    elif step.kind == "attribute":
        step.kind, step.args, step.target = "python", (*step.args, Const(step.target)), "getattr"


def _fixed(value: Any) -> Any:
    """The value as it is now."""
    if type(value).__name__ in ("ndarray", "Tensor", "bytearray"):
        import copy

        return copy.deepcopy(value)
    return copied(value)


def of_values(values: Any) -> Session:
    """The recording that values belong to."""
    args, kwargs = values
    found: Session = next(traced_in([list(args), dict(kwargs or {})]))._self_session
    return found


def place() -> Where:
    """The line of the user's program that is being run."""
    frame = user_frame()
    return Where("?", 0) if frame is None else Where(frame.f_code.co_filename, frame.f_lineno)


def user_frame() -> FrameType | None:
    """The function of the user's program that is being run."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


_known: dict[str, bool] = {}


def _is_ours(file: str) -> bool:
    known = _known.get(file)
    if known is None:
        known = os.path.realpath(file).startswith(_HERE) or f"{os.sep}wrapt{os.sep}" in file or "contextlib" in file
        _known[file] = known
    return known
