"""The names of Matx trace: code written for it runs here after its import line alone is changed.

`matx.script` is `clew.op`, `matx.trace` is `clew.record`, and what it gives is a clew graph under the names Matx has.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from clew.errors import MissingLibraryError, OptionError
from clew.probes.graph import Graph, op, record, starmap, submit
from clew.probes.graph import load as load_graph
from clew.probes.graph import map as pmap

pstarmap = starmap
apply_async = submit


class Names(list[str]):
    """The names of the inputs; Matx has them as an attribute and as a method."""

    def __call__(self) -> list[str]:
        return list(self)


class Module:
    """A traced pipeline, under the names Matx has for what one can do with it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def run(self, feed_dict: Mapping[str, Any]) -> Any:
        return self.graph.run(feed_dict)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.graph(*args, **kwargs)

    def save(self, path: str | os.PathLike[str], force_override: bool = True) -> None:
        if not force_override and os.path.exists(path):
            raise OptionError("bundle-there", f"{os.fspath(path)} is there already.", "Say force_override=True.")
        self.graph.save(path)

    def warmup(self, feed_dict: Mapping[str, Any]) -> None:
        self.graph.warmup(feed_dict)

    def profile(self, feed_dict: Mapping[str, Any]) -> Any:
        return self.graph.profile(feed_dict)

    def set_sess_attr(self, name: str, value: Any) -> None:
        self.graph.attrs[name] = value

    def get_sess_attr(self, name: str) -> Any:
        return self.graph.attrs.get(name)

    @property
    def input_names(self) -> Names:
        return Names(self.graph.input_names)

    def __repr__(self) -> str:
        return repr(self.graph)


def script(thing: Any, *, backend: str | None = None, device: Any = None) -> Any:
    """Make an operator: of a function, a class, a torch module; of a saved model, with backend="pytorch"."""
    if isinstance(thing, (str, os.PathLike)):
        kinds = {"pytorch": PytorchModel, "torch": PytorchModel, "tensorflow": TensorFlowModel}
        kind = kinds.get((backend or "").lower())
        if kind is None:
            what = f"matx.script of a path needs backend=, not {backend!r}."
            raise OptionError("bad-option", what, 'There is "pytorch" and "TensorFlow".')
        return kind(os.fspath(thing), None if device is None else str(device))
    if device is not None and hasattr(thing, "to"):
        thing = thing.to(torch_device(device))
    return op(thing)


def trace(pipeline: Callable[..., Any], *args: Any, **kwargs: Any) -> Module:
    """Run a pipeline once with an example, and give what it did as a module."""
    if len(args) == 1 and type(args[0]) is list and not kwargs:
        args = ([args[0]],)  # Matx knows one example only, and that may be a list
    return Module(record(pipeline, *args, **kwargs))


def load(path: str | os.PathLike[str], device: Any = None) -> Module:
    """A saved module. As in Matx, its code is run: load what you trust."""
    return Module(load_graph(path, trusted=True, device=None if device is None else torch_device(device)))


def torch_device(device: Any) -> Any:
    """Matx counts devices: -1 is the CPU, 0 the first GPU."""
    if isinstance(device, int):
        return "cpu" if device < 0 else f"cuda:{device}"
    return device


@op
class PytorchModel:
    """A TorchScript file as an operator."""

    def __init__(self, path: str, device: str | None = None) -> None:
        try:
            import torch
        except ImportError as error:
            what = 'matx.script(path, backend="pytorch") needs torch, which is not installed.'
            raise MissingLibraryError("missing-library", what, "pip install torch") from error
        where = torch_device(device) or "cpu"
        self.model = torch.jit.load(path, map_location=where)  # type: ignore[no-untyped-call]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.model(*args, **kwargs)


@op
class TensorFlowModel:
    """A SavedModel folder as an operator."""

    def __init__(self, path: str, device: str | None = None) -> None:
        try:
            import tensorflow
        except ImportError as error:
            what = 'matx.script(path, backend="TensorFlow") needs tensorflow, which is not installed.'
            raise MissingLibraryError("missing-library", what, "pip install tensorflow") from error
        self.model = tensorflow.saved_model.load(path)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.model(*args, **kwargs)


__all__ = ["Module", "apply_async", "load", "pmap", "pstarmap", "script", "trace"]
