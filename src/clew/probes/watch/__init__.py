"""`clew.watch`: every change of the values one cares about, line by line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FrameType, TracebackType
from typing import Any, TypeVar

from clew import env, recording, trouble
from clew.instrument import engine, events
from clew.instrument.options import Condition, Options, options
from clew.instrument.targets import functions_of, functions_of_class
from clew.records import Change

from . import with_block

T = TypeVar("T")


_begun = trouble.entry_point()(events.begin_block)
_end = trouble.entry_point()(events.end_block)


class watch:
    """Record every change of the named values, as a decorator or as a `with` block.

        @clew.watch("loss", "acc", 'cfg["lr"]', "w.grad.norm()")
        def train(): ...

        with clew.watch("x", "y"):
            ...

    Expressions are names, paths (`self.x`, `arr[1]`), anything else that can be evaluated, or "*" for all locals.

    when         record a change only if this holds: an expression as text, or a function of the change
    every        record every n-th change of a name
    first, last  record only the first or the last n changes of a name in each call
    on_change    called with each change; what it returns, if not None, is recorded instead
    on_return    called with the recorded call when a call has ended
    break_when   open the debugger at a change when this holds
    step         the expression that says which step it is
    keep         how much of large values to keep: "full", "summary", "last N", a function, or a dictionary by name
    show         print changes as they happen
    tags         put on the run
    """

    def __init__(
        self,
        *expressions: str,
        when: Condition | None = None,
        every: int = 1,
        first: int | None = None,
        last: int | None = None,
        on_change: Callable[[Change], object] | None = None,
        break_when: Condition | None = None,
        step: str | None = None,
        keep: Any = None,
        show: bool = False,
        tags: Mapping[str, Any] | None = None,
        on_return: Callable[[Any], object] | None = None,
    ) -> None:
        self._options: Options = options(
            expressions,
            when=when,
            every=every,
            first=first,
            last=last,
            on_change=on_change,
            break_when=break_when,
            step=step,
            keep=keep,
            show=show,
            tags=tags,
            on_return=on_return,
        )
        self._blocks: list[tuple[FrameType, events.Look | with_block.Replaced]] = []

    def __call__(self, target: T) -> T:
        """Watch a function, method, property, generator, coroutine, lambda or a whole class; gives it back."""
        if not env.enabled():
            return target
        if isinstance(target, type):
            for function in functions_of_class(target):
                engine.instrument(function, self._options, group=f"class {target.__qualname__}")
        else:
            for function in functions_of(target):
                engine.instrument(function, self._options)
        return target

    def __enter__(self) -> watch:
        try:
            if env.enabled() and recording.is_on():
                frame = sys._getframe(1)
                recording.add_tags(self._options.tags)
                replaced = with_block.replace(frame, self._options)  # an error of the block itself is kept in it
                self._blocks.append((frame, replaced or _begun(frame, self._options)))
        except Exception as error:
            trouble.failed(error, "watch")
        return self

    def enter_block(self, frame: FrameType) -> None:
        """Watch the rest of a block of this frame, for another kind of block that watches too."""
        self._blocks.append((frame, _begun(frame, self._options)))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not self._blocks:
            return False
        frame, watching = self._blocks.pop()
        if isinstance(watching, with_block.Replaced):
            return watching.leave(error)
        if watching is not None:
            _end(frame, watching, error)
        return False
