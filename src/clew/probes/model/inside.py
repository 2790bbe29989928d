"""Into values: the items of containers, named as paths name them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from clew.values.classes import instance_dict_of

from .paths import ANY, Steps, is_wild, joined

GRADIENT = "grad"


def inside(value: Any, steps: Steps, name: str) -> Iterator[tuple[str, Any, bool]]:
    """(name, value, whether its gradient is meant) of everything these steps lead to inside a value."""
    if not steps:
        yield name, value, False
        return
    head, rest = steps[0], steps[1:]
    if head == GRADIENT and not rest and is_tensor(value):
        yield joined(name, GRADIENT), value, True
        return
    items = items_of(value)
    if head == ANY:
        if not items:
            yield from inside(value, rest, name)
        for key, item in items.items():
            yield from inside(item, steps, joined(name, key))
    elif is_wild(head):
        for key, item in items.items():
            if fnmatchcase(key, head):
                yield from inside(item, rest, joined(name, key))
    elif head in items:
        yield from inside(items[head], rest, joined(name, head))


def items_of(value: Any) -> dict[str, Any]:
    """What a container holds, by name; empty for anything else. No code of the user's runs."""
    if is_tensor(value) or isinstance(value, (str, bytes)):
        return {}
    if isinstance(value, dict):
        return {str(key): item for key, item in dict.items(value) if type(key) in (str, int, bool)}
    if isinstance(value, tuple) and hasattr(type(value), "_fields"):
        return dict(zip(type(value)._fields, tuple.__iter__(value), strict=False))  # type: ignore[attr-defined]
    if isinstance(value, (list, tuple)):
        return {str(place): item for place, item in enumerate(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        own = instance_dict_of(value) or {}
        return {field.name: own[field.name] for field in dataclasses.fields(value) if field.name in own}
    if isinstance(value, Mapping):
        return {}
    return dict(instance_dict_of(value) or {}) if type(value).__module__ != "builtins" else {}


def is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def tensors_in(value: Any, name: str, depth: int = 4) -> Iterator[tuple[str, Any]]:
    """Every tensor in a value, by name; a tensor by itself has the name given."""
    if is_tensor(value):
        yield name, value
    elif depth and isinstance(value, (dict, list, tuple)):
        for key, item in items_of(value).items():
            yield from tensors_in(item, joined(name, key), depth - 1)
