"""The part of the rewriting that concerns loops: each asks, before it runs, whether it is a step of the graph."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from clew.instrument import source

from . import names
from .sites import ExpressionSite, Site, StatementSite, Surroundings

LAZY = frozenset({"zip", "enumerate", "map", "filter", "reversed", "iter"})  # builtins that go through their arguments
#: builtins that may take such an argument, and use it up
CONSUMING = frozenset(
    {
        "all", "any", "bytearray", "bytes", "dict", "frozenset", "list", "max", "min", "next", "set", "sorted", "sum",
        "tuple",
    }
)  # fmt: skip
_IMPOSSIBLE = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith, ast.Global, ast.Nonlocal)
_FRAME_NAMES = frozenset({"super", "__class__", "locals", "globals", "vars", "dir", "eval", "exec"})

SITES: list[Site] = []  # by number: rewritten code names its loops so


class LoopRewriting(ast.NodeTransformer):
    """For a transformer that has hooks: loops go through them."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._class = around.context.class_name
        self._in_class = False
        self._scopes: list[set[str]] = []  # names of the functions inside, from the outermost
        self._statements: dict[int, StatementSite] = {}
        self._alone: set[int] = set()  # expressions that are statements

    def _hook(self, name: str, args: list[ast.expr], at: ast.expr, keywords: Sequence[ast.keyword] = ()) -> ast.expr:
        raise NotImplementedError

    # ---- sites

    def prepare(self, function: names.Function) -> None:
        """Find the loops of a function before any of it is rewritten."""
        self._in_class = False
        if not isinstance(function, ast.AsyncFunctionDef):
            _Finder(self, function).find(function.body, [], [])

    def enter_scope(self, function: names.Function) -> None:
        self._scopes.append(names.parameter_names(function.args) | names.stored(function.body))

    def leave_scope(self) -> None:
        self._scopes.pop()

    def add(self, site: Any) -> Any:
        site.number = len(SITES)
        SITES.append(site)
        if isinstance(site, StatementSite):
            self._statements[id(site.statement)] = site
            site.statement = copy.deepcopy(site.statement)
            site.tail = copy.deepcopy(site.tail)
        return site

    def common(self, node: Any) -> dict[str, Any]:
        """What sites of all kinds have."""
        inner = {name for scope in self._scopes for name in scope}
        text = ast.unparse(node).partition("\n")[0].rstrip(":")
        outer = frozenset(self._around.written.co_freevars) - inner
        return {
            "around": self._around, "class_name": self._class, "outer": outer, "label": text, "line": node.lineno
        }  # fmt: skip

    def _variables(self, site: Any, at: ast.expr) -> ast.expr:
        """`lambda: (a, b)`: not called, but its cells are the variables."""
        loads: list[ast.expr] = [ast.Name(name, ast.Load()) for name in sorted(site.names)]
        made = ast.Lambda(ast.arguments([], [], None, [], [], None, []), ast.Tuple(loads, ast.Load()))
        for node in ast.walk(made):
            if isinstance(node, (ast.expr, ast.stmt)):
                ast.copy_location(node, at)
        return made

    def _number(self, site: Site, at: ast.expr) -> ast.expr:
        return ast.copy_location(ast.Constant(site.number), at)

    # ---- statements

    def visit_For(self, node: ast.For) -> ast.stmt:
        site = self._statements.get(id(node))
        if site is None:
            self._parts_visited(node)
            node.iter = self._hook("decided", [node.iter], node.iter)
            return node
        items, at = self._hook("decided", [self._iterable(node.iter)], node.iter), node.iter
        node.iter = self._hook("loop_items", [], at)
        node.target = self.visit(node.target)
        node.body = [self.visit(statement) for statement in node.body]
        node.orelse = [self.visit(statement) for statement in node.orelse]
        return self._asking(site, node, at, [items])

    def visit_While(self, node: ast.While) -> ast.stmt:
        site, at = self._statements.get(id(node)), node.test
        self._parts_visited(node)
        node.test = self._hook("decided", [node.test], at)
        return node if site is None else self._asking(site, node, at, [])

    def _parts_visited(self, node: ast.AST) -> None:
        ast.NodeTransformer.generic_visit(self, node)

    def around_block(self, original: int, at: ast.expr, rewritten: ast.stmt) -> ast.stmt:
        """A `with` or `try` block that is a step together with the loop in it."""
        site = self._statements.get(original)
        return rewritten if site is None else self._asking(site, rewritten, at, [])

    def _asking(self, site: StatementSite, node: ast.stmt, at: ast.expr, items: list[ast.expr]) -> ast.stmt:
        asked = self._hook("loop", [self._number(site, at), self._variables(site, at), *items], at)
        done: ast.stmt = ast.Pass()
        if site.tail is not None:
            done = ast.Return(self._hook("loop_result", [], at))
        ast.copy_location(done, node)
        return ast.copy_location(ast.If(asked, [done], [node]), node)

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        self._alone.add(id(node.value))
        node.value = self.visit(node.value)
        return node

    # ---- expressions

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        self._scopes.append(names.parameter_names(node.args))
        self._parts_visited(node)
        self._scopes.pop()
        return node

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.expr:
        """In a place where nobody is known to use it up: it stays a generator."""
        self._scopes.append({name for one in node.generators for name in names.stored([one.target])})
        self._parts_visited(node)
        self._scopes.pop()
        return node

    def comprehension(self, node: Any, rewritten: Callable[[Any], ast.expr] = lambda node: node) -> ast.expr:
        """A comprehension, which is a step or runs as it is rewritten. A generator only in a place that uses it up."""
        if not self._may_be_step(node):
            self._parts_visited(node)
            return rewritten(node)
        kind = self._expression(node)
        first, at = self._iterable(node.generators[0].iter), node
        item = "clew_iterable"
        node.generators[0].iter = ast.copy_location(ast.Name(item, ast.Load()), at)
        self._scopes.append({name for one in node.generators for name in names.stored([one.target])})
        self._parts_visited(node)
        self._scopes.pop()
        unrolled = ast.Lambda(ast.arguments([], [ast.arg(item)], None, [], [], None, []), rewritten(node))
        ast.copy_location(unrolled, at)
        return self._hook("comprehension", [self._number(kind, at), self._variables(kind, at), unrolled, first], at)

    def _may_be_step(self, node: Any) -> bool:
        return not self._in_class and possible([node]) and not any(one.is_async for one in node.generators)

    def _expression(self, node: ast.expr, is_method: bool = False) -> ExpressionSite:
        is_statement = id(node) in self._alone
        original = copy.deepcopy(node)
        site = ExpressionSite(**self.common(node), node=original, is_method=is_method, is_statement=is_statement)
        self.add(site)
        return site

    def _iterable(self, node: ast.expr) -> ast.expr:
        """What is gone through: a generator, and a call that gives one, may be part of the step."""
        if isinstance(node, ast.GeneratorExp) and self._may_be_step(node):
            return self.comprehension(node)
        if isinstance(node, ast.Call) and not self._in_class and possible([node]) and _is_plain_call(node):
            is_consuming = isinstance(node.func, ast.Name) and node.func.id in CONSUMING and self.consumes(node)
            return self._through(node, "consumed" if is_consuming else "lazy")
        return self.visit(node)  # type: ignore[no-any-return]

    def consumes(self, node: ast.Call) -> bool:
        """Whether a call looks as if it went through a generator that stands among its arguments."""
        if self._in_class or not _is_plain_call(node) or not possible([node]):
            return False
        return any(_is_lazy(arg, node.func) for arg in (*node.args, *(keyword.value for keyword in node.keywords)))

    def consumed(self, node: ast.Call) -> ast.expr:
        return self._through(node, "consumed")

    def _through(self, node: ast.Call, hook: str) -> ast.expr:
        function = node.func
        site = self._expression(node, isinstance(function, ast.Attribute))
        takes_lazy = hook == "consumed" or (isinstance(function, ast.Name) and function.id in LAZY)
        visit = self._iterable if takes_lazy else self.visit
        given = [self._number(site, node), self._variables(site, node)]
        if isinstance(function, ast.Attribute):
            name = self._mangled(function.attr)
            given += [self.visit(function.value), ast.copy_location(ast.Constant(name), function)]
            hook += "_method"
        else:
            given.append(self.visit(function))
        keywords = [ast.keyword(one.arg, visit(one.value)) for one in node.keywords]
        return self._hook(hook, [*given, *(visit(arg) for arg in node.args)], node, keywords)

    def _mangled(self, name: str) -> str:
        return source.mangled(name, self._class)


def _is_plain_call(node: ast.Call) -> bool:
    """`f(a, b=c)` or `a.b.f(c)`: the function has a name that can be written again."""
    starred = any(isinstance(arg, ast.Starred) for arg in node.args) or any(one.arg is None for one in node.keywords)
    function = node.func
    if isinstance(function, ast.Name):
        return not starred and function.id not in _FRAME_NAMES
    if not isinstance(function, ast.Attribute) or starred:
        return False
    return function.attr == "join" or _is_dotted(function)


def _is_dotted(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _is_lazy(arg: ast.expr, function: ast.expr) -> bool:
    if isinstance(arg, ast.GeneratorExp | ast.Lambda):  # a function may see recorded values
        return True
    if not isinstance(arg, ast.Call) or not _is_plain_call(arg):
        return False
    if isinstance(arg.func, ast.Name) and arg.func.id in LAZY:
        return True
    joins = isinstance(function, ast.Attribute) and function.attr == "join"
    return joins or (isinstance(function, ast.Name) and function.id in CONSUMING)  # perhaps of a generator function


def possible(nodes: Sequence[ast.AST]) -> bool:
    """Whether a function of its own can do what the nodes do."""
    for node in names.in_scope(nodes):
        if isinstance(node, _IMPOSSIBLE):
            return False
        if isinstance(node, ast.Name) and (node.id in _FRAME_NAMES or isinstance(node.ctx, ast.Del)):
            return False
        if isinstance(node, ast.Name) and node.id.startswith("__"):  # private to a class
            return False
        if isinstance(node, names.COMPREHENSIONS) and any(isinstance(one, ast.NamedExpr) for one in ast.walk(node)):
            return False
        if isinstance(node, ast.ImportFrom) and node.level:
            return False
    return True


class _Finder:
    """Finds the loops of one function that can be steps."""

    def __init__(self, rewriting: LoopRewriting, function: names.Function) -> None:
        self._rewriting = rewriting
        everything = list(names.in_scope(function.body))
        declared = (node.names for node in everything if isinstance(node, (ast.Global, ast.Nonlocal)))
        self._declared = {name for some in declared for name in some}
        self._body = function.body
        self._is_generator = any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in everything)

    def find(self, block: list[ast.stmt], after: list[ast.stmt], tail: list[ast.stmt] | None) -> None:
        """`after` may run after the block, `tail` is exactly what does; None if that is not known."""
        for number, statement in enumerate(block):
            rest = block[number + 1 :]
            later, ending = [*rest, *after], None if tail is None else [*rest, *tail]
            if isinstance(statement, (*names.LOOPS, ast.With, ast.Try)):
                self._add(statement, later, ending)
            self._inside(statement, later, ending)

    def _inside(self, statement: ast.stmt, later: list[ast.stmt], ending: list[ast.stmt] | None) -> None:
        passes_on = isinstance(statement, (ast.If, ast.Match))
        if isinstance(statement, names.LOOPS):
            later = [statement, *later]  # it may run once more
        elif isinstance(statement, (ast.Try, ast.TryStar)):
            others = [block for block in names.blocks_of(statement) if block is not statement.body]
            later = [*(ast.If(ast.Constant(True), block, []) for block in others), *later]
        for block in names.blocks_of(statement):
            self.find(block, later, ending if passes_on else None)

    def _add(self, statement: ast.stmt, later: list[ast.stmt], ending: list[ast.stmt] | None) -> None:
        returns = names.returns([statement])
        if not isinstance(statement, names.LOOPS) and not _belongs_to_loop(statement, returns):
            return
        if returns and (ending is None or self._is_generator):
            return
        tail = ending if returns else None
        nodes = [statement, *(tail or ())]
        sets = names.stored(nodes)
        if not possible(nodes) or sets & self._declared or _leaves(statement):
            return
        read = names.read_first(later, set()) | names.seen_by_functions(self._body, [statement])
        live = frozenset(names.stored([statement]) & read)
        site = StatementSite(
            **self._rewriting.common(statement), statement=statement, tail=tail, live=frozenset() if returns else live
        )
        self._rewriting.add(site)


def _belongs_to_loop(block: ast.stmt, returns: bool) -> bool:
    """Whether a `try` or `with` block is one step with a loop in it: what is raised, or returned, leaves both."""
    loops = [node for node in names.in_scope([block]) if isinstance(node, names.LOOPS)]
    if isinstance(block, ast.Try) and block.handlers and loops:
        return True
    return returns and any(names.returns([node]) for node in loops)


def _leaves(statement: ast.stmt) -> bool:
    """Whether it contains a `break` or `continue` of a loop around it."""
    return any(_outer_jumps([statement]))


def _outer_jumps(block: Sequence[ast.stmt]) -> Iterator[bool]:
    for node in block:
        if isinstance(node, (ast.Break, ast.Continue)):
            yield True
        elif isinstance(node, names.LOOPS):
            yield from _outer_jumps(node.orelse)
        else:
            for inner in names.blocks_of(node):
                yield from _outer_jumps(inner)
