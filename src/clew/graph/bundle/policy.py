"""What a graph that is trusted by names may do while it is loaded and run.

Before anything runs, the page itself is looked at (trust.py). What only shows then is looked at here: what a name
leads to, and of which type the value is whose method or attribute is asked for.

Every function that such a graph can hold was handed out by `Policy`. That is why functions that take functions need
no look of their own.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from clew.errors import GraphError
from clew.graph import operations
from clew.graph.brief_values import visible
from clew.graph.operators import Operator, OperatorObject

from . import allowed_names
from .names import PREFIX

if TYPE_CHECKING:
    from clew.graph.nodes import Step

_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType)
_Cached = type(functools.lru_cache(len))
_CHECKED = frozenset({"getattr", "setattr", "delattr", "call", "closed", "enter", "leave"})  # of Python's operations


class Policy:
    """The names that the caller has given, and what has been made of them."""

    def __init__(self, names: frozenset[str], path: str) -> None:
        self.names = names
        self._path = path
        self._admitted: dict[int, Any] = {}  # held, so that its number stays its own

    def refusal(self, what: str) -> GraphError:
        told = f"{self._path} would use {what}, which trusted= does not name."
        remedy = "Name it (`module:name`), or look with `clew inspect` and load with trusted=True."
        return GraphError("bundle-trust", visible(told), remedy)

    # ---- functions

    def covers(self, name: str) -> bool:
        """Whether a function, class or method of a library is on the list, or named by the caller."""
        return allowed_names.is_allowed(name) or name in self.names or self._names_owner(name)

    def _names_owner(self, name: str) -> bool:
        owner, dot, member = name.rpartition(".")
        return bool(dot) and ":" in owner and owner in self.names and not member.startswith("_")

    def library(self, name: str, thing: Any) -> Any:
        """What a name has led to, if it is what it is called."""
        if not self.covers(name):
            raise self.refusal(name)
        if name not in self.names and not allowed_names.is_own(thing, name):
            raise self.refusal(f"{name}, which is something else's")
        return self.admit(thing)

    def admit(self, thing: Any) -> Any:
        self._admitted[id(thing)] = thing
        return thing

    def callable(self, function: Any) -> Any:
        """A function, if it may be called."""
        if id(function) in self._admitted or isinstance(function, (Operator, operator.itemgetter)):
            return function
        if type(function) is functools.partial:
            self.callable(function.func)
            return function
        if type(function) is _Cached:
            self.callable(function.__wrapped__)
            return function
        if _is_from_bundle(function):
            return function
        owner = getattr(function, "__self__", None)
        if isinstance(function, _FUNCTIONS) and owner is not None and not isinstance(owner, ModuleType):
            self._look_at(owner, function.__name__)
            return function
        if isinstance(function, (type, *_FUNCTIONS)):
            name = operations.name_of(function)
            if name is not None and self.covers(name):
                return function
        elif allowed_names.kind_of(type(function)) in self.names:
            return function
        raise self.refusal(f"a {type(function).__name__} as a function")

    # ---- what belongs to values

    def member(self, value: Any, name: Any) -> Any:
        self._look_at(value, name)
        return getattr(value, name)

    def _look_at(self, value: Any, name: Any) -> None:
        if type(value) is OperatorObject:
            value = value._target
        if name == "__call__":
            self.callable(value)
            return
        cls = value if isinstance(value, type) else type(value)
        kind = allowed_names.kind_of(cls)
        if type(name) is str and not name.startswith("_"):
            if _is_from_bundle(value) or kind in self.names or f"{kind}.{name}" in self.names:
                return
            if allowed_names.is_member(kind, name):
                return
        raise self.refusal(f"`{name}` of a {cls.__name__}")

    # ---- steps

    def checked(self, step: Step) -> Callable[..., Any] | None:
        """What a step does, looked at each time; None if nothing in it needs to be looked at."""
        target = step.target
        if step.kind == "method":
            return lambda value, *args, **kwargs: self.member(value, target)(*args, **kwargs)
        if step.kind == "attribute":
            return lambda value: self.member(value, target)
        if step.kind == "python" and target in _CHECKED:
            return self._python(target)
        return None

    def _python(self, target: str) -> Callable[..., Any]:
        do = operations.PYTHON[target]

        def getting(value: Any, name: Any, *default: Any) -> Any:
            self._look_at(value, name)
            return do(value, name, *default)

        def changing(value: Any, name: Any, *new: Any) -> Any:
            if not _is_from_bundle(value) or str(name).startswith("_"):
                raise self.refusal(f"`{name}` of a {type(value).__name__}, to be changed")
            return do(value, name, *new)

        def calling(function: Any, *args: Any, **kwargs: Any) -> Any:
            return self.callable(function)(*args, **kwargs)

        def closing(function: Any, values: Any) -> Any:
            if not isinstance(function, FunctionType) or not _is_from_bundle(function):
                raise self.refusal("a function with other variables")
            return do(function, values)

        def entering(manager: Any) -> Any:
            if (
                not _is_from_bundle(manager)
                and allowed_names.kind_of(type(manager)) not in allowed_names.MANAGERS | self.names
            ):
                raise self.refusal(f"a {type(manager).__name__} in `with`")
            return do(manager)

        ways: dict[str, Callable[..., Any]]
        ways = {"getattr": getting, "call": calling, "closed": closing, "enter": entering, "leave": entering}
        return ways.get(target, changing)


def _is_from_bundle(thing: Any) -> bool:
    """Whether a function, a class, or the class of an object is code of a bundle: that has been trusted as a whole."""
    home = thing if isinstance(thing, (type, FunctionType)) else type(thing)
    module: Any = home.__module__
    return isinstance(module, str) and module.startswith(PREFIX)
