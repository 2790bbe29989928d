"""Models of torch as operators that take arrays: what goes in becomes tensors, what comes out is what went in."""

from __future__ import annotations

import sys
from typing import Any

from clew.errors import MissingLibraryError
from clew.graph.operators import Operator

from .array import NDArray, from_numpy
from .devices import torch_device


def is_torch(model: Any) -> bool:
    """Whether it is a module of torch, a TorchScript module, or a TorchScript function."""
    torch = sys.modules.get("torch")
    return hasattr(torch, "nn") and isinstance(model, torch.nn.Module | torch.jit.ScriptFunction)  # type: ignore[union-attr]


def loaded(path: str, device: Any) -> Any:
    """A TorchScript file."""
    try:
        import torch
    except ImportError as error:
        what = 'matx.script(path, backend="pytorch") needs torch, which is not installed.'
        raise MissingLibraryError("missing-library", what, "pip install torch") from error
    return torch.jit.load(path, map_location=torch_device(device) or "cpu")  # type: ignore[no-untyped-call]


def device_of(model: Any) -> Any:
    """Where the numbers of a model are; None if it has none."""
    import torch

    tensors = [*model.parameters(), *model.buffers()] if isinstance(model, torch.nn.Module) else []
    return tensors[0].device if tensors else None


class TorchOperator(Operator):
    """A model of torch as a step; arrays are made tensors in a step before it, and its tensors arrays in one after."""

    def __init__(self, model: Any, device: Any = None) -> None:
        import torch

        if device is not None and isinstance(model, torch.nn.Module):
            model = model.to(torch_device(device))
        name = getattr(model, "name" if isinstance(model, torch.jit.ScriptFunction) else "original_name", None)
        super().__init__(model, name=name)
        where = device_of(model) or torch_device(device) or "cpu"
        self.device = torch.device(where)  # a bundle leads it to where it is loaded

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Held by another object, it takes arrays again when that is loaded."""
        return TorchOperator, (self.target, self.device)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors = [_as_tensor(arg, self.device) for arg in args]
        named = {name: _as_tensor(arg, self.device) for name, arg in kwargs.items()}
        return _as_given(super().__call__(*tensors, **named), *args, *kwargs.values())


def as_tensor(value: Any, device: Any) -> Any:
    """Arrays as tensors on a device, also those in lists, tuples and dictionaries; everything else as it is."""
    import torch

    if isinstance(value, NDArray) or type(value).__module__ == "numpy":
        return torch.as_tensor(value.asnumpy() if isinstance(value, NDArray) else value, device=device)
    if type(value) in (list, tuple):
        return type(value)(as_tensor(item, device) for item in value)
    if type(value) is dict:
        return {key: as_tensor(item, device) for key, item in value.items()}
    return value


def as_given(value: Any, *inputs: Any) -> Any:
    """Tensors as what the model was given: an NDArray for an NDArray, a NumPy array for one, else a tensor."""
    leaves = list(_leaves(inputs))
    if any(isinstance(leaf, NDArray) for leaf in leaves):
        return _converted(value, lambda tensor: from_numpy(tensor.detach().cpu().numpy()))
    if any(type(leaf).__module__ == "numpy" for leaf in leaves):
        return _converted(value, lambda tensor: tensor.detach().cpu().numpy())
    return value


def _leaves(value: Any) -> Any:
    if type(value) in (list, tuple):
        for item in value:
            yield from _leaves(item)
    elif type(value) is dict:
        yield from _leaves(list(value.values()))
    else:
        yield value


def _converted(value: Any, convert: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return convert(value)
    if type(value) in (list, tuple):
        return type(value)(_converted(item, convert) for item in value)
    if type(value) is dict:
        return {key: _converted(item, convert) for key, item in value.items()}
    return value


_as_tensor, _as_given = Operator(as_tensor), Operator(as_given)


def is_conversion(target: Any) -> bool:
    """Whether a step only makes tensors of arrays, or arrays of tensors."""
    return getattr(getattr(target, "target", None), "__module__", None) == __name__
