"""TensorFlow and Keras: tensors and variables as the arrays they hold, models by their identity.

A model is not looked into: it holds functions, locks and everything that was ever computed of it. Its variables are
values of their own, and can be watched.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from clew.values import other_arrays
from clew.values.adapters import Handler, Looking, Node
from clew.values.class_facts import inherits, module_of
from clew.values.python import opaque

_MODELS: Final = (("keras", "Layer"), ("tensorflow", "Module"))


def claim(cls: type) -> Handler | None:
    for library, name in _MODELS:
        base = getattr(sys.modules.get(library), "__dict__", {}).get(name)
        if isinstance(base, type) and inherits(cls, base):
            return Handler(None, _look_model)
    if module_of(cls).startswith("keras.") and inherits(cls, _variable()):
        return Handler(None, _VariableLook(cls))
    return other_arrays.claim(cls)


def _variable() -> type:
    found = getattr(sys.modules.get("keras"), "__dict__", {}).get("Variable")
    return found if isinstance(found, type) else type(None)


def _look_model(obj: Any, walk: Looking) -> Node:
    return opaque(obj, "a model; it is compared by identity")


class _VariableLook:
    """A Keras variable, which has no value until its model is built."""

    def __init__(self, cls: type) -> None:
        self._look = other_arrays.ArrayLook(f"{cls.__module__}.{cls.__qualname__}", constant=False)

    def __call__(self, obj: Any, walk: Looking) -> Node:
        if object.__getattribute__(obj, "__dict__").get("_value") is None:
            return opaque(obj, "a variable without a value yet")
        return self._look(obj, walk)


READERS: Final[dict[str, Any]] = {}
