"""Ready-made callbacks: `ModelTracer(..., pre_save=clew.reduce.norm)`, `clew.reduce.topk(k=5)`.

Each takes the place of a callback `(name, values, iterations, ranks)` as it is; called with options it gives one that
has them. What is no tensor or number is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from clew.errors import OptionError

from .stacking import pad_tensors, stack_tensors


class Reduce:
    """A callback that changes the list of values."""

    def __init__(self, name: str, change: Callable[..., list[Any]], **options: Any) -> None:
        self.__name__ = self.__qualname__ = name
        self._change = change
        self._options = options

    def __call__(self, *given: Any, **options: Any) -> Any:
        if len(given) == 4 and not options:
            values: list[Any] = given[1]
            values[:] = self._change(values, **self._options)
            return None
        if given or set(options) - set(self._options):
            known = ", ".join(f"{name}={value!r}" for name, value in self._options.items()) or "none"
            raise OptionError("bad-option", f"clew.reduce.{self.__name__} has these options: {known}.")
        return Reduce(self.__name__, self._change, **{**self._options, **options})

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self._options.items())
        return f"clew.reduce.{self.__name__}({options})"


def _each(change: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Changes tensors one by one."""

    def changed(values: list[Any], **options: Any) -> list[Any]:
        return [change(value, **options) if isinstance(value, torch.Tensor) else value for value in values]

    return changed


def _floats(value: Any) -> Any:
    """As numbers that can be averaged: half precision would overflow, and integers have no mean."""
    if value.is_complex():
        return value.abs()
    return value if value.dtype in (torch.float32, torch.float64) else value.float()


def _mean(value: Any, dim: Any) -> Any:
    return _floats(value).mean() if dim is None else _floats(value).mean(dim)


def _norm(value: Any, p: float, dim: Any) -> Any:
    return torch.linalg.vector_norm(_floats(value), p, dim)


def _histogram(value: Any, bins: int, range: Any) -> dict[str, Any]:
    flat = _floats(value).reshape(-1)
    finite = flat[torch.isfinite(flat)].double().cpu()
    if range is None:
        low, high = (float(finite.min()), float(finite.max())) if finite.numel() else (0.0, 0.0)
        range = (low, high if high > low else low + 1.0)
    counts, edges = torch.histogram(finite, bins, range=range)
    return {"counts": counts.long(), "edges": edges, "outside": int(flat.numel() - int(counts.sum()))}


def _sample(value: Any, k: int, seed: int) -> Any:
    flat = value.reshape(-1)
    if flat.numel() <= k:
        return flat
    generator = torch.Generator().manual_seed(seed)  # its own: the program's random numbers stay as they are
    return flat[torch.randint(flat.numel(), (k,), generator=generator).to(flat.device)]


def _topk(value: Any, k: int) -> dict[str, Any]:
    flat = value.reshape(-1)
    places = _floats(flat).abs().nan_to_num(nan=float("inf")).topk(min(k, flat.numel())).indices
    return {"values": flat[places], "places": places}


def _quantiles(value: Any, q: Any) -> Any:
    flat = _floats(value).reshape(-1).double()
    flat = flat[~torch.isnan(flat)].sort().values
    if not flat.numel():
        return torch.full((len(q),), float("nan"), dtype=torch.float64)
    places = torch.tensor(q, dtype=torch.float64) * (flat.numel() - 1)  # torch.quantile refuses large tensors
    low, high = flat[places.floor().long()], flat[places.ceil().long()]
    return torch.lerp(low, high, places - places.floor())


stack: Final = Reduce("stack", lambda values: [stack_tensors(values)] if values else [])
pad: Final = Reduce("pad", lambda values, fill: [pad_tensors(values, fill)] if values else [], fill=0)
mean: Final = Reduce("mean", _each(_mean), dim=None)
norm: Final = Reduce("norm", _each(_norm), p=2, dim=None)
histogram: Final = Reduce("histogram", _each(_histogram), bins=64, range=None)
sample: Final = Reduce("sample", _each(_sample), k=64, seed=0)
topk: Final = Reduce("topk", _each(_topk), k=8)
quantiles: Final = Reduce("quantiles", _each(_quantiles), q=(0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0))

__all__ = ["Reduce", "histogram", "mean", "norm", "pad", "quantiles", "sample", "stack", "topk"]
