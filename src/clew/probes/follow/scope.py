"""Which code is followed: the user's own by default; libraries when asked for by name."""

from __future__ import annotations

import linecache
import os
from fnmatch import fnmatchcase
from functools import cache
from types import ModuleType

from clew import env
from clew.errors import OptionError
from clew.instrument.library_code import is_library


class Scope:
    """`only=` and `skip=`, as patterns of modules, files or functions."""

    def __init__(self, only: object = None, skip: object = None) -> None:
        self.only = _patterns("only", only)
        self.skip = _patterns("skip", skip)
        self._known: dict[tuple[str, str, str], bool] = {}

    def includes(self, module: str, file: str, function: str) -> bool:
        """Whether calls of this function are followed."""
        key = (module, file, function)
        if key not in self._known:
            self._known[key] = self._decide(module, file, function)
        return self._known[key]

    def may_hold(self, module: object) -> bool:
        """Whether a module can have functions that are followed. Looking for them takes a while, so not for each."""
        if not isinstance(module, ModuleType):
            return False
        names = object.__getattribute__(module, "__dict__")  # past what a lazy module would do
        name, file = names.get("__name__"), names.get("__file__")
        if type(name) is not str or type(file) is not str or name.partition(".")[0] == "clew":
            return False
        return bool(self.only) or is_users(file)

    def may_be_in(self, file: str) -> bool:
        """Whether a file can have them: asked once a file, where there are a hundred thousand functions."""
        return bool(self.only) or is_users(file)

    def _decide(self, module: str, file: str, function: str) -> bool:
        if file.startswith(env.PACKAGE) or module.partition(".")[0] == "clew":
            return False
        if any(matches(pattern, module, file, function) for pattern in self.skip):
            return False
        if self.only:
            return any(matches(pattern, module, file, function) for pattern in self.only)
        return is_users(file)


def _patterns(option: str, given: object) -> tuple[str, ...]:
    if given is None:
        return ()
    found = (given,) if isinstance(given, str) else given
    if not isinstance(found, list | tuple | set | frozenset) or not all(isinstance(each, str) for each in found):
        raise OptionError(
            "bad-option",
            f"{option}={given!r}: a pattern, or a list of patterns, is needed.",
            f'Name modules, files or functions: {option}="mypackage.*", {option}=["data.py", "Model.forward"].',
        )
    return tuple(str(each) for each in found)


def matches(pattern: str, module: str, file: str, function: str) -> bool:
    """`package.module` and what is beneath it, `module:function`, `file.py`, `folder/*.py`, `Class.method`, `name`."""
    plain = function.replace(".<locals>", "")
    if "/" in pattern or os.sep in pattern or pattern.endswith(".py"):
        return fnmatchcase(file, pattern) or fnmatchcase(file, f"*/{pattern.lstrip('*/')}") or file.endswith(pattern)
    where, colon, name = pattern.rpartition(":")
    if colon:
        return _is_module(where, module) and _is_function(name, plain)
    return _is_module(pattern, module) or _is_function(pattern, plain) or fnmatchcase(f"{module}.{plain}", pattern)


def _is_module(pattern: str, module: str) -> bool:
    return fnmatchcase(module, pattern) or module.startswith(pattern + ".")


def _is_function(pattern: str, plain: str) -> bool:
    return fnmatchcase(plain, pattern) or fnmatchcase(plain.rpartition(".")[2], pattern)


@cache
def is_users(file: str) -> bool:
    """Whether a file is neither of the standard library nor of an installed package."""
    if file == "sys":
        return False  # as Python calls what is outside of a program; `clew run` has functions there
    if file.startswith("<"):
        return not file.startswith("<frozen ") and bool(linecache.getlines(file))  # a notebook's cell has lines
    return not is_library(file)
