"""Whether a torch module can be saved as its class and what it holds, rather than exported."""

from __future__ import annotations

import logging
import re
import sys
import weakref
from dataclasses import is_dataclass
from enum import Enum
from functools import partial
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, SimpleNamespace
from typing import Any

from .modules import is_user_module

_SCALARS = (
    bool, int, float, complex, str, bytes, type(None), Enum, PurePath, re.Pattern, range, slice,
    type, FunctionType, BuiltinFunctionType, logging.Logger,
    weakref.ref,  # that recurrent modules of torch have, and leave out of their state
)  # fmt: skip
_MOST_ITEMS = 10_000
_MOST_BYTES = 1 << 20  # of an array that is no tensor of the module's: more is data rather than a setting
_DEPTH = 4


def is_at_hand(module: Any) -> bool:
    """Whether a module and all in it are of torch's classes or of the user's, and hold nothing but settings besides.

    A class of another library may be another where the bundle is loaded; and a trainer, an optimizer or the training
    data that a module refers to does not belong into a bundle. Such modules are exported, if they can be.
    """
    return all(_has_known_classes(type(inner)) and _holds_settings(inner) for inner in module.modules())


def _has_known_classes(cls: type) -> bool:
    return all(_is_known(base.__module__) for base in cls.__mro__)


def _is_known(name: str) -> bool:
    if name.partition(".")[0] in ("torch", *sys.stdlib_module_names):
        return True
    home = sys.modules.get(name)
    return home is not None and is_user_module(home)


def _holds_settings(module: Any) -> bool:
    """Besides parameters, buffers and modules, which it keeps apart."""
    apart = ("_parameters", "_buffers", "_modules")
    return all(_is_setting(value, _DEPTH) for name, value in vars(module).items() if name not in apart)


def _is_setting(value: Any, depth: int) -> bool:
    import torch

    if isinstance(value, (*_SCALARS, torch.dtype, torch.device, torch.Tensor, torch.nn.Module)):
        return True
    if not depth:
        return False
    if isinstance(value, partial):
        return all(_is_setting(part, depth - 1) for part in (value.func, *value.args, *value.keywords.values()))
    if isinstance(value, list | tuple | set | frozenset | dict):
        items = [*value.keys(), *value.values()] if isinstance(value, dict) else list(value)
        return len(items) <= _MOST_ITEMS and all(_is_setting(item, depth - 1) for item in items)
    if type(value).__module__.partition(".")[0] == "numpy":
        return getattr(value, "nbytes", _MOST_BYTES + 1) <= _MOST_BYTES
    if is_dataclass(value) or isinstance(value, SimpleNamespace) or _is_known_object(value):
        return all(_is_setting(item, depth - 1) for item in vars(value).values())
    return False


def _is_known_object(value: Any) -> bool:
    home = sys.modules.get(type(value).__module__)
    return home is not None and is_user_module(home) and hasattr(value, "__dict__")
