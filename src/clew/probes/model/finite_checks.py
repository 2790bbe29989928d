"""Whether tensors are finite, and which operation of a module's code made one that is not."""

from __future__ import annotations

import cmath
import copy
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final, NamedTuple

import torch

from clew import env
from clew.instrument.library_code import is_library
from clew.values.class_facts import is_exactly

from .container_items import tensors_in

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_is_wrapped: Final = torch._C._functorch.is_functorch_wrapped_tensor  # by vmap, grad and their kin
FINE, INF, NAN = "", "Inf", "NaN"  # what a value holds: nothing bad; Inf; NaN, which is worse, since nobody wants it
MEANT = "meant"  # an Inf that an operation was told to put there
_PUTS = frozenset(
    ["masked_fill", "masked_fill_", "full", "full_like", "new_full", "fill", "fill_", "where", "lift_fresh"]
)


def kind_of(tensor: Any) -> str:
    """One pass where all is well: a sum of finite numbers is finite, unless it overflows, which is looked into."""
    while _is_wrapped(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.is_meta or not tensor.numel():
        return FINE
    with torch.no_grad():
        tensor = tensor.detach()
        if tensor.layout is not torch.strided:
            tensor = tensor.coalesce().values() if tensor.layout is torch.sparse_coo else tensor.values()
        if cmath.isfinite(tensor.sum().item()) or bool(torch.isfinite(tensor).all()):
            return FINE
        return NAN if bool(torch.isnan(tensor).any()) else INF


def is_finite(tensor: Any) -> bool:
    return kind_of(tensor) == FINE


def worst(value: Any) -> str:
    """Of all tensors in a value."""
    return max((kind_of(tensor) for _, tensor in tensors_in(value, "")), default=FINE)


def non_finite(tensors: dict[str, Any]) -> list[str]:
    """The names of those that hold a NaN or Inf; one look at all of them if there is none."""
    plain = [each.detach() for each in tensors.values() if each.layout is torch.strided and is_exactly(each, *_PLAIN)]
    if len(plain) == len(tensors) and plain:
        with torch.no_grad():
            norms = torch._foreach_norm(plain)
            if cmath.isfinite(sum(norm.item() for norm in norms)):
                return []
    return [name for name, each in tensors.items() if not is_finite(each)]


_LARGE: Final = 1e4  # a weight that nobody means
_MOST_NAMED: Final = 5


def state_of_weights(weights: dict[str, Any]) -> str:
    """Whether weights are finite, and how large; "" if there are none."""
    bad = non_finite(weights)
    if bad:
        return f"weights were non-finite already: {listed(bad)}"
    largest = {name: float(each.detach().abs().max()) for name, each in weights.items() if _can_be_large(each)}
    if not largest:
        return ""
    large = [name for name, size in largest.items() if size > min(_LARGE, torch.finfo(weights[name].dtype).max ** 0.5)]
    if large:
        large.sort(key=lambda name: -largest[name])
        return f"weights were very large already: {listed(large)} (up to {largest[large[0]]:.3g})"
    name = max(largest, key=lambda each: largest[each])
    return f"weights were finite, the largest {largest[name]:.3g} in `{name}`"


def _can_be_large(weight: Any) -> bool:
    """Not of tensors that are spread over processes: to ask one for its largest number is to wait for the others."""
    is_plain = type(weight) in _PLAIN and weight.layout is torch.strided and not weight.is_meta
    return bool(is_plain and weight.is_floating_point() and weight.numel())


def listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(f"`{name}`" for name in names[:_MOST_NAMED]) + more


# ---- where in the code


class Place(NamedTuple):
    """An operation, and the innermost line of the user's own code that led to it."""

    operation: str
    file: str
    line: int


def user_line(frame: FrameType | None) -> tuple[str, int]:
    """The innermost line of the user's own code on the stack."""
    for each in _frames(frame):
        file = each.f_code.co_filename
        if not file.startswith(env.PACKAGE) and not is_library(file):
            return file, each.f_lineno
    return "", 0


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


class _Watch(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Remembers the first operation that made an Inf from finite numbers, meant or not, and the first to make a NaN."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.made: dict[str, Place] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        kind = worst(output)
        if kind and kind not in self.made and worst([args, kwargs or {}]) < kind:
            name = (str(func).removeprefix("aten.").rpartition(".")[0] or str(func)).lstrip("_")
            what = MEANT if kind == INF and name in _PUTS else kind
            self.made.setdefault(what, Place(name, *user_line(sys._getframe(1))))
        return output


def locate(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Place]]:
    """Call a copy of the module once more, operation by operation; gives the copy, and where Inf and NaN were made."""
    try:
        again = copy.deepcopy(module)  # of which nobody hears
        with torch.random.fork_rng(devices=[]), torch.no_grad(), _Watch() as watch:
            again(*map(set_aside, args), **{name: set_aside(value) for name, value in kwargs.items()})
    except Exception:
        return None, {}  # what cannot be copied or called again is told without its line
    return again, watch.made


def set_aside(value: Any) -> Any:
    """The value, with copies of its tensors, as a call of the module can be given it again."""
    if issubclass(type(value), torch.Tensor):
        return value.detach().clone()
    if issubclass(type(value), dict):
        return {key: set_aside(item) for key, item in value.items()}
    if is_exactly(value, list, tuple):
        return type(value)(map(set_aside, value))
    return value
