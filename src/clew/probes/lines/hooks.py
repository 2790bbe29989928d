"""Changes somebody wants to know of at once: `when=`, `on_change=`, `break_when=`, `show=True`.

Such a call is judged value by value where it happens, instead of later by the background thread. The instrumented
code is the same: `note` never names a type to expect, so every binding comes through here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import time_ns
from typing import TYPE_CHECKING, Any

from clew import trouble
from clew.recorder.live import LiveCall
from clew.records import DELETED
from clew.values import SCALARS, Capture, capture, same_scalar

if TYPE_CHECKING:
    from clew.recorder.plan import Plan
    from clew.recorder.recorder import Recorder

_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Change:
    """What a hook is told: the live value, not a copy."""

    name: str
    value: Any
    line: int
    step: Any
    time: float  # seconds since the call began
    function: str
    file: str
    before: Any = None  # the last value, if it was a scalar


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the user wants done with the changes of one expression."""

    when: Callable[[Change], object] | None = None
    when_text: bool = False  # evaluated by the instrumented code, into `HookedCall.when`
    on_change: Callable[[Change], object] | None = None
    break_when: Callable[[Change], object] | None = None
    break_text: bool = False
    show: bool = False

    def any(self) -> bool:
        return bool(self.when or self.when_text or self.on_change or self.break_when or self.break_text or self.show)


class HookedCall(LiveCall):
    """A call whose changes go through hooks."""

    __slots__ = ("_scalars", "_step", "_stop", "stop_when", "when")

    def __init__(self, plan: Plan, recorder: Recorder, args: Any) -> None:
        super().__init__(plan, recorder, args)
        self.when: dict[int, Any] = {}  # by index: what the `when=` text gave after this statement
        self.stop_when: dict[int, Any] = {}
        self._scalars: dict[int, Any] = {}  # by index: the last value, if a scalar
        self._stop = False
        self._step: Any = None

    def note(self, index: int, value: Any, site: int) -> tuple[type | None, Any]:
        if type(value) in SCALARS:
            self.tracked.pop(index, None)
            before = self._scalars.get(index, _NOTHING)
            self._scalars[index] = value
            if before is _NOTHING or type(before) is not type(value) or not same_scalar(before, value):
                self._changed(index, value, site, value, before)
        else:
            self._scalars.pop(index, None)
            before = self.tracked.get(index)
            if before is None or before[0] is not value or not before[1].unchanged(value):
                self._take(index, value, site, before)
        return None, self.check

    def _take(self, index: int, value: Any, site: int, before: tuple[Any, Capture] | None) -> None:
        now = self.look(index, value)
        if now is None:
            return
        self.tracked[index] = (value, now)
        if before is None or before[1].digest != now.digest:
            self._changed(index, value, site, now.value, _NOTHING)

    def gone(self, index: int, site: int) -> Any:
        self.tracked.pop(index, None)
        if self._scalars.pop(index, _NOTHING) is not DELETED:
            self._scalars[index] = DELETED
            self._changed(index, DELETED, site, DELETED, _NOTHING)
        return self.check

    def stops(self) -> bool:
        """Whether to open the debugger, asked after each statement."""
        stop, self._stop = self._stop, False
        return stop

    def _changed(self, index: int, value: Any, site: int, written: Any, before: Any) -> None:
        plan = self.plan
        if plan.watched[index].role == "step":
            self._step = value if type(value) in SCALARS else None
        hooks: Hooks | None = plan.hooks[index] if plan.hooks else None
        if hooks is None:
            self._log(written, site)
            return
        line = plan.lines[(site - plan.base) // plan.width]
        since = (time_ns() - self.started) / 1e9
        change = Change(
            plan.names[index], value, line, self._step, since, plan.name, plan.file,
            None if before is _NOTHING else before,
        )  # fmt: skip
        if hooks.break_text:
            self._stop |= _truth(self.stop_when.get(index, False))
        elif hooks.break_when is not None:
            self._stop |= _truth(_call(hooks.break_when, change, "break_when"))
        if hooks.when_text and not _truth(self.when.get(index, False)):
            return
        if hooks.when is not None and not _truth(_call(hooks.when, change, "when")):
            return
        if hooks.on_change is not None:
            replacement = _call(hooks.on_change, change, "on_change")
            if replacement is not None:
                written = replacement if type(replacement) in SCALARS else capture(replacement).value
        self._log(written, site)
        if hooks.show:
            _show(change)

    def _log(self, written: Any, site: int) -> None:
        self.log.append(written)
        self.log.append(site)
        if type(written) not in SCALARS and written is not DELETED:
            self.recorder.hold(written)


def _truth(value: Any) -> bool:
    try:
        return bool(value)
    except Exception:  # an array has no single truth; the user meant something else
        return False


def _call(hook: Callable[[Change], object], change: Change, option: str) -> object:
    """A hook of the user's that raises is reported once, and counts as saying nothing."""
    try:
        return hook(change)
    except Exception as error:
        name = getattr(hook, "__qualname__", type(hook).__name__)
        trouble.report(
            f"hook:{option}:{id(hook)}",
            f"{option}={name} raised at {change.file}:{change.line}, on a change of `{change.name}`",
            "The change is recorded without it.",
            error,
        )
        return None


def _show(change: Change) -> None:
    from clew.show.text import brief

    try:
        place = f"{change.file.rpartition('/')[2]}:{change.line}"
        sys.stderr.write(f"{place}  {change.function}  {change.name} = {brief(change.value)}\n")
    except (OSError, ValueError, AttributeError):
        pass  # a closed stderr must not harm the program
