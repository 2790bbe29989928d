"""Which functions of libraries a person may have meant by a name that no function of the program has."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from types import FunctionType, ModuleType
from typing import Any

from clew.errors import nearest

_SHOWN = 3
_names_of_module = vars(ModuleType)["__dict__"].__get__
_names_of_class = vars(type)["__dict__"].__get__


def functions_hint(pattern: str, known: Collection[str], loaded_before: Collection[str]) -> str:
    """What to write instead: a library's function of this very name, or else the nearest of the program's own.

    `loaded_before` are modules that were there before the program: their functions cannot be asked for.
    """
    module = next((name for name in loaded_before if pattern.startswith((f"{name}.", f"{name}:"))), None)
    if module is not None:
        return f"`{module}` was loaded before the program began, and its functions are left alone."
    found = list(dict.fromkeys(_functions_called(pattern.replace(":", "."), loaded_before)))
    found.sort(key=lambda name: name.partition(".")[0] in sys.stdlib_module_names)  # Python's own come last
    if not found:
        return nearest(pattern.rpartition(":")[2].rpartition(".")[2], sorted(known)) if known else ""
    if len(found) == 1:
        return f"did you mean `{found[0]}`?"
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"libraries have {', '.join(f'`{name}`' for name in found[:_SHOWN])}{more}."


def _functions_called(name: str, loaded_before: Collection[str]) -> Iterator[str]:
    """The full names of functions in modules that the program has loaded."""
    for key, module in list(sys.modules.items()):
        if key in loaded_before or not issubclass(type(module), ModuleType):
            continue
        for function in _functions_of(_names_of_module(module), key, set()):
            full = f"{key}.{function.__code__.co_qualname.replace('<locals>.', '')}"
            if full == name or full.endswith(f".{name}"):
                yield full


def _functions_of(names: Any, module: str, seen: set[int]) -> Iterator[FunctionType]:
    """Those defined in it, and in its classes; beneath their decorators. `seen` are classes that were looked into."""
    for value in list(names.values()):
        if type(value) in (staticmethod, classmethod):
            value = value.__func__
        if type(value) is FunctionType:
            while type(inner := value.__dict__.get("__wrapped__")) is FunctionType:
                value = inner
            if value.__module__ == module:
                yield value
        elif issubclass(type(value), type) and id(value) not in seen:
            seen.add(id(value))
            inside = _names_of_class(value)
            if inside.get("__module__") == module:
                yield from _functions_of(inside, module, seen)
