"""From the names in a run to the function itself, imported only if its file is the recorded one.

A module is imported only after its file was found, without running anything, and compared with what was recorded.
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
    from clew.history.call import Call


def find_function(call: Call, changed: bool) -> tuple[FunctionType, dict[str, Any]]:
    """The function, and the arguments that come with where it was found (the class of a classmethod)."""
    module = module_of(call, changed)
    owner: Any = module
    member: Any = module
    for name in call.function.split("."):
        owner = member
        try:
            member = inspect.getattr_static(owner, _attribute(owner, name))
        except AttributeError:
            raise _gone(call, f"{_place(module)} has no {call.function} any more") from None
    function = _function_of(member, call.line)
    if not isinstance(function, FunctionType):
        raise _gone(call, f"{call.function} in {_place(module)} is a {type(member).__name__} now, not a function")
    _require_recorded_code(call, module, function, changed)
    return function, _class_argument(call, member, owner, function)


def _attribute(owner: Any, name: str) -> str:
    """Private names of a class are kept under another name."""
    private = isinstance(owner, type) and name.startswith("__") and not name.endswith("__")
    return f"_{owner.__name__.lstrip('_')}{name}" if private else name


def _place(module: ModuleType) -> str:
    return f"{getattr(module, '__file__', None) or module.__name__}"


def _gone(call: Call, what: str) -> RerunError:
    return RerunError(
        "rerun-no-function",
        f"{what}.",
        f"It was defined at {call.file}:{call.line} when it was recorded; bring that code back, or rerun a newer run.",
    )


def _function_of(member: Any, line: int) -> Any:
    """What ran: the function itself, without the wrappers that decorators have put around it."""
    if isinstance(member, property):
        parts = [inspect.unwrap(part) for part in (member.fget, member.fset, member.fdel) if part is not None]
        return next((part for part in parts if _first_line(part) == line), parts[0] if parts else None)
    if isinstance(member, functools.cached_property):
        return member.func
    if isinstance(member, staticmethod | classmethod | MethodType):
        member = member.__func__
    return inspect.unwrap(member) if callable(member) else member


def _first_line(function: Any) -> int | None:
    code = getattr(function, "__code__", None)
    return None if code is None else code.co_firstlineno


def _require_recorded_code(call: Call, module: ModuleType, function: FunctionType, changed: bool) -> None:
    code = original_code(function) or function.__code__
    home = getattr(module, "__file__", None)
    in_a_file = os.path.isfile(code.co_filename)  # a notebook's cell is not, nor are some modules of Python itself
    if not (is_same_file(home, code.co_filename) if in_a_file else function.__globals__ is vars(module)):
        raise RerunError(
            "rerun-other-file",
            f"{call.function} in {_place(module)} comes from {code.co_filename}, and was recorded from {call.file}.",
            "Call the function yourself with `call.args` if it is the one you want.",
        )
    if changed:
        return
    recorded = call._function
    if recorded.code_hash is not None and recorded.code_hash.partition(":")[0] == python_tag():
        if code_hash(code) != recorded.code_hash:
            raise code_changed(call, f"The function at {code.co_filename}:{code.co_firstlineno}")
        return
    # Another Python compiles the same source to other code: the file decides.
    same_file = home is not None and recorded.file_hash is not None and file_hash(home) == recorded.file_hash
    if not same_file or code.co_firstlineno != call.line:
        raise unverified(call)


def _class_argument(call: Call, member: Any, owner: Any, function: FunctionType) -> dict[str, Any]:
    """For a classmethod its class: the one it was found in, or the one below it that was recorded."""
    if not isinstance(member, classmethod) or not isinstance(owner, type):
        return {}
    name = next(iter(inspect.signature(function).parameters), "cls")
    recorded = call.args.get(name)
    class_name = recorded.part if isinstance(recorded, NotKept) else None
    if not isinstance(class_name, str):
        return {name: owner}
    for cls in _with_subclasses(owner):
        spellings = (f"{cls.__module__}.{cls.__qualname__}", f"{call.module}.{cls.__qualname__}", cls.__qualname__)
        if class_name in spellings:
            return {name: cls}
    return {}


def _with_subclasses(cls: type) -> Iterator[type]:
    yield cls
    subclasses: list[type] = type.__subclasses__(cls)
    for below in subclasses:
        yield from _with_subclasses(below)
