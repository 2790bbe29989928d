"""What functions are called that a library is handed: by users, who see the name in their own code."""

from __future__ import annotations

import functools
from typing import Any


def function_of(given: Any) -> Any:
    """The function itself: of a pair with a keyword, of a partial."""
    function = given[0] if type(given) is tuple and given else given
    while isinstance(function, functools.partial):
        function = function.func
    return function


def name_of(function: Any) -> str:
    """What people call it."""
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    return str(name or type(function).__qualname__).rpartition("<locals>.")[2]
