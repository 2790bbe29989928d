"""Hot: hears the calls of methods of certain modules, and each version of their local variables.

The function in the class has, while anybody listens, a second body for those modules (lines/branch.py). Calls of
`forward` that a module makes because it was called are heard there (module_calls.py), and told once.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections import Counter
from collections.abc import Callable
from functools import partial
from threading import get_ident
from types import FrameType, FunctionType, MethodType
from typing import Any, Final, NamedTuple

from clew import trouble
from clew.instrument import engine, module_calls, source
from clew.instrument.branch import Branch, Receivers
from clew.instrument.module_calls import Audience, HeardCall, Listener, NotHeard, heard, is_captured
from clew.recorder.plan import Plan

from .method_locals import LocalsCall, Saw

_MISSING: Final = object()


class Ear(NamedTuple):
    """Who listens to a method of one module, and what in it is looked at."""

    listener: Listener
    is_forward: bool  # a call of the module itself is told by others
    expressions: tuple[str, ...] = ()
    enter: Callable[[], Saw | None] | None = None  # gives what to tell each version of the expressions to


def function_behind(module: Any, name: str) -> FunctionType | source.Unknown:
    """The function that runs when a method of a module is called, inside decorators."""
    bound = getattr(module, name)
    is_of_module = False
    while True:
        if isinstance(bound, MethodType):
            is_of_module = is_of_module or bound.__self__ is module
            bound = bound.__func__
        elif isinstance(bound, partial):
            is_of_module = is_of_module or (bool(bound.args) and bound.args[0] is module)
            bound = getattr(bound, "__wrapped__", bound.func)
        elif hasattr(bound, "__wrapped__"):
            bound = bound.__wrapped__
        else:
            break
    if not isinstance(bound, FunctionType) or not is_of_module:
        return source.Unknown("it was replaced")
    return bound


class _Ears(Receivers[tuple[Ear, ...]]):
    """Who listens, by id of the module."""

    __slots__ = ("find",)
    find: Callable[[FrameType], None]


class _FindingEars(_Ears):
    """The same; a module that nobody listens to yet is looked at when it calls the function."""

    __slots__ = ()

    def __contains__(self, key: object) -> bool:
        if not dict.__contains__(self, key):
            self.find(sys._getframe(1))
        return dict.__contains__(self, key)


class _Function:
    """One function, and who listens to it, by module."""

    def __init__(self, function: FunctionType) -> None:
        self._function = weakref.ref(function)
        self._counts: Counter[str] = Counter()  # of expressions
        self._branches: dict[tuple[str, ...], Branch] = {}
        self._current: Branch | None = None
        self._is_forward = self._is_only_forward = False  # of all, or of some of those who listen
        self.ears = _Ears()
        code = engine.original_code(function)
        self._code = code
        self._names = code.co_varnames
        self._positional, self._named = code.co_argcount, code.co_kwonlyargcount

    # ---- on and off

    def find(self, find: Callable[[FrameType], None] | None) -> None:
        """Tell `find` of calls by modules that nobody listens to: it is given their frames."""
        if find is None:
            self.ears.__class__ = _Ears
        else:
            self.ears.find = find
            self.ears.__class__ = _FindingEars

    def add(self, module: Any, ear: Ear) -> str:
        """ "" or why it cannot be heard."""
        self.ears[id(module)] = (*self.ears.get(id(module), ()), ear)
        self._counts.update(ear.expressions)
        reason = self._update()
        if reason:
            self._drop(id(module), ear)
        return reason

    def remove(self, key: int, ear: Ear) -> None:
        self._drop(key, ear)
        self._update()

    def _drop(self, key: int, ear: Ear) -> None:
        rest = tuple(each for each in self.ears.get(key, ()) if each is not ear)
        if rest:
            self.ears[key] = rest
        else:
            self.ears.pop(key, None)
        self._counts.subtract(ear.expressions)

    def _update(self) -> str:
        function = self._function()
        if function is None:
            return ""
        kinds = {ear.is_forward for ears in self.ears.values() for ear in ears}
        self._is_forward, self._is_only_forward = True in kinds, kinds == {True}
        expressions = tuple(expression for expression, count in self._counts.items() if count > 0)
        wanted = self._branch(expressions) if self.ears else None
        if wanted is self._current:
            return ""
        reason = engine.branch(function, wanted)
        if not reason:
            self._current = wanted
        return reason

    def _branch(self, expressions: tuple[str, ...]) -> Branch:
        known = self._branches.get(expressions)
        if known is None:
            enter = self._enter_with_looks if expressions else self._enter
            known = self._branches[expressions] = Branch(self.ears, expressions, partial(partial, enter, expressions))
        return known

    # ---- hot

    def _enter(self, expressions: tuple[str, ...], plan: Plan, values: tuple[Any, ...]) -> NotHeard | HeardCall:
        try:
            return self._told(values) or NotHeard()
        except Exception as error:
            return trouble.failed(error, "entering a method of a model", NotHeard())  # type: ignore[no-any-return]

    def _enter_with_looks(self, expressions: tuple[str, ...], plan: Plan, values: tuple[Any, ...]) -> _LookedAt:
        try:
            told = self._told(values)
            return _LookedAt(plan, told, None if is_captured() else self._saw(id(values[0]), expressions))
        except Exception as error:
            return trouble.failed(error, "entering a method of a model", _LookedAt(plan, None, None))  # type: ignore[no-any-return]

    def _told(self, values: tuple[Any, ...]) -> HeardCall | None:
        """The call, if it is not told by those who hear the call of the module that it belongs to."""
        module = values[0]
        known = heard.get(id(module))
        call = known.open.pop(get_ident(), None) if known is not None and self._is_forward else None
        if call is not None:
            if not call.is_given:
                call.args, call.kwargs = self._arguments(values)
                call.give()
            if self._is_only_forward:
                return None
        if is_captured():
            return None
        ears = self.ears.get(id(module), ())
        audience = Audience(ear.listener for ear in ears if call is None or not ear.is_forward)
        args, kwargs = self._arguments(values)
        told = HeardCall(audience, module, args, kwargs)
        told.give()
        return told

    def _arguments(self, values: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """As they were passed: what is its parameter's default is taken as not given."""
        function = self._function()
        args = list(values[1 : self._positional])
        end = self._positional + self._named
        named = dict(zip(self._names[self._positional : end], values[self._positional : end], strict=True))
        rest = list(values[end:])
        varargs = rest.pop(0) if self._code.co_flags & inspect.CO_VARARGS else ()
        defaults = list((function.__defaults__ if function is not None else None) or ())
        while not varargs and args and defaults and args[-1] is defaults[-1]:
            args.pop()
            defaults.pop()
        given = (function.__kwdefaults__ if function is not None else None) or {}
        kwargs = {name: value for name, value in named.items() if value is not given.get(name, _MISSING)}
        return (*args, *varargs), {**kwargs, **(rest[0] if rest else {})}

    def _saw(self, key: int, expressions: tuple[str, ...]) -> Saw | None:
        """What to tell each version of the expressions to, for a call by one module."""
        ears = self.ears.get(key, ())
        if len(ears) == 1 and ears[0].expressions == expressions:
            return None if ears[0].enter is None else ears[0].enter()
        looks = [(ear.expressions, ear.enter()) for ear in ears if ear.enter is not None]
        looks = [(own, saw) for own, saw in looks if saw is not None]
        if not looks:
            return None
        told = [[(saw, own.index(each)) for own, saw in looks if saw and each in own] for each in expressions]

        def saw_each(index: int, value: Any) -> None:
            for saw, own_index in told[index]:
                saw(own_index, value)

        return saw_each


class _LookedAt(LocalsCall):
    """A call of a method whose variables are looked at, and that listeners may hear of."""

    def __init__(self, plan: Plan, told: HeardCall | None, saw: Saw | None) -> None:
        super().__init__(plan, saw)
        self._told = told

    def __exit__(self, *error: Any) -> None:
        self._held.clear()
        if self._told is not None:
            self._told.result = self.result
            self._told.__exit__(*error)


_functions: weakref.WeakKeyDictionary[FunctionType, _Function] = weakref.WeakKeyDictionary()


def hear_method(function: FunctionType, module: Any, ear: Ear) -> Callable[[], None] | source.Unknown:
    """Listen to the calls of a method by one module; gives what ends that, or why it cannot be done."""
    with module_calls.lock:
        known = _functions.get(function)
        if known is None:
            known = _functions[function] = _Function(function)
        reason = known.add(module, ear)
        if reason:
            return source.Unknown(reason)
        if ear.is_forward:
            module_calls.expect_forward(module, 1)
    return partial(_hear_no_more, known, module, ear)


def find_by_method(function: FunctionType, find: Callable[[FrameType], None] | None) -> None:
    """Tell `find` of calls of a method, which somebody must listen to, by modules that nobody listens to."""
    with module_calls.lock:
        known = _functions.get(function)
        if known is not None:
            known.find(find)


def _hear_no_more(known: _Function, module: Any, ear: Ear) -> None:
    with module_calls.lock:
        known.remove(id(module), ear)
        if ear.is_forward:
            module_calls.expect_forward(module, -1)


def _replicated(module: Any, replica: Any) -> None:
    for known in list(_functions.values()):
        ears = known.ears.get(id(module))
        if ears is not None:
            known.ears[id(replica)] = ears
            weakref.finalize(replica, known.ears.pop, id(replica), None).atexit = False


module_calls.on_replica.append(_replicated)
