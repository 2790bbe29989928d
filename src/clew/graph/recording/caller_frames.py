"""Functions that look at the variables of their caller: `df.query("x > @limit")`, `inspect.currentframe()`.

In a graph their caller is another one. Where a library takes the variables as an argument, it is given them; all others
are refused by name.
"""

from __future__ import annotations

import builtins
import inspect
import re
import sys
from types import FrameType, ModuleType
from typing import Any

from clew.errors import GraphError

from .session import place, user_frame
from .traced_values import raw

_LOCAL = re.compile(r"@\s*([^\W\d]\w*)")
_ANY = re.compile(r"[^\W\d]\w*")
# By the root of their module: functions that take names as local_dict and global_dict, and how they write them.
_GIVEN: dict[str, dict[str, re.Pattern[str]]] = {
    "pandas": {"query": _LOCAL, "eval": _LOCAL},
    "numexpr": {"evaluate": _ANY, "validate": _ANY},
}
# Libraries whose functions look up any name in a text: formulas and SQL.
_SEARCHING = frozenset({"duckdb", "formulaic", "patsy", "polars", "statsmodels"})
_FRAMES = (inspect.currentframe, inspect.stack, sys._getframe)
_NAMESPACES = (locals, globals, eval, exec)


def refuse_frames(function: Any, args: Any) -> None:
    """A function of Python's own that looks at the frame of its caller, under whatever name it is called."""
    if any(function is one for one in (*_FRAMES, *_NAMESPACES)) or (function in (vars, dir) and not args):
        name = getattr(function, "__qualname__", str(function))
        what = f"{place()}: {name}() looks at the variables of the function that calls it."
        remedy = "Give the values as arguments, or make the function that needs them a clew.op."
        raise GraphError("graph-frame", what, remedy)


def with_names(function: Any, args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call, with the caller's variables among them if the function would look for these."""
    owner, name = getattr(function, "__self__", None), getattr(function, "__name__", None)
    is_method = not (owner is None or isinstance(owner, ModuleType))
    home = type(owner).__module__ if is_method else getattr(function, "__module__", None)
    root = str(home or "").partition(".")[0]
    if root in _SEARCHING:
        _refuse_names(function, root, args, kwargs)
    pattern = _GIVEN.get(root, {}).get(str(name))
    if pattern is None or (root == "pandas" and type(owner).__name__ not in ("DataFrame", "NoneType")):
        return kwargs
    if "level" in kwargs:
        what = f"{place()}: {name}(level=) looks at the variables of another function than its caller."
        raise GraphError("graph-frame", what, "Give the values: local_dict={...}.")
    given = [*args[:1], *(kwargs[key] for key in ("expr", "ex") if key in kwargs)]
    pattern = _ANY if root == "pandas" and owner is None else pattern
    names = {found for one in given for found in pattern.findall(_text(one))}
    return {"local_dict": _variables(names, user_frame()), "global_dict": {}, **kwargs}


def looks_for_names(owner: Any, name: str) -> bool:
    """Whether a method may be one of those, without looking it up."""
    return name in ("query", "eval") and type(owner).__name__ == "DataFrame"


def _text(value: Any) -> str:
    value = raw(value)
    return value if isinstance(value, str) else ""


def _variables(names: set[str], frame: FrameType | None) -> dict[str, Any]:
    if frame is None:
        return {}
    scope = {**frame.f_globals, **frame.f_locals}
    return {name: scope[name] for name in sorted(names) if name in scope}


def _refuse_names(function: Any, root: str, args: Any, kwargs: dict[str, Any]) -> None:
    frame = user_frame()
    texts = [_text(one) for one in (*args, *kwargs.values())]
    found = _variables({name for text in texts for name in _ANY.findall(text)}, frame)
    columns = {str(one) for given in (*args, *kwargs.values()) for one in getattr(raw(given), "columns", ())}
    known = {name for name in found if hasattr(builtins, name) or isinstance(found[name], ModuleType)} | columns
    data = [name for name in found if name not in known]
    if data:
        name = getattr(function, "__qualname__", type(function).__name__)
        what = f"{place()}: {name}() of {root} looks up `{data[0]}` among the variables of the function that calls it."
        raise GraphError("graph-frame", what, "Give it the value by an argument, or call it in a clew.op.")
