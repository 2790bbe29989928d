"""One notebook cell, watched while it runs (`%%clew`).

Its own level is rewritten as a `with clew.watch(...)` block is. Its functions are watched from the moment they are
defined, those of earlier cells that are asked for by name from the beginning, and all of them until the cell is done.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any

from clew import trouble
from clew.errors import nearest
from clew.instrument import effects, engine, source
from clew.instrument.expressions import Form, roots
from clew.instrument.options import Options
from clew.instrument.silent_compilation import no_warnings
from clew.instrument.targets import functions_of_class, python_functions

from . import with_block
from .unchanged_program import Request, narrowed

MODULE = "__main__"
ANY = ("*", "**")
_TELL, _RESULT = ".clew_defined", ".clew_result"  # with_block.py takes such names out of the namespace again
_MAY_BIND_ANYTHING = {"exec", "eval", "globals", "locals", "vars", "setattr", "get_ipython"}

Statements = list[ast.stmt]


class Cell:
    """A cell's tree, and what of it is watched. A context manager: watching lasts as long as it is open."""

    def __init__(
        self,
        tree: ast.Module,
        code: CodeType,
        requests: Sequence[Request],
        namespace: dict[str, Any],
        on_definition: Callable[[str], None],
    ) -> None:
        self.names = effects.bound_names(tree)
        self._tree = tree
        self._code = code
        self._requests = requests
        self._namespace = namespace
        self._on_definition = on_definition
        self._dynamic = _may_bind_anything(tree)
        self._functions = list(_functions_in(code))
        self._watched: list[tuple[FunctionType, Options]] = []

    # ---- what is asked for

    def unknown(self) -> Iterator[str]:
        """A sentence for each thing that is asked for and can be nowhere."""
        for request in self._requests:
            if request.pattern in ANY:
                yield from self._unknown_names(request)
            elif not self._is_there(request):
                known = [code.co_name for code in self._functions]
                known += [name for name, value in self._namespace.items() if isinstance(value, FunctionType)]
                hint = nearest_of(request.pattern, known)
                yield f"--watch {request.text!r}: there is no function `{request.pattern}`; {hint}"

    def _unknown_names(self, request: Request) -> Iterator[str]:
        inside = {name for code in self._functions for name in (*code.co_varnames, *code.co_cellvars)}
        known = {*self.names, *inside, *self._namespace}
        for expression in request.options.expressions:
            if expression.form is not Form.ALL and not roots(expression) & known and not self._dynamic:
                hint = nearest_of(expression.text, [*self.names, *sorted(inside)])
                yield f"--watch {request.text!r}: there is no `{expression.text}` in this cell or before it; {hint}"

    def _is_there(self, request: Request) -> bool:
        names = ["<module>", *(code.co_qualname for code in self._functions)]
        return any(request.matches(MODULE, name) for name in names) or bool(self._existing(request))

    def _existing(self, request: Request) -> list[FunctionType]:
        """Functions of earlier cells and of imported modules, asked for by their names."""
        return python_functions(resolve(self._namespace, request.pattern.replace(":", ".")))

    def _own_level(self) -> Options | None:
        """What is watched at the cell's own level."""
        asked = [request for request in self._requests if request.matches(MODULE, "<module>")]
        known = {*self.names, *self._namespace}
        held = [
            expression
            for request in asked
            for expression in request.options.expressions
            if self._dynamic or expression.form is Form.ALL or roots(expression) & known
        ]
        return dataclasses.replace(asked[0].options, expressions=tuple(dict.fromkeys(held))) if held else None

    # ---- how it runs

    @contextmanager
    def ready(self) -> Iterator[tuple[CodeType, list[Any]]]:
        """The code to run in here, and a list that gets the value of the expression the cell ends with."""
        results: list[Any] = []
        code = self._compiled()
        outer = with_block.put_aside(self._namespace)
        self._namespace.update({_TELL: self._tell, _RESULT: results.append})
        try:
            yield code, results
        finally:
            with_block.put_aside(self._namespace)
            self._namespace.update(outer)

    def _compiled(self) -> CodeType:
        body = _with_result(_Telling().of(self._tree))
        wanted = self._own_level()
        if wanted is not None:
            start = ast.copy_location(ast.With([], body), body[0])
            return with_block.rewrite_block(start, self._code, source.lines_of(self._code.co_filename), wanted, MODULE)[
                0
            ]
        flags = self._code.co_flags & source.FUTURES
        with no_warnings():  # said when the cell was compiled as it stands
            code: CodeType = compile(
                ast.Module(body, []), self._code.co_filename, "exec", flags=flags, dont_inherit=True
            )
        return code.replace(co_name=self._code.co_name, co_qualname=self._code.co_qualname)

    def __enter__(self) -> Cell:
        for request in self._requests:
            if request.pattern not in ANY:
                for function in self._existing(request):
                    self._watch(function, request.options)
        return self

    def __exit__(self, *_: object) -> None:
        for function, options in self._watched:
            engine.uninstrument(function, options)
        self._watched.clear()

    @trouble.entry_point()
    def _tell(self, *names: str) -> None:
        """The cell has bound these names, to functions perhaps."""
        for name in names:
            self._watch_defined(self._namespace.get(name))
            self._on_definition(name)

    def _watch_defined(self, target: Any) -> None:
        for function in functions_of_class(target) if isinstance(target, type) else python_functions(target):
            code = function.__code__
            if code.co_filename != self._code.co_filename:
                continue
            for request in self._requests:
                wanted = narrowed(code, request) if request.matches(MODULE, code.co_qualname) else None
                if wanted is not None:
                    self._watch(function, wanted)

    def _watch(self, function: FunctionType, options: Options) -> None:
        if engine.instrument(function, options):
            self._watched.append((function, options))


def resolve(namespace: dict[str, Any], path: str) -> Any:
    """What a dotted name stands for in a namespace, without running properties; None if it stands for nothing."""
    first, *rest = path.split(".")
    found = namespace.get(first)
    for name in rest:
        found = inspect.getattr_static(found, name, None)
    return found


def nearest_of(name: str, known: Iterable[str]) -> str:
    names = [each for each in dict.fromkeys(known) if not each.startswith("_")]
    return nearest(name, names) if names else "there is none."


def _may_bind_anything(tree: ast.Module) -> bool:
    """Whether names can come into being that are not written in the cell."""
    return any(
        (isinstance(node, ast.ImportFrom) and node.names[0].name == "*")
        or (isinstance(node, ast.Name) and node.id in _MAY_BIND_ANYTHING)
        for node in ast.walk(tree)
    )


def _functions_in(code: CodeType) -> Iterator[CodeType]:
    """The functions and methods the cell defines; those inside functions come and go, and are not found by name."""
    for const in code.co_consts:
        if isinstance(const, CodeType):
            if not const.co_flags & inspect.CO_OPTIMIZED:
                yield from _functions_in(const)  # a class
            elif engine.is_function(const):
                yield const


class _Telling(ast.NodeTransformer):
    """After each statement that may bind a function, the cell tells that it has."""

    def of(self, tree: ast.Module) -> Statements:
        body: Statements = []
        for statement in tree.body:
            made = self.visit(statement)
            body += made if isinstance(made, list) else [made]
        return body

    def _told(self, node: ast.stmt) -> ast.stmt | Statements:
        names = effects.of_simple(node).binds
        if not names or (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            return node
        return [node, _call(_TELL, [ast.Constant(name) for name in names], node)]

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _told
    visit_Import = visit_ImportFrom = visit_Assign = visit_AnnAssign = _told

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        return node


def _with_result(body: Statements) -> Statements:
    """If the last statement is an expression, its value is kept."""
    last = body[-1]
    return [*body[:-1], _call(_RESULT, [last.value], last)] if isinstance(last, ast.Expr) else body


def _call(name: str, args: list[ast.expr], at: ast.stmt) -> ast.stmt:
    call = ast.Expr(ast.Call(ast.Name(name, ast.Load()), args, []))
    for node in (call, call.value, call.value.func, *args):  # type: ignore[attr-defined]
        if not hasattr(node, "lineno"):
            ast.copy_location(node, at)
    return call
