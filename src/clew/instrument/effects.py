"""What a statement can do to names and values, read off its tree.

Two questions decide which tests are inserted after it: which local names does it bind or delete, for certain or
perhaps; and could it change a value in place? The second answer errs on the side of yes: any operator may be the
user's own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_PURE = (ast.Constant, ast.Name, ast.Lambda, ast.Tuple, ast.List, ast.expr_context, ast.NamedExpr)


@dataclass(slots=True)
class Effects:
    """Names in the order they are bound."""

    binds: list[str] = field(default_factory=list)  # bound for certain when the statement is done
    may_bind: list[str] = field(default_factory=list)  # bound, if at all, somewhere on the way
    deletes: list[str] = field(default_factory=list)
    in_place: bool = False  # something may have changed inside a value


def of_simple(statement: ast.stmt) -> Effects:
    """Effects of a statement without a body of its own (of a compound one: not asked)."""
    effects = Effects(in_place=_in_place(statement))
    match statement:
        case ast.Assign(targets=targets):
            for target in targets:
                effects.binds += target_names(target)
        case ast.AnnAssign(target=target, value=value) if value is not None:
            effects.binds += target_names(target)
        case ast.AugAssign(target=target):
            effects.binds += target_names(target)
        case ast.Delete(targets=targets):
            for target in targets:
                effects.deletes += target_names(target)
        case ast.Import(names=names) | ast.ImportFrom(names=names) if not is_lazy(statement):
            effects.binds += [(a.asname or a.name.partition(".")[0]) for a in names if a.name != "*"]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            effects.binds.append(name)
        case _ if type(statement).__name__ == "TypeAlias":
            effects.binds += target_names(statement.name)  # type: ignore[attr-defined]
    effects.may_bind += [name for name in walrus_names([statement]) if name not in effects.binds]
    return effects


def is_lazy(statement: ast.AST) -> bool:
    """Whether this is `lazy import` (3.15): to look at the name it binds would import the module."""
    return bool(getattr(statement, "is_lazy", False))


def target_names(target: ast.AST) -> list[str]:
    """Names a target of an assignment, `for` or `with` binds; `a.b` and `a[0]` bind none."""
    match target:
        case ast.Name(id=name):
            return [name]
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return [name for part in parts for name in target_names(part)]
        case ast.Starred(value=inner):
            return target_names(inner)
    return []


def pattern_names(pattern: ast.AST) -> list[str]:
    """Names a `case` pattern captures, in the order they are bound."""
    names = [name for child in ast.iter_child_nodes(pattern) for name in pattern_names(child)]
    if isinstance(pattern, ast.MatchAs | ast.MatchStar) and pattern.name:
        names.append(pattern.name)
    elif isinstance(pattern, ast.MatchMapping) and pattern.rest:
        names.append(pattern.rest)
    return names


def walrus_names(nodes: Iterable[ast.AST | None]) -> list[str]:
    """Names bound by `:=` in this scope: inside comprehensions too, not inside lambdas and functions."""
    return [node.target.id for node in in_scope(nodes) if isinstance(node, ast.NamedExpr)]


def in_scope(nodes: Iterable[ast.AST | None]) -> Iterator[ast.AST]:
    """All nodes evaluated in this scope, in order: of an inner function, only decorators and defaults are."""
    stack = [node for node in nodes if node is not None][::-1]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = [*node.decorator_list, *node.args.defaults, *(d for d in node.args.kw_defaults if d)]
        elif isinstance(node, ast.Lambda):
            inner = [*node.args.defaults, *(d for d in node.args.kw_defaults if d)]
        elif isinstance(node, ast.ClassDef):
            inner = [*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)]
        else:
            inner = list(ast.iter_child_nodes(node))  # type: ignore[arg-type]
        stack += inner[::-1]


def changes_in_place(*nodes: ast.AST | None) -> bool:
    """Whether evaluating any of these expressions could run code that changes a value."""
    return any(node is not None and _in_place(node) for node in nodes)


def _in_place(node: ast.AST) -> bool:
    match node:
        case ast.Pass() | ast.Break() | ast.Continue() | ast.Global() | ast.Nonlocal():
            return False
        case ast.Assign(targets=targets, value=value):
            return not all(isinstance(t, ast.Name) for t in targets) or _in_place(value)
        case ast.AnnAssign(target=target, value=value):
            return not isinstance(target, ast.Name) or (value is not None and _in_place(value))
        case ast.Expr(value=value):
            return _in_place(value)
        case ast.Return(value=value):
            return value is not None and _in_place(value)
        case ast.Delete():
            return True  # `del x` may run a finaliser
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return bool(node.decorator_list) or any(
                _in_place(d) for d in (*node.args.defaults, *node.args.kw_defaults) if d is not None
            )
    return not all(isinstance(inner, _PURE) for inner in ast.walk(node))


def evaluates(statement: ast.stmt) -> list[ast.AST | None]:
    """What a statement evaluates on its own line, the statements inside it aside."""
    match statement:
        case ast.If(test=test) | ast.While(test=test):
            return [test]
        case ast.For(iter=iterated) | ast.AsyncFor(iter=iterated):
            return [iterated]
        case ast.With(items=items) | ast.AsyncWith(items=items):
            return [item.context_expr for item in items]
        case ast.Match(subject=subject):
            return [subject]
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return [*statement.decorator_list, *statement.args.defaults, *statement.args.kw_defaults]
        case ast.Try() | ast.ClassDef():
            return []
    return [] if type(statement).__name__ == "TryStar" else [statement]


def calls_something(statement: ast.stmt) -> bool:
    """Whether a statement itself calls a function or looks up an attribute; what operators may call is not asked."""
    if isinstance(statement, ast.With | ast.AsyncWith | ast.For | ast.AsyncFor | ast.Import | ast.ImportFrom):
        return True
    return any(isinstance(node, ast.Call | ast.Attribute | ast.Await) for node in in_scope(evaluates(statement)))


def bound_elsewhere(function: ast.AST) -> set[str]:
    """Names of this function that inner functions rebind (`nonlocal`), or that it shares by `global`/`nonlocal`."""
    names: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Nonlocal | ast.Global):
            names.update(node.names)
    return names


def bound_names(function: ast.AST) -> list[str]:
    """Names the function's own statements bind, in the order they stand; comprehension variables are not its own."""
    names: list[str] = []
    body = getattr(function, "body", [])
    for node in _in_order(body if isinstance(body, list) else [body]):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                names.append(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.append(name)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.append(name)
            case ast.MatchMapping(rest=str(name)):
                names.append(name)
            case ast.alias(name=name, asname=asname) if name != "*":
                names.append(asname or name.partition(".")[0])
    return list(dict.fromkeys(names))


def _in_order(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    for node in nodes:
        yield node
        if isinstance(node, ast.comprehension):
            yield from _in_order([node.iter, *node.ifs])
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _in_order([*node.decorator_list, *node.args.defaults])
        elif isinstance(node, ast.ClassDef):
            yield from _in_order([*node.decorator_list, *node.bases])
        elif not isinstance(node, ast.Lambda) and not is_lazy(node):
            yield from _in_order(ast.iter_child_nodes(node))
