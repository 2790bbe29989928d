"""The names of Matx trace: code written for it runs here after its import line alone is changed.

`matx.script` is `clew.op`, `matx.trace` is `clew.record`, and what it gives is a clew graph under the names Matx has.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from clew.errors import MissingLibraryError, OptionError
from clew.probes.graph import Graph, op, record, starmap, submit, tensorflow
from clew.probes.graph import load as load_graph
from clew.probes.graph import map as pmap
from clew.probes.graph.measuring import Profile

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

    def save(self, folder: str | os.PathLike[str], name: str = "", force_override: bool = True) -> None:
        """`name` is that of the file Matx writes; a bundle has names of its own."""
        if not force_override and os.path.exists(folder):
            raise OptionError("bundle-there", f"{os.fspath(folder)} is there already.", "Say force_override=True.")
        self.graph.save(folder)

    def warmup(self, feed_dict: Mapping[str, Any]) -> Any:
        """Run once; as in Matx, what comes out is given."""
        return self.graph.run(feed_dict)

    def profile(self, feed_dict: Mapping[str, Any], warmup_times: int = 10) -> Profile:
        """Print how long each step takes, after a few runs, and give it."""
        for _ in range(warmup_times):
            self.graph.run(feed_dict)
        found = self.graph.profile(feed_dict)
        sys.stdout.write(f"{found}\n")
        return found

    def set_sess_attr(self, key: str, value: Any) -> None:
        self.graph.attrs[key] = value

    def get_sess_attr(self, key: str) -> Any:
        return self.graph.attrs.get(key)

    def has_sess_attr(self, key: str) -> bool:
        return key in self.graph.attrs

    # ---- threads: Matx has three pools, a graph one

    def set_op_parallelism_threads(self, thread_num: int = 2, share: bool = False) -> None:
        self.graph.parallel = thread_num

    def get_op_parallelism_threads(self) -> int:
        return self.graph.parallel

    def disable_op_parallelism(self) -> None:
        self.graph.parallel = 1

    def set_pmap_threads(self, thread_num: int = 8, share: bool = False) -> None:
        self.set_op_parallelism_threads(thread_num)

    set_apply_async_threads = set_op_parallelism_threads
    get_pmap_threads = get_apply_async_threads = get_op_parallelism_threads
    disable_pmap_threads = disable_apply_async_threads = disable_op_parallelism

    @property
    def input_names(self) -> Names:
        return Names(self.graph.input_names)

    def __repr__(self) -> str:
        return repr(self.graph)


def script(
    compiling_obj: Any,
    *,
    backend: str | None = None,
    device: Any = None,
    share: bool = True,
    toolchain: Any = None,
    bundle_args: Any = None,
    trace_func: Any = None,
    use_xla: int = 0,
    allow_growth: bool = False,
) -> Any:
    """Make an operator: of a function, a class, a torch or TensorFlow module; of a saved model, with backend=.

    The others are for Matx's compilers, and nothing is compiled here: share (`clew.load(..., share=True)`), toolchain,
    trace_func, bundle_args (each file that a constructor is given comes along), use_xla and allow_growth (`tf.config`).
    """
    if isinstance(compiling_obj, (str, os.PathLike)):
        return _saved_model(os.fspath(compiling_obj), backend, None if device is None else str(device))
    if device is not None and tensorflow.is_model(compiling_obj):
        tensorflow.device_named(device)  # one that is not there is told; TensorFlow puts its own work where it can
        return op(compiling_obj)
    if device is not None and hasattr(compiling_obj, "to"):
        compiling_obj = compiling_obj.to(torch_device(device))
    return op(compiling_obj)


def _saved_model(path: str, backend: str | None, device: str | None) -> Any:
    named = (backend or "").lower()
    if named in ("pytorch", "torch"):
        return PytorchModel(path, device)
    if named == "tensorflow":
        from clew.probes.graph.savedmodels import SavedModel

        return SavedModel(os.path.abspath(path), device, feeds=True)
    what = f"matx.script of a path needs backend=, not {backend!r}."
    raise OptionError("bad-option", what, 'There is "pytorch" and "TensorFlow".')


def trace(pipeline: Callable[..., Any], *args: Any, **kwargs: Any) -> Module:
    """Run a pipeline once with an example, and give what it did as a module."""
    if len(args) == 1 and type(args[0]) is list and not kwargs:
        args = ([args[0]],)  # Matx knows one example only, and that may be a list
    return Module(record(pipeline, *args, **kwargs))


def save(jit_module: Module, folder: str | os.PathLike[str], force_override: bool = False) -> None:
    jit_module.save(folder, force_override=force_override)


def load(path: str | os.PathLike[str], device: Any = None) -> Module:
    """A saved module. As in Matx, its code is run: load what you trust."""
    return Module(load_graph(path, trusted=True, device=None if device is None else torch_device(device)))


def torch_device(device: Any) -> Any:
    """Matx counts devices: -1 is the CPU, 0 the first GPU."""
    try:
        number = int(device)
    except (TypeError, ValueError):
        return device  # "cpu", torch.device("cuda:0")
    return "cpu" if number < 0 else f"cuda:{number}"


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
        # Its method alone: the parameters of a TorchScript model are other objects each time they are looked at, and a
        # bundle, which loads the file again, would take them for changed.
        self.forward = torch.jit.load(path, map_location=where).__call__  # type: ignore[no-untyped-call]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)


__all__ = ["Module", "apply_async", "load", "pmap", "pstarmap", "save", "script", "trace"]
