"""Who is called in a recorded pipeline: an operator, the user's own code, a library; and what follows from it."""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import logging
import random
import re
import sys
import threading
from concurrent.futures import Executor, Future
from contextvars import copy_context
from types import FunctionType, GeneratorType, MethodDescriptorType, MethodType, ModuleType, WrapperDescriptorType
from typing import Any

from clew.errors import GraphError
from clew.graph import operations, tensorflow
from clew.graph.nodes import Note
from clew.graph.operators import Operator, is_operator, made
from clew.graph.parts import COLLECTIONS, PLAIN, handed, hides, holds_traced, is_filled
from clew.graph.templates import settled
from clew.instrument.library_code import is_library

from . import caller_frames, lift, outside_changes
from .closures import calls_at_once, can_be_closed
from .in_place_changes import can_change
from .library_calls import calculates, is_module_of_torch, unasked
from .operator_state import keeps_something
from .session import Session, place
from .traced_values import Traced, is_traced, raw

_NOTED = (logging.Logger, logging.LoggerAdapter)  # telling something is no step
_BUILTIN = {getattr(builtins, name): name for name in operations.PURE}
_NATIVE = {getattr(builtins, name) for name in (*operations.LAZY, "super", "setattr", "delattr", "vars", "object")}
_OF_STRUCTURE = {len, list, tuple, dict, isinstance, type, callable, hasattr, bool}  # the pipeline's own are known
_THREADS = (Executor, threading.Thread)


def changeable(value: Any) -> bool:
    """Whether something is the pipeline's own and can be changed; recorded values see to it themselves."""
    return not is_traced(value) and can_change(value) and not callable(value)


def is_generator_of_chance(owner: Any) -> bool:
    is_named = type(owner).__name__ in ("Generator", "RandomState")
    is_known = is_named and type(owner).__module__.startswith(("numpy", "torch", "tensorflow"))
    return is_known or isinstance(owner, random.Random)


def called(session: Session, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], hooks: Any) -> Any:
    """One call in the pipeline."""
    if is_operator(function):
        return _operator(session, function, args, kwargs)
    if function is print or _tells(function):
        return _printed(session, function, args, kwargs)
    if function is contextlib.redirect_stdout or function is contextlib.redirect_stderr:
        what = f"{place()}: {function.__name__}() catches what is printed, and printing is no step of a graph."
        raise GraphError("graph-hidden", what, "Print to the file itself: print(..., file=file).")
    if isinstance(function, functools.partial):
        return called(session, function.func, (*function.args, *args), {**function.keywords, **kwargs}, hooks)
    if function is next and args and is_traced(args[0]):
        return session.step("function", "builtins:next", args)
    if _is_in(function, _NATIVE):
        return function(*(own_calls(args, hooks) if function in (map, filter) else args), **kwargs)
    if isinstance(getattr(function, "__self__", None), GeneratorType):  # of the pipeline's own, and seen through
        return function(*args, **kwargs)
    own = _user_function(function)
    if own is not None:
        return _users(session, function, own, args, kwargs, hooks)
    decorated = _user_function(getattr(function, "__wrapped__", None)) if isinstance(function, FunctionType) else None
    if decorated is not None:  # by a library: one step, unless it is made by the pipeline, and goes by its names
        if lift.is_rewritten(decorated):
            return function(*args, **kwargs)
        session.notes.append(Note("one step", function.__qualname__, place()))
        return session.operator(Operator(function), args, kwargs)
    if _is_of_threads(function):
        return _threaded(session, function, args, kwargs, hooks)
    return _librarys(session, function, args, kwargs, hooks)


def through(pipeline: Any, session: Session, hooks: Any) -> Any:
    """A pipeline of any kind, as it is called while it is recorded: methods, objects, partials too."""
    own = _user_function(pipeline)
    if own is not None:
        outside_changes.note(own, getattr(pipeline, "__self__", None))
        lift.lifted(own, hooks)  # refuses what cannot be seen through
    return functools.partial(_run, session, pipeline, hooks)


def _run(session: Session, pipeline: Any, hooks: Any, /, *args: Any, **kwargs: Any) -> Any:
    own = _user_function(pipeline)
    if own is not None and lift.seen_through(own, hooks) is None:
        return pipeline(*args, **kwargs)  # values alone see what it does
    return called(session, pipeline, args, kwargs, hooks)


def _printed(session: Session, function: Any, args: Any, kwargs: Any) -> Any:
    """What is printed for people is no step; what is printed into a file of the pipeline's is."""
    file = kwargs.get("file")
    if function is not print or any(file is one for one in (None, sys.stdout, sys.stderr)):
        return function(*handed(args), **handed(kwargs))
    return session.step("function", "builtins:print", args, kwargs, changes=file if is_traced(file) else None)


def _operator(session: Session, function: Any, args: Any, kwargs: Any) -> Any:
    if isinstance(function, type) and (holds_traced(args) or holds_traced(kwargs) or keeps_something(function)):
        operator = Operator(function)  # another object each time
        given = session.operator(operator, args, kwargs)
        operator.made = made(raw(given))
        return given
    if tensorflow.is_model(function) or _inherits_its_call(function):
        return Operator(function)(*args, **kwargs)  # the library would take recorded values for values of its own
    given = function(*args, **kwargs)
    return session.born(given) if isinstance(function, type) else given


def _inherits_its_call(thing: Any) -> bool:
    """Whether it is an object of an operator class that is called by a method of a library's class. What torch modules
    are called by calls their `forward`, which is a step."""
    kind = type(thing)
    is_object = any("__clew_op__" in vars(base) for base in type.mro(kind))
    return is_object and not is_operator(kind.__call__) and not is_module_of_torch(thing)


def _users(session: Session, function: Any, own: FunctionType, args: Any, kwargs: Any, hooks: Any) -> Any:
    if lift.is_rewritten(own):
        return function(*args, **kwargs)
    through = lift.seen_through(own, hooks)
    if through is not None:
        bound = function if isinstance(function, MethodType) else None
        if bound is None and own is not function and not isinstance(function, functools._lru_cache_wrapper):
            return through(function, *args, **kwargs)  # an object that can be called
        return through(*args, **kwargs) if bound is None else through(bound.__self__, *args, **kwargs)
    if not (holds_traced(args) or holds_traced(kwargs)):
        return function(*args, **kwargs)
    session.notes.append(Note("one step without source", own.__qualname__, place()))
    return session.operator(Operator(function), args, kwargs)


def _librarys(session: Session, function: Any, args: Any, kwargs: Any, hooks: Any) -> Any:
    args, kwargs = _settled_arguments(function, args, kwargs)
    told = holds_traced(args) or holds_traced(kwargs) or any(map(session.objects.value_of, args))
    if any(map(hides, (*args, *kwargs.values()))) and not told:
        told = any(callable(one) and hides(one) for one in (*args, *kwargs.values()))
    if not told:
        return unasked(session, function, args, kwargs)
    if _is_of_structure(function, args) or _makes_exception(function):
        return function(*args, **kwargs)
    seeing = [one for one in (*args, *kwargs.values()) if callable(one) and not is_traced(one) and hides(one)]
    if seeing and not (_calls_at_once(function) and all(can_be_closed(one, at_once=True) for one in seeing)):
        return _with_own_calls(function, args, kwargs, hooks)
    if function is getattr:
        return _attribute(session, *args)
    if isinstance(function, (MethodDescriptorType, WrapperDescriptorType)) and is_traced(args[0]):
        return session.step("method", function.__name__, args, kwargs)  # str.upper
    if _is_in(function, _BUILTIN):
        return session.step("function", f"builtins:{_BUILTIN[function]}", args, kwargs)
    if is_module_of_torch(function) or _is_graph(function) or tensorflow.is_model(_owner(function)):
        return Operator(function)(*args, **kwargs)
    if _is_graph(getattr(function, "__self__", None)) and function.__name__ == "run" and len(args) == 1 and not kwargs:
        return Operator(function.__self__)(**(session.mapping(args[0]) if is_traced(args[0]) else args[0]))
    if isinstance(function, type) and not is_library(_file_of(function)) and function.__module__ != "builtins":
        return _made(session, function, args, kwargs)
    if calculates(function):
        return _calculated(session, function, args, kwargs)
    return session.foreign(function, args, kwargs)


def _settled_arguments(function: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments of a library's function as a step is given them."""
    caller_frames.refuse_frames(function, args)
    if function is str and len(args) == 1:
        args = (text_of(args[0]),)
    return settled(args), settled(caller_frames.with_names(function, args, kwargs))


def _makes_exception(function: Any) -> bool:
    """`ValueError(text)`; or `super().__init__(text)` in an exception of the user's."""
    if isinstance(function, type):
        return issubclass(function, BaseException)
    return isinstance(getattr(function, "__self__", None), BaseException) and function.__name__ == "__init__"


def text_of(value: Any) -> Any:
    """What the text of a value is that of: an exception of the pipeline's own holds recorded values."""
    if is_traced(value) or not isinstance(value, BaseException) or type(value).__str__ is not BaseException.__str__:
        return value
    return value.args[0] if len(value.args) == 1 else value.args or ""


def _calls_at_once(function: Any) -> bool:
    """Whether it is a library's function that is a step, and has no more use for its arguments afterwards."""
    if isinstance(function, type) or _is_in(function, _BUILTIN):
        return False
    owner = getattr(function, "__self__", None)
    return isinstance(owner, re.Pattern) or calls_at_once(operations.name_of(function))


def _with_own_calls(function: Any, args: Any, kwargs: Any, hooks: Any) -> Any:
    """A library's function that calls one of the pipeline's own, which goes by recorded values."""
    try:
        return function(*own_calls(args, hooks), **own_calls(kwargs, hooks))
    except TypeError as error:
        if Traced.__name__ not in str(error):
            raise
        name = getattr(function, "__qualname__", type(function).__name__)
        what = f"{place()}: {name}() calls a function that goes by recorded values, and wants plain ones of it."
        raise GraphError("graph-hidden", what, "Make a clew.op that calls it, and give that the values.") from error


def _calculated(session: Session, function: Any, args: Any, kwargs: Any) -> Any:
    """A function of a library that only computes; or of an object of such a library: a compiled pattern's."""
    owner = getattr(function, "__self__", None)
    if operations.name_of(function) is None:
        if owner is not None and not isinstance(owner, (type, ModuleType)):
            return session.step("method", function.__name__, (owner, *args), kwargs)
        if not isinstance(function, (type, FunctionType)):
            return session.step("python", "call", (function, *args), kwargs)  # operator.itemgetter(0)
    return session.library_call(function, args, kwargs)


def _is_of_structure(function: Any, args: Any) -> bool:
    """A question about a container of the pipeline's own, which is the same whatever values it holds."""
    if not args or not _is_in(function, _OF_STRUCTURE) or any(map(is_traced, args)):
        return False
    return type(args[0]) in PLAIN or type(args[0]) in COLLECTIONS


def _attribute(session: Session, owner: Any, name: Any, *default: Any) -> Any:
    if default and is_traced(owner):
        return session.step("function", "builtins:getattr", (owner, name, *default))
    return getattr(owner, session.plain(name) if is_traced(name) else name, *default)


def _made(session: Session, cls: type, args: Any, kwargs: Any) -> Any:
    if _goes_by_values(cls):
        return cls(*args, **kwargs)  # made in the pipeline, and seen through like all of it
    name = operations.name_of(cls)
    if name is None:  # a class inside a function
        return session.operator(Operator(cls), args, kwargs)
    return session.step("function", name, args, kwargs)


def _is_of_the_pipeline(part: Any) -> bool:
    """A method inside the pipeline that sees names of it, which may be recorded values by the time it is called."""
    if not isinstance(part, FunctionType) or not lift.is_rewritten(part):
        return False
    seen = zip(part.__code__.co_freevars, part.__closure__ or (), strict=True)
    return any(name != "__class__" and not _holds_class(cell) for name, cell in seen)


def _holds_class(cell: Any) -> bool:
    return is_filled(cell) and isinstance(cell.cell_contents, type)


def _goes_by_values(cls: type) -> bool:
    """Whether a class inside the pipeline, or a method of it, holds recorded values, or may."""
    own = [base for base in type.mro(cls) if not is_library(_file_of(base)) and base.__module__ != "builtins"]
    parts = (getattr(part, "__func__", getattr(part, "fget", part)) for base in own for part in vars(base).values())
    if not any(hides(part) or _is_of_the_pipeline(part) for part in parts):
        return False
    if isinstance(cls.__init__, FunctionType) and not lift.is_rewritten(cls.__init__):  # type: ignore[misc]
        what = f"the class {cls.__name__} goes by recorded values, and its constructor is not its own."
        raise GraphError("graph-hidden", what, "Write its __init__ into it, or give the values to its methods.")
    return True


def _is_of_threads(function: Any) -> bool:
    owner = function.__self__ if isinstance(function, MethodType) else None
    return function is threading.Thread or function is threading.Timer or isinstance(owner, _THREADS)


def _threaded(session: Session, function: Any, args: Any, kwargs: Any, hooks: Any) -> Any:
    """A pool or a thread of the pipeline's own."""
    if isinstance(function, MethodType):
        if isinstance(function.__self__, Executor):
            return _executed(session, function.__name__, args, kwargs, hooks)
        if function.__name__ == "start":
            _start_seen(function.__self__, hooks)
    return _thread(args, kwargs, hooks) if function is threading.Thread else function(*args, **kwargs)


def _executed(session: Session, name: str, args: Any, kwargs: Any, hooks: Any) -> Any:
    """A pool of the pipeline's own: while it is recorded, one after the other."""
    function, *given = args
    if name == "map":
        return iter([called(session, function, row, {}, hooks) for row in zip(*given, strict=False)])
    future: Future[Any] = Future()
    try:
        future.set_result(called(session, function, tuple(given), kwargs, hooks))
    except Exception as error:
        future.set_exception(error)
    return future


def _thread(args: Any, kwargs: Any, hooks: Any) -> threading.Thread:
    """A thread of the pipeline's own: what it runs is seen through, and belongs to the same recording."""
    given = inspect.signature(threading.Thread).bind(*args, **kwargs)
    if given.arguments.get("target") is not None:
        given.arguments["target"] = functools.partial(copy_context().run, hooks.call, given.arguments["target"])
    return threading.Thread(*given.args, **given.kwargs)


def _start_seen(thread: Any, hooks: Any) -> None:
    """Of an object of a class below Thread its own `run`, or the function of a Timer, likewise."""
    name = "run" if _user_function(thread.run) is not None else "function"
    if callable(getattr(thread, name, None)):
        setattr(thread, name, functools.partial(copy_context().run, hooks.call, getattr(thread, name)))


def own_calls(given: Any, hooks: Any) -> Any:
    """The functions among arguments, seen through when they are called."""
    if isinstance(given, dict):
        return {name: _seen(value, hooks) for name, value in given.items()}
    return tuple(_seen(value, hooks) for value in given)


def _seen(value: Any, hooks: Any) -> Any:
    if not callable(value) or is_traced(value) or is_operator(value):
        return value
    own = _user_function(value)
    return value if own is not None and lift.is_rewritten(own) else functools.partial(hooks.call, value)


def _is_in(function: Any, table: Any) -> bool:
    try:
        return function in table
    except TypeError:
        return False


def _user_function(function: Any) -> FunctionType | None:
    """The Python function of the user's own behind something that is called."""
    inner = function
    if isinstance(function, functools._lru_cache_wrapper):
        inner = function.__wrapped__
    elif isinstance(function, MethodType):
        inner = function.__func__
    elif not isinstance(function, (FunctionType, type)):
        inner = getattr(type(function), "__call__", None)  # noqa: B004
    if isinstance(inner, FunctionType) and not _is_library(inner.__code__.co_filename):
        return inner
    return None


def _is_library(file: str) -> bool:
    return file.startswith("<frozen ") or is_library(file)  # os.path is frozen


def _tells(function: Any) -> bool:
    bound = isinstance(getattr(function, "__self__", None), _NOTED)
    return bound or getattr(function, "__module__", "") in ("logging", "warnings")


def _owner(function: Any) -> Any:
    """The model whose `predict` is called; of anything else, itself."""
    owner = getattr(function, "__self__", None)
    return owner if isinstance(function, MethodType) and tensorflow.is_layer(owner) else function


def _is_graph(function: Any) -> bool:
    from clew.graph.graph import Graph

    return isinstance(function, Graph)


def _file_of(cls: type) -> str:
    try:
        return inspect.getfile(cls)
    except (TypeError, OSError):
        return ""
