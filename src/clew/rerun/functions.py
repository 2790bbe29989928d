"""Finds the function of a recorded call, and imports its module only if its file is the recorded one.

The file is found without running anything, and compared with the recorded one before the module is imported.
The function in it is used only if its code is the recorded code.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Iterator
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from clew.errors import RerunError
from clew.recorder.fingerprints import code_hash, file_hash, original_code, python_tag
from clew.records import NotKept

from .modules import code_changed, is_same_file, module_of, unverified

if TYPE_CHECKING:
    from clew.reading.call import Call


def find_function(call: Call, changed: bool) -> tuple[FunctionType, dict[str, Any]]:
    """The function, and the arguments that its owner gives it (the class, for a classmethod)."""
    module = module_of(call, changed)
    owner: Any = module
    member: Any = module
    for name in call.function.split("."):
        owner = member
        try:
            member = inspect.getattr_static(owner, _attribute_name(owner, name))
        except AttributeError:
            raise _no_function(call, f"{_module_file(module)} has no {call.function} any more") from None
    function = _unwrap_function(member, call.line)
    if not isinstance(function, FunctionType):
        problem = f"{call.function} in {_module_file(module)} is a {type(member).__name__} now, not a function"
        raise _no_function(call, problem)
    _require_recorded_code(call, module, function, changed)
    return function, _class_argument(call, member, owner, function)


def _attribute_name(owner: Any, name: str) -> str:
    """The name of an attribute; Python mangles private names of a class."""
    is_private = isinstance(owner, type) and name.startswith("__") and not name.endswith("__")
    return f"_{owner.__name__.lstrip('_')}{name}" if is_private else name


def _module_file(module: ModuleType) -> str:
    return f"{getattr(module, '__file__', None) or module.__name__}"


def _no_function(call: Call, problem: str) -> RerunError:
    return RerunError(
        "rerun-no-function",
        f"{problem}.",
        f"It was defined at {call.file}:{call.line} when it was recorded; bring that code back, or rerun a newer run.",
    )


def _unwrap_function(member: Any, line: int) -> Any:
    """The function itself, without the wrappers of decorators; of a property, the accessor that begins at `line`."""
    if isinstance(member, property):
        accessors = [inspect.unwrap(part) for part in (member.fget, member.fset, member.fdel) if part is not None]
        return next((part for part in accessors if _first_line(part) == line), accessors[0] if accessors else None)
    if isinstance(member, functools.cached_property):
        return member.func
    if isinstance(member, staticmethod | classmethod | MethodType):
        member = member.__func__
    return inspect.unwrap(member) if callable(member) else member


def _first_line(function: Any) -> int | None:
    code = getattr(function, "__code__", None)
    return None if code is None else code.co_firstlineno


def _require_recorded_code(call: Call, module: ModuleType, function: FunctionType, changed: bool) -> None:
    """Refuse a function that is not the recorded one, or (unless `changed`) that may have other code."""
    code = original_code(function) or function.__code__
    module_file = getattr(module, "__file__", None)
    has_file = os.path.isfile(code.co_filename)  # a notebook's cell has none, nor have some modules of Python itself
    if not (is_same_file(module_file, code.co_filename) if has_file else function.__globals__ is vars(module)):
        raise RerunError(
            "rerun-other-file",
            f"{call.function} in {_module_file(module)} comes from {code.co_filename}, "
            f"but was recorded from {call.file}.",
            "Call the function yourself with `call.args` if it is the one you want.",
        )
    if changed:
        return
    recorded = call._function
    if recorded.code_hash is not None and recorded.code_hash.partition(":")[0] == python_tag():
        if code_hash(code) != recorded.code_hash:
            raise code_changed(call, f"The function at {code.co_filename}:{code.co_firstlineno}")
        return
    # Another Python compiles the same source to other code: then the file decides.
    recorded_hash = recorded.file_hash
    same_content = module_file is not None and recorded_hash is not None and file_hash(module_file) == recorded_hash
    if not same_content or code.co_firstlineno != call.line:
        raise unverified(call)


def _class_argument(call: Call, member: Any, owner: Any, function: FunctionType) -> dict[str, Any]:
    """The class argument of a classmethod: the class it was found in, or the subclass that was recorded."""
    if not isinstance(member, classmethod) or not isinstance(owner, type):
        return {}
    name = next(iter(inspect.signature(function).parameters), "cls")
    recorded = call.args.get(name)
    class_name = recorded.part if isinstance(recorded, NotKept) else None
    if not isinstance(class_name, str):
        return {name: owner}
    for cls in _class_and_subclasses(owner):
        spellings = (f"{cls.__module__}.{cls.__qualname__}", f"{call.module}.{cls.__qualname__}", cls.__qualname__)
        if class_name in spellings:
            return {name: cls}
    return {}


def _class_and_subclasses(cls: type) -> Iterator[type]:
    yield cls
    subclasses: list[type] = type.__subclasses__(cls)
    for subclass in subclasses:
        yield from _class_and_subclasses(subclass)
