"""Libraries' functions that a pipeline calls: which of them only compute, and what becomes of those without inputs."""

from __future__ import annotations

import sys
from concurrent.futures import Executor
from pathlib import PurePath
from types import FunctionType, MethodType, ModuleType
from typing import Any

from clew.graph import operations
from clew.graph.nodes import Step
from clew.graph.parts import COLLECTIONS, ITERATORS, PLAIN

from .computed_constants import Answer, note
from .in_place_changes import can_change
from .outside_changes import is_users
from .session import Session, place
from .traced_values import is_traced

CONTEXTS = ("torch", "numpy", "decimal", "tensorflow")  # libraries whose contexts change what is computed inside
_KEEPING = ("csv", "difflib", "hashlib", "io", "queue", "zlib")  # what they make is filled, and asked afterwards
_LANGUAGE = ("abc", "clew", "contextlib", "enum", "importlib", "inspect", "sys", "threading", "types", "typing")
_ARRAYS = ("ndarray", "Tensor", "Generator", "RandomState", "DataFrame", "Series", "Index", "ResourceVariable")
# What these make concerns how the program runs, not what it computes.
_SURROUNDINGS = frozenset(
    {
        *_LANGUAGE, "argparse", "asyncio", "builtins", "concurrent", "contextvars", "logging", "multiprocessing",
        "pytest", "signal", "subprocess", "thread", "tqdm", "unittest", "warnings", "weakref",
    }
)  # fmt: skip
_NOT_OBJECTS = (*PLAIN, *COLLECTIONS, *ITERATORS, FunctionType, MethodType, ModuleType, type, Executor)


def unasked(session: Session, function: Any, args: Any, kwargs: Any) -> Any:
    """A library's function that is given nothing recorded: what it gives is a constant, with exceptions."""
    name = operations.name_of(function)
    root = _root_of(function)
    if root == "builtins" and name is not None:  # a function in C that does not know its module
        root = name.partition(":")[0].partition(".")[0].lstrip("_")
    if root in operations.ARRAYS and name is not None and operations.by_chance(name):
        return session.step("function", name, args, kwargs)
    if session.library == "operator" and name is not None and _is_foreign(function, root):
        return session.foreign(function, args, kwargs)
    if session.library != "constant" and name is not None and (root == "random" or operations.by_clock(name)):
        return session.step("function", name, args, kwargs, effect=root == "random")
    before = session.ids
    result = function(*args, **kwargs)
    if session.ids != before or is_traced(result):
        return result  # it goes by recorded values after all
    if _is_made_anew(root, function, result):
        return _noted(session, function, name, args, kwargs, result)
    if session.library != "constant" and _is_object_of_library(root, result):
        return _noted(session, function, name, args, kwargs, result, is_answer=True)
    is_chance = root == "random" or (name is not None and operations.by_clock(name))
    if result is not None and is_chance:
        session.warn(f"what {getattr(function, '__qualname__', root)}() gave is a constant of the graph from now on")
    if result is not None and (is_chance or _is_foreign(function, root)):
        step = Step(-1, "function", name or _title(function), (), {}, place())
        session.notes.append(note("constant by chance" if is_chance else "constant", step, result))
    return result


def _title(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def _is_foreign(function: Any, root: str) -> bool:
    """Whether a library's function is called again if that was asked for, though nothing recorded goes in."""
    if root == "builtins" or root in _LANGUAGE or (isinstance(function, type) and root in sys.stdlib_module_names):
        return False
    if isinstance(function, type) and issubclass(function, BaseException):
        return False
    return root not in operations.ARRAYS and not calculates(function)


def _is_made_anew(root: str, function: Any, result: Any) -> bool:
    """Arrays, buffers, digests, which the pipeline may fill with recorded values; contexts, which are entered once."""
    if root in CONTEXTS and hasattr(type(result), "__enter__") and type(result).__name__ not in _ARRAYS:
        return not is_module_of_torch(result)
    if root in _KEEPING:
        return can_change(result) and type(result) not in PLAIN and not callable(result)
    return root in operations.ARRAYS and type(result).__name__ in _ARRAYS and not is_module_of_torch(function)


def _is_object_of_library(root: str, result: Any) -> bool:
    """Whether a library has made an object that steps may change: an estimator, an element of a tree, a context."""
    if root in _SURROUNDINGS or isinstance(result, (*_NOT_OBJECTS, BaseException)) or not can_change(result):
        return False
    if root in operations.CALCULATING:
        return False
    if root in operations.ARRAYS or is_module_of_torch(result):
        return hasattr(type(result), "__enter__") and not is_module_of_torch(result)
    return not is_users(type(result))


def _noted(
    session: Session, function: Any, name: str | None, args: Any, kwargs: Any, result: Any, is_answer: bool = False
) -> Any:
    """A call that is done again each time the graph runs; unless it turns out that its answer can be kept."""
    kind, target, owner = "function", name, getattr(function, "__self__", None)
    if name is None and owner is not None and not isinstance(owner, ModuleType):
        kind, target, args = "method", function.__name__, (owner, *args)
    elif name is None and not isinstance(function, (type, FunctionType)):
        kind, target, args = "python", "call", (function, *args)
    if target is None:
        return result
    named = {key: session.template(value) for key, value in kwargs.items()}
    step = Step(-1, kind, target, tuple(map(session.template, args)), named, place())
    step.answer = Answer(result) if is_answer and not step.refs else None
    return session.ended(step, result)


def _root_of(function: Any) -> str:
    return module_of(function).lstrip("_").partition(".")[0]


def calculates(function: Any) -> bool:
    """Whether a library's function only computes: then it is a step like any other."""
    module = module_of(function).lstrip("_")
    root = module.partition(".")[0]
    if module in ("posixpath", "ntpath") and function.__name__ in operations.PATHS:
        return True
    if isinstance(function, type) and issubclass(function, PurePath):  # a path is made, nothing is read
        return True
    if module == "builtins" and isinstance(getattr(function, "__self__", None), type):  # dict.fromkeys
        return True
    return root in operations.ARRAYS or module in operations.CALCULATING or root in operations.CALCULATING


def module_of(function: Any) -> str:
    owner = getattr(function, "__self__", None)
    if isinstance(owner, ModuleType):
        return owner.__name__
    if owner is not None:
        return owner.__module__ if isinstance(owner, type) else type(owner).__module__
    return getattr(function, "__module__", None) or getattr(type(function), "__module__", "") or ""


def is_module_of_torch(function: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(function, torch.nn.Module)
