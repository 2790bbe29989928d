"""What keeps failures of ours out of the user's calls: the user's function runs once, whatever fails around it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from types import FrameType, TracebackType
from typing import Any, Literal

from clew import env, trouble
from clew.errors import ClewError

_Passing = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
_ON_PURPOSE = (ClewError, StopIteration, StopAsyncIteration)  # ours raise them to tell the program something


class Once:
    """The user's function as ours get it: it remembers whether it was called, and what came of that."""

    __slots__ = ("error", "function", "has_result", "result")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.error: BaseException | None = None
        self.result: Any = None
        self.has_result = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            self.result = result = self.function(*args, **kwargs)
        except BaseException as error:
            self.error = error
            raise
        self.has_result = True
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self.function, name)

    def raised(self, error: BaseException) -> bool:
        """Whether an exception is the function's own, or was made from it."""
        return self.error is not None and (error is self.error or cause_of(error) is self.error)


def call_once(passing: _Passing, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Let `passing` make a call of the user's function. If it fails by itself, the program does not notice.

    The function is called exactly once: by `passing`, or plainly if that failed before. Its own exceptions pass.
    """
    once = Once(function)
    try:
        try:
            return passing(once, args, kwargs)
        except Exception as error:
            if once.raised(error) or issubclass(type(error), _ON_PURPOSE):
                raise
            trouble.failed(error, f"the recording of {getattr(function, '__qualname__', 'a call')}")
        if once.error is not None:
            raise once.error
        return once.result if once.has_result else function(*args, **kwargs)
    finally:
        once.error = once.result = None  # an exception that is held here would hold its frames, and they this


def leave_no_frames() -> None:
    """Take our frames out of the traceback of the exception that is handled: as if the call had been a plain one.

    To be called where the outermost function of ours handles it, followed by a bare `raise`, which adds no frame.
    """
    _, error, traceback = sys.exc_info()
    if error is not None and traceback is not None:  # its first frame is the handler's own
        BaseException.with_traceback(error, without_own_frames(traceback.tb_next) or traceback)


def without_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """The rest of a traceback; None if nothing of it is the user's: then the exception is ours."""
    while traceback is not None and is_own(traceback.tb_frame):
        traceback = traceback.tb_next
    entry = traceback
    while entry is not None:
        following = entry.tb_next
        while following is not None and is_own(following.tb_frame):
            following = following.tb_next
        entry.tb_next = following
        entry = following
    return traceback


def is_own(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(env.PACKAGE)


class Around:
    """A context of ours around the user's code: failures of its own are reported, and the user's exceptions pass."""

    __slots__ = ("_inner", "_make")

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
        self._make = make
        self._inner: AbstractContextManager[Any] | None = None

    def __enter__(self) -> None:
        try:
            inner = self._make()
            inner.__enter__()
            self._inner = inner
        except Exception as error:
            trouble.failed(error, "the recording of a stage")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Literal[False]:
        try:
            if self._inner is not None:
                self._inner.__exit__(kind, error, traceback)
        except Exception as own:
            if own is not error:
                trouble.failed(own, "the recording of a stage")
        return False


def cause_of(error: BaseException) -> BaseException | None:
    """Its `__cause__`; a class of the user's that answers for itself is not asked."""
    cause: BaseException | None = vars(BaseException)["__cause__"].__get__(error)
    return cause


def add_note(error: BaseException, text: str) -> None:
    """A note under an exception; none where its class answers for itself, and refuses."""
    with suppress(Exception):
        BaseException.add_note(error, text)


def attempt(step: Callable[[], Any]) -> None:
    """Do one of several steps; that it fails does not keep the others from being done."""
    try:
        step()
    except Exception as error:
        trouble.failed(error, f"{getattr(step, '__module__', 'clew')}.{getattr(step, '__qualname__', 'a step')}")
