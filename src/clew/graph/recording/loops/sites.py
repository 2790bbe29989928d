"""A loop as source: where it stands, and the function that is made of it."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from clew.instrument import parsing, source
from clew.instrument.silent_compilation import no_warnings

from .names import in_scope, loaded, read_first, stored

FUNCTION_NAME = "clew_loop"
_LEAF, _RESULT = "clew_items", "clew_found"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The function that a loop stands in, as far as its code depends on it."""

    written: CodeType  # as it was compiled
    context: source.Context
    lines: list[str]


@dataclass(frozen=True, slots=True)
class LoopCode:
    """The function of a loop: its code, and the names of the values it is called with after the leaves."""

    code: CodeType
    parameters: tuple[str, ...]
    body: list[ast.stmt]


@dataclass(slots=True, eq=False)
class Site:
    """A loop in the source of a function."""

    around: Surroundings
    class_name: str | None  # private attributes are mangled with it
    outer: frozenset[str]  # names that the function itself has from outside: closed over by the loop's function too
    label: str  # its first line
    line: int
    number: int = 0
    _codes: dict[Any, LoopCode] = field(default_factory=dict)

    def compiled(self, key: Any, leaves: int, body: list[ast.stmt], bound: set[str], live: set[str]) -> LoopCode:
        """The function whose body this is, for variables of which these have values when it begins."""
        known = self._codes.get(key)
        if known is None:
            known = self._codes[key] = self._compiled(leaves, body, bound, live)
        return known

    def _compiled(self, leaves: int, body: list[ast.stmt], bound: set[str], live: set[str]) -> LoopCode:
        parameters = tuple(sorted(((read_first(body, set()) | live) & bound) - self.outer))
        statements = [*body, *_results(body, sorted(live), set(parameters))]
        arguments = [ast.arg(name) for name in (*leaf_names(leaves), *parameters)]
        node = ast.FunctionDef(
            FUNCTION_NAME, ast.arguments([], arguments, None, [], [], None, []), copy.deepcopy(statements), []
        )
        if "type_params" in node._fields:
            node.type_params = []  # type: ignore[attr-defined]
        node.lineno, node.col_offset = self.line, 0
        node.end_lineno, node.end_col_offset = self.line, 0
        _Mangled(self.class_name).visit(node)
        ast.fix_missing_locations(node)
        frees = tuple(sorted(_names_in(node) & self.outer))
        return LoopCode(_code_of(node, frees, self.around, self.line), parameters, body)


@dataclass(slots=True, eq=False)
class StatementSite(Site):
    """A `for` or `while` loop; or a `with` or `try` block around one that contains `return`."""

    statement: ast.stmt = field(default_factory=ast.Pass)
    tail: list[ast.stmt] | None = None  # the rest of the function, where the loop contains `return`
    live: frozenset[str] = frozenset()  # the names it sets that are read afterwards

    @property
    def nodes(self) -> list[ast.stmt]:
        return [self.statement, *(self.tail or ())]

    @property
    def names(self) -> set[str]:
        return {name for node in self.nodes for name in loaded(node)} | stored(self.nodes)

    def code(self, shape: Shape | None, bound: set[str]) -> LoopCode:
        """`shape` says how what a `for` loop goes through is made; None: as it is written."""
        key = (shape, frozenset(bound))
        if key in self._codes:
            return self._codes[key]
        statement = copy.deepcopy(self.statement)
        if shape is not None:
            assert isinstance(statement, ast.For)
            statement.iter = shape.expression(iter(leaf_names(shape.leaves)))
        if self.tail is not None:
            return self.compiled(key, shape.leaves if shape else 0, [statement, *self.tail], bound, set())
        return self.compiled(key, shape.leaves if shape else 0, [statement], bound, set(self.live))


@dataclass(slots=True, eq=False)
class ExpressionSite(Site):
    """A comprehension, or a call of a function that goes through what it is given."""

    node: ast.expr = field(default_factory=lambda: ast.Constant(None))
    is_method: bool = False  # a call of a method: what it belongs to is the first part
    is_statement: bool = False  # nobody takes the result

    @property
    def names(self) -> set[str]:
        return loaded(self.node)

    @property
    def is_lazy(self) -> bool:
        return isinstance(self.node, ast.GeneratorExp)

    def code(self, shape: Shape, bound: set[str]) -> LoopCode:
        key = (shape, frozenset(bound))
        if key in self._codes:
            return self._codes[key]
        value = shape.expression(iter(leaf_names(shape.leaves)))
        returned = ast.copy_location(ast.Return(value), self.node)
        return self.compiled(key, shape.leaves, [returned], bound, set())


@dataclass(frozen=True, slots=True)
class Shape:
    """How an expression is made in a loop's function: of values it is given, and of parts that stay as written."""

    site: ExpressionSite | None = None  # None: a value that is given
    parts: tuple[Shape, ...] = ()
    as_written: bool = False

    @property
    def leaves(self) -> int:
        if self.as_written:
            return 0
        return 1 if self.site is None else sum(part.leaves for part in self.parts)

    def expression(self, leaves: Iterator[str]) -> ast.expr:
        if self.site is None:
            return ast.Name(next(leaves), ast.Load())
        node = copy.deepcopy(self.site.node)
        if isinstance(node, ast.Call):
            self._fill(node, leaves)
        else:
            node.generators[0].iter = self.parts[0].expression(leaves)  # type: ignore[attr-defined]
        return node

    def _fill(self, node: ast.Call, leaves: Iterator[str]) -> None:
        parts = list(self.parts)
        if self.site is not None and self.site.is_method:
            owner = parts.pop(0)
            assert isinstance(node.func, ast.Attribute)
            node.func.value = node.func.value if owner.as_written else owner.expression(leaves)
        places = [(node.args, number) for number in range(len(node.args))]
        for (args, number), part in zip(places, parts, strict=False):
            args[number] = args[number] if part.as_written else part.expression(leaves)
        for keyword, part in zip(node.keywords, parts[len(places) :], strict=True):
            keyword.value = keyword.value if part.as_written else part.expression(leaves)


LEAF, AS_WRITTEN = Shape(), Shape(as_written=True)


def leaf_names(count: int) -> list[str]:
    return [f"{_LEAF}{number or ''}" for number in range(count)]


def _results(body: Sequence[ast.stmt], live: list[str], parameters: set[str]) -> list[ast.stmt]:
    """Statements that give the variables which are read later, those that have a value."""
    if not live:
        return []
    unsure = {node.name for node in in_scope(body) if isinstance(node, ast.ExceptHandler) and node.name}
    sure = [name for name in live if name in parameters and name not in unsure]
    values: list[ast.expr] = [ast.Name(name, ast.Load()) for name in sure]
    keys: list[ast.expr | None] = [ast.Constant(name) for name in sure]
    lines: list[ast.stmt] = [ast.Assign([ast.Name(_RESULT, ast.Store())], ast.Dict(keys, values))]
    for name in live:
        if name not in sure:
            text = f"try:\n    {_RESULT}[{name!r}] = {name}\nexcept NameError:\n    pass"
            lines += parsing.parse(text).body
    lines.append(ast.Return(ast.Name(_RESULT, ast.Load())))
    last = body[-1]
    for line in lines:
        for node in ast.walk(line):
            ast.copy_location(node, last)
    return lines


def _names_in(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


class _Mangled(ast.NodeTransformer):
    """Private attributes under the names they have inside their class: the loop's function is outside it."""

    def __init__(self, class_name: str | None) -> None:
        self._class = class_name

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        node.attr = source.mangled(node.attr, self._class)
        return node


def _code_of(node: ast.FunctionDef, frees: tuple[str, ...], around: Surroundings, line: int) -> CodeType:
    """The code of the function, known to everybody who asks for the source of it."""
    arguments = ast.arguments([], [ast.arg(name) for name in frees], None, [], [], None, [])
    outer = ast.FunctionDef("outer", arguments, [node], [])
    ast.copy_location(outer, node)
    if "type_params" in outer._fields:
        outer.type_params = []  # type: ignore[attr-defined]
    module = ast.fix_missing_locations(ast.Module([outer], []))
    flags = around.written.co_flags & source.FUTURES
    with no_warnings():  # Python has said what it has to say when it compiled the file
        code = compile(module, around.written.co_filename, "exec", flags=flags, dont_inherit=True)
    for _ in range(2):
        code = next(const for const in code.co_consts if isinstance(const, CodeType))
    code = source.renamed(code, code.co_qualname, f"{around.written.co_qualname}.<locals>.{FUNCTION_NAME}")
    source.remember(code, source.Found(node, source.Context(None, around.context.imports), around.lines))
    return code
