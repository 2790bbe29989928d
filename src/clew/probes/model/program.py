"""`clew run --model "net: encoder.*"`, `--nonfinite find`: models of an unchanged program, found when they are called.

A model is known by the name of a variable that holds it where it is called (`net`, `self.net`), or by its class.
Where a method that calls the model was asked for (`training_step.loss`), that is too late for its first call: such a
model is looked for as soon as an optimizer is made. What is still missed is noted.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch

from clew import env, trouble
from clew.errors import nearest
from clew.probes import module_calls
from clew.probes.libraries import is_library
from clew.probes.lines import engine
from clew.probes.lines.branch import Branch
from clew.probes.model_requests import ANY_MODEL, ModelRequest
from clew.records import Note

from .paths import method_of
from .tracer import ModelTracer
from .unwrap import unwrapped

_FRAMES = 6  # of the user's, around a call, that are looked through for the model's name
_MAKE_OPTIMIZER: Any = torch.optim.Optimizer.__init__


class Models:
    """Waits for models to be called, and traces those that were asked for."""

    def __init__(self, requests: list[ModelRequest], **options: Any) -> None:
        self._requests = requests
        self._options = options
        self._tracers: list[ModelTracer] = []
        self._known: dict[int, Any] = {}  # by id: models that were looked at
        self._traced: set[int] = set()  # ids of those that are traced
        self._names: set[str] = set()
        self._looks_early = Branch(module_calls.EVERYTHING, (), lambda plan: self._optimizer_made)
        self._inside = threading.local()

    def install(self) -> None:
        module_calls.find(self)
        if any(request.name != ANY_MODEL for request in self._requests):
            engine.branch(_MAKE_OPTIMIZER, self._looks_early)

    def _optimizer_made(self, values: tuple[Any, ...]) -> module_calls.NotHeard:
        self._look_around(sys._getframe(1))
        return module_calls.NotHeard()

    @trouble.entry_point()
    def _look_around(self, frame: FrameType | None) -> None:
        """Find models whose methods were asked for, before those are called."""
        wanted = {request.name: request for request in self._requests if not request.matched}
        for scope, prefix in _scopes(frame):
            for name, value in list(scope.items()):
                if issubclass(type(value), torch.nn.Module) and id(value) not in self._known:
                    names = (name, prefix + name, type(unwrapped(value)).__name__)
                    requests = [wanted[each] for each in names if each in wanted]
                    if any(_methods_in(unwrapped(value), request.paths) for request in requests):
                        self._meet(value, frame)

    @trouble.entry_point()
    def called(self, module: Any) -> None:
        """A module is called; if it is not called by another, it may be a model."""
        depth = getattr(self._inside, "depth", 0)
        self._inside.depth = depth + 1
        if not depth and id(module) not in self._known:
            self._meet(module, sys._getframe(1))

    @trouble.entry_point()
    def left(self, module: Any) -> None:
        self._inside.depth = max(0, getattr(self._inside, "depth", 0) - 1)

    @trouble.entry_point()
    def _meet(self, module: Any, frame: FrameType | None) -> None:
        self._known[id(module)] = module
        model = unwrapped(module)
        if id(model) in self._traced or isinstance(model, torch.jit.ScriptModule):
            return  # found before it was wrapped; or there is no Python in it to look into
        names = [*_names_of(module, frame), type(model).__name__]
        self._names.update(names)
        is_any = any(True for _ in model.parameters())  # a loss or transform is no model
        mine = [each for each in self._requests if each.name in names or (each.name == ANY_MODEL and is_any)]
        for request in mine:
            request.matched = True
        paths = [path for request in mine for path in request.paths]
        if not paths and self._options.get("nonfinite") is None:
            return
        try:
            tracer = ModelTracer(module, paths, **self._options)
            is_named = any(request.name != ANY_MODEL for request in mine)
            tracer.is_model, tracer.tells_unseen = is_named or _is_model(model), is_named
            tracer.belongs_to_program = True
            self._tracers.append(tracer.start())
            self._traced.add(id(model))
            _note_begun(tracer, frame)
        except Exception as error:  # the program goes on, traced or not
            trouble.report(f"model:{id(model)}", f"{type(model).__name__} is not traced", "", error, internal=True)

    def finish(self, error: BaseException | None) -> list[Note]:
        """The program is over: nothing is traced any more, and what never came is said."""
        module_calls.find_no_more(self)
        engine.branch(_MAKE_OPTIMIZER, None)
        for tracer in self._tracers:
            tracer.stop(error)
        of_any = [tracer for tracer in self._tracers if not tracer.tells_unseen and tracer.paths]
        if of_any and error is None:
            seen = set().union(*(tracer.patterns_seen for tracer in of_any))
            max(of_any, key=lambda tracer: tracer.is_model).tell_unseen(seen)
        notes = []
        for request in self._requests:
            if not request.matched:
                hint = nearest(request.name, sorted(self._names)) if self._names else "no model was called."
                notes.append(Note("never-seen", request.name, f"--model {request.name!r}: no such model; {hint}"))
        return notes


def _is_model(module: Any) -> bool:
    """Whether it has layers with weights. A loss, a transform and a single layer have not."""
    return any(True for child in module.children() for _ in child.parameters())


def _methods_in(model: Any, paths: list[str]) -> dict[str, str]:
    """Methods of the model's own that paths lead into, `forward` apart: by name, the path."""
    heads = {path.split(".")[0]: path for path in paths}
    return {
        name: path
        for name, path in heads.items()
        if name != "forward" and name not in model._modules and method_of(model, name) is not None
    }


def _note_begun(tracer: ModelTracer, frame: FrameType | None) -> None:
    """Calls that had begun when the model was found are not recorded, and that is said."""
    methods = _methods_in(tracer.model, tracer.paths)
    while frame is not None:
        path = methods.get(frame.f_code.co_name)
        if path is not None and next(iter(frame.f_locals.values()), None) is tracer.model:
            tracer.note("not-kept", path, "a call had begun when the model was found: it is not recorded.")
        frame = frame.f_back


def _names_of(module: Any, frame: FrameType | None) -> Iterator[str]:
    """What the code around its call calls a model."""
    for scope, prefix in _scopes(frame):
        for name, value in list(scope.items()):
            if value is module:
                yield name
                if prefix:
                    yield prefix + name


def _scopes(frame: FrameType | None) -> Iterator[tuple[dict[str, Any], str]]:
    count = 0
    while frame is not None and count < _FRAMES:
        file = frame.f_code.co_filename
        if not file.startswith(env.PACKAGE) and not is_library(file):
            count += 1
            local = frame.f_locals
            yield local, ""
            owner = local.get("self")
            if owner is not None and not isinstance(owner, torch.nn.Module) and hasattr(owner, "__dict__"):
                yield vars(owner), "self."
            yield frame.f_globals, ""
        frame = frame.f_back
