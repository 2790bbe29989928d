"""Where a NaN or Inf was born: the first call that made one from finite inputs, and not those that passed it on.

Modules end from the inside out, so the first one that gives a NaN, although there was none in what it got and in its
weights, is the one; unless it made it of an Inf, by accident, of another. An Inf may be meant (a mask): the first is
remembered, and told if it reaches what the model gives.
Gradients arrive from the loss inwards, and are judged in that order. Weights and their gradients are looked at after
each optimizer step.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from torch.optim.optimizer import register_optimizer_step_post_hook

from clew import trouble
from clew.errors import NonfiniteError
from clew.instrument.module_calls import listen

from .container_items import tensors_in
from .finite_checks import (  # fmt: skip
    FINE,
    INF,
    MEANT,
    NAN,
    Place,
    is_finite,
    listed,
    locate,
    non_finite,
    set_aside,
    state_of_weights,
    user_line,
    worst,
)
from .gradients import on_gradient
from .paths import names_in
from .undo_steps import do_all

if TYPE_CHECKING:
    from .tracer import ModelTracer

_HOW_TO_RERUN = "`tracer.nonfinite.call.rerun()` makes that call again."
_HOW_TO_LOOK = "`clew show latest` has what was recorded of it."  # nobody has the tracer under `clew run`


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
    weights: str = ""  # whether those of the model were finite by then, and how large
    is_model: bool = True  # False: a loss, transform or layer that was called on its own

    def __str__(self) -> str:
        place = f" at {self.file}:{self.line}" if self.file else ""
        operation = f", by {self.operation}" if self.operation else ""
        when = f"iteration {self.iteration}" if self.is_model else f"call {self.iteration}"
        weights = f"; {self.weights}" if self.weights else ""
        return f"{self.what}{operation}{place} ({when}, rank {self.rank}){weights}"


class _Birth(NamedTuple):
    """A call that made something non-finite, with copies of what it got."""

    kind: str
    path: str
    module: Any
    args: Any
    kwargs: Any
    changed: bool  # in place, since the call began
    place: tuple[str, int]

    @property
    def title(self) -> str:
        return _title(self.path, self.module)


class Finder:
    """Looks at every call of every module until the first non-finite value."""

    told = False  # of one, by any finder of this process

    def __init__(self, tracer: ModelTracer, how: str) -> None:
        self._tracer = tracer
        self._how = how
        self._done = False
        self._undo: list[Callable[[], None]] = []
        self._passed_on: list[str] = []
        self._infinite: _Birth | None = None  # the first Inf of this iteration
        self._versions: dict[int, list[list[int]]] = {}  # by module: versions of the inputs of its open calls
        self._consumers: dict[int, str] = {}  # by output tensor: the module that was given it last
        self.finding: Finding | None = None

    def attach(self) -> None:
        for path, module in self._tracer.model.named_modules():
            self._undo.append(listen(module, _Layer(self, path)))
        self._undo.append(register_optimizer_step_post_hook(self._guarded(self._stepped)).remove)

    def detach(self) -> None:
        undo, self._undo = self._undo, []
        do_all(undo)

    def _guarded(self, hook: Callable[..., None]) -> Callable[..., None]:
        """A failure of ours is not the program's."""

        def guarded(*args: Any) -> None:
            try:
                hook(*args)
            except NonfiniteError:
                raise
            except Exception as error:
                self._tracer.failed(error)

        return guarded

    def failed(self, error: Exception) -> None:
        self._tracer.failed(error)

    @property
    def _subject(self) -> str:
        return "the model" if self._tracer.is_model else type(self._tracer.model).__name__

    @property
    def _looks(self) -> bool:
        return self._tracer.active and not self._done

    # ---- forward

    def before(self, path: str, module: Any, args: Any, kwargs: Any) -> None:
        """A module is called."""
        if self._looks and not path:
            self._begin(module)
        if self._looks:
            tensors = [tensor for _, tensor in tensors_in([args, kwargs], "")]
            self._versions.setdefault(id(module), []).append(_stamps(args, kwargs))
            for tensor in tensors:
                self._consumers[id(tensor)] = path

    def _begin(self, model: Any) -> None:
        self._passed_on, self._infinite = [], None
        self._consumers.clear()
        self._look_at_gradients(dict(model.named_parameters()))

    def after(self, path: str, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        """It has given something."""
        stamps = (self._versions.get(id(module)) or [[]]).pop()
        if not self._looks:
            return
        kind = worst(output)
        if kind:
            self._bad(kind, path, module, args, kwargs, stamps)
        else:
            self._await_gradients(path, output)
        if not path and kind and not self._done:
            self._end_of_forward()

    def _bad(self, kind: str, path: str, module: Any, args: Any, kwargs: Any, stamps: list[int]) -> None:
        given = worst([args, kwargs])
        if given >= kind:
            self._passed_on.append(path or self._subject)
            return
        if bad := non_finite(dict(module.named_parameters())):
            self._found("forward", path, f"weights of {_title(path, module)} were non-finite already: {listed(bad)}")
            return
        changed = _stamps(args, kwargs) != stamps
        place = user_line(sys._getframe(1))
        if kind == NAN and given == INF and self._infinite is None:
            self._passed_on.append(path)  # the code around it made the Inf, and will end with it
        elif kind == NAN:
            self._born(_Birth(kind, path, module, args, kwargs, changed, place), given)
        elif self._infinite is None:
            self._infinite = _Birth(kind, path, module, set_aside(args), set_aside(kwargs), changed, place)

    def _born(self, birth: _Birth, given: str = FINE) -> None:
        again, made = locate(birth.module, birth.args, birth.kwargs)
        more = ""
        if given == INF and self._infinite is not None:
            first, its = locate(self._infinite.module, self._infinite.args, self._infinite.kwargs)
            if MEANT in its:
                more = f", and with an Inf that {self._infinite.title} was told to make"
            else:
                more = f", of which {birth.title} made a NaN"
                self._passed_on.append(birth.path or self._subject)
                birth, again, made = self._infinite, first, its
        place = made.get(INF) or made.get(birth.kind) or made.get(MEANT)
        kind = "a NaN" if birth.kind == NAN else "an Inf"
        what = f"{birth.title} made {kind} from finite inputs{more}{_story(made, place)}"
        if birth.changed:
            what += "; its inputs were changed in place meanwhile, and are kept as they are now"
        found = self._found("forward", birth.path, what, tells=False)
        self._fill(found, birth, place)
        if self._tracer.stores:
            from .module_call_writer import write_call

            found.call = write_call(birth.module, again, found.inputs)
        self._tell(found)

    def _fill(self, found: Finding, birth: _Birth, place: Place | None) -> None:
        found.file, found.line = birth.place
        if place is not None:
            found.operation = place.operation
            found.file, found.line = (place.file, place.line) if place.file else birth.place
        names = names_in(birth.module, "forward").arguments
        found.inputs = set_aside(dict(zip(names, birth.args, strict=False)) | birth.kwargs)

    def _end_of_forward(self) -> None:
        """What the model gives is not finite, and nobody made a NaN."""
        if self._infinite is not None:
            self._born(self._infinite)
        elif self._passed_on:
            self._found("input", "", f"{self._subject} was given a non-finite value")

    # ---- backward

    def _await_gradients(self, path: str, output: Any) -> None:
        for _, tensor in tensors_in(output, ""):
            if tensor.requires_grad:
                on_gradient(tensor, self._arrived(path, id(tensor)))

    def _arrived(self, path: str, tensor: int) -> Any:
        @self._guarded
        def arrived(gradient: Any) -> None:
            if not self._looks or is_finite(gradient):
                return
            consumer = self._consumers.get(tensor)
            if not path:
                what = "the loss made it" if self._tracer.is_model else "what used it made it"
                self._found("backward", "", f"the gradient of what {self._subject} gives is non-finite: {what}")
            elif consumer is None or consumer == path:
                what = f"the gradient of what `{path}` gives is non-finite; what used it made it"
                self._found("backward", path, what)
            else:
                user = consumer or self._subject
                what = f"`{user}` made a non-finite gradient from finite ones, for what `{path}` gives"
                self._found("backward", consumer, what)

        return arrived

    # ---- weights and their gradients: all at once, when the optimizer has used them or the model is called again

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not self._looks:
            return
        own = {id(parameter): name for name, parameter in self._tracer.model.named_parameters()}
        mine = {own[id(each)]: each for group in optimizer.param_groups for each in group["params"] if id(each) in own}
        self._look_at_gradients(mine)
        bad = [] if self._done else non_finite(mine)
        if bad:
            self._found("optimizer", bad[0], f"the optimizer's step made weights non-finite: {listed(bad)}")

    def _look_at_gradients(self, parameters: dict[str, Any]) -> None:
        leaves = {name: each for name, each in parameters.items() if each.is_leaf}  # torch warns of others' `.grad`
        bad = non_finite({name: each.grad for name, each in leaves.items() if each.grad is not None})
        if bad:
            what = f"the gradient of weights became non-finite, from finite ones: {listed(bad)}"
            self._found("backward", bad[0], what)

    # ---- telling

    def _found(self, where: str, path: str, what: str, *, tells: bool = True) -> Finding:
        self._done = True
        tracer = self._tracer
        found = self.finding = Finding(where, path, what, tracer.iteration, tracer.rank, passed_on=self._passed_on)
        found.is_model = tracer.is_model
        if where != "optimizer" and "non-finite already" not in what:  # else that is what it says
            found.weights = state_of_weights(dict(tracer.model.named_parameters()))
        if tells:
            found.file, found.line = user_line(sys._getframe(1))
            self._tell(found)
        return found

    def _tell(self, found: Finding) -> None:
        tracer = self._tracer
        tracer.note("non-finite", found.path or self._subject, f"{found}.")
        if found.where != "input" or not Finder.told:  # another model made it, and this one was given it
            trouble.report(f"nonfinite:{id(tracer)}", f"{found}", self._remedy(found))
        Finder.told = True
        tracer.fire(f"non-finite: {found.what}")
        if self._how == "raise":
            raise NonfiniteError("non-finite", f"{found}.", self._remedy(found) or "It was recorded.")
        if self._how == "stop":
            tracer.halt()

    def _remedy(self, found: Finding) -> str:
        if self._tracer.belongs_to_program:
            return _HOW_TO_LOOK
        return "" if found.call is None else _HOW_TO_RERUN


class _Layer:
    """Listens to one module."""

    hears = ("given", "returned")

    def __init__(self, finder: Finder, path: str) -> None:
        self._finder = finder
        self._path = path

    def called(self, module: Any) -> None:
        pass

    def given(self, module: Any, args: Any, kwargs: Any) -> None:
        self._finder.before(self._path, module, args, kwargs)

    def returned(self, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        self._finder.after(self._path, module, args, kwargs, output)

    def left(self, module: Any, error: BaseException | None) -> None:
        pass

    def failed(self, error: Exception) -> None:
        self._finder.failed(error)


def _story(made: dict[str, Place], place: Place | None) -> str:
    """What else happened in the module's code on the way."""
    if place is None:
        return ""
    if place is made.get(NAN) and MEANT in made:
        return f" (before it an Inf, as it was told, by {made[MEANT].operation}, line {made[MEANT].line})"
    if place is made.get(INF) and NAN in made:
        return f" (an Inf, and of it a NaN by {made[NAN].operation}, line {made[NAN].line})"
    return ""


def _stamps(args: Any, kwargs: Any) -> list[int]:
    tensors = [tensor for _, tensor in tensors_in([args, kwargs], "")]
    return [0 if tensor.is_inference() else tensor._version for tensor in tensors]


def _title(path: str, module: Any) -> str:
    return f"`{path}` ({type(module).__name__})" if path else type(module).__name__


__all__ = ["Finder", "Finding"]
