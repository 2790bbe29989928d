"""What an object holds, as one digest: whether it has changed since its constructor was done.

Objects of the user's classes are looked into without running any of their code, those of libraries as pickle would
save them. Arrays and tensors are hashed where they are, without a copy.
"""

from __future__ import annotations

import pickle
import sys
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

import xxhash

from clew.graph import tensorflow
from clew.graph.recording.outside_changes import is_users
from clew.values.class_facts import Layout, instance_dict_of, is_python_class

_BY_IDENTITY = (type, types.FunctionType, types.ModuleType, types.CodeType, types.FrameType, types.GeneratorType)
_SCALARS = frozenset({int, float, complex, bool, str, bytes, type(None)})
_IN_STATE = frozenset({"_parameters", "_buffers", "_modules", "training"})


def attributes(obj: Any) -> dict[str, Any]:
    """The attributes that an object has of its own; of a torch module those that are not in its `state_dict`.

    Those of modules inside a module have names with dots.
    """
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "nn") or not isinstance(obj, torch.nn.Module):
        return {**_slots(obj), **instance_dict_of(obj)}
    found: dict[str, Any] = {}
    for path, module in obj.named_modules():
        held = {name: value for name, value in vars(module).items() if name not in _IN_STATE}
        held.update((name, module._buffers[name]) for name in module._non_persistent_buffers_set)
        found.update((f"{path}.{name}" if path else name, value) for name, value in held.items())
    return found


def digests(held: dict[str, Any], *, into_objects: bool = True) -> dict[str, Any]:
    """A digest of each value; with `into_objects=False` objects are only told apart, and tensors by their version."""
    return {name: _digest(value, into_objects) for name, value in held.items()}


def _digest(value: Any, into_objects: bool) -> Any:
    hashed = xxhash.xxh3_128()
    try:
        _Hashing(hashed, into_objects).dump(value)
    except Exception:  # nobody can tell what it is: it is as if it had changed
        return object()
    return hashed.digest()


def parts(value: Any) -> Iterator[Any]:
    """What a value is or holds that can be changed: containers, objects, arrays."""
    seen: dict[int, Any] = {}
    stack = [value]
    while stack:
        part = stack.pop()
        kind = type(part)
        if kind in _SCALARS or issubclass(kind, _BY_IDENTITY) or id(part) in seen:
            continue
        seen[id(part)] = part
        if kind not in (tuple, frozenset):
            yield part
        if isinstance(part, dict):
            stack.extend([*dict.keys(part), *dict.values(part)])
        elif kind in (list, tuple, set, frozenset, deque):
            stack.extend(part)
        if is_python_class(kind):
            stack.extend([*_slots(part).values(), *instance_dict_of(part).values()])


class _Hashing(pickle.Pickler):
    """A pickler whose bytes go into a hash. What comes out is compared within one process, and never loaded."""

    def __init__(self, hashed: Any, into_objects: bool) -> None:
        self._into_objects = into_objects
        file = types.SimpleNamespace(write=hashed.update)
        super().__init__(file, pickle.HIGHEST_PROTOCOL, buffer_callback=lambda buffer: hashed.update(buffer.raw()))

    def reducer_override(self, obj: Any) -> Any:
        if obj is _stand_in:
            return NotImplemented
        kind = type(obj)
        if issubclass(kind, _BY_IDENTITY):
            return _stand_in, (id(obj),)
        if not self._into_objects:
            return _stand_in, (id(obj), getattr(obj, "_version", None))
        special = _of_libraries(obj)
        if special is not None:
            return _stand_in, special
        if not (is_python_class(kind) and is_users(kind)):
            try:
                parts = obj.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
            except Exception:  # a lock, a connection
                parts = _stand_in, (id(obj),), getattr(obj, "__dict__", None)
            return (_stand_in, (id(obj),)) if isinstance(parts, str) else parts
        state = {**_slots(obj), **instance_dict_of(obj)}
        items = next((base.__iter__(obj) for base in (list, set, deque) if issubclass(kind, base)), None)
        pairs = iter(dict.items(obj)) if issubclass(kind, dict) else None
        return _stand_in, (id(obj),), state, items, pairs


def _slots(obj: Any) -> dict[str, Any]:
    found = {}
    for name, get in Layout(type(obj)).slots(type(obj)):
        try:
            found[name] = get(obj)
        except AttributeError:  # it was never set
            continue
    return found


def _stand_in(*_: Any) -> None:
    """What the pickled bytes name in place of something that is not looked into."""


def _of_libraries(value: Any) -> tuple[Any, ...] | None:
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "nn"):
        if isinstance(value, torch.Tensor):
            return _tensor(value, torch)
        if isinstance(value, torch.jit.ScriptModule):
            return value.training, list(value.state_dict().items())
    if tensorflow.is_variable(value) or tensorflow.is_layer(value) or tensorflow.is_module(value):
        return id(value), tuple(str(one.shape) for one in tensorflow.variables_of(value))
    return None


def _tensor(value: Any, torch: Any) -> tuple[Any, ...]:
    try:
        flat = value.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
        data = flat.view(torch.uint8).numpy()
    except (RuntimeError, TypeError, NotImplementedError):  # sparse, quantised, or without numbers
        return id(value), value._version
    return str(value.dtype), tuple(value.shape), value.requires_grad, pickle.PickleBuffer(data)
