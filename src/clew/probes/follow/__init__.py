"""`clew.follow`: the call tree with everything that went through it."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType, FunctionType, TracebackType
from typing import Any, TextIO, TypeVar, overload

from clew import env, recording, trouble
from clew.errors import OptionError, TargetError
from clew.instrument import engine
from clew.instrument.targets import describe, functions_of_class, python_functions
from clew.probes.watch import watch
from clew.recorder.call_log import Trace, here
from clew.values import LIGHT, parse_keep

from . import runtime
from .following import Following, tell
from .live_telling import TellingTrace
from .scope import Scope

#: What can be decorated; a torch module is a callable, too.
Decorated = TypeVar(
    "Decorated", bound="Callable[..., Any] | property | staticmethod[..., Any] | classmethod[Any, ..., Any]"
)


@overload
def follow(
    *names: str,
    depth: int | None = ...,
    only: str | list[str] | tuple[str, ...] | None = ...,
    skip: str | list[str] | tuple[str, ...] | None = ...,
    show: bool = ...,
    file: str | os.PathLike[str] | TextIO | logging.Logger | None = ...,
    stats: bool = ...,
    keep: Any = ...,
) -> Follower: ...


@overload
def follow(
    target: Decorated,
    /,
    *,
    depth: int | None = ...,
    only: str | list[str] | tuple[str, ...] | None = ...,
    skip: str | list[str] | tuple[str, ...] | None = ...,
    show: bool = ...,
    file: str | os.PathLike[str] | TextIO | logging.Logger | None = ...,
    stats: bool = ...,
    keep: Any = ...,
) -> Decorated: ...


def follow(
    *names: Any,
    depth: int | None = None,
    only: str | list[str] | tuple[str, ...] | None = None,
    skip: str | list[str] | tuple[str, ...] | None = None,
    show: bool = True,
    file: str | os.PathLike[str] | TextIO | logging.Logger | None = None,
    stats: bool = False,
    keep: Any = None,
) -> Any:
    """Record every call inside a function: what went in, what came out, and the changes of the named variables.

        @clew.follow
        def transform(batch): ...

        @clew.follow("video", "mask", depth=5)
        def transform(batch): ...

        with clew.follow("video"):
            ...

        clew.follow(model)        # a torch module: inputs and outputs of every layer

    names   variables whose changes are recorded wherever they occur in the functions called
    depth   how many levels of calls beneath it are followed (0: only itself; None: all)
    only    follow these modules, files or functions instead of all of the user's own code; libraries are followed
            when they are named here
    skip    leave these out
    show    print the tree while it grows (to stderr)
    file    print it there instead: a path, an open text file, or a logger of the standard library
    stats   show minimum, maximum and mean of arrays, too
    keep    how much of arguments and results to keep: by default small ones; "full" for `call.rerun()` on large ones
    """
    target = names[0] if len(names) == 1 and not isinstance(names[0], str) else None
    if target is not None:
        names = ()
    how = following(names, depth=depth, only=only, skip=skip, show=show, file=file, stats=stats, keep=keep)
    return Follower(names, how) if target is None else Follower(names, how)(target)


def following(
    names: tuple[Any, ...],
    *,
    own_names: tuple[str, ...] = (),
    depth: Any = None,
    only: Any = None,
    skip: Any = None,
    show: Any = True,
    file: Any = None,
    stats: Any = False,
    keep: Any = None,
    printer: Any = None,
) -> Following:
    """How to follow, checked. `own_names` are followed in the function itself only.

    `printer` is told what happens instead of one made for `show` and `file`.
    """
    _check(names, depth)
    return Following(
        names,
        own_names=own_names,
        depth=depth,
        scope=Scope(only, skip),
        printer=printer or (_printer(show, file, stats) if env.enabled() else None),
        keep=replace(LIGHT, stats=bool(stats)) if keep is None else parse_keep(keep),
    )


class Follower:
    """What `clew.follow(...)` asks for: a decorator, and a context manager."""

    def __init__(self, names: tuple[Any, ...], how: Following) -> None:
        self._names = names
        self._following = how
        self._blocks: list[tuple[Trace | None, Trace, Any]] = []

    def __call__(self, target: Decorated) -> Decorated:
        """Follow a function, method, property, class or torch module; gives it back."""
        if not env.enabled():
            return target
        if _is_module(target):
            from .torch_modules import follow_module

            follow_module(target, self._following)
            return target
        functions = functions_of_class(target) if isinstance(target, type) else python_functions(target)
        if not functions:
            raise TargetError(
                "not-followable",
                f"clew.follow() cannot follow {describe(target)}: there is no Python code in it.",
                "Put it on a Python function, method or class, or on a torch module.",
            )
        for function in functions:
            self._root(function)
        return target

    def _root(self, function: FunctionType) -> None:
        reason = self._following.follow(function, root=True)
        if reason:
            raise TargetError(
                "not-followable",
                f"clew.follow() cannot follow {function.__qualname__}: {reason}.",
                "Its source must be there, as it runs (put it into a file), on a Python that `clew doctor` finds fit.",
            )

    def __enter__(self) -> Follower:
        if not (env.enabled() and recording.is_on()):
            return self
        try:
            self._begin_block(sys._getframe(1))
        except Exception as error:
            trouble.failed(error, "follow")
        return self

    def _begin_block(self, frame: FrameType) -> None:
        self._following.prepare()
        outer = here.get(None)
        block = None
        if self._names:
            block = watch(*self._names, on_change=tell)
            block.enter_block(frame)
        trace, way = runtime.open_log(self._following, frame)
        trace.way = way
        if outer is not None:
            trace.requests = runtime.merged(outer.requests, trace.requests)
            if isinstance(trace, TellingTrace):
                trace.outer = outer
        self._blocks.append((outer, trace, block))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._blocks:
            outer, trace, block = self._blocks.pop()
            runtime.end(trace)
            here.set(outer)
            if block is not None:
                block.__exit__(kind, error, traceback)


def unfollow(target: Any) -> None:
    """Follow a function no longer."""
    for function in functions_of_class(target) if isinstance(target, type) else python_functions(target):
        engine.follow(function, None)


def log(*parts: Any) -> None:
    """Put a line of one's own into the tree, where the program is now: `clew.log("xx is", x)`."""
    try:
        from .messages import put

        put(parts, sys._getframe(1))
    except Exception as error:
        trouble.failed(error, "log")


def _check(names: tuple[Any, ...], depth: Any) -> None:
    for name in names:
        if not isinstance(name, str):
            raise OptionError(
                "bad-option",
                f"clew.follow() was given a {type(name).__name__} among its names.",
                'Name variables as text: clew.follow("video"); or give one function: clew.follow(function).',
            )
    if depth is not None and (type(depth) is not int or depth < 0):
        raise OptionError("bad-option", f"depth={depth!r}: a whole number from 0, or None, is needed.")


def _printer(show: bool, file: Any, stats: bool) -> Any:
    if not show and file is None:
        return None
    from clew.show.live_printer import LivePrinter

    if isinstance(file, logging.Logger):
        from .messages import LoggerStream

        file = LoggerStream(file)
    return LivePrinter(file=file, stats=stats)


def _is_module(target: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and hasattr(torch, "nn") and isinstance(target, torch.nn.Module)


__all__ = ["Decorated", "Follower", "follow", "following", "log", "unfollow"]
