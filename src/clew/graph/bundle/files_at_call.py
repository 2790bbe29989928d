"""Files that operators open whenever they are called: no bundle can lead all of that, so that saving says so.

What was opened while a pipeline was recorded is remembered with the functions that were running then.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from types import CodeType, FrameType, FunctionType
from typing import Any

from clew.graph.nodes import Const, Step
from clew.instrument.engine import original_code
from clew.instrument.library_code import is_library

from . import source_texts

_MOST = 1000
_Key = tuple[str, int, str]


@dataclass(slots=True)
class Opening:
    """A file as it was asked for, and who was at work when it was opened: True for those that were given its path."""

    given: str
    callers: dict[_Key, bool] = field(default_factory=dict)


_opened: dict[str, Opening] = {}  # by where the file is


def heard(given: str) -> None:
    """A file is opened to be read."""
    session: Any = sys.modules.get("clew.graph.recording.session")
    if session is None or not session._open:
        return
    opening = _opened.setdefault(os.path.abspath(given), Opening(given))
    if len(_opened) > _MOST:
        del _opened[next(iter(_opened))]  # the file that was first opened longest ago
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_library(frame.f_code.co_filename):
            opening.callers[_key(frame.f_code)] = _was_given(frame, given)
        frame = frame.f_back


def _key(code: CodeType) -> _Key:
    return code.co_filename, code.co_firstlineno, code.co_name


def _was_given(frame: FrameType, path: str) -> bool:
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    values = [frame.f_locals.get(name) for name in names]
    return any(_is_path(value, path) for value in values)


def _is_path(value: Any, path: str) -> bool:
    kind = type(value)  # not isinstance: to ask a value that is being recorded is a decision by it
    return (kind is str or issubclass(kind, PurePath)) and str(value) == path


def opened_by(steps: Iterable[Step]) -> Iterator[tuple[Step, str, str]]:
    """(step, path as it was given, where that is) of files that steps open when they are run, and are no input's."""
    for step in steps:
        function = _function(step.target.target) if step.kind == "operator" else None
        if function is None:
            continue
        key = _key(original_code(function))
        for place, opening in list(_opened.items()):
            was_given = opening.callers.get(key)
            if was_given is False or (was_given and _is_constant(step, function, opening.given)):
                yield step, opening.given, place


def _is_constant(step: Step, function: FunctionType, path: str) -> bool:
    given = [arg.value for arg in (*step.args, *step.kwargs.values()) if isinstance(arg, Const)]
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return any(_is_path(value, path) for value in (*given, *defaults))


def _function(target: Any) -> FunctionType | None:
    """What runs when a step is done; None of what is not written in Python."""
    if not inspect.isroutine(target):
        target = vars(type(target)).get("__call__")
    return source_texts.plain_function(getattr(target, "__func__", target))
