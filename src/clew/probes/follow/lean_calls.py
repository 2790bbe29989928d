"""Puts what a followed call needs into a function: one line into the log when it begins, one when it ends.

    .clew_log = trace.get(None)                       # the log of this thread or task, if calls are followed here
    .clew_own = .clew_log is None
    if .clew_own or quiet:                            # the outermost followed call opens one; elsewhere, and while an
        .clew_log, .clew_own, .clew_line = begin(.clew_log)            # expression is evaluated, it goes nowhere
    else:
        .clew_line = .clew_log.at
    if type(a) in SCALARS and type(b) in SCALARS:
        .clew_log += CODE, clock(), .clew_line, a, b
    else:
        .clew_log += CODE, clock(), .clew_line, *looked_at(.clew_log, (a, b))
    try:
        ...                                           # `.clew_log.at = 57` before what can call; exits write a line
    except raised(.clew_log, .clew_line, .clew_own):  # writes a line and catches nothing: the exception goes on
        pass

Where the recorder is late, the program waits for it at the end of a call (`.clew_log.due`), so that memory is bounded.
Without an exception the `try` costs nothing. For functions that pause, or hold named variables, see call_objects.py.
"""

from __future__ import annotations

import ast
import copy
from functools import partial
from types import CodeType
from typing import Any

from clew.instrument import effects, source
from clew.instrument import syntax_trees as t
from clew.instrument.assembling import assemble
from clew.instrument.body_preparation import hoist_declarations, is_docstring, without_our_names
from clew.instrument.engine import Follow, in_and_out, inner_followed
from clew.instrument.rewrite import Rewritten
from clew.instrument.runtime import HIDING, clean
from clew.instrument.watched_items import parameter_names
from clew.recorder import call_log, quiet_threads
from clew.recorder.plan import Plan
from clew.values import SCALARS

from . import runtime
from .reraise import put_back

LOG, OWN, LINE, NOW, RESULT = ".clew_log", ".clew_own", ".clew_line", ".clew_now", ".clew_result"


def make(
    original: CodeType, found: source.Found, module: str | None, follow: Follow
) -> tuple[CodeType, Plan] | source.Unknown:
    """The code of a function whose calls are followed, and its plan; or why there is none."""
    node = source.as_function(found.node)
    parameters = parameter_names(node)
    line = original.co_firstlineno
    plan = Plan(
        original.co_qualname, module or "?", original.co_filename, line, in_and_out(parameters), [line], [False],
        parameters=parameters,
    )  # fmt: skip
    plan.code, plan.source = original, found.text
    plan.always, plan.root = False, follow.root
    assert isinstance(node, ast.FunctionDef)
    _rewrite(node, parameters)
    objects = _objects(plan)
    try:
        code = assemble(Rewritten(node, [line], [False]), original, found.context, plan, objects)
    except (SyntaxError, RecursionError) as error:
        return source.Unknown(f"with what is needed in it, it does not compile ({error})")
    if code.co_freevars != original.co_freevars:
        return source.Unknown("with what is needed in it, it needs other cells")
    return inner_followed(put_back(code, objects["raised"]), module, follow), plan


def _objects(plan: Plan) -> dict[str, Any]:
    return {
        "get": call_log.here.get,
        "begin": partial(runtime.enter, plan),
        "quiet": quiet_threads,
        "end": runtime.end,
        "clock": call_log.clock,
        "type": type,
        "relieve": runtime.relieve,
        "scalars": SCALARS,
        "look": runtime.looked_at,
        "look_one": runtime.looked_at_one,
        "enter": plan.marks[call_log.ENTER],
        "return": plan.marks[call_log.RETURN],
        "raised": partial(runtime.raised, plan.marks[call_log.RAISE]),
        "clean": clean,
        **HIDING,
    }


def _rewrite(node: ast.FunctionDef, parameters: tuple[str, ...]) -> None:
    body = without_our_names(node.body)
    declared, body = hoist_declarations(body)
    doc = [body.pop(0)] if is_docstring(body) else []
    first = body[0] if body else node
    body = _Body().block(copy.deepcopy(body))
    ending = [] if body and isinstance(body[-1], ast.Return | ast.Raise) else _leave(t.none())
    handler = ast.ExceptHandler(t.call(t.marked("raised"), *map(t.load, (LOG, LINE, OWN))), None, [ast.Pass()])
    guarded = ast.Try([*body, *map(_nowhere, ending)] or [ast.Pass()], [_nowhere(handler)], [], [])
    way_in = [_placed(each, first) for each in _enter(parameters)]
    node.body = [*doc, *declared, *way_in, t.on_no_line(guarded)]


def _nowhere(node: Any) -> Any:
    """On no line: a debugger does not stop there."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.stmt | ast.expr | ast.excepthandler) and not hasattr(inner, "lineno"):
            t.on_no_line(inner)
    return node


def _placed(node: Any, at: ast.stmt) -> Any:
    """Where a statement of the user's begins: a debugger that stops there stops once."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.stmt | ast.expr) and not hasattr(inner, "lineno"):
            inner.lineno = inner.end_lineno = at.lineno
            inner.col_offset = inner.end_col_offset = at.col_offset
    return node


def _add(*parts: ast.expr) -> ast.stmt:
    return ast.AugAssign(t.store(LOG), ast.Add(), t.tuple_of(parts))  # type: ignore[arg-type]


def _is_scalar(name: str) -> ast.expr:
    """A metaclass of the user's may make its classes unhashable, and no scalar has one."""
    kind = t.call(t.marked("type"), t.load(name))
    meta = ast.Compare(t.call(t.marked("type"), copy.deepcopy(kind)), [ast.Is()], [t.marked("type")])
    return ast.BoolOp(ast.And(), [meta, ast.Compare(kind, [ast.In()], [t.marked("scalars")])])


def _enter(parameters: tuple[str, ...]) -> list[ast.stmt]:
    head = [t.marked("enter"), t.call(t.marked("clock")), t.load(LINE)]
    told: ast.stmt = _add(*head, *map(t.load, parameters))
    if parameters:
        tests = [_is_scalar(name) for name in parameters]
        given = t.call(t.marked("look"), t.load(LOG), t.tuple_of(map(t.load, parameters)))
        looked = _add(*copy.deepcopy(head), ast.Starred(given, ast.Load()))
        told = ast.If(tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests), [told], [looked])
    return [
        t.assign(LOG, t.call(t.marked("get"), t.none())),
        t.assign(OWN, ast.Compare(t.load(LOG), [ast.Is()], [t.none()])),
        ast.If(
            ast.BoolOp(ast.Or(), [t.load(OWN), t.quiet_threads()]),
            [t.unpack([LOG, OWN, LINE], t.call(t.marked("begin"), t.load(LOG)))],
            [t.assign(LINE, t.attribute(LOG, "at"))],
        ),
        told,
    ]


def _leave(result: ast.expr) -> list[ast.stmt]:
    at = ast.Attribute(t.load(LOG), "at", ast.Store())
    return [
        t.assign(NOW, t.call(t.marked("clock"))),
        _add(t.marked("return"), t.load(NOW), result),
        ast.Assign([at], t.load(LINE)),
        ast.If(_is_late(), [t.run(t.call(t.marked("relieve"), t.load(LOG)))], []),
        ast.If(t.load(OWN), [t.run(t.call(t.marked("end"), t.load(LOG)))], []),
    ]


def _is_late() -> ast.expr:
    return ast.Compare(t.load(NOW), [ast.Gt()], [t.attribute(LOG, "due")])


class _Body(ast.NodeTransformer):
    """A copy of the user's statements, changed: each says its line if it can call something, and exits are told."""

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        new: list[ast.stmt] = []
        for statement in statements:
            if effects.calls_something(statement):
                at = ast.Attribute(t.load(LOG), "at", ast.Store())
                new.append(_placed(ast.Assign([at], t.constant(statement.lineno)), statement))
            changed = self.visit(statement)
            new += changed if isinstance(changed, list) else [changed]
        return new

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for name in ("body", "orelse", "finalbody"):
            inner = getattr(node, name, None)
            if isinstance(inner, list) and inner and isinstance(inner[0], ast.stmt):
                setattr(node, name, self.block(inner))
        for name in ("handlers", "cases"):
            for inner in getattr(node, name, []):
                self.generic_visit(inner)
        return node

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        value = node.value if node.value is not None else _nowhere(t.none())
        keep = ast.copy_location(ast.Assign([ast.copy_location(t.store(RESULT), node)], value), node)
        scalar = ast.IfExp(
            _is_scalar(RESULT), t.load(RESULT), t.call(t.marked("look_one"), t.load(LOG), t.load(RESULT))
        )
        back = ast.copy_location(ast.Return(ast.copy_location(t.load(RESULT), node)), node)
        return [keep, *(_placed(each, node) for each in _leave(scalar)), back]

    def _leave_alone(self, node: ast.AST) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _leave_alone
