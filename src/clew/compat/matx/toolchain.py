"""`matx.script` and `matx.toolchain.make_session`: operators, and graphs of one operator."""

from __future__ import annotations

import functools
import inspect
import os
import tempfile
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from clew.errors import OptionError, TargetError
from clew.graph import Graph, op, tensorflow
from clew.graph.nodes import Block, Input, Ref, Step, Where
from clew.graph.operators import Operator, made

from . import models
from .module import Module

_TORCH, _TF = ("pytorch", "torch"), "tensorflow"  # values of backend=
_folders: list[tempfile.TemporaryDirectory[str]] = []


def script(
    compiling_obj: Any,
    *,
    backend: str | None = None,
    device: Any = None,
    share: bool = True,
    toolchain: Any = None,
    bundle_args: Iterable[str] | None = None,
    trace_func: Any = None,
    use_xla: int = 0,
    allow_growth: bool = False,
    output_to_cpu: bool = True,
    example: Any = None,
) -> Any:
    """Make an operator: of a function, a class, a torch or TensorFlow module; of a saved model, with backend=.

    share         loads of one bundle share the objects of this class that this call makes
    bundle_args   the arguments of the constructor whose files come along (default: all of them)

    The others are for Matx's compilers, and nothing is compiled here: toolchain, trace_func, example, output_to_cpu,
    use_xla and allow_growth (`tf.config`).
    """
    if isinstance(compiling_obj, str | os.PathLike):
        return _saved_model(os.fspath(compiling_obj), backend, device)
    if tensorflow.is_model(compiling_obj) or tensorflow.is_module(compiling_obj):
        if device is not None:
            tensorflow.device_named(device)  # one that is not there is told; TensorFlow puts its work where it can
        return op(compiling_obj) if callable(compiling_obj) else _saved_model(_written(compiling_obj), _TF, device)
    if models.is_torch(compiling_obj) or (backend or "").lower() in _TORCH:
        return models.TorchOperator(compiling_obj, device)
    if isinstance(compiling_obj, type) and (bundle_args is not None or not share):
        return _Creator(op(compiling_obj), None if bundle_args is None else _names(bundle_args), share)
    return op(compiling_obj)


def _names(bundle_args: Any) -> frozenset[str]:
    if not isinstance(bundle_args, list | set | tuple):  # as in Matx: a text would be its letters
        raise OptionError(
            "bad-option", f"bundle_args={bundle_args!r} is no list of names.", 'Write bundle_args=["loc"].'
        )
    return frozenset(bundle_args)


class _Creator(functools.partial[Any]):
    """An operator class, and what holds for the objects that are made by this creator: the arguments whose files a
    bundle takes along, and whether its loads share them.

    Inside a recorded pipeline it is the class itself, as any partial is: the files of all arguments come along, and
    an object in which its methods keep something is made anew each time the graph runs.
    """

    path_arguments: frozenset[str] | None
    is_shared: bool

    def __new__(cls, made_class: type, path_arguments: frozenset[str] | None, is_shared: bool) -> _Creator:
        creator = super().__new__(cls, made_class)
        creator.path_arguments = path_arguments
        creator.is_shared = is_shared
        functools.update_wrapper(creator, made_class, updated=())
        return creator

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        obj = super().__call__(*args, **kwargs)
        how = made(obj)
        if how is not None:
            how.path_arguments = self.path_arguments
            how.is_shared = self.is_shared
        return obj


def _saved_model(path: str, backend: str | None, device: Any) -> Any:
    named = (backend or "").lower()
    if named in _TORCH:
        return models.TorchOperator(models.loaded(path, device), device)
    if named == _TF:
        from clew.graph.savedmodels import SavedModel

        return SavedModel(os.path.abspath(path), None if device is None else str(device), feeds=True)
    what = f"matx.script of a path needs backend=, not {backend!r}."
    raise OptionError("bad-option", what, 'There is "pytorch" and "TensorFlow".')


def _written(model: Any) -> str:
    """A module without `__call__` in a folder of its own: it is called by its signature, as Matx does it."""
    folder = tempfile.TemporaryDirectory(prefix="clew_matx_")
    _folders.append(folder)  # it is needed again when the operator is saved
    tensorflow.library().saved_model.save(model, folder.name)
    return folder.name


def make_session(compiling_obj: Any, method: str = "__call__") -> Any:
    """A graph of one operator, without an example: of a function, or of a class, whose arguments it takes next."""
    if isinstance(compiling_obj, FunctionType):
        operator: Any = op(compiling_obj)
        return _session(operator)
    if not isinstance(compiling_obj, type) or not callable(getattr(compiling_obj, method, None)):
        what = f"make_session cannot use {compiling_obj!r} with method={method!r}."
        raise TargetError("not-an-operator", what, "Give a function, or a class that has the method.")
    scripted = op(compiling_obj)

    def creator(*args: Any, **kwargs: Any) -> Module:
        return _session(Operator(getattr(scripted(*args, **kwargs), method)))

    return creator


def _session(operator: Operator) -> Module:
    function: Callable[..., Any] = operator.target
    names = list(inspect.signature(function).parameters)
    code = inspect.unwrap(getattr(function, "__func__", function)).__code__
    inputs = [Input(number, name, None, False) for number, name in enumerate(names)]
    step = Step(len(names), "operator", operator, tuple(Ref(one.id) for one in inputs), {}, _place(code))
    return Module(Graph(inputs, Block([step], Ref(step.id)), operator.name))


def _place(code: Any) -> Where:
    return Where(code.co_filename, code.co_firstlineno)
