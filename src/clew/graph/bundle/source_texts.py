"""The source text of functions and classes, and the names they take from the module around them."""

from __future__ import annotations

import ast
import inspect
import linecache
import symtable
import textwrap
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from clew.instrument import parsing, source
from clew.instrument.engine import original_code
from clew.instrument.syntax_trees import MARK


class NoTextError(Exception):
    """Why something has no source text."""


def is_stale(thing: Any) -> bool:
    """Whether the source of a function is known to be other than what is running, through nobody's instrumentation."""
    if not isinstance(thing, FunctionType) or any(name.startswith("@py") for name in thing.__globals__):
        return False  # pytest has rewritten the module
    code = original_code(thing)
    if any(isinstance(const, str) and MARK in const for const in code.co_consts) or MARK in "".join(code.co_names):
        return False
    found = source.find(code, thing.__globals__)
    return isinstance(found, source.Unknown) and "is not what is running" in found.reason


def plain_function(thing: Any) -> FunctionType | None:
    """The function under its decorators."""
    try:
        inner = inspect.unwrap(thing)
    except ValueError:
        return None
    return inner if isinstance(inner, FunctionType) else None


def definition(thing: Any) -> str:
    """The text of a `def` or `class`, decorators and all."""
    if isinstance(thing, type):
        return _class_text(thing)
    function = plain_function(thing)
    if function is None:
        raise NoTextError("it is no function written in Python")
    code = original_code(function)
    for node, lines in _nodes(code.co_filename, function.__globals__):
        named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == code.co_name
        if named and _first_line(node) == code.co_firstlineno:
            return _segment(node, lines)
    raise NoTextError(f"its source is not in {code.co_filename}")


def _class_text(cls: type) -> str:
    for function in _methods(cls):
        code = original_code(function)
        around = [
            (node, lines)
            for node, lines in _nodes(code.co_filename, function.__globals__)
            if isinstance(node, ast.ClassDef)
            and node.name == cls.__name__
            and node.lineno <= code.co_firstlineno <= (node.end_lineno or 0)
        ]
        if around:
            return _segment(*max(around, key=lambda found: found[0].lineno))
    try:
        return textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):
        raise NoTextError("the source of its class is not known") from None


def _methods(cls: type) -> Iterator[FunctionType]:
    for value in vars(cls).values():
        function = plain_function(getattr(value, "__func__", getattr(value, "fget", value)))
        if function is not None and function.__qualname__.startswith(f"{cls.__qualname__}."):
            yield function


def _nodes(file: str, module: dict[str, Any] | None) -> Iterator[tuple[Any, list[str]]]:
    linecache.checkcache(file)
    lines = linecache.getlines(file, module)
    try:
        tree = parsing.parse("".join(lines))
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        yield node, lines


def _first_line(node: Any) -> int:
    return int(min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]))


def _segment(node: Any, lines: list[str]) -> str:
    return textwrap.dedent("".join(lines[_first_line(node) - 1 : node.end_lineno])).rstrip() + "\n"


def alone(function: FunctionType) -> str:
    """The text of one function by itself: no decorators, no defaults (their values are kept), verified."""
    found = source.find(original_code(function), function.__globals__)
    if isinstance(found, source.Unknown):
        raise NoTextError(found.reason)
    node = found.node
    if isinstance(node, ast.Lambda):
        return f"made = {ast.unparse(ast.Lambda(_without_defaults(node.args), node.body))}\n"
    bare = type(node)(node.name, _without_defaults(node.args), node.body, [], None)
    if "type_params" in bare._fields:
        bare.type_params = []  # type: ignore[union-attr]
    ast.copy_location(bare, node)
    return f"{ast.unparse(ast.fix_missing_locations(bare))}\nmade = {node.name}\n"


def _without_defaults(args: ast.arguments) -> ast.arguments:
    """The parameters that have defaults are given ones again, from what they were."""

    def bare(arg: ast.arg | None) -> ast.arg | None:
        return None if arg is None else ast.arg(arg.arg)

    def all_bare(many: list[ast.arg]) -> list[ast.arg]:
        return [ast.arg(arg.arg) for arg in many]

    names = [None for _ in args.kwonlyargs]
    return ast.arguments(
        all_bare(args.posonlyargs), all_bare(args.args), bare(args.vararg), all_bare(args.kwonlyargs), list(names),
        bare(args.kwarg), [],
    )  # fmt: skip


def class_alone(cls: type, known: set[str]) -> str:
    """The text of a class by itself; `known` are the names that its decorators may use."""
    tree = parsing.parse(_class_text(cls))
    node = tree.body[0]
    if not isinstance(node, ast.ClassDef):
        raise NoTextError("the source of its class is not known")
    kept = [decorator for decorator in node.decorator_list if globals_in_expression(decorator) <= known]
    if len(kept) < len(node.decorator_list) - (1 if getattr(cls, "__clew_op__", False) else 0):
        raise NoTextError("its class has a decorator that only exists in the function around it")
    node.decorator_list = kept
    return f"{ast.unparse(tree)}\nmade = {node.name}\n"


def globals_in_expression(node: ast.expr) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def global_names(text: str) -> set[str]:
    """The names that a text takes from its module, at once or when it is called."""
    found: set[str] = set()
    tables = [symtable.symtable(text, "<part>", "exec")]
    while tables:
        table = tables.pop()
        at_top = table.get_type() == "module"
        for symbol in table.get_symbols():
            if (at_top and symbol.is_referenced()) or (not at_top and symbol.is_global()):
                found.add(symbol.get_name())
        tables.extend(table.get_children())
    return found


def attribute_names(text: str) -> set[str]:
    """The attributes that a text asks values for."""
    return {node.attr for node in ast.walk(parsing.parse(text)) if isinstance(node, ast.Attribute)}


def early_names(text: str) -> set[str]:
    """Those of the names that are used when the definition itself is run: decorators, bases, defaults."""
    tree = _Hollow().visit(parsing.parse(text))
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


class _Hollow(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        node.body = [ast.Pass()]
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.stmt:
        node.body = [ast.Pass()]
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        return ast.Constant(None)


def assignment(text: str, name: str) -> str | None:
    """The last statement at the top of a module that gives a name its value."""
    try:
        tree = parsing.parse(text)
    except (SyntaxError, ValueError):
        return None
    for node in reversed(tree.body):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(node, ast.Assign | ast.AnnAssign) and len(targets) == 1:
            target = targets[0]
            if isinstance(target, ast.Name) and target.id == name and node.value is not None:
                return ast.unparse(node) + "\n"
    return None


def free_values(code_of: Any) -> dict[str, Any]:
    """What a function or the methods of a class have closed over, by name."""
    functions = list(_methods(code_of)) if isinstance(code_of, type) else [code_of]
    found: dict[str, Any] = {}
    for function in functions:
        code: CodeType = original_code(function)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
            try:
                if name != "__class__":
                    found.setdefault(name, cell.cell_contents)
            except ValueError:  # it has no value yet
                continue
    return found
