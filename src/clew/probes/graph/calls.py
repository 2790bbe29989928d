"""Who is called in a recorded pipeline: an operator, the user's own code, a library; and what follows from it."""

from __future__ import annotations

import builtins
import functools
import inspect
import logging
import sys
import threading
from concurrent.futures import Executor, Future
from contextvars import copy_context
from pathlib import PurePath
from types import FunctionType, GeneratorType, MethodDescriptorType, MethodType, ModuleType, WrapperDescriptorType
from typing import Any

from clew.errors import GraphError
from clew.probes.libraries import is_library

from . import lift, operations, outside, tensorflow
from .changes import can_change
from .operators import Operator, is_operator, made
from .parts import COLLECTIONS, PLAIN, handed, hides, holds_traced, is_filled
from .session import Session, place
from .state import keeps_something
from .templates import settled
from .traced import Traced, is_traced, raw

_NOTED = (logging.Logger, logging.LoggerAdapter)  # telling something is no step
_BUILTIN = {getattr(builtins, name): name for name in operations.PURE}
_NATIVE = {getattr(builtins, name) for name in (*operations.LAZY, "super", "setattr", "delattr", "vars", "object")}
_OF_STRUCTURE = {len, list, tuple, dict, isinstance, type, callable, hasattr, bool}  # the pipeline's own are known
_THREADS = (Executor, threading.Thread)
_CHANCE = ("random", "time", "uuid", "secrets")  # modules that give another answer each time
_KEEPING = ("csv", "difflib", "hashlib", "io", "zlib")  # what they make is filled, and asked afterwards
_LANGUAGE = ("abc", "clew", "contextlib", "enum", "importlib", "inspect", "sys", "threading", "types", "typing")
CONTEXTS = ("torch", "numpy", "decimal", "tensorflow")  # libraries whose contexts change what is computed inside
_ARRAYS = ("ndarray", "Tensor", "Generator", "RandomState", "DataFrame", "Series", "Index", "ResourceVariable")


def changeable(value: Any) -> bool:
    """Whether something is the pipeline's own and can be changed; recorded values see to it themselves."""
    return not is_traced(value) and can_change(value) and not callable(value)


def is_generator_of_chance(owner: Any) -> bool:
    return type(owner).__name__ in ("Generator", "RandomState") and type(owner).__module__.startswith(
        ("numpy", "torch", "tensorflow")
    )


def called(session: Session, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], hooks: Any) -> Any:
    """One call in the pipeline."""
    if is_operator(function):
        return _operator(session, function, args, kwargs)
    if function is print or _tells(function):
        return function(*handed(args), **handed(kwargs))
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
        is_inside = lift.is_rewritten(decorated)
        return function(*args, **kwargs) if is_inside else session.operator(Operator(function), args, kwargs)
    if _is_of_threads(function):
        return _threaded(session, function, args, kwargs, hooks)
    return _librarys(session, function, args, kwargs, hooks)


def through(pipeline: Any, session: Session, hooks: Any) -> Any:
    """A pipeline of any kind, as it is called while it is recorded: methods, objects, partials too."""
    own = _user_function(pipeline)
    if own is not None:
        outside.note(own, getattr(pipeline, "__self__", None))
        lift.lifted(own, hooks)  # refuses what cannot be seen through
    return functools.partial(_run, session, pipeline, hooks)


def _run(session: Session, pipeline: Any, hooks: Any, /, *args: Any, **kwargs: Any) -> Any:
    own = _user_function(pipeline)
    if own is not None and lift.seen_through(own, hooks) is None:
        return pipeline(*args, **kwargs)  # values alone see what it does
    return called(session, pipeline, args, kwargs, hooks)


def _operator(session: Session, function: Any, args: Any, kwargs: Any) -> Any:
    if isinstance(function, type) and (holds_traced(args) or holds_traced(kwargs) or keeps_something(function)):
        operator = Operator(function)  # another object each time
        given = session.operator(operator, args, kwargs)
        operator.made = made(raw(given))
        return given
    if tensorflow.is_model(function):  # of an operator class: Keras would take recorded values for tensors of its own
        return Operator(function)(*args, **kwargs)
    given = function(*args, **kwargs)
    return session.born(given) if isinstance(function, type) else given


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
    return session.operator(Operator(function), args, kwargs)  # nothing is known of its inside: one step


def _librarys(session: Session, function: Any, args: Any, kwargs: Any, hooks: Any) -> Any:
    args, kwargs = settled(args), settled(kwargs)
    told = holds_traced(args) or holds_traced(kwargs) or any(map(session.objects.value_of, args))
    if any(map(hides, (*args, *kwargs.values()))) and not told:
        told = any(callable(one) and hides(one) for one in (*args, *kwargs.values()))
    if not told:
        return _unasked(session, function, args, kwargs)
    if _is_of_structure(function, args) or (isinstance(function, type) and issubclass(function, BaseException)):
        return function(*args, **kwargs)
    if any(callable(one) and not is_traced(one) and hides(one) for one in (*args, *kwargs.values())):
        return _with_own_calls(function, args, kwargs, hooks)
    if function is getattr:
        return _attribute(session, *args)
    if isinstance(function, (MethodDescriptorType, WrapperDescriptorType)) and is_traced(args[0]):
        return session.step("method", function.__name__, args, kwargs)  # str.upper
    if _is_in(function, _BUILTIN):
        return session.step("function", f"builtins:{_BUILTIN[function]}", args, kwargs)
    if _is_module_of_torch(function) or _is_graph(function) or tensorflow.is_model(_owner(function)):
        return Operator(function)(*args, **kwargs)
    if _is_graph(getattr(function, "__self__", None)) and function.__name__ == "run" and len(args) == 1 and not kwargs:
        return Operator(function.__self__)(**(session.mapping(args[0]) if is_traced(args[0]) else args[0]))
    if isinstance(function, type) and not is_library(_file_of(function)) and function.__module__ != "builtins":
        return _made(session, function, args, kwargs)
    if _calculates(function):
        return _calculated(session, function, args, kwargs)
    return session.foreign(function, args, kwargs)


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


def _unasked(session: Session, function: Any, args: Any, kwargs: Any) -> Any:
    """A library's function that is given nothing recorded: what it gives is a constant, with exceptions."""
    name = operations.name_of(function)
    root = _module_of(function).lstrip("_").partition(".")[0]
    if root in operations.ARRAYS and name is not None and operations.by_chance(name):
        return session.step("function", name, args, kwargs)
    if session.library == "operator" and name is not None and _is_foreign(function, root):
        return session.foreign(function, args, kwargs)
    before = session.ids
    result = function(*args, **kwargs)
    if session.ids != before or is_traced(result):
        return result  # it goes by recorded values after all
    if _is_made_anew(root, function, result):
        return _noted(session, function, name, args, kwargs, result)
    if result is not None and (root in _CHANCE or getattr(function, "__name__", "") in ("now", "utcnow", "today")):
        session.warn(f"what {getattr(function, '__qualname__', root)}() gave is a constant of the graph from now on")
    return result


def _is_foreign(function: Any, root: str) -> bool:
    """Whether a library's function is called again if that was asked for, though nothing recorded goes in."""
    if root == "builtins" or root in _LANGUAGE or (isinstance(function, type) and root in sys.stdlib_module_names):
        return False
    if isinstance(function, type) and issubclass(function, BaseException):
        return False
    return root not in operations.ARRAYS and not _calculates(function)


def _is_made_anew(root: str, function: Any, result: Any) -> bool:
    """Arrays, buffers, digests, which the pipeline may fill with recorded values; contexts, which are entered once."""
    if root in CONTEXTS and hasattr(type(result), "__enter__") and type(result).__name__ not in _ARRAYS:
        return not _is_module_of_torch(result)
    if root in _KEEPING:
        return can_change(result) and type(result) not in PLAIN and not callable(result)
    return root in operations.ARRAYS and type(result).__name__ in _ARRAYS and not _is_module_of_torch(function)


def _noted(session: Session, function: Any, name: str | None, args: Any, kwargs: Any, result: Any) -> Any:
    named = {key: session.template(value) for key, value in kwargs.items()}
    if name is not None:
        return session.noted("function", name, tuple(map(session.template, args)), result, named)
    owner = getattr(function, "__self__", None)
    if owner is None or isinstance(owner, (type, ModuleType)):
        return result
    return session.noted("method", function.__name__, tuple(map(session.template, (owner, *args))), result, named)


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


def _calculates(function: Any) -> bool:
    """Whether a library's function only computes: then it is a step like any other."""
    module = _module_of(function).lstrip("_")
    root = module.partition(".")[0]
    if module in ("posixpath", "ntpath") and function.__name__ in operations.PATHS:
        return True
    if isinstance(function, type) and issubclass(function, PurePath):  # a path is made, nothing is read
        return True
    if module == "builtins" and isinstance(getattr(function, "__self__", None), type):  # dict.fromkeys
        return True
    return root in operations.ARRAYS or module in operations.CALCULATING or root in operations.CALCULATING


def _module_of(function: Any) -> str:
    owner = getattr(function, "__self__", None)
    if isinstance(owner, ModuleType):
        return owner.__name__
    if owner is not None:
        return owner.__module__ if isinstance(owner, type) else type(owner).__module__
    return getattr(function, "__module__", None) or getattr(type(function), "__module__", "") or ""


def _is_module_of_torch(function: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(function, torch.nn.Module)


def _owner(function: Any) -> Any:
    """The model whose `predict` is called; of anything else, itself."""
    owner = getattr(function, "__self__", None)
    return owner if isinstance(function, MethodType) and tensorflow.is_layer(owner) else function


def _is_graph(function: Any) -> bool:
    from .graph import Graph

    return isinstance(function, Graph)


def _file_of(cls: type) -> str:
    try:
        return inspect.getfile(cls)
    except (TypeError, OSError):
        return ""
