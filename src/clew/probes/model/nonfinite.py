"""Where a NaN or Inf was born: the first call that made one from finite inputs, and not those that passed it on.

Modules end from the inside out, so the first one that gives something non-finite, although it and its weights got
nothing but finite numbers, is the one. Gradients arrive from the loss inwards, and are judged in that order. Weights
are looked at after each optimizer step.
"""

from __future__ import annotations

import cmath
import copy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from clew import env, trouble
from clew.errors import NonfiniteError
from clew.probes.libraries import is_library

from .inside import tensors_in
from .paths import names_in

if TYPE_CHECKING:
    from .tracer import ModelTracer

_MOST_NAMED = 5
_PLAIN = (torch.Tensor, torch.nn.Parameter)


@dataclass
class Finding:
    """The birth of a non-finite value."""

    where: str  # "forward", "backward", "optimizer" or "input"
    path: str  # of the module or parameter, "" for the model itself
    what: str  # a sentence
    iteration: int
    rank: int
    file: str = ""
    line: int = 0
    operation: str = ""  # the torch operation, where it could be found out
    inputs: dict[str, Any] = field(default_factory=dict)  # of that call, as they were
    passed_on: list[str] = field(default_factory=list)  # calls that only passed it on
    call: Any = None  # in the run: `finding.call.rerun()` makes it again

    def __str__(self) -> str:
        place = f" at {self.file}:{self.line}" if self.file else ""
        operation = f", by {self.operation}" if self.operation else ""
        return f"{self.what}{operation}{place} (iteration {self.iteration}, rank {self.rank})"


def is_finite(tensor: Any) -> bool:
    """One pass: a sum of finite numbers is finite, unless it overflows, which is looked into."""
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.is_meta or not tensor.numel():
        return True
    with torch.no_grad():
        tensor = tensor.detach()
        if tensor.layout is not torch.strided:
            tensor = tensor.coalesce().values() if tensor.layout is torch.sparse_coo else tensor.values()
        total = tensor.sum().item()
        return cmath.isfinite(total) or bool(torch.isfinite(tensor).all())


def _non_finite(tensors: dict[str, Any]) -> list[str]:
    """The names of those that hold a NaN or Inf; one look at all of them if there is none."""
    plain = [each.detach() for each in tensors.values() if each.layout is torch.strided and type(each) in _PLAIN]
    if len(plain) == len(tensors) and plain:
        with torch.no_grad():
            norms = torch._foreach_norm(plain)
            if cmath.isfinite(sum(norm.item() for norm in norms)):
                return []
    return [name for name, each in tensors.items() if not is_finite(each)]


def all_finite(value: Any) -> bool:
    return all(is_finite(tensor) for _, tensor in tensors_in(value, ""))


class Finder:
    """Looks at every call of every module until the first non-finite value."""

    told = False  # of one, by any finder of this process

    def __init__(self, tracer: ModelTracer, how: str) -> None:
        self._tracer = tracer
        self._how = how
        self._done = False
        self._undo: list[Callable[[], None]] = []
        self._passed_on: list[str] = []
        self._versions: dict[int, list[list[int]]] = {}  # by module: versions of the inputs of its open calls
        self._consumers: dict[int, str] = {}  # by output tensor: the module that was given it last
        self._last_finite_gradient = ""
        self.finding: Finding | None = None

    def attach(self) -> None:
        for path, module in self._tracer.model.named_modules():
            before = module.register_forward_pre_hook(self._before(path), with_kwargs=True)
            after = module.register_forward_hook(self._after(path), with_kwargs=True)
            self._undo += [before.remove, after.remove]
        self._undo.append(register_optimizer_step_post_hook(self._stepped).remove)

    def detach(self) -> None:
        for undo in self._undo:
            undo()
        self._undo.clear()

    @property
    def _looks(self) -> bool:
        return self._tracer.active and not self._done

    # ---- forward

    def _before(self, path: str) -> Any:
        def before(module: Any, args: Any, kwargs: Any) -> None:
            if self._looks and not path:
                self._look_at_gradients(dict(module.named_parameters()))
            if self._looks:
                tensors = [tensor for _, tensor in tensors_in([args, kwargs], "")]
                stamps = [0 if tensor.is_inference() else tensor._version for tensor in tensors]
                self._versions.setdefault(id(module), []).append(stamps)
                for tensor in tensors:
                    self._consumers[id(tensor)] = path

        return before

    def _after(self, path: str) -> Any:
        def after(module: Any, args: Any, kwargs: Any, output: Any) -> None:
            stamps = (self._versions.get(id(module)) or [[]]).pop()
            if not self._looks:
                return
            if all_finite(output):
                self._await_gradients(path, output)
                if not path:
                    self._end_of_forward()
                return
            if not all_finite([args, kwargs]):
                self._passed_on.append(path or "the model")
            elif bad := [name for name, each in module.named_parameters() if not is_finite(each)]:
                self._found("forward", path, f"weights of {_title(path, module)} were non-finite already: {_list(bad)}")
            else:
                self._born(path, module, args, kwargs, stamps)
            if not path:
                self._end_of_forward()

        return after

    def _born(self, path: str, module: Any, args: Any, kwargs: Any, stamps: list[int]) -> None:
        tensors = [tensor for _, tensor in tensors_in([args, kwargs], "")]
        now = [0 if tensor.is_inference() else tensor._version for tensor in tensors]
        changed = "; its inputs were changed in place meanwhile, and are kept as they are now" if now != stamps else ""
        what = f"{_title(path, module)} made a non-finite value from finite inputs{changed}"
        found = self._found("forward", path, what, raises=False)
        found.file, found.line = _user_line(sys._getframe(1))
        names = names_in(module, "forward").arguments
        given = dict(zip(names, args, strict=False)) | kwargs
        found.inputs = {name: _copy(value) for name, value in given.items()}
        again = _locate(module, found, args, kwargs)
        self._record(found, module, again, given)
        self._tell(found)

    def _end_of_forward(self) -> None:
        if self._passed_on and not self._done:
            self._found("input", "", "the model was given a non-finite value")
        self._passed_on = []
        self._last_finite_gradient = ""

    # ---- backward

    def _await_gradients(self, path: str, output: Any) -> None:
        for _, tensor in tensors_in(output, ""):
            if tensor.requires_grad:
                tensor.register_hook(self._arrived(path, id(tensor)))

    def _arrived(self, path: str, tensor: int) -> Any:
        def arrived(gradient: Any) -> None:
            if not self._looks:
                return
            if is_finite(gradient):
                self._last_finite_gradient = path
                return
            consumer = self._consumers.get(tensor)
            if not path:
                self._found("backward", "", "the gradient of what the model gives is non-finite: the loss made it")
            elif consumer is None or consumer == path:
                self._found(
                    "backward", path, f"the gradient of what `{path}` gives is non-finite; what used it made it"
                )
            else:
                what = (
                    f"`{consumer or 'the model'}` made a non-finite gradient from finite ones, for what `{path}` gives"
                )
                self._found("backward", consumer, what)

        return arrived

    # ---- weights and their gradients: all at once, when the optimizer has used them or the model is called again

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not self._looks:
            return
        own = {id(parameter): name for name, parameter in self._tracer.model.named_parameters()}
        mine = {own[id(each)]: each for group in optimizer.param_groups for each in group["params"] if id(each) in own}
        self._look_at_gradients(mine)
        bad = _non_finite(mine)
        if bad and not self._done:
            self._found("optimizer", bad[0], f"the optimizer's step made weights non-finite: {_list(bad)}")

    def _look_at_gradients(self, parameters: dict[str, Any]) -> None:
        gradients = {name: each.grad for name, each in parameters.items() if each.grad is not None}
        bad = _non_finite(gradients)
        if bad:
            what = f"the gradient of weights became non-finite, from finite ones: {_list(bad)}"
            self._found("backward", bad[0], what)

    # ---- telling

    def _found(self, where: str, path: str, what: str, *, raises: bool = True) -> Finding:
        self._done = True
        tracer = self._tracer
        found = self.finding = Finding(where, path, what, tracer.iteration, tracer.rank, passed_on=self._passed_on)
        if raises:
            found.file, found.line = _user_line(sys._getframe(1))
            self._tell(found)
        return found

    def _tell(self, found: Finding) -> None:
        tracer = self._tracer
        tracer.note("non-finite", found.path or "the model", f"{found}.")
        if found.where != "input" or not Finder.told:  # another model made it, and this one was given it
            trouble.report(f"nonfinite:{id(tracer)}", f"{found}", "" if found.call is None else _HOW_TO_RERUN)
        Finder.told = True
        tracer.fire(f"non-finite: {found.what}")
        if self._how == "raise":
            raise NonfiniteError("non-finite", f"{found}.", "It was recorded; `tracer.nonfinite` tells more.")
        if self._how == "stop":
            tracer.halt()

    def _record(self, found: Finding, module: Any, again: Any, given: dict[str, Any]) -> None:
        if not self._tracer.stores:
            return
        from .written import write_call

        found.call = write_call(self._tracer, module, again, found.inputs)


_HOW_TO_RERUN = "`tracer.nonfinite.call.rerun()` makes that call again."


def _title(path: str, module: Any) -> str:
    return f"`{path}` ({type(module).__name__})" if path else type(module).__name__


def _list(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(f"`{name}`" for name in names[:_MOST_NAMED]) + more


def _copy(value: Any) -> Any:
    """The value, its tensors copied."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_copy, value))
    return value


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _user_line(frame: FrameType | None) -> tuple[str, int]:
    """The innermost line of the user's own code on the stack."""
    for each in _frames(frame):
        file = each.f_code.co_filename
        if not file.startswith(env.PACKAGE) and not is_library(file):
            return file, each.f_lineno
    return "", 0


class _Watch(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Looks at what every operation gives, and remembers the first that made something non-finite."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operation = ""
        self.place = ("", 0)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        if not self.operation and not all_finite(output) and all_finite([args, kwargs or {}]):
            self.operation = str(func).removeprefix("aten.").rpartition(".")[0] or str(func)
            self.place = _user_line(sys._getframe(1))
        return output


def _without_hooks(module: Any) -> Any:
    """A copy that nobody listens to."""
    memo: dict[int, Any] = {}
    for inner in module.modules():
        for name, held in vars(inner).items():
            if name.endswith("_hooks") and isinstance(held, dict):
                memo[id(held)] = type(held)()
            elif callable(held) and hasattr(held, "__wrapped__"):
                memo[id(held)] = None  # a method that the tracer put there
    again = copy.deepcopy(module, memo)
    for inner in again.modules():
        for name in [name for name, held in vars(inner).items() if held is None and hasattr(type(inner), name)]:
            del vars(inner)[name]
    return again


def _locate(module: Any, found: Finding, args: Any, kwargs: Any) -> Any:
    """Run a copy of the module on its inputs once more, operation by operation, to know the line; gives the copy."""
    try:
        again = _without_hooks(module)
        with torch.random.fork_rng(devices=[]), torch.no_grad(), _Watch() as watch:
            again(*map(_copy, args), **{name: _copy(value) for name, value in kwargs.items()})
    except Exception:
        return None  # what cannot be copied or called again is told without its line
    if watch.operation:
        found.operation = watch.operation
        file, line = watch.place
        if file:
            found.file, found.line = file, line
    return again


__all__ = ["Finder", "Finding", "all_finite", "is_finite"]
