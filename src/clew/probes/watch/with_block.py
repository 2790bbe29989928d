"""`with clew.watch(...)` at module level and in notebook cells: the block is rewritten like a function.

A running frame cannot be given new code. At module level it need not be: its names live in a dictionary. So on entry
the block's statements, with tests in them, are compiled and run on that dictionary; then the block itself is left at
its first line, by an exception that `__exit__` swallows. Errors, line numbers and tracebacks come out as they would.

Inside functions, under a debugger, and where a block takes part in the loop around it (`break`), events do the work
(events.py).
"""

from __future__ import annotations

import ast
import linecache
import sys
from functools import partial
from types import CodeType, FrameType, TracebackType
from typing import Any

from clew.instrument import effects, engine, ignored_lines, runtime, source
from clew.instrument.assembling import patched
from clew.instrument.expressions import Form
from clew.instrument.options import Options
from clew.instrument.rewrite import rewrite_module
from clew.instrument.silent_compilation import no_warnings
from clew.instrument.watched_items import items_for
from clew.recorder.how_calls_end import traceback_of
from clew.recorder.plan import Plan

_HELPERS = ".clew_"
_Block = tuple[CodeType, Plan]
_cache: dict[tuple[str, int, int], tuple[list[str], Options, _Block]] = {}


class _Skip(BaseException):
    """Leaves the original block; never seen outside this module."""


class Replaced:
    """A block whose rewritten form has run; its own lines are to be skipped."""

    def __init__(self, code: CodeType, plan: Plan, frame: FrameType) -> None:
        self.error: BaseException | None = None
        self.traceback: TracebackType | None = None
        namespace = frame.f_globals
        outer = put_aside(namespace)
        try:
            exec(code, namespace)
        except BaseException as error:
            self.error = error
            self.traceback = _without_ours(traceback_of(error))
        finally:
            put_aside(namespace)
            namespace.update(outer)
        self._tracer = sys.gettrace()
        self._frame_tracer = frame.f_trace
        self._frame: FrameType | None = frame
        sys.settrace(lambda frame, event, arg: None)
        frame.f_trace = self._at_first_line

    def _at_first_line(self, frame: FrameType, event: str, arg: Any) -> Any:
        self._restore()
        raise self.error or _Skip

    def _restore(self) -> None:
        if self._frame is not None:
            sys.settrace(self._tracer)
            self._frame.f_trace = self._frame_tracer
            self._frame = None

    def leave(self, error: BaseException | None) -> bool:
        """What `__exit__` answers: True swallows our exception; the user's goes on with its own traceback."""
        self._restore()
        if error is not None and error is self.error:
            BaseException.with_traceback(error, self.traceback)
        return isinstance(error, _Skip)


def put_aside(namespace: dict[str, Any]) -> dict[str, Any]:
    """Take the names that instrumented code uses out of a namespace: those of a block around this one, or its own."""
    return {name: namespace.pop(name) for name in list(namespace) if str(name).startswith(_HELPERS)}


def _without_ours(traceback: TracebackType | None) -> TracebackType | None:
    """From the rewritten block's own frame on: it has the place and the name the block would have had."""
    while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
        traceback = traceback.tb_next
    return traceback


def replace(frame: FrameType, options: Options) -> Replaced | None:
    """Run the block's rewritten form, if it can be; None if events must do the work."""
    if frame.f_locals is not frame.f_globals or sys.gettrace() is not None or frame.f_trace is not None:
        return None
    block = _block(frame, options)
    return Replaced(*block, frame) if block is not None else None


def _block(frame: FrameType, options: Options) -> _Block | None:
    code, line = frame.f_code, frame.f_lineno
    lines = linecache.getlines(code.co_filename, frame.f_globals)
    known = _cache.get((code.co_filename, line, id(options)))
    if known is not None and known[0] is lines:
        return known[2]
    node = source.find_block(lines, line)
    if node is None or not _can_be_taken_out(node) or not _is_what_runs(lines, code):
        return None
    block = rewrite_block(node, code, lines, options, frame.f_globals.get("__name__", "__main__"))
    _cache[code.co_filename, line, id(options)] = (lines, options, block)
    return block


def _can_be_taken_out(node: ast.With) -> bool:
    """One `with` item, its body on lines of its own, nothing in it that belongs to what is around it."""
    if len(node.items) != 1 or node.items[0].optional_vars is not None or node.body[0].lineno <= node.lineno:
        return False
    stack: list[tuple[ast.AST, bool]] = [(child, False) for child in node.body]
    while stack:
        inner, in_loop = stack.pop()
        if isinstance(inner, ast.Break | ast.Continue) and not in_loop:
            return False
        if isinstance(inner, ast.Await | ast.AsyncFor | ast.AsyncWith | ast.Yield | ast.YieldFrom | ast.Return):
            return False
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        loops = in_loop or isinstance(inner, ast.For | ast.While)
        stack += [(child, loops) for child in ast.iter_child_nodes(inner)]
    return True


def _is_what_runs(lines: list[str], code: CodeType) -> bool:
    try:
        flags = code.co_flags & source.FUTURES
        with no_warnings():
            plain = compile("".join(lines), code.co_filename, "exec", flags=flags, dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return source.same_code(plain.replace(co_name=code.co_name), code) or _same_functions(plain, code)


def _same_functions(plain: CodeType, code: CodeType) -> bool:
    """A notebook compiles a cell statement by statement: what runs is one of them, and the lines must agree."""
    running = {line for _, _, line in code.co_lines() if line}
    return code.co_name.startswith("<cell line") and running <= {line for _, _, line in plain.co_lines() if line}


def rewrite_block(node: ast.With, code: CodeType, lines: list[str], options: Options, module: str) -> _Block:
    """The statements of a block with tests in them; `code` is the module's, or the cell's, it stands in."""
    body = ast.Module(list(node.body), [])
    own = effects.bound_names(body)
    wanted = {n.id for e in options.expressions if e.form is Form.NAME for n in [e.parse()] if isinstance(n, ast.Name)}
    items, watched, hooks = items_for([*own], effects.bound_elsewhere(body) | (wanted - set(own)), [options])
    rewritten = rewrite_module(body, items, ignored_lines.ignorer(lines), start=node)
    plan = Plan(
        code.co_qualname, module, code.co_filename, node.lineno, watched, rewritten.lines, rewritten.ignored,
        dedupe=hooks is None, hooks=hooks,
    )  # fmt: skip
    plan.source = partial("".join, lines[node.lineno - 1 : node.end_lineno])
    plan.locals = own
    plan.from_star = any(e.form is Form.ALL for e in options.expressions)
    plan.on_return = [options.on_return] if options.on_return is not None else []
    with no_warnings():
        new = compile(
            rewritten.module, code.co_filename, "exec", flags=code.co_flags & source.FUTURES, dont_inherit=True
        )
    enter = partial(runtime.enter_hooked if hooks is not None else runtime.enter, plan)
    new = patched(new, plan, engine.objects(enter, plan))
    return new.replace(co_name=code.co_name, co_qualname=code.co_qualname), plan
