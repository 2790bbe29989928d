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

from clew import recording, trouble
from clew.recorder.live_call import LiveCall
from clew.recorder.quiet_threads import QUIET
from clew.recorder.run_start import run_started
from clew.records import DELETED, Change
from clew.values import SCALAR_IDS, Capture, capture, same_scalar

if TYPE_CHECKING:
    from clew.recorder.plan import Plan
    from clew.recorder.recorder import Recorder

_NOTHING = object()


class LiveChange:
    """The change that a hook is called with: the live value, not a copy. Stands behind a `clew.Change`."""

    __slots__ = ("_before", "_call", "_line", "_name", "_now", "_step", "_value")

    def __init__(self, call: LiveCall, name: str, value: Any, line: int, step: Any, before: Any, now: int) -> None:
        self._call = call
        self._name = name
        self._value = value
        self._line = line
        self._step = step
        self._before = before
        self._now = now

    def name(self, index: int) -> str:
        return self._name

    def value(self, index: int) -> Any:
        return self._value

    def before(self, index: int) -> Any:
        return self._before

    def line(self, index: int) -> int:
        return self._line

    def step(self, index: int) -> Any:
        return self._step

    def time(self, index: int) -> float:
        return (self._now - run_started(self._call.recorder.folder, self._call.started)) / 1e9

    def time_error(self, index: int) -> float:
        return 0.0

    def call(self, index: int) -> Any:
        return recording.as_read(self._call)

    def function(self, index: int) -> str:
        return self._call.plan.name

    def file(self, index: int) -> str:
        return self._call.plan.file

    def text(self, index: int) -> str:
        from clew.text.brief import brief

        return brief(self._value, 60)

    def key(self, index: int) -> int:
        return id(self)


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

    sampled = False  # a change is logged after its hooks have run, with the time before

    def __init__(self, plan: Plan, recorder: Recorder, args: tuple[Any, ...] = ()) -> None:
        super().__init__(plan, recorder, args)
        self.when: dict[int, Any] = {}  # by index: what the `when=` text gave after this statement
        self.stop_when: dict[int, Any] = {}
        self._scalars: dict[int, Any] = {}  # by index: the last value, if a scalar
        self._stop = False
        self._step: Any = None

    @trouble.entry_point(lambda call, index, value, site: (None, None))
    def note(self, index: int, value: Any, site: int) -> tuple[type | None, Any]:
        if id(type(value)) in SCALAR_IDS:
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
        self.track(index, value, now)
        if before is None or before[1].digest != now.digest:
            self._changed(index, value, site, now.value, _NOTHING)

    @trouble.entry_point()
    def gone(self, index: int, site: int) -> Any:
        self.tracked.pop(index, None)
        if self._scalars.pop(index, _NOTHING) is not DELETED:
            self._scalars[index] = DELETED
            self._changed(index, DELETED, site, DELETED, _NOTHING)
        return self.check

    @trouble.entry_point(lambda call: False)
    def stops(self) -> bool:
        """Whether to open the debugger, asked after each statement."""
        stop, self._stop = self._stop, False
        return stop

    def _changed(self, index: int, value: Any, site: int, written: Any, before: Any) -> None:
        plan, now = self.plan, time_ns()
        if plan.watched[index].role == "step":
            self._step = value if id(type(value)) in SCALAR_IDS else None
        hooks: Hooks | None = plan.hooks[index] if plan.hooks else None
        statement = (site - plan.base) // plan.width
        if hooks is None or plan.ignored[statement]:
            self._log(written, site, now)
            return
        line = plan.lines[statement]
        last = None if before is _NOTHING else before
        change = Change(LiveChange(self, plan.names[index], value, line, self._step, last, now))
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
                written = replacement if id(type(replacement)) in SCALAR_IDS else capture(replacement).value
        self._log(written, site, now)
        if hooks.show:
            _show(change)

    def _log(self, written: Any, site: int, now: int) -> None:
        self.moment(now)
        self.log.append(written)
        self.log.append(site)
        self.moment(now)
        if id(type(written)) not in SCALAR_IDS and written is not DELETED:
            self.recorder.hold(written)


def _truth(value: Any) -> bool:
    if type(value) is bool:
        return value
    try:
        with QUIET:
            return bool(value)
    except Exception:  # an array has no single truth; the user meant something else
        return False


def _call(hook: Callable[[Change], object], change: Change, option: str) -> object:
    """A hook of the user's that raises is reported once, and counts as saying nothing."""
    try:
        with QUIET:
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
    from clew.text.brief import brief

    try:
        place = f"{change.file.rpartition('/')[2]}:{change.line}"
        sys.stderr.write(f"{place}  {change.function}  {change.name} = {brief(change.value)}\n")
    except (OSError, ValueError, AttributeError):
        pass  # a closed stderr must not harm the program


def tell_return(call: LiveCall) -> None:
    """A call has ended whose `on_return=` hooks want to see it as readers do."""
    recorded = recording.as_read(call)
    if recorded is None:
        return
    for hook in call.plan.on_return:
        try:
            with QUIET:
                hook(recorded)
        except Exception as error:
            name = getattr(hook, "__qualname__", type(hook).__name__)
            what = f"on_return={name} raised after {call.plan.name}()"
            trouble.report(f"hook:on_return:{id(hook)}", what, "", error)
