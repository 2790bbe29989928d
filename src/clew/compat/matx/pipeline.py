"""`matx.pipeline`: recording, saving and loading."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from clew.graph import Graph, record
from clew.graph import load as load_graph
from clew.graph.nodes import Block
from clew.graph.recording.loops.steps import unrolled_loops

from .devices import torch_device
from .module import Module, bundle_in


def trace(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Module:
    """Run a pipeline once with an example, and give what it did as a module."""
    if len(args) == 1 and type(args[0]) is list and not kwargs:
        args = ([args[0]],)  # Matx knows one example only, and that may be a list
    with unrolled_loops():  # another number of values is an error, as in Matx
        return Module(record(func, *args, **kwargs))


def save(
    jit_module: Module, folder: str | os.PathLike[str], force_override: bool = False, assets: Any = "anywhere"
) -> None:
    jit_module.save(folder, force_override=force_override, assets=assets)


def load(folder: str | os.PathLike[str], device: Any = None) -> Module:
    """A saved module. As in Matx, its code is run: load what you trust. Loads of one bundle share their operators,
    except those that were made by `matx.script(..., share=False)`."""
    place = None if device is None else torch_device(device)
    return Module(load_graph(bundle_in(folder) or folder, trusted=True, device=place, share=True))


class TXObject:
    """Where Matx keeps the session for calls outside any graph; here such calls use no threads."""

    default_sess = Module(Graph([], Block([])))


Trace, Save, Load = trace, save, load
JITModule = Module

__all__ = ["JITModule", "Load", "Module", "Save", "TXObject", "Trace", "load", "save", "trace"]
