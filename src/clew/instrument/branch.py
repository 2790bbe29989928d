"""A second body for a function, which is run for certain receivers: those whose `self` is in a table.

    def forward(self, x):
        if .clew_id(self) in .clew_receivers:
            with .clew_enter((self, x)) as .clew_call:      # the rewritten body
                ...
        else:
            ...                                             # the body as it is without

All other receivers pay for one look into a dictionary. Nothing is put on the receivers themselves.

Where torch's compiler is loaded, the test begins with `not torch.compiler.is_compiling()`: that is known to the
compiler, which reads no further and compiles the first body.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any, TypeVar

from clew.recorder.plan import Plan

from . import syntax_trees as t
from .body_preparation import hoist_declarations, is_docstring
from .syntax_trees import MARK

PREFIX = "branch-"
_TORCH, _TOLD = ".clew_torch", ".clew_told"
_T = TypeVar("_T")


class Receivers(dict[int, _T]):
    """By id of the receiver. It becomes a constant of code, which is hashed: it is itself and equal to no other."""

    __slots__ = ()
    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__


@dataclass(frozen=True, eq=False, slots=True)
class Branch:
    """Which receivers run the second body, and what that tells to whom."""

    receivers: Container[int]  # ids of receivers; asked at every call of the function
    expressions: tuple[str, ...]  # looked at in the second body
    entrance: Callable[[Plan], Callable[[tuple[Any, ...]], Any]]  # makes the way in, for a plan

    def objects(self, entered: Callable[[tuple[Any, ...]], Any]) -> dict[str, Any]:
        """What the test itself needs, by the names that `merge` uses."""
        return {f"{PREFIX}id": id, f"{PREFIX}receivers": self.receivers, f"{PREFIX}enter": entered}


def merge(
    base: ast.FunctionDef | ast.AsyncFunctionDef, second: ast.FunctionDef | ast.AsyncFunctionDef,
    plan: Plan | None, receiver: str, torch: str | None,
) -> None:  # fmt: skip
    """Give `base` the body of `second` as well, which was rewritten for `plan`; None: for that of `base`.

    `torch` is what the function calls that library, "" if it has no name for it; None if its compiler is not loaded.
    """
    for node in ast.walk(second) if plan is not None else ():
        if isinstance(node, ast.Constant) and type(node.value) is str and node.value.startswith(MARK):
            node.value = _own_mark(node.value[len(MARK) :], plan)  # type: ignore[arg-type]
    head, body = _split(base.body)
    _, other = _split(second.body)
    test: ast.expr = ast.Compare(
        t.call(t.marked(f"{PREFIX}id"), t.load(receiver)), [ast.In()], [t.marked(f"{PREFIX}receivers")]
    )
    if torch is not None:
        compiler = ast.Attribute(t.load(torch or _TORCH), "compiler", ast.Load())
        compiles = t.call(ast.Attribute(compiler, "is_compiling", ast.Load()))
        test = ast.BoolOp(ast.And(), [ast.UnaryOp(ast.Not(), compiles), test])
    new: list[ast.stmt] = [ast.If(test, other, body or [t.on_no_line(ast.Pass())])]
    if torch == "":
        new.insert(0, ast.Import([ast.alias("torch", _TORCH)]))
    for node in (*new, *ast.walk(test)):
        if isinstance(node, ast.expr | ast.stmt):
            t.on_no_line(node)
    base.body = [*head, *new]


def heard(base: ast.FunctionDef | ast.AsyncFunctionDef, parameters: tuple[str, ...]) -> ast.FunctionDef:
    """A function that does the same, inside a call that is entered and left, and that is told the result."""
    function: ast.FunctionDef = copy.deepcopy(base)  # type: ignore[assignment]
    head, body = _split(function.body)
    enter = t.call(t.marked(f"{PREFIX}enter"), t.tuple_of(map(t.load, parameters)))
    told = ast.With([ast.withitem(enter, t.store(_TOLD))], [_KeepsResults().visit(each) for each in body])
    for node in (told, told.items[0].optional_vars, *ast.walk(enter)):
        if isinstance(node, ast.expr | ast.stmt):
            t.on_no_line(node)
    function.body = [*head, told]
    return function


class _KeepsResults(ast.NodeTransformer):
    """`return x` as it is, and the result is in the call as well."""

    def visit_Return(self, node: ast.Return) -> Any:
        if node.value is None:
            return node
        keep = ast.Assign([ast.Attribute(t.load(_TOLD), "result", ast.Store())], node.value)
        again = ast.Return(t.attribute(_TOLD, "result"))
        return [ast.fix_missing_locations(ast.copy_location(each, node)) for each in (keep, again)]

    def _leave_alone(self, node: ast.AST) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _leave_alone


def _own_mark(mark: str, plan: Plan) -> Any:
    name, _, rest = mark.partition(":")
    if name != "site":
        return f"{MARK}{PREFIX}{mark}"
    statement, index = rest.split(":")
    return plan.site(int(statement), int(index))


def _split(body: list[ast.stmt]) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """What must stand at the top of a function, and the rest."""
    doc = body[:1] if is_docstring(body) else []
    declared, rest = hoist_declarations(body[len(doc) :])
    return [*doc, *declared], rest
