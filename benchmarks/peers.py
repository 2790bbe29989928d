"""Other ways to see variables change, each as a decorator of a function: the tools, and the methods behind them.

And other ways to see what is inside a model, each as a context manager.
"""

from __future__ import annotations

import copy
import functools
import inspect
import os
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

Function = Callable[..., Any]
Decorator = Callable[[Function], Function]


def smallest_settrace(function: Function) -> Function:
    """A trace function that does nothing: what `sys.settrace` costs before anything is looked at."""

    def each(frame: FrameType, event: str, argument: Any) -> Any:
        return each

    return _under_settrace(function, each)


def ztrace_method(*names: str) -> Decorator:
    """ztrace's method, as its README tells it: after each line, `repr(last_var) == repr(cur_var)` of each variable.

    A variable may be `arr[1]` or `obj["a"]`, so each is evaluated; it may be mutable, so a copy is kept.
    """

    def decorator(function: Function) -> Function:
        code = function.__code__
        last: dict[str, Any] = {}
        expressions = {name: compile(name, "<watched>", "eval") for name in names}
        found: dict[str, list[Any]] = {name: [] for name in names}

        def each(frame: FrameType, event: str, argument: Any) -> Any:
            if frame.f_code is not code:
                return None
            for name, expression in expressions.items():
                try:
                    value = eval(expression, frame.f_globals, frame.f_locals)
                except Exception:  # not there yet
                    continue
                if name not in last or repr(last[name]) != repr(value):
                    last[name] = copy.deepcopy(value)
                    found[name].append(last[name])
            return each

        return _under_settrace(function, each)

    return decorator


def _under_settrace(function: Function, each: Any) -> Function:
    @functools.wraps(function)
    def traced(*args: Any) -> Any:
        before = sys.gettrace()
        sys.settrace(each)
        try:
            return function(*args)
        finally:
            sys.settrace(before)

    return traced


def pysnooper(*names: str) -> Decorator:
    """PySnooper, its output thrown away as it comes. (It has no way to look at some variables only.)"""
    import pysnooper as tool

    decorator: Decorator = tool.snoop(output=lambda text: None, color=False)
    return decorator


def snoop(*names: str) -> Decorator:
    """snoop, its output thrown away as it comes."""
    from snoop.configuration import Config

    decorator: Decorator = Config(out=lambda text: None, color=False).snoop
    return decorator


def viztracer(*names: str) -> Decorator:
    """VizTracer's own logging of variables (`--log_var`), alone: its tracing of calls is switched off."""
    from viztracer import VizTracer
    from viztracer.code_monkey import CodeMonkey

    tracer = VizTracer(verbose=0, max_stack_depth=0, ignore_c_function=True, tracer_entries=200_000)

    def decorator(function: Function) -> Function:
        monkey = CodeMonkey("loop.py")
        monkey.add_instrument("log_var", {"varnames": list(names)})  # type: ignore[dict-item]
        scope: dict[str, Any] = {}
        exec(monkey.compile(textwrap.dedent(inspect.getsource(function)), "loop.py", "exec"), scope)
        instrumented = scope[function.__name__]

        def traced(*args: Any) -> Any:
            tracer.clear()
            tracer.start()
            try:
                return instrumented(*args)
            finally:
                tracer.stop()

        return traced

    return decorator


def quiet() -> None:
    """Let nothing a tool prints reach the terminal."""
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # for the life of the process


# ---- inside a model: each is entered around some steps of a training, and gives what to call in place of the model ---


Forward = Callable[[Any], Any]


@contextmanager
def cloning_hooks(model: Any) -> Iterator[Forward]:
    """The least that keeps what every module gives: a hook that clones it. The copies are let go of at the end."""
    with keeping_hooks(model, lambda tensor: tensor.detach().clone()):
        yield model


@contextmanager
def reducing_hooks(model: Any) -> Iterator[Forward]:
    """Summaries as most people write them: one reduction after the other, each brought to Python."""

    def reductions(tensor: Any) -> tuple[float, ...]:
        t = tensor.detach()
        return t.min().item(), t.max().item(), t.mean().item(), t.std().item(), t.isnan().sum().item()

    with keeping_hooks(model, reductions):
        yield model


@contextmanager
def keeping_hooks(model: Any, what: Callable[[Any], Any]) -> Iterator[list[Any]]:
    """Keeps `what` of every tensor that any module gives."""
    kept: list[Any] = []

    def hook(module: Any, given: Any, output: Any) -> None:
        kept.extend([what(tensor) for tensor in _tensors(output)])

    handles = [module.register_forward_hook(hook) for module in model.modules() if module is not model]
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()


def _tensors(value: Any) -> list[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    return [item for item in value if isinstance(item, torch.Tensor)] if isinstance(value, (tuple, list)) else []


@contextmanager
def tensortracer_method(model: Any) -> Iterator[Forward]:
    """TensorTracer's method, as its README tells it: local variables and results of `forward`, seen by `sys.settrace`;
    kept, in memory, where they have changed since the iteration before.

    It is made lean: within a call, a tensor that is the same object and of the same version is not compared again.
    """
    import torch

    names = {id(module): name for name, module in model.named_modules()}
    codes = {type(module).forward.__code__ for module in model.modules()}
    last: dict[tuple[str, str], Any] = {}
    kept: dict[tuple[str, str], list[Any]] = {}

    def look(key: tuple[str, str], value: Any) -> None:
        before = last.get(key)
        if before is None or before.shape != value.shape or not torch.equal(before, value):
            last[key] = copied = value.detach().clone()
            kept.setdefault(key, []).append(copied)

    def called(frame: FrameType, event: str, argument: Any) -> Any:
        name = names.get(id(frame.f_locals.get("self"))) if frame.f_code in codes else None
        if name is None:
            return None
        seen: dict[str, tuple[int, int]] = {}

        def each(frame: FrameType, event: str, argument: Any) -> Any:
            for variable, value in frame.f_locals.items():
                if isinstance(value, torch.Tensor) and seen.get(variable) != (id(value), value._version):
                    seen[variable] = id(value), value._version
                    look((name, variable), value)
            if event == "return":
                for place, value in enumerate(_tensors(argument)):
                    look((name, f"result {place}"), value)
            return each

        return each

    before = sys.gettrace()
    sys.settrace(called)
    try:
        yield model
    finally:
        sys.settrace(before)


@contextmanager
def nnsight(model: Any) -> Iterator[Forward]:
    """nnsight's own cache of what all modules give. It keeps the tensors themselves, and copies nothing on the CPU."""
    from nnsight import NNsight

    wrapped = NNsight(model)
    kept = []

    def forward(x: Any) -> Any:
        with wrapped.trace(x) as tracer:
            cache = tracer.cache()
            output = wrapped.output.save()
        kept.append(cache)
        return output

    yield forward


@contextmanager
def torchlens(model: Any) -> Iterator[Forward]:
    """TorchLens as its README shows it: what every operation gives, and the graph of them."""
    import torchlens as tool

    warnings.filterwarnings("ignore", message="tracing runs the model's REAL forward")
    kept = []

    def forward(x: Any) -> Any:
        trace = tool.trace(model, x)
        kept.append(trace)
        return trace[trace.output_layers[0]].out

    yield forward


@contextmanager
def torchlens_record(model: Any) -> Iterator[Forward]:
    """TorchLens' quick way: what every operation gives, and little about it."""
    import torchlens as tool

    kept = []

    def forward(x: Any) -> Any:
        output, recording = tool.record(model, x, default_op=True, return_output=True)
        kept.append(recording)
        return output

    yield forward
