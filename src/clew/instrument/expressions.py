"""What a user may ask to watch: names, paths into values, any expression, or `*` for every local."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import Enum

from clew.errors import ExpressionError

from . import parsing


class Form(Enum):
    """How an expression can change, and so how it must be looked at."""

    NAME = "name"  # bound by statements
    PATH = "path"  # a.b, a["k"], a[1]: evaluated, and gone when it leads nowhere
    ANY = "any"  # calls and operators: evaluated; silent where it cannot be
    ALL = "all"  # every local


@dataclass(frozen=True, slots=True)
class Expression:
    text: str
    form: Form

    def parse(self) -> ast.expr:
        """A fresh tree, because each place it is put into changes its positions."""
        return parsing.parse(self.text, mode="eval").body


def parse(text: object) -> Expression:
    """Read one expression, or say what is wrong with it."""
    if not isinstance(text, str):
        raise ExpressionError(
            "bad-expression",
            f"clew.watch() takes expressions as text, not {type(text).__name__}: {text!r:.80}.",
            'Write the name in quotes: clew.watch("loss").',
        )
    source = text.strip()
    if source == "*":
        return Expression("*", Form.ALL)
    try:
        tree = parsing.parse(source, mode="eval").body
    except (SyntaxError, ValueError) as error:
        reason = getattr(error, "msg", None) or str(error)
        raise ExpressionError(
            "bad-expression",
            f"`{text}` is not a Python expression ({reason}).",
            'Give names and expressions such as "loss", \'cfg["lr"]\' or "w.grad.norm()".',
        ) from None
    for node in ast.walk(tree):
        if isinstance(node, ast.NamedExpr | ast.Yield | ast.YieldFrom | ast.Await):
            raise ExpressionError(
                "bad-expression",
                f"`{text}` would change what the program does ({type(node).__name__}).",
                "Watch an expression that only looks.",
            )
    return Expression(source, _form(tree))


def _form(tree: ast.expr) -> Form:
    if isinstance(tree, ast.Name):
        return Form.NAME
    node: ast.expr = tree
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Subscript) and any(isinstance(n, ast.Call) for n in ast.walk(node.slice)):
            return Form.ANY
        node = node.value
    return Form.PATH if isinstance(node, ast.Name) else Form.ANY


def roots(expression: Expression) -> set[str]:
    """The names an expression begins from."""
    return {node.id for node in ast.walk(expression.parse()) if isinstance(node, ast.Name)}
