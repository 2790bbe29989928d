"""What rewritten code asks for: each call, each f-string, each `is`. Without a recording it is what Python does."""

from __future__ import annotations

import builtins
import inspect
import logging
from types import FunctionType, MethodType, ModuleType
from typing import Any

from clew.probes.libraries import is_library

from . import lift, operations
from .operators import Operator, is_operator
from .session import Session, current
from .traced import holds_traced, is_traced, raw

_TEXTS = (str, bytes, int, float, complex)  # whose methods only compute
_NOTED = (logging.Logger, logging.LoggerAdapter)  # telling something is no step
_builtin_step = {getattr(builtins, name): name for name in (*operations.PURE, *operations.LISTED)}


class Hooks:
    """The names that rewritten code uses."""

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None:
            return function(*args, **kwargs)
        if is_traced(function):
            return function(*args, **kwargs)
        return _called(session, function, args, kwargs)

    def method(self, owner: Any, name: str, /, *args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None:
            return getattr(owner, name)(*args, **kwargs)
        if is_traced(owner):
            return session.step("method", name, (owner, *args), kwargs)
        function = getattr(owner, name)
        if isinstance(owner, (ModuleType, type)) or is_operator(function):
            return _called(session, function, args, kwargs)
        if isinstance(owner, _NOTED):
            return function(*raw(args), **raw(kwargs))
        if isinstance(owner, _TEXTS) and (holds_traced(args) or holds_traced(kwargs)):
            return session.step("method", name, (owner, *args), kwargs)
        if type(owner) in (list, dict, set, tuple, frozenset):
            return function(*args, **kwargs)  # a container of the pipeline's own may hold recorded values
        return _called(session, function, args, kwargs)

    def text(self, value: Any, conversion: str, spec: Any) -> Any:
        session = current()
        if session is None or not (holds_traced(value) or is_traced(spec)):
            return operations.PYTHON["text"](value, conversion, spec)
        return session.step("python", "text", (value, conversion, spec))

    def joined(self, *parts: Any) -> Any:
        session = current()
        if session is None or not any(map(is_traced, parts)):
            return "".join(parts)
        return session.step("python", "join", parts)

    def is_(self, a: Any, b: Any) -> Any:
        return _asked("is", a, b)

    def is_not(self, a: Any, b: Any) -> Any:
        return _asked("is not", a, b)

    def within(self, item: Any, container: Any) -> Any:
        return _asked("contains", container, item)

    def not_within(self, item: Any, container: Any) -> Any:
        return _asked("not in", container, item)

    def not_(self, value: Any) -> Any:
        session = current()
        return not value if session is None or not is_traced(value) else session.step("python", "not", (value,))

    def mod(self, a: Any, b: Any) -> Any:
        return _asked("mod", a, b)

    def item(self, owner: Any, key: Any) -> Any:
        session = current()
        if session is None or not (is_traced(owner) or holds_traced(key)):
            return owner[key]
        return session.step("item", "", (owner, key))

    def slice(self, start: Any, stop: Any, step: Any) -> Any:
        return slice(start, stop, step)

    def plain(self, value: Any) -> Any:
        session = current()
        return session.plain(value) if session is not None and is_traced(value) else value


def _asked(name: str, a: Any, b: Any) -> Any:
    session = current()
    if session is None or not (holds_traced(a) or holds_traced(b)):
        return operations.PYTHON[name](a, b)
    return session.step("python", name, (a, b))


def _called(session: Session, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if is_operator(function):
        return function(*args, **kwargs)
    told = holds_traced(args) or holds_traced(kwargs)
    if function is print or _tells(function):
        return function(*raw(args), **raw(kwargs))
    if function in (isinstance, issubclass, callable, type, getattr, hasattr) and told:
        return _looked_at(session, function, args, kwargs)
    if told and _hashable_in(function, _builtin_step):
        return session.step("function", f"builtins:{_builtin_step[function]}", args, kwargs)
    own = _user_function(function)
    if own is not None:
        through = lift.lifted(own, HOOKS)
        if through is not None:
            given = (function.__self__, *args) if isinstance(function, MethodType) else args
            return through(*given, **kwargs)
        return session.foreign(function, args, kwargs)
    if not told:
        return function(*args, **kwargs)
    if _is_module_of_torch(function):
        return Operator(function)(*args, **kwargs)
    if isinstance(function, type) and not is_library(_file_of(function)) and function.__module__ != "builtins":
        return session.step("function", f"{function.__module__}:{function.__qualname__}", args, kwargs)
    if _calculates(function):
        return session.library_call(function, args, kwargs)
    return session.foreign(function, args, kwargs)


def _looked_at(session: Session, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Questions about a value whose answer the code goes by at once."""
    if function in (isinstance, type, issubclass, callable):
        for value in args:
            if is_traced(value):
                session.decide("type", value)
        return function(*raw(args))
    if function is hasattr:
        session.decide("type", args[0])
        return hasattr(raw(args[0]), *raw(args[1:]))
    return getattr(args[0], session.plain(args[1]) if is_traced(args[1]) else args[1], *args[2:])


def _hashable_in(function: Any, table: dict[Any, Any]) -> bool:
    try:
        return function in table
    except TypeError:
        return False


def _user_function(function: Any) -> FunctionType | None:
    """The Python function of the user's own behind something that is called."""
    inner = getattr(function, "__func__", function)
    if isinstance(inner, FunctionType) and not is_library(inner.__code__.co_filename):
        return inner
    return None


def _tells(function: Any) -> bool:
    return isinstance(getattr(function, "__self__", None), _NOTED) or getattr(function, "__module__", "") in (
        "logging",
        "warnings",
    )


def _calculates(function: Any) -> bool:
    """Whether a library's function only computes: then it is a step like any other."""
    module = getattr(function, "__module__", None) or getattr(type(function), "__module__", "") or ""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, ModuleType):
        module = owner.__name__
    elif owner is not None and not isinstance(owner, type):
        module = type(owner).__module__
    root = module.lstrip("_").partition(".")[0]
    return root in operations.ARRAYS or module.lstrip("_") in operations.CALCULATING or root in operations.CALCULATING


def _is_module_of_torch(function: Any) -> bool:
    import sys

    torch = sys.modules.get("torch")
    return torch is not None and isinstance(function, torch.nn.Module)


def _file_of(cls: type) -> str:
    try:
        return inspect.getfile(cls)
    except (TypeError, OSError):
        return ""


HOOKS = Hooks()
