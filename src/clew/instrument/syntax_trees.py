"""Small syntax trees: the words rewrite.py writes its tests in."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import TypeVar

from .expressions import Expression

LOG, CALL, CHECK, VALUE = ".clew_log", ".clew_call", ".clew_check", ".clew_value"
TRACKED, THREAD = ".clew_tracked", ".clew_thread"
MARK = "\0clew:"  # begins the strings that stand for objects
Site = Callable[[int], ast.expr]  # the site of the name with this index, as code


def placeless(expression: Expression) -> ast.expr:
    """The expression's tree without positions, to be given those of the statement it follows."""
    tree = expression.parse()
    for node in ast.walk(tree):
        for attribute in node._attributes:
            node.__dict__.pop(attribute, None)
    return tree


def load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def store(name: str) -> ast.expr:
    return ast.Name(name, ast.Store())


def type_of(index: int) -> str:
    return f".clew_type{index}"


def was(index: int) -> str:
    return f".clew_was{index}"


_Placed = TypeVar("_Placed", bound=ast.stmt | ast.expr | ast.excepthandler)


def on_no_line(node: _Placed) -> _Placed:
    """For where code of ours goes back to (leaving a `with`, an `except`): a debugger must not stop there again."""
    node.lineno = node.end_lineno = node.col_offset = node.end_col_offset = -1
    return node


def handler(kind: str, body: ast.stmt) -> ast.ExceptHandler:
    new = on_no_line(ast.ExceptHandler(marked(kind), None, [body]))
    for node in ast.walk(new):
        if isinstance(node, ast.stmt | ast.expr):
            on_no_line(node)
    return new


def none() -> ast.expr:
    return ast.Constant(None)


def constant(value: int) -> ast.expr:
    return ast.Constant(value)


def marked(name: str) -> ast.expr:
    return ast.Constant(MARK + name)


def quiet_threads() -> ast.expr:
    """The list in quiet_threads.py, read from the module: of a constant the compiler knows whether it is empty."""
    return ast.Attribute(marked("quiet"), "threads", ast.Load())


def at(number: int) -> Site:
    """The sites of a statement, by index of the name."""
    return lambda index: ast.Constant(f"{MARK}site:{number}:{index}")


def attribute(name: str, attribute: str) -> ast.expr:
    return ast.Attribute(load(name), attribute, ast.Load())


def tuple_of(parts: Iterable[ast.expr]) -> ast.expr:
    return ast.Tuple(list(parts), ast.Load())


def call(function: ast.expr, *args: ast.expr) -> ast.expr:
    return ast.Call(function, list(args), [])


def run(expression: ast.expr) -> ast.stmt:
    return ast.Expr(expression)


def assign(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([store(name)], value)


def unpack(names: Iterable[str], value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Tuple([store(name) for name in names], ast.Store())], value)


def is_not(left: ast.expr, right: ast.expr) -> ast.expr:
    return ast.Compare(left, [ast.IsNot()], [right])
