"""Which names a piece of source reads and sets, and which of them depend on others. As far as the source tells."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

Function = ast.FunctionDef | ast.AsyncFunctionDef
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
LOOPS = (ast.For, ast.While)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_BLOCKS = ("body", "orelse", "finalbody")


def parameter_names(args: ast.arguments) -> set[str]:
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return {arg.arg for arg in every if arg is not None}


def in_scope(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes and what is in them, without the insides of functions and classes."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _SCOPES):
            stack.extend(ast.iter_child_nodes(node))


def loaded(node: ast.AST) -> set[str]:
    """The names that are read, also by functions inside; without those that inner scopes bind themselves."""
    if isinstance(node, ast.Name):
        return set() if isinstance(node.ctx, ast.Store) else {node.id}
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return {node.target.id} | loaded(node.value)
    if isinstance(node, ast.Lambda):
        return _loaded_in(_defaults(node.args)) | (loaded(node.body) - parameter_names(node.args))
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        own = parameter_names(node.args) | stored(node.body)
        outer = {name for one in in_scope(node.body) if isinstance(one, ast.Nonlocal) for name in one.names}
        inside = (_loaded_in(node.body) - own) | outer
        return _loaded_in([*_defaults(node.args), *node.decorator_list]) | inside
    if isinstance(node, COMPREHENSIONS):
        targets = {name for one in node.generators for name in stored([one.target])}
        first = node.generators[0].iter
        rest = [child for child in ast.iter_child_nodes(node) if child is not node.generators[0]]
        rest += [*node.generators[0].ifs]
        return loaded(first) | (_loaded_in(rest) - targets)
    return _loaded_in(ast.iter_child_nodes(node))


def _loaded_in(nodes: Iterable[ast.AST]) -> set[str]:
    return {name for node in nodes for name in loaded(node)}


def _defaults(args: ast.arguments) -> list[ast.AST]:
    return [*args.defaults, *(default for default in args.kw_defaults if default is not None)]


def stored(nodes: Sequence[ast.AST]) -> set[str]:
    """The names that are set in this scope; of comprehensions only those of `:=`."""
    names: set[str] = set()
    for node in _outside_comprehensions(nodes):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names.add(node.rest)
    return names


def _outside_comprehensions(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    for node in nodes:
        if isinstance(node, COMPREHENSIONS):
            yield from (one.target for one in in_scope([node]) if isinstance(one, ast.NamedExpr))
            continue
        yield node
        if not isinstance(node, _SCOPES):
            yield from _outside_comprehensions(ast.iter_child_nodes(node))


def seen_by_functions(nodes: Iterable[ast.AST], without: Sequence[ast.AST]) -> set[str]:
    """The names that functions among the nodes read of what is around them; some nodes left out."""
    found: set[str] = set()
    for node in nodes:
        if any(node is one for one in without):
            continue
        if isinstance(node, _SCOPES):
            found |= loaded(node)
        elif isinstance(node, COMPREHENSIONS):
            targets = {name for one in node.generators for name in stored([one.target])}
            found |= seen_by_functions(ast.iter_child_nodes(node), without) - targets
        else:
            found |= seen_by_functions(ast.iter_child_nodes(node), without)
    return found


# ---- what is read before it is set -----------------------------------------------------------------------------------


def read_first(block: Iterable[ast.stmt], assigned: set[str]) -> set[str]:
    """The names that a block may read before it sets them; `assigned` grows by those it sets in any case."""
    names: set[str] = set()
    for statement in block:
        names |= _read_first_by(statement, assigned)
    return names


def _read_first_by(node: ast.stmt, assigned: set[str]) -> set[str]:
    if isinstance(node, ast.For):
        names = (loaded(node.iter) | loaded(node.target)) - assigned
        names |= read_first(node.body, assigned | stored([node.target]))
        return names | read_first(node.orelse, set(assigned))
    if isinstance(node, ast.While):
        names = loaded(node.test) - assigned
        return names | read_first(node.body, set(assigned)) | read_first(node.orelse, set(assigned))
    if isinstance(node, ast.If):
        first, second = set(assigned), set(assigned)
        names = (loaded(node.test) - assigned) | read_first(node.body, first) | read_first(node.orelse, second)
        assigned |= first & second
        return names
    if isinstance(node, ast.With):
        names = _loaded_in(node.items) - assigned
        assigned |= stored([item.optional_vars for item in node.items if item.optional_vars is not None])
        return names | read_first(node.body, set(assigned))
    if isinstance(node, (ast.Try, ast.TryStar)):
        blocks = [node.body, node.orelse, node.finalbody, *(handler.body for handler in node.handlers)]
        types = {name for handler in node.handlers if handler.type is not None for name in loaded(handler.type)}
        return (types - assigned).union(*(read_first(block, set(assigned)) for block in blocks))
    names = loaded(node) - assigned
    if not isinstance(node, (ast.Match, ast.Delete)):
        assigned |= _stored_in_any_case(node)
    return names


def _stored_in_any_case(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.Assign):
        return stored(node.targets)
    if isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        return stored([node.target]) if node.value is not None else set()
    is_definition = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom))
    return stored([node]) if is_definition else set()


# ---- what depends on what --------------------------------------------------------------------------------------------


def dependent(nodes: Sequence[ast.AST], names: set[str]) -> set[str]:
    """The names, and those that get values in the nodes by way of them. In doubt a name does."""
    found = set(names)
    while True:
        before = len(found)
        for node in nodes:
            _spread(node, found)
        if len(found) == before:
            return found


def _spread(node: ast.AST, found: set[str]) -> None:
    decides = getattr(node, "test", None) or getattr(node, "iter", None) or getattr(node, "subject", None)
    if isinstance(node, (ast.If, ast.While, ast.For, ast.Match)) and decides is not None and loaded(decides) & found:
        found |= stored([node]) | _changed_roots(in_scope([node]))
    elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr, ast.With, ast.Try, ast.TryStar)):
        if loaded(node) & found:
            found |= stored([node]) | _changed_roots([node])
    elif isinstance(node, ast.Call) and loaded(node) & found:
        found |= {_root(part) for part in (*node.args, node.func) if _root(part)}
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _SCOPES):
            _spread(child, found)


def _changed_roots(nodes: Iterable[ast.AST]) -> set[str]:
    """`a` of `a[0] = x` and of `a.b.append(x)`."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
            names.add(_root(node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            names.add(_root(node.func))
        elif isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {_root(target) for target in targets}
    return names - {""}


def _root(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute | ast.Subscript):
        return _root(node.value)
    return node.id if isinstance(node, ast.Name) else ""


def is_decided_by(node: ast.stmt, names: set[str]) -> bool:
    """Whether the names decide what a loop does: how often it runs, or which way it goes in a round.

    Of a `with` or `try` block, whether they do so for a loop in it, or are gone through by one."""
    tainted = dependent([node], names)
    is_loop = isinstance(node, LOOPS)
    loops = [node] if is_loop else [inner for inner in in_scope([node]) if isinstance(inner, LOOPS)]
    if not is_loop and any(isinstance(loop, ast.For) and loaded(loop.iter) & tainted for loop in loops):
        return True
    return any(_decides(inner, tainted) for loop in loops for inner in in_scope([loop]))


def _decides(node: ast.AST, tainted: set[str]) -> bool:
    if isinstance(node, (ast.If, ast.IfExp, ast.While)):
        return bool(loaded(node.test) & tainted)
    if isinstance(node, ast.Match):
        return bool(loaded(node.subject) & tainted)
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):  # where something is put
        return bool(loaded(node.slice) & tainted)
    ends = isinstance(node, (ast.For, ast.Try, ast.TryStar)) and any(
        isinstance(inner, (ast.Break, ast.Return)) for inner in in_scope(ast.iter_child_nodes(node))
    )
    return ends and bool(loaded(node.iter if isinstance(node, ast.For) else node) & tainted)


# ---- blocks ----------------------------------------------------------------------------------------------------------


def blocks_of(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The lists of statements inside a statement, those of functions and classes aside."""
    if isinstance(node, _SCOPES):
        return
    for field in _BLOCKS:
        yield from ([block] if (block := getattr(node, field, None)) else [])
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield part.body


def returns(nodes: Sequence[ast.AST]) -> bool:
    return any(isinstance(node, ast.Return) for node in in_scope(nodes))


def only_read(name: str, nodes: Sequence[ast.AST]) -> bool:
    """Whether nothing is done with a container but looking something up in it, or going through it."""
    allowed = {id(node) for root in nodes for node in _harmless(root)}
    named = (node for root in nodes for node in ast.walk(root) if isinstance(node, ast.Name) and node.id == name)
    return all(id(node) in allowed for node in named)


def methods_called(name: str, nodes: Sequence[ast.AST]) -> set[str] | None:
    """The methods of an object that are called, if nothing else is done with it but reading attributes; else None."""
    every = [node for root in nodes for node in ast.walk(root)]
    looked_at = {
        id(node.value): node for node in every if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    called = {id(node.func) for node in every if isinstance(node, ast.Call)}
    attributes = []
    for node in every:
        if isinstance(node, ast.Name) and node.id == name:
            if id(node) not in looked_at:
                return None
            attributes.append(looked_at[id(node)])
    if any(id(one) in looked_at for one in attributes):  # `a.b.c`: what is done with `a.b` is not looked into
        return None
    return {one.attr for one in attributes if id(one) in called}


_READING_METHODS = {"get", "items", "keys", "values", "index", "count", "copy", "most_common", "isdisjoint"}
_READING_FUNCTIONS = {
    "len", "sum", "min", "max", "sorted", "enumerate", "zip", "any", "all", "list", "tuple", "set", "dict", "str",
    "repr", "range", "reversed", "frozenset", "isinstance", "bool", "print",
}  # fmt: skip


def _harmless(root: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(root):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            yield node.value
        elif isinstance(node, ast.Compare):
            yield from (node.left, *node.comparators)
        elif isinstance(node, (ast.For, ast.comprehension)):
            yield node.iter
        elif isinstance(node, ast.BinOp):
            yield from (node.left, node.right)
        elif isinstance(node, (ast.If, ast.While, ast.IfExp)):
            yield node.test
        elif isinstance(node, ast.Call):
            function: Any = node.func
            if isinstance(function, ast.Attribute) and function.attr in _READING_METHODS:
                yield function.value
            elif isinstance(function, ast.Name) and function.id in _READING_FUNCTIONS:
                yield from node.args
