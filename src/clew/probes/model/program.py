"""`clew run --model "net: encoder.*"`, `--nonfinite find`: models of an unchanged program, found when they are called.

A model is known by the name of a variable that holds it where it is called (`net`, `self.net`), or by its class.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from clew import env, trouble
from clew.errors import OptionError, nearest
from clew.probes.libraries import is_library
from clew.records import Note

from .tracer import ModelTracer
from .unwrap import unwrapped

ANY_MODEL = "*"
_FRAMES = 6  # of the user's, around a call, that are looked through for the model's name


@dataclass
class ModelRequest:
    """One `--model`."""

    name: str
    paths: list[str]
    matched: bool = False


def parse_model(text: str) -> ModelRequest:
    """`net: encoder.*, **.weight.grad`; without a name, of any model."""
    name, colon, rest = text.partition(":")
    if not colon:
        name, rest = ANY_MODEL, text
    paths = [path.strip() for path in rest.split(",") if path.strip()]
    if not paths or not name.strip():
        raise OptionError("bad-option", f"--model {text!r}: paths are needed.", 'Write --model "net: encoder.*, head".')
    return ModelRequest(name.strip(), paths)


class Models:
    """Waits for models to be called, and traces those that were asked for."""

    def __init__(self, requests: list[ModelRequest], **options: Any) -> None:
        self._requests = requests
        self._options = options
        self._tracers: list[ModelTracer] = []
        self._known: dict[int, Any] = {}  # by id: models that were looked at
        self._names: set[str] = set()
        self._inside = threading.local()
        self._call = torch.nn.Module.__call__

    def install(self) -> None:
        original, inside = self._call, self._inside

        def called(module: Any, *args: Any, **kwargs: Any) -> Any:
            if getattr(inside, "depth", 0):
                return original(module, *args, **kwargs)
            inside.depth = 1
            try:
                if id(module) not in self._known:
                    self._meet(module, sys._getframe(1))
                return original(module, *args, **kwargs)
            finally:
                inside.depth = 0

        torch.nn.Module.__call__ = called  # type: ignore[method-assign]

    def _meet(self, module: Any, frame: FrameType | None) -> None:
        self._known[id(module)] = module
        model = unwrapped(module)
        names = [*_names_of(module, frame), type(model).__name__]
        self._names.update(names)
        mine = [request for request in self._requests if request.name == ANY_MODEL or request.name in names]
        for request in mine:
            request.matched = True
        paths = [path for request in mine for path in request.paths]
        if not paths and self._options.get("nonfinite") is None:
            return
        try:
            self._tracers.append(ModelTracer(module, paths, **self._options).start())
        except Exception as error:  # the program goes on, traced or not
            trouble.report(f"model:{id(model)}", f"{type(model).__name__} is not traced", "", error, internal=True)

    def finish(self, error: BaseException | None) -> list[Note]:
        """The program is over: nothing is traced any more, and what never came is said."""
        torch.nn.Module.__call__ = self._call  # type: ignore[method-assign]
        for tracer in self._tracers:
            tracer.stop(error)
        notes = []
        for request in self._requests:
            if not request.matched:
                hint = nearest(request.name, sorted(self._names)) if self._names else "no model was called."
                notes.append(Note("never-seen", request.name, f"--model {request.name!r}: no such model; {hint}"))
        return notes


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
