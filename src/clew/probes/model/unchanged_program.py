"""`clew run --model "net: encoder.*"`, `--nonfinite find`: models of an unchanged program, found when they are called.

A model is known by the name of a variable that holds it where it is called (`net`, `self.net`), or by its class.
Where one of its methods was asked for (`training_step.loss`), a model is also known by a call of that. The method must
be able to tell its variables before its first call begins: it is made ready, with a model that is never called, when
the first model of a class is made. What is still missed is noted.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Iterator
from functools import partial
from itertools import chain
from types import FrameType, FunctionType
from typing import Any

import torch

from clew import env, trouble
from clew.errors import nearest
from clew.instrument import engine, module_calls
from clew.instrument.branch import Branch
from clew.instrument.library_code import is_library
from clew.probes.model_requests import ANY_MODEL, ModelRequest
from clew.records import Note

from .methods import find_by_method
from .paths import method_of, spots
from .probes import MethodProbe, ModuleProbe
from .tracer import ModelTracer
from .unwrap import unwrapped

_FRAMES = 6  # of the user's, around a call, that are looked through for the model's name
_MAKERS: Any = (torch.nn.Module.__init__, torch.nn.Module.__setstate__)  # the second makes copies, and loads


class Models:
    """Waits for models to be called, and traces those that were asked for."""

    def __init__(self, requests: list[ModelRequest], **options: Any) -> None:
        self._requests = requests
        self._options = options
        self._tracers: list[ModelTracer] = []
        self._known: dict[int, Any] = {}  # by id: models that were looked at
        self._traced: set[int] = set()  # ids of those that are traced
        self._names: set[str] = set()
        self._classes: set[type] = set()
        self._methods: dict[FunctionType, list[MethodProbe]] = {}  # that find models
        self._looks_early = Branch(module_calls.EVERYTHING, (), lambda plan: self._module_made)
        self._inside = threading.local()

    def install(self) -> None:
        module_calls.find(self)
        for maker in _MAKERS:
            engine.branch(maker, self._looks_early)

    def _module_made(self, values: tuple[Any, ...]) -> module_calls.NotHeard:
        kind = type(values[0])
        if kind not in self._classes:
            self._classes.add(kind)
            self._meet_class(kind)
        return module_calls.NotHeard()

    @trouble.entry_point()
    def _meet_class(self, kind: type) -> None:
        """Have methods of this class that were asked for find the model that they are called on."""
        paths = [path for request in self._requests for path in request.paths]
        own = [path for path in paths if _is_method(kind, path.split(".")[0])]
        if not own:
            return
        example: Any = object.__new__(kind)
        torch.nn.Module.__init__(example)
        tracer = ModelTracer(example, own, **self._options)
        probe = ModuleProbe(tracer, "", example, is_root=True)
        for spot in chain.from_iterable(spots(example, path) for path in own):
            probe.add(spot)
        for method in probe.methods.values():
            if method.function is not None:
                method.hear(method, is_forward=False)
                self._methods.setdefault(method.function, []).append(method)
                find_by_method(method.function, partial(self._method_called, method.function))

    @trouble.entry_point()
    def _method_called(self, function: FunctionType, frame: FrameType) -> None:
        """A method is called, maybe on a model that nobody has met."""
        module = frame.f_locals.get(frame.f_code.co_varnames[0])
        if not issubclass(type(module), torch.nn.Module) or id(module) in self._known or module_calls.is_captured():
            return
        self._meet(module, frame.f_back)
        if id(unwrapped(module)) not in self._traced:
            if _is_being_made(module, frame):
                self._known.pop(id(module), None)  # it gets its name later
        elif function.__code__ is not frame.f_code:
            _note_begun(self._tracers[-1], frame)

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
        for maker in _MAKERS:
            engine.branch(maker, None)
        for function, methods in self._methods.items():
            find_by_method(function, None)
            for method in methods:
                method.end_hearing()
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


def _is_method(kind: type, name: str) -> bool:
    """Whether this is a method of the class, `forward` apart."""
    return name != "forward" and isinstance(inspect.getattr_static(kind, name, None), FunctionType)


def _is_being_made(module: Any, frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "__init__" and next(iter(frame.f_locals.values()), None) is module:
            return True
        frame = frame.f_back
    return False


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
