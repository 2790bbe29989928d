"""`clew.op`: functions, classes, objects and models that a recorded pipeline is made of."""

from __future__ import annotations

import copy
import functools
import inspect
import os
import sys
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from types import FunctionType, MethodType
from typing import Any, TypeVar, overload

from clew import trouble
from clew.errors import TargetError
from clew.graph.bundle.constructors import Notes, constructing
from clew.graph.recording.outside_changes import is_users
from clew.graph.recording.session import current, recording_of
from clew.instrument import pickling

from .bundle import examples
from .parts import copied, handed, hides
from .templates import hidden

_made: dict[int, tuple[Any, Made]] = {}  # objects of operator classes, by identity: they need not be hashable


class Made:
    """How an object of an operator class was made."""

    def __init__(self, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.cls = cls
        self.args = args
        self.kwargs = kwargs
        self.notes = Notes()  # what its constructor did besides
        self.path_arguments: frozenset[str] | None = None  # those whose files a bundle takes along; None: all of them
        self.is_shared = True  # False: clew.load(..., share=True) makes the object anew each time

    def takes_files_of(self, argument: str) -> bool:
        return self.path_arguments is None or argument in self.path_arguments


#: Of an object whose making could not be noted: it works, and cannot be saved.
UNKNOWN = Made(object, (), {})


class Operator:
    """Something that is called as one step of a graph."""

    made: Made | None = None  # of a class whose objects the pipeline makes: how that of the example was made

    def __init__(self, target: Callable[..., Any], *, name: str | None = None, side_effects: bool = False) -> None:
        self.target = target
        self.side_effects = side_effects
        self.name = name or _name_of(target)
        functools.update_wrapper(self, target, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        session = recording_of(args, kwargs)
        if session is None:
            return self.target(*args, **kwargs)
        held = getattr(self.target, "__self__", self.target)
        if made(held) is not None and hides(held, 2):  # set by the pipeline, where no step sees it
            raise hidden(held)
        examples.note(self.target, handed(args), handed(kwargs))
        return session.operator(self, args, kwargs)

    @property
    def call(self) -> Callable[..., Any]:
        """What is called, unrecorded."""
        return self.target

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None or not isinstance(self.target, FunctionType):
            return self
        return _of_method(MethodType(self.target, instance), self.name, self.side_effects)

    def __getattr__(self, name: str) -> Any:
        if name == "target":
            raise AttributeError(name)
        return getattr(self.target, name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickled like the function it is made of: by its name, where that leads to the operator."""
        place: Any = sys.modules.get(getattr(self.target, "__module__", None) or "")
        name = getattr(self.target, "__qualname__", "")
        try:
            found = functools.reduce(getattr, name.split("."), place)
        except AttributeError:
            found = None
        return name if found is self else super().__reduce_ex__(protocol)

    def __repr__(self) -> str:
        return f"<clew.op {self.name}>"


def _by_value(operator: Operator) -> Any:
    """Sent by value, a function arrives as it was before `clew.op`: it needs no clew there."""
    reduced = operator.__reduce_ex__(4)
    if isinstance(reduced, str) and operator.__module__ != "__main__":
        return reduced
    plain = isinstance(operator.target, (FunctionType, MethodType))
    return (copy.copy, (operator.target,)) if plain else object.__reduce_ex__(operator, 4)


pickling.reduce_by(Operator, _by_value)


@trouble.entry_point(lambda method, name, side_effects: method)
def _of_method(method: MethodType, name: str, side_effects: bool) -> Any:
    return Operator(method, name=name, side_effects=side_effects)


def _name_of(target: Any) -> str:
    name = getattr(target, "__qualname__", None) or type(target).__qualname__
    return str(name).rpartition("<locals>.")[2]


def is_operator(thing: Any) -> bool:
    """Whether calling it is a step. Asked without running anybody's code."""
    kind = type(thing)
    if issubclass(kind, (Operator, OperatorObject)):
        return True
    if kind is MethodType:
        thing, kind = thing.__func__, type(thing.__func__)
    if kind is FunctionType:
        return "__clew_op__" in vars(thing)
    return any("__clew_op__" in vars(base) for base in type.mro(thing if isinstance(thing, type) else kind))


T = TypeVar("T")


@overload
def op(target: str | os.PathLike[str], *, name: str | None = ..., side_effects: bool = ...) -> Operator: ...


@overload
def op(target: T, *, name: str | None = ..., side_effects: bool = ...) -> T: ...


@overload
def op(target: None = None, *, name: str | None = ..., side_effects: bool = ...) -> Callable[[T], T]: ...


def op(target: Any = None, *, name: str | None = None, side_effects: bool = False) -> Any:
    """Make an operator: of a function, of a class (its objects, and each of their public methods), of a bound method,
    of a torch module, of a Keras or TensorFlow model, of a SavedModel folder, of an estimator.

    side_effects   it does something besides giving a result, and is kept in a graph that does not use the result
    """
    if target is None:
        return lambda thing: op(thing, name=name, side_effects=side_effects)
    if isinstance(target, type):
        return target if "__clew_op__" in vars(target) else _operator_class(target, side_effects)
    if is_operator(target):
        return _with_options(target, name, side_effects)
    if isinstance(target, (str, os.PathLike)):
        from .savedmodels import SavedModel

        return Operator(SavedModel(os.path.abspath(target)), name=name or "SavedModel", side_effects=side_effects)
    if not callable(target) and not _has_methods(target):
        what = f"clew.op was put on a {type(target).__name__}, which cannot be called."
        raise TargetError("not-an-operator", what, "Put it on a function, a class or a model.")
    if callable(target):
        return Operator(target, name=name, side_effects=side_effects)
    return OperatorObject(target, side_effects)


def _with_options(operator: Any, name: str | None, side_effects: bool) -> Any:
    """An operator again: itself, or one more with the name and the mark it is given now."""
    if not isinstance(operator, Operator) or (name is None and not side_effects):
        return operator
    marked = side_effects or operator.side_effects
    return Operator(operator.target, name=name or operator.name, side_effects=marked)


def _has_methods(target: Any) -> bool:
    return any(callable(getattr(target, method, None)) for method in ("predict", "transform"))


class OperatorObject:
    """An object whose methods are operators: a scikit-learn estimator."""

    def __init__(self, target: Any, side_effects: bool) -> None:
        self._target = target
        self._side_effects = side_effects

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._target, name)
        if isinstance(found, MethodType):
            return _of_method(found, f"{type(self._target).__name__}.{name}", self._side_effects)
        return found

    def __repr__(self) -> str:
        return f"<clew.op {self._target!r}>"


def _operator_class(cls: type, side_effects: bool) -> type:
    """The class itself; its objects remember how they were made, and their public methods are steps."""
    init: Any = cls.__init__ if cls.__init__ is not object.__init__ else _nothing  # type: ignore[misc]

    @functools.wraps(init)
    def making(self: Any, *args: Any, **kwargs: Any) -> None:
        noting = _begin_noting(cls, self, args, kwargs)
        try:
            init(self, *args, **kwargs)
        finally:
            if noting is not None:
                _end_noting(noting, self)

    cls.__init__ = making  # type: ignore[misc]
    for name, function in _public_methods(cls).items():
        if isinstance(function, FunctionType) and not is_operator(function):
            setattr(cls, name, _method(function, side_effects))
        elif isinstance(function, (staticmethod, classmethod)) and isinstance(function.__func__, FunctionType):
            setattr(cls, name, _of_class(function, side_effects))
    cls.__clew_op__ = True  # type: ignore[attr-defined]
    return cls


def _public_methods(cls: type) -> dict[str, Any]:
    """Those that the user wrote: of the class, and of the classes it inherits from."""
    found: dict[str, tuple[type, Any]] = {}
    for base in cls.__mro__:
        for name, value in vars(base).items():
            if name == "__call__" or not name.startswith("_"):
                found.setdefault(name, (base, value))
    return {name: value for name, (base, value) in found.items() if base is cls or is_users(base)}


@trouble.entry_point()
def _begin_noting(cls: type, obj: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExitStack | None:
    """Note how an object is made until what this gives is closed. None: the constructor of a class below notes it."""
    if type(obj) is not cls and made(obj) is not None:
        return None
    try:
        session = current()
        how = _remember(obj, Made(type(obj), copied(handed(args)), copied(handed(kwargs))))
        with ExitStack() as noting:
            noting.enter_context(constructing(how.notes, obj))
            if session is not None:
                noting.enter_context(session.aside())
            return noting.pop_all()
    except Exception:
        _remember(obj, UNKNOWN)
        raise


@trouble.entry_point()
def _end_noting(noting: ExitStack, obj: Any) -> None:
    try:
        noting.close()
    except Exception:
        _remember(obj, UNKNOWN)
        raise


def _remember(obj: Any, how: Made) -> Made:
    key = id(obj)
    try:
        forget = _made.pop  # the name is None when the interpreter takes its modules apart
        held: Any = weakref.ref(obj, lambda _: forget(key, None))
    except TypeError:  # of a class with slots: remembered for good
        held = functools.partial(_itself, obj)
    _made[key] = (held, how)
    return how


def _itself(obj: Any) -> Any:
    return obj


def _nothing(self: Any, *args: Any, **kwargs: Any) -> None:
    """A class without a constructor, or with `__new__` alone."""
    own: Any = type(self).__new__
    if (args or kwargs) and own is object.__new__:
        raise TypeError(f"{type(self).__name__}() takes no arguments")  # as Python says it


def _method(function: FunctionType, side_effects: bool) -> Any:
    @functools.wraps(function)
    def stepping(self: Any, *args: Any, **kwargs: Any) -> Any:
        session = recording_of(args, kwargs)
        if session is None:
            return function(self, *args, **kwargs)
        bound = Operator(MethodType(function, self), name=_name_of(function), side_effects=side_effects)
        return bound(*args, **kwargs)

    stepping.__clew_op__ = True  # type: ignore[attr-defined]
    return stepping


def _of_class(method: Any, side_effects: bool) -> Any:
    """A static method, or a method of the class."""
    function = method.__func__
    if isinstance(method, classmethod):
        return classmethod(_method(function, side_effects))
    operator = Operator(function, side_effects=side_effects)

    @functools.wraps(function)
    def stepping(*args: Any, **kwargs: Any) -> Any:
        if recording_of(args, kwargs) is None:
            return function(*args, **kwargs)
        return operator(*args, **kwargs)

    stepping.__clew_op__ = True  # type: ignore[attr-defined]
    return staticmethod(stepping)


def made(obj: Any) -> Made | None:
    """How an object was made, if its class is an operator's."""
    held, how = _made.get(id(obj), (None, None))
    return how if held is not None and held() is obj else None


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)
