"""Libraries that find modules by a text, as the code of a bundle sees them: there its modules have other names.

`importlib.import_module("app.plugins." + name)`, `importlib.resources.files("app")`, `pkgutil.get_data("app", ...)`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

# Functions whose first argument is the name of a module.
_NAMING = {
    "importlib": ("import_module",),
    "importlib.resources": ("files", "path", "open_text", "open_binary", "read_text", "read_binary", "contents"),
    "importlib.util": ("find_spec",),
    "pkgutil": ("get_data",),
}
Renamed = Callable[[Any], Any]


def seen(module: Any, renamed: Renamed) -> Any:
    """A module as the code of a bundle sees it: mostly as it is."""
    if not isinstance(module, ModuleType) or module.__name__ not in _NAMING or hasattr(module, "__clew_facade__"):
        return module
    facade = ModuleType(module.__name__, module.__doc__)
    facade.__clew_facade__ = module  # type: ignore[attr-defined]
    facade.__getattr__ = lambda name: seen(getattr(module, name), renamed)  # type: ignore[method-assign]
    for name in _NAMING[module.__name__]:
        if hasattr(module, name):
            setattr(facade, name, _naming(getattr(module, name), renamed))
    return facade


def _naming(function: Callable[..., Any], renamed: Renamed) -> Callable[..., Any]:
    @functools.wraps(function)
    def named(*args: Any, **kwargs: Any) -> Any:
        if not args and not kwargs:  # `files()` looks for who has called it
            args = (sys._getframe(1).f_globals["__name__"],)
        kwargs = {
            key: renamed(value) if key in ("name", "package", "anchor") else value for key, value in kwargs.items()
        }
        return function(*map(renamed, args[:1]), *args[1:], **kwargs)

    return named


def is_stand_in(thing: Any) -> bool:
    """Whether a function stands for one of a library's that finds modules by a text."""
    return getattr(thing, "__globals__", None) is globals()
