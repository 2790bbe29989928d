"""Watching by events of the interpreter: for code without source, and for `with clew.watch(...)` blocks.

Slower than rewriting by a factor of ten or more, and blind to several statements on one line; otherwise the same
records. When a line is about to run, everything asked for is looked at, and what is new belongs to the line before.
The events come from `sys.monitoring` (3.12 and later) or `sys.settrace`; both call `on_start`, `on_line`, `on_end`.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import threading
from types import CodeType, FrameType
from typing import Any

from clew import env, recording, trouble
from clew.recorder.how_calls_end import describe, is_error
from clew.recorder.live_call import LiveCall
from clew.recorder.plan import Plan, Watched
from clew.recorder.quiet_threads import QUIET, is_quiet
from clew.values import SCALAR_IDS

from . import effects, ignored_lines, parsing, runtime, source
from .change_hooks import HookedCall
from .expressions import Expression, Form
from .options import Options

_MISSING = object()


class Looker:
    """What to look at in frames of one code object (or in one block), and under which plan."""

    def __init__(self, code: CodeType, requests: list[Options], module: str, *, block_line: int | None = None) -> None:
        self.code = code
        steps = [o.step for o in requests if o.step is not None]
        wanted: dict[tuple[str, bool], tuple[Expression, Options | None]] = {(s.text, True): (s, None) for s in steps}
        for options in requests:
            for expression in options.expressions:
                for each in _expand(expression, code, block_line):
                    wanted.setdefault((each.text, False), (each, options))
        self.expressions = [expression for expression, _ in wanted.values()]
        self.compiled = [None if e.form is Form.NAME else _compiled(e.text) for e in self.expressions]
        self.conditions = [_conditions(options) for _, options in wanted.values()]
        hooks = tuple(o.hooks if o is not None and o.hooks.any() else None for _, o in wanted.values())
        self.hooked = any(hooks)
        watched = (*(_watched(e, o) for e, o in wanted.values()), Watched("return", "output"))
        self.first_lines = first_lines(code.co_filename)
        lines = sorted({self.first_lines.get(line, line) for line in _lines(code)} | {block_line or 0} - {0})
        self.numbers = {line: number for number, line in enumerate(lines)}
        is_ignored = ignored_lines.ignorer(linecache.getlines(code.co_filename))
        last_of = _last_lines(self.first_lines)
        self.plan = Plan(
            code.co_qualname,
            module,
            code.co_filename,
            block_line or code.co_firstlineno,
            watched,
            lines or [code.co_firstlineno],
            [is_ignored(line, last_of.get(line, line)) for line in lines] or [False],
            parameters=(),
            dedupe=not self.hooked,
            hooks=hooks if self.hooked else None,
        )
        self.plan.code = code if block_line is None else None
        self.plan.result_site = self.plan.output_site
        self.plan.from_star = any(e.form is Form.ALL for o in requests for e in o.expressions)
        self.plan.deletions = any(o.deletions for o in requests)
        self.plan.on_return = [o.on_return for o in requests if o.on_return is not None]


class Look:
    """One frame being looked at."""

    def __init__(self, looker: Looker, frame: FrameType) -> None:
        self.looker = looker
        kind = HookedCall if looker.hooked else LiveCall
        self.call = kind(looker.plan, recording.recorder())
        self.call.place = None
        self.call.recorder.begin(self.call)
        self.was: list[Any] = [_MISSING] * len(looker.expressions)
        self.line = frame.f_lineno
        self.look(frame)

    def on_line(self, frame: FrameType, line: int) -> bool:
        """A line is about to run. True if the debugger was asked for."""
        self.look(frame)
        self.line = line
        return isinstance(self.call, HookedCall) and self.call.stops()

    def look(self, frame: FrameType) -> None:
        looker, call = self.looker, self.call
        number = looker.numbers.get(looker.first_lines.get(self.line, self.line), 0)
        try:
            names = frame.f_locals
            for index, expression in enumerate(looker.expressions):
                site = looker.plan.site(number, index)
                value = _value(expression, looker.compiled[index], frame, names)
                if looker.hooked and value is not self.was[index]:
                    self._conditions(index, frame, names)
                if value is _MISSING:
                    if self.was[index] is not _MISSING:
                        (call.lost if expression.form is Form.ANY else call.gone)(index, site)
                elif value is not self.was[index]:
                    call.note(index, value, site)
                self.was[index] = value
            if call.tracked:
                call.check(looker.plan.site(number))
        except Exception as error:
            trouble.report("events", "watching by events failed", "This block is not recorded.", error, internal=True)

    def _conditions(self, index: int, frame: FrameType, names: Any) -> None:
        call = self.call
        assert isinstance(call, HookedCall)
        when, stop = self.looker.conditions[index]
        for text, into in ((when, call.when), (stop, call.stop_when)):
            if text is not None:
                value = _evaluate(text, frame, names)
                into[index] = False if value is _MISSING else value

    def end(self, frame: FrameType | None, error: BaseException | None = None, result: Any = None) -> None:
        if frame is not None:
            self.look(frame)
        if error is not None and not is_error(error, GeneratorExit):
            self.call.error = describe(error)
        runtime.leave(self.call, result if id(type(result)) in SCALAR_IDS else None)


# ---- evaluating ------------------------------------------------------------------------------------------------------


def _value(expression: Expression, compiled: CodeType | None, frame: FrameType, names: Any) -> Any:
    if compiled is not None:
        return _evaluate(compiled, frame, names)
    try:
        return names[expression.text]
    except KeyError:
        return frame.f_globals.get(expression.text, _MISSING)


def _evaluate(compiled: CodeType, frame: FrameType, names: Any) -> Any:
    try:
        with QUIET:
            return eval(compiled, frame.f_globals, names)  # the user's own expression
    except Exception:
        return _MISSING


def _compiled(text: str) -> CodeType:
    return compile(text, "<clew.watch>", "eval")


def _conditions(options: Options | None) -> tuple[CodeType | None, CodeType | None]:
    if options is None:
        return None, None
    return (
        _compiled(options.when.text) if options.when is not None else None,
        _compiled(options.break_when.text) if options.break_when is not None else None,
    )


def _watched(expression: Expression, options: Options | None) -> Watched:
    if options is None:
        return Watched(expression.text, "step")
    return Watched(expression.text, "value", options.keep_of(expression.text), options.thinning)


def _expand(expression: Expression, code: CodeType, block_line: int | None) -> list[Expression]:
    """`*` is every local of a function; at module level, every name the block binds."""
    if expression.form is not Form.ALL:
        return [expression]
    if code.co_flags & inspect.CO_OPTIMIZED:
        names = [*code.co_varnames, *code.co_cellvars]
    else:
        block = source.find_block(linecache.getlines(code.co_filename), block_line or 0)
        names = effects.bound_names(block) if block is not None else list(code.co_names)
    return [Expression(name, Form.NAME) for name in dict.fromkeys(names) if name.isidentifier()]


def _lines(code: CodeType) -> set[int]:
    return {line for _, _, line in code.co_lines() if line is not None}


def first_lines(filename: str) -> dict[int, int]:
    """For each line of a file inside a statement of several lines, the line that statement begins at."""
    found: dict[int, int] = {}
    try:
        tree = parsing.parse("".join(linecache.getlines(filename)))
    except (SyntaxError, ValueError, RecursionError):
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            for line in range(node.lineno + 1, _end_of_header(node) + 1):
                found[line] = node.lineno
    return found


def _end_of_header(node: ast.stmt) -> int:
    """The last line of a statement, or of its header if it has a body."""
    if isinstance(node, ast.Match):
        return node.cases[0].pattern.lineno - 1
    body = getattr(node, "body", None)
    return body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno or node.lineno


def _last_lines(first: dict[int, int]) -> dict[int, int]:
    last: dict[int, int] = {}
    for line, start in first.items():
        last[start] = max(last.get(start, start), line)
    return last


# ---- attaching -------------------------------------------------------------------------------------------------------

_lookers: dict[CodeType, Looker] = {}
_looks: dict[int, list[Look]] = {}  # by id of the frame: what is being looked at there
_lock = threading.RLock()
_on = True


def attach(code: CodeType, module: str | None, requests: list[Options], group: str | None = None) -> Plan:
    """Watch every call of a code object by events."""
    looker = Looker(code, requests, module or "?")
    looker.plan.group = group
    with _lock:
        _lookers[code] = looker
    _backend().watch_code(code)
    return looker.plan


def begin_block(frame: FrameType, options: Options) -> Look:
    """Watch one frame from now on."""
    code = frame.f_code
    looker = Looker(code, [options], frame.f_globals.get("__name__", "?"), block_line=frame.f_lineno)
    look = Look(looker, frame)
    look.call.plan.called = True
    look.call.stand()
    _looks.setdefault(id(frame), []).append(look)
    _backend().watch_frame(frame)
    return look


def end_block(frame: FrameType, look: Look, error: BaseException | None) -> None:
    looks = _looks.get(id(frame), [])
    if look in looks:
        looks.remove(look)
    if not looks:
        _looks.pop(id(frame), None)
        _backend().unwatch_frame(frame)
    look.end(frame, error)


@trouble.entry_point()
def on_start(frame: FrameType) -> None:
    looker = _lookers.get(frame.f_code)
    if looker is not None and _on and not is_quiet():
        _looks[id(frame)] = [Look(looker, frame)]


@trouble.entry_point(lambda frame, line: False)
def on_line(frame: FrameType, line: int) -> bool:
    stop = False
    for look in _looks.get(id(frame), ()):
        stop |= look.on_line(frame, line)
    return stop


@trouble.entry_point()
def on_end(frame: FrameType, error: BaseException | None = None, result: Any = None) -> None:
    if frame.f_code in _lookers:
        for look in _looks.pop(id(frame), ()):
            look.end(frame, error, result)


def switch(on: bool) -> None:
    global _on
    _on = on
    if _lookers:
        for code in list(_lookers):
            (_backend().watch_code if on else _backend().unwatch_code)(code)


def _backend() -> Any:
    """The source of events: one of two modules with the same four functions."""
    if env.HAS_MONITORING:
        from . import monitoring

        return monitoring
    from . import settrace

    return settrace
