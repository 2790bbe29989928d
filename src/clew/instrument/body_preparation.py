"""A body made ready for rewriting: what must move, and what must not be seen. Trees are copied, not changed."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable

from . import effects
from . import syntax_trees as t
from .syntax_trees import CALL

_LISTING = ("locals", "vars", "dir")
_EVALUATING = ("eval", "exec")


def takes_all(pattern: ast.pattern | None) -> bool:
    """Whether a pattern cannot fail (Python allows no case after it)."""
    if isinstance(pattern, ast.MatchOr):
        return takes_all(pattern.patterns[-1])
    return pattern is None or (isinstance(pattern, ast.MatchAs) and takes_all(pattern.pattern))


def is_docstring(body: list[ast.stmt]) -> bool:
    first = body[0] if body else None
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)


def is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def hoist_declarations(body: list[ast.stmt]) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """`global` and `nonlocal` must stand before the first use of their names, and our tests use them early."""
    if not any(isinstance(n, ast.Global | ast.Nonlocal) for n in effects.in_scope(body)):
        return [], list(body)
    body = copy.deepcopy(body)
    declared: list[ast.stmt] = []

    class Hoist(ast.NodeTransformer):
        def _take(self, node: ast.Global | ast.Nonlocal) -> ast.stmt:
            declared.append(node)
            return ast.copy_location(ast.Pass(), node)

        visit_Global = visit_Nonlocal = _take

        def _leave_alone(self, node: ast.AST) -> ast.AST:
            return node

        visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _leave_alone

    return declared, [Hoist().visit(statement) for statement in body]


def without_our_names(body: list[ast.stmt]) -> list[ast.stmt]:
    """`locals()`, `vars()` and `dir()`, and what `eval` and `exec` evaluate, must not show what clew put there."""
    if not any(_lists(node) or _evaluates(node) for node in effects.in_scope(body)):
        return list(body)

    class Clean(ast.NodeTransformer):
        def visit_Expr(self, node: ast.Expr) -> ast.stmt:
            """As a statement `eval(text)` becomes one: 3.13 cannot compile the expression in some functions."""
            is_evaluation = _evaluates(node.value)
            self.generic_visit(node)
            if not is_evaluation:
                return node
            assert isinstance(node.value, ast.IfExp)
            told, plain = (ast.copy_location(ast.Expr(one), node) for one in (node.value.body, node.value.orelse))
            return ast.copy_location(ast.If(node.value.test, [told], [plain]), node)

        def visit_Call(self, node: ast.Call) -> ast.expr:
            self.generic_visit(node)
            if _lists(node):
                return _placed(t.call(t.marked("clean"), node), node)
            return _placed(_with_clean_names(node), node) if _evaluates(node) else node

    return [Clean().visit(statement) for statement in copy.deepcopy(body)]


def _lists(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _LISTING
        and not (node.args or node.keywords)
    )


def _evaluates(node: ast.AST) -> bool:
    """Whether it is `eval(text)` or `exec(text)`, as far as can be told from here."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _EVALUATING
        and len(node.args) == 1
        and not node.keywords
        and not isinstance(node.args[0], ast.Starred)
    )


def _with_clean_names(node: ast.Call) -> ast.expr:
    """`eval(text)`, told what it would find by itself: the names of this frame, without ours. A function of the user's
    that is called `eval` gets what it got."""
    assert isinstance(node.func, ast.Name)
    names = [t.call(t.marked("globals")), t.call(t.marked("clean"), t.call(t.marked("locals")))]
    told = ast.Call(copy.deepcopy(node.func), [copy.deepcopy(node.args[0]), *names], [])
    return ast.IfExp(ast.Compare(copy.deepcopy(node.func), [ast.Is()], [t.marked(node.func.id)]), told, node)


def _placed(new: ast.expr, at: ast.expr) -> ast.expr:
    return ast.fix_missing_locations(ast.copy_location(new, at))


def bound_on_the_way(body: Iterable[ast.AST]) -> list[str]:
    """Names a block may have bound or deleted inside a statement that then failed."""
    names: list[str] = []
    for node in effects.in_scope(body):
        match node:
            case ast.NamedExpr(target=ast.Name(id=name)):
                names.append(name)
            case ast.Assign(targets=targets) if len(targets) > 1 or not isinstance(targets[0], ast.Name):
                names += [name for target in targets for name in effects.target_names(target)]
            case ast.For(target=target) | ast.AsyncFor(target=target) if not isinstance(target, ast.Name):
                names += effects.target_names(target)
            case ast.With(items=items) | ast.AsyncWith(items=items):
                targets = [item.optional_vars for item in items if item.optional_vars is not None]
                if len(items) > 1 or not all(isinstance(target, ast.Name) for target in targets):
                    names += [name for target in targets for name in effects.target_names(target)]
            case ast.Import(names=[_, _, *_]) | ast.ImportFrom(names=[_, _, *_]):
                names += effects.of_simple(node).binds
            case ast.MatchAs() | ast.MatchStar() | ast.MatchMapping():
                names += effects.pattern_names(node)
    return list(dict.fromkeys(names))


def telling_of_pauses(body: list[ast.stmt]) -> list[ast.stmt]:
    """Each `yield x` as `call.resumed((yield call.paused(x)))`: while it pauses, a generator is nobody's caller."""
    if not any(isinstance(node, ast.Yield | ast.YieldFrom) for node in effects.in_scope(body)):
        return body

    class Tell(ast.NodeTransformer):
        def _tell(self, node: ast.Yield | ast.YieldFrom) -> ast.expr:
            self.generic_visit(node)
            node.value = t.call(t.attribute(CALL, "paused"), node.value if node.value is not None else t.none())
            told = t.call(t.attribute(CALL, "resumed"), node)
            for new in (told, node.value):
                ast.copy_location(new, node)
                ast.fix_missing_locations(new)
            return told

        visit_Yield = visit_YieldFrom = _tell

        def _leave_alone(self, node: ast.AST) -> ast.AST:
            return node

        visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _leave_alone

    return [Tell().visit(statement) for statement in copy.deepcopy(body)]
