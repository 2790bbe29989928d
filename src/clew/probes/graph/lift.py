"""The user's functions, rewritten so that what Python hides from values is seen: calls, f-strings, `is`, `not`, `in`.

A rewritten function is a function of its own; the user's stays as it is.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from types import CodeType, FunctionType
from typing import Any

from clew.probes.lines import source
from clew.probes.lines.trees import MARK

_HOOKS = MARK + "hooks"
_LEFT_ALONE = {"super", "locals", "globals", "vars", "dir", "eval", "exec", "__import__"}  # they look at their frame
_lifted: dict[FunctionType, tuple[Any, FunctionType | None]] = {}


def lifted(function: FunctionType, hooks: Any) -> FunctionType | None:
    """The function, seen through; None if its source is not known."""
    known = _lifted.get(function)
    if known is not None and known[0] is function.__code__:
        return known[1]
    made = _lift(function, hooks)
    _lifted[function] = (function.__code__, made)
    return made


def _lift(function: FunctionType, hooks: Any) -> FunctionType | None:
    found = source.find(function.__code__, function.__globals__)
    if isinstance(found, source.Unknown):
        return None
    node = copy.deepcopy(source.as_function(found.node))
    node.body = [_Seen().visit(statement) for statement in node.body]
    ast.fix_missing_locations(node)
    code = source.compile_alone(node, function.__code__, found.context)
    made = FunctionType(
        _with_hooks(code, hooks),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _with_hooks(code: Any, hooks: Any) -> Any:
    def real(const: Any) -> Any:
        if isinstance(const, CodeType):
            return _with_hooks(const, hooks)
        return hooks if type(const) is str and const == _HOOKS else const

    consts = tuple(map(real, code.co_consts))
    return code.replace(co_consts=consts)


_QUESTIONS: dict[type[ast.cmpop], str] = {
    ast.Is: "is_",
    ast.IsNot: "is_not",
    ast.In: "within",
    ast.NotIn: "not_within",
}


class _Seen(ast.NodeTransformer):
    """Each call, f-string, `is`, `in`, `not` and `%` goes through a hook; everything else is as it was."""

    def _hook(self, name: str, args: list[ast.expr], at: ast.expr, keywords: Sequence[ast.keyword] = ()) -> ast.expr:
        hook = ast.Attribute(ast.Constant(_HOOKS), name, ast.Load())
        call = ast.Call(hook, args, list(keywords))
        for node in (hook.value, hook, call):
            ast.copy_location(node, at)
        return call

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name) and node.func.id in _LEFT_ALONE:
            self.generic_visit(node)
            return node
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute):
            owner, name = node.func.value, ast.copy_location(ast.Constant(node.func.attr), node.func)
            return self._hook("method", [owner, name, *node.args], node, node.keywords)
        return self._hook("call", [node.func, *node.args], node, node.keywords)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        return self._joined(node, node)

    def _joined(self, node: ast.JoinedStr, at: ast.expr) -> ast.expr:
        parts: list[ast.expr] = []
        for value in node.values:
            if isinstance(value, ast.FormattedValue):
                conversion = ast.Constant("" if value.conversion < 0 else chr(value.conversion))
                spec: ast.expr = ast.Constant("")
                if isinstance(value.format_spec, ast.JoinedStr):
                    spec = self._joined(value.format_spec, at)
                parts.append(self._hook("text", [self.visit(value.value), conversion, spec], at))
            else:
                parts.append(value)
        return self._hook("joined", parts, at)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) != 1:
            return node
        name = _QUESTIONS.get(type(node.ops[0]))
        return node if name is None else self._hook(name, [node.left, node.comparators[0]], node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return self._hook("not_", [node.operand], node) if isinstance(node.op, ast.Not) else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        return self._hook("mod", [node.left, node.right], node) if isinstance(node.op, ast.Mod) else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            return node
        return self._hook("item", [node.value, self._key(node.slice)], node)

    def _key(self, key: ast.expr) -> ast.expr:
        """A slice is no expression of its own outside brackets."""
        if isinstance(key, ast.Slice):
            given = [part or ast.Constant(None) for part in (key.lower, key.upper, key.step)]
            return self._hook("slice", given, key)
        if isinstance(key, ast.Tuple):
            return ast.copy_location(ast.Tuple([self._key(part) for part in key.elts], ast.Load()), key)
        return key

    def visit_Match(self, node: ast.Match) -> ast.stmt:
        self.generic_visit(node)
        node.subject = self._hook("plain", [node.subject], node.subject)
        return node

    # types are no business of ours
    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        node.body = [self.visit(statement) for statement in node.body]
        return node
