"""The names of Matx trace: code written for it runs here after its import line alone is changed.

`matx.script` is `clew.op`, `matx.trace` is `clew.record`, and what it gives is a clew graph under the names Matx has.
"""

from __future__ import annotations

from typing import Any

from clew.graph import map as pmap
from clew.graph import starmap as pstarmap
from clew.graph import submit as apply_async

from . import array, pipeline, toolchain
from .array import NDArray
from .devices import Device, torch_device
from .module import Module
from .pipeline import load, save, trace
from .toolchain import script

List, Dict, Set = FTList, FTDict, FTSet = list, dict, set


class _TupleType(type):
    def __call__(cls, *items: Any) -> tuple[Any, ...]:
        return items

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, tuple)


class Tuple(tuple[Any, ...], metaclass=_TupleType):
    """Made of its items, `matx.Tuple(1, 2)`; what is made is a tuple of Python's."""


__all__ = [
    "Device", "Dict", "FTDict", "FTList", "FTSet", "List", "Module", "NDArray", "Set", "Tuple", "apply_async",
    "array", "load", "pipeline", "pmap", "pstarmap", "save", "script", "toolchain", "torch_device", "trace",
]  # fmt: skip
