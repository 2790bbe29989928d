"""Into values: the items of containers, named as paths name them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from clew.values.class_facts import dict_of, inherits, instance_dict_of, is_exactly, module_of, mro_of

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
    kind = type(value)
    if is_tensor(value) or issubclass(kind, (str, bytes)):
        return {}
    if issubclass(kind, dict):
        return {str(key): item for key, item in dict.items(value) if is_exactly(key, str, int, bool)}
    if issubclass(kind, tuple):
        names = _in_class(kind, "_fields") or map(str, range(tuple.__len__(value)))
        return dict(zip(names, tuple.__iter__(value), strict=False))
    if issubclass(kind, list):
        return {str(place): item for place, item in enumerate(list.__iter__(value))}
    if is_module(value):
        own = {name: item for name, item in vars(value).items() if not name.startswith("_")}
        return {**own, **value._parameters, **value._buffers, **value._modules}
    if inherits(kind, Mapping) or module_of(kind) == "builtins":
        return {}
    own = instance_dict_of(value)
    fields = _in_class(kind, "__dataclass_fields__")
    return dict(own) if fields is None else {name: own[name] for name in fields if name in own}


def _in_class(kind: type, name: str) -> Any:
    """What `getattr` finds in a class, without asking its metaclass."""
    return next((dict_of(each)[name] for each in mro_of(kind) if name in dict_of(each)), None)


def is_tensor(value: Any) -> bool:
    import torch

    return issubclass(type(value), torch.Tensor)


def is_module(value: Any) -> bool:
    import torch

    return issubclass(type(value), torch.nn.Module)


def tensors_in(value: Any, name: str, depth: int = 4) -> Iterator[tuple[str, Any]]:
    """Every tensor in a value, by name; a tensor by itself has the name given."""
    if is_tensor(value):
        yield name, value
    elif depth and issubclass(type(value), (dict, list, tuple)):
        for key, item in items_of(value).items():
            yield from tensors_in(item, joined(name, key), depth - 1)


def has_tensors(value: Any) -> bool:
    """Whether it is a tensor, or a container of some."""
    return next(tensors_in(value, ""), None) is not None
